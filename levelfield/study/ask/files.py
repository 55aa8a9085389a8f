"""A system as files: existing texts, matched to requests by what they answer."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from levelfield.core.errors import UserError
from levelfield.core.sample import Control, Sample, single_value
from levelfield.io.fields import BadRecord, FieldMapping
from levelfield.io.formats import format_named, format_of
from levelfield.io.guesses import map_words_in_toml
from levelfield.io.problems import Wrong, printable, shown
from levelfield.study.ask.requests import Intake, ProblemCounts, TimedAnswer
from levelfield.study.cells import CellKey, CellRequest, SystemAnswer
from levelfield.study.plan import FilesSource

_CONTRADICTORY = (
    "record with a request's id but another prompt or control",
    "records with a request's id but another prompt or control",
)


def file_of(source: FilesSource, key: CellKey, folder: Path) -> Path:
    """The file with the texts of a cell."""
    return folder / source.pattern.format(**key._asdict())


def read(
    source: FilesSource,
    key: CellKey,
    folder: Path,
    intake: Intake,
    keep: Callable[[TimedAnswer], object],
) -> str:
    """Takes in the records of a cell's file; returns why there are none, or an empty string.

    A record is of a request if it has its id, else if it has its prompt and its control (in the
    study's words or the system's). One file may hold several cells: a record that names another
    system, dataset or seed is passed over.
    """
    path = file_of(source, key, folder)
    name = printable(str(path.relative_to(folder) if path.is_relative_to(folder) else path))
    if not path.is_file():
        return f"{name}: there is no such file"
    try:
        format = format_named(source.format) if source.format else format_of(name)
    except UserError as error:
        return str(error)
    rules = FieldMapping(mapping=source.mapping)
    match = _Match(intake.open)
    # in a file of several cells, records of other cells matter only if some of this one are missing
    passed_over = ProblemCounts()
    try:
        for number, record in format.rows(path):
            place = f"{name}:{format.unit}{number}"
            try:
                if isinstance(record, Wrong):
                    raise record
                sample = rules.sample(record, id="", cells=format.cells)
            except (Wrong, BadRecord) as wrong:
                intake.refuse(map_words_in_toml(str(wrong)), place)
                continue
            if other := _other_cell(sample, key):
                passed_over.add(("record of another cell", "records of other cells"), other)
            elif request := match.request(sample):
                if match.contradicts(sample, request):
                    intake.findings.add(_CONTRADICTORY, f"{place}: {shown(sample.id)}")
                answer = _answer_in(sample, request)
                if intake.take(answer, place):
                    keep(TimedAnswer(answer))
            else:
                words = ("record that matches no request", "records that match no request")
                passed_over.add(words, f"{place}: {_named(sample)}")
    except OSError as error:
        return f"{name}: can't be read: {error.strerror or error}"
    has_one_cell = all(f"{{{field}}}" in source.pattern for field in ("dataset", "control", "seed"))
    if has_one_cell or not intake.is_complete():
        intake.findings.add_all(passed_over)
    return ""


def _named(sample: Sample) -> str:
    """What tells which request a record is of."""
    if sample.id:
        return shown(sample.id)
    if not sample.prompt:
        return "neither id nor prompt"
    words = json.dumps(sample.control, ensure_ascii=False) if sample.control else "no control"
    return f"prompt {shown(sample.prompt)}, {printable(words)}"


def _other_cell(sample: Sample, key: CellKey) -> str:
    """What a record says of its cell that is not of this one; empty if it may be of this one."""
    stated = {"system": sample.system, "dataset": sample.dataset, "seed": sample.seed}
    for field, value in stated.items():
        if value not in ("", None) and value != getattr(key, field):
            return f"{field} {shown(value)}"
    return ""


def _answer_in(sample: Sample, request: CellRequest) -> SystemAnswer:
    model_input, tokens = sample.extra.get("input"), sample.extra.get("tokens")
    return SystemAnswer(
        id=request.id,
        text=sample.text,
        input=model_input if isinstance(model_input, str) else "",
        tokens=tokens if type(tokens) is int and tokens >= 0 else None,
    )


class _Match:
    """Finds the request that a record answers."""

    def __init__(self, requests: Sequence[CellRequest]) -> None:
        self._by_id = {request.id: request for request in requests}
        self._rewriting = any(request.source for request in requests)
        # requests that are alike in prompt and control can't be told apart: taken in turn
        self._alike: dict[object, list[CellRequest]] = defaultdict(list)
        in_labels: dict[object, list[CellRequest]] = defaultdict(list)
        for request in requests:
            self._alike[_content(_begun(request), request.control)].append(request)
            in_labels[_content(_begun(request), request.labels)].append(request)
        for content, alike in in_labels.items():
            self._alike.setdefault(content, list(alike))

    def request(self, sample: Sample) -> CellRequest | None:
        if sample.id in self._by_id:
            return self._by_id[sample.id]
        begun = sample.source if self._rewriting else sample.prompt
        alike = self._alike.get(_content(begun, sample.control), [])
        return alike.pop(0) if len(alike) > 1 else alike[0] if alike else None

    @staticmethod
    def contradicts(sample: Sample, request: CellRequest) -> bool:
        """Whether the record's prompt, source or control, if it has one, is not that of the
        request."""
        begun = (sample.source if request.source else sample.prompt) or _begun(request)
        contents = [_content(_begun(request), c) for c in (request.control, request.labels)]
        return _content(begun, sample.control or request.control) not in contents


def _begun(request: CellRequest) -> str:
    """What a text is made from: the source to rewrite, or the prompt to continue."""
    return request.source or request.prompt


def _content(prompt: str, control: Control) -> object:
    """Equal for equal prompts with equal controls; a list of one is its value."""
    return prompt.strip(), tuple(sorted((a, single_value(v)) for a, v in control.items()))
