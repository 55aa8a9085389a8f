"""Logs of Inspect: `.eval`, a zip file with a member a sample, and `.json`, the same as a document.

What is read of a sample: `id`, `epoch`, `input`, `target`, `output`, `messages` where there is no
output, `scores` with `value`, `reason` or `metadata.unscored_reason`, and how `explanation` begins,
`error`, `invalidation`, `metadata`, `attachments`; and of the log: `status`, `invalidated`, `eval`,
`plan.config`, `results`. A sample that is kept in chunks (log version 3) is read from its
`sample.json`.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from levelfield.core.direction import Direction
from levelfield.core.partitions import partitions
from levelfield.core.strings import finite_number
from levelfield.io.archive import Archive, ArchiveError
from levelfield.io.formats.chat import asked, message_text
from levelfield.io.formats.preview import Preview
from levelfield.io.json_input import list_of, number_of, object_of
from levelfield.io.json_stream import JsonStream
from levelfield.io.lines import Row, TooManyValuesError, check_values
from levelfield.io.logged import LOGGED, MOST_DRAWS, LogFacts, logged_field, setting_values
from levelfield.io.problems import Wrong, kind, printable
from levelfield.io.streams import content_digest, open_bytes

_ZIP = b"PK"
_HEADERS = ("header.json", "_journal/start.json", "start.json")
_MEANS = ("accuracy", "mean")
"""Metrics of Inspect that are means over samples."""

_SAMPLE = re.compile(r"samples/(.+_epoch_\d+)(\.json|/sample\.json)")
"""The member of a sample: its id, which may have slashes, with its epoch; whole, or in chunks."""

_ATTACHMENTS = re.compile(r"samples/(.+_epoch_\d+)/attachments/(\d+)\.json")
_REFERENCE = "attachment://"

_WORDS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_LOWER_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""The values of Inspect that stand for numbers; the second kind in any case."""

_NO_GRADE = "the grader gave no grade"
_NO_GRADE_FOUND = "Grade not found in model output"
"""The explanation of a score that is not a grade begins so; older versions count it as 0."""

_INSTRUMENT = {"grader_failed": _NO_GRADE, "scoring_failed": "the scorer failed"}
_SYSTEM = {
    "invalid_response_format": "have an answer that is not in the format asked for",
    "refusal": "have a refusal for an answer",
    "no_response": "have no answer",
}
"""What Inspect gives as a score's reason: the measurement failed, or the system measured did."""

_LIMITS = (
    "limit", "sample_id", "sample_shuffle", "epochs", "message_limit", "token_limit", "turn_limit",
    "time_limit", "working_limit", "cost_limit", "fail_on_error", "score_on_error",
)  # fmt: skip
_MODEL_GRADED = ("model_graded_qa", "model_graded_fact")
"""Scorers that ask the model under test where they are given no other."""

_TOGETHER = 16
"""Samples that are read together: few, as each may have a long transcript."""

Resolve = Callable[[str], str]
"""Text for the name of an attachment."""


def is_inspect(preview: Preview) -> bool:
    """Whether a file is a log of Inspect."""
    if preview.content.startswith(_ZIP):
        return any(name.encode() in preview.content for name in _HEADERS)
    is_object = preview.begins == "{" and {"eval", "status"} <= preview.record.keys()
    return is_object and isinstance(preview.record["eval"], Mapping | None)


def inspect_rows(path: Path) -> Iterator[Row]:
    """Yields a record for each sample and epoch of a log."""
    if Preview(path).content.startswith(_ZIP):
        yield from _zipped_rows(path)
        return
    number, header = 0, dict[str, Any]()
    try:
        with open_bytes(path) as file:
            for name, stream in _members(file, header):
                if name == "samples" and stream.next == "[":
                    log = _Log.of(header)
                    for samples in partitions(stream.values(), _TOGETHER):
                        for record in _records(samples, log):
                            number += 1
                            yield number, record
            yield from _missing(number, header)
    except ValueError as error:
        yield number, _unreadable(error)


def _missing(n: int, header: Mapping[str, Any]) -> Iterator[Row]:
    """Yields the problem that a log has fewer samples than its results state, if it has."""
    results = object_of(header, "results")
    total = results.get("total_samples")
    stopped = results.get("logged_samples") or results.get("early_stopping")
    if header.get("status") != "success" or stopped or not n or not isinstance(total, int):
        return
    if n < total:
        yield (
            0,
            Wrong(f"holds {n:,} of the {total:,} samples that its results state; copy it again"),
        )


def inspect_facts(path: Path) -> LogFacts:
    """Returns the means that a log states, its settings, and what its status says."""
    notes: list[str] = []
    try:
        header = _header_of(path, notes)
    except ValueError:
        return LogFacts()  # the rows say what is wrong
    task, evaluation = _Log.of(header).task, object_of(header, "eval")
    means: dict[tuple[str, str], float] = {}
    directions: dict[tuple[str, str], Direction] = {}
    reducers: dict[tuple[str, str], tuple[str, ...]] = {}
    graders: dict[str, tuple[str, ...]] = {}
    for score in map(object_of, list_of(object_of(header, "results").get("scores"))):
        name, reducer = _score_name(score.get("scorer"), score.get("name")), score.get("reducer")
        task_reducers = reducers.get((task, name), ())
        if isinstance(reducer, str) and reducer not in task_reducers:
            reducers[task, name] = (*task_reducers, reducer)
        key = (task, f"{name},{reducer}" if task_reducers and reducer != task_reducers[0] else name)
        for metric_name, metric in object_of(score, "metrics").items():
            kind_of_metric = str(metric_name).rpartition("/")[2]
            value = number_of(object_of(metric).get("value"))
            if kind_of_metric in _MEANS and value is not None:
                means[key] = value
            if kind_of_metric == "accuracy":
                directions[key] = "higher"
        if models := _graders(score, evaluation):
            graders[name] = models
    if (status := header.get("status")) != "success":
        notes.append(f"its status is {status}, so samples may be missing")
    if header.get("invalidated") is True:
        notes.append("it is marked as invalidated, so it should be run again")
    return LogFacts(
        means,
        directions,
        tuple(notes),
        model=str(evaluation.get("model") or ""),
        reducers={key: names for key, names in reducers.items() if names != ("mean",)},
        settings=_settings(header),
        graders=graders,
    )


def _graders(score: Mapping[str, Any], evaluation: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the models that give a score; none if no model does."""
    models = object_of(score, "params").get("model")
    if not models and score.get("scorer") in _MODEL_GRADED:
        models = _grader(evaluation) or evaluation.get("model")
    return _model_names(models)


def _grader(evaluation: Mapping[str, Any]) -> object:
    return object_of(evaluation, "model_roles").get("grader")


def _model_names(models: object) -> tuple[str, ...]:
    several = models if isinstance(models, list) else [models]
    names = (object_of(model).get("model", model) for model in several)
    return tuple(name for name in names if isinstance(name, str) and name)


def _settings(header: Mapping[str, Any]) -> dict[str, str]:
    evaluation = object_of(header, "eval")
    config = object_of(evaluation, "config")
    scorers = (object_of(score) for score in list_of(evaluation.get("scorers")))
    return setting_values(
        {
            "task version": evaluation.get("task_version"),
            "task arguments": evaluation.get("task_args"),
            "data set": object_of(evaluation, "dataset").get("name"),
            "solver": evaluation.get("solver"),
            "solver arguments": evaluation.get("solver_args"),
            "model arguments": evaluation.get("model_args"),
            **object_of(header, "plan", "config"),
            **object_of(evaluation, "model_generate_config"),
            **{name: config.get(name) for name in _LIMITS},
            **{f"scorer {score.get('name')}": score.get("options") for score in scorers},
            "grader": ", ".join(_model_names(_grader(evaluation))),
        }
    )


def _header_of(path: Path, notes: list[str]) -> dict[str, Any]:
    """Returns what describes a log, and notes what its samples do not say."""
    if Preview(path).content.startswith(_ZIP):
        with Archive(path) as archive:
            again = sum(map(bool, map(_SAMPLE.fullmatch, archive.names))) - len(_places(archive))
            if again:
                notes.append(f"samples run again, of which the last run counts: {again:,}")
            return _header(archive)
    header: dict[str, Any] = {}
    with open_bytes(path) as file:
        for name, _ in _members(file, header):
            if name == "samples" and "results" in header:
                break
    return header


def _members(file: IO[bytes], header: dict[str, Any]) -> Iterator[tuple[str, JsonStream]]:
    """Yields the names of a log that is one document, and puts what describes it into a header."""
    stream = JsonStream(file)
    for name in stream.members():
        if name in ("status", "eval", "plan", "results", "invalidated"):
            header[name] = stream.value()
        else:
            yield name, stream


def _zipped_rows(path: Path) -> Iterator[Row]:
    try:
        with Archive(path) as archive:
            header, attachments, number = _header(archive), _Attachments(archive), 0
            log = _Log.of(header)
            for number, (name, place) in enumerate(_places(archive).items(), 1):
                try:
                    sample = _parsed(archive, place)
                    (record,) = _records([sample], log, attachments.of(name))
                    yield number, record
                except ValueError as error:
                    yield number, _unreadable(error)
            yield from _missing(number, header)
    except ValueError as error:
        yield 0, _unreadable(error)


def _places(archive: Archive) -> dict[str, int]:
    """Returns the samples of an archive, each with the place of its last member."""
    members = map(_SAMPLE.fullmatch, archive.names)
    return {member[1]: place for place, member in enumerate(members) if member}


def _header(archive: Archive) -> dict[str, Any]:
    name = next((name for name in _HEADERS if name in archive), None)
    if name is None:
        raise ArchiveError(f"a zip file without {_HEADERS[0]}, which a log of Inspect has")
    header = _parsed(archive, name)
    if not isinstance(header, dict):
        raise ArchiveError(f"{name}: expected an object, found {kind(header)}")
    if name == "start.json" and "results.json" in archive:  # logs of 2024
        results = _parsed(archive, "results.json")
        header |= results if isinstance(results, dict) else {}
    return {"status": "started", **header}


def _parsed(archive: Archive, place: int | str) -> Any:
    name = archive.names[place] if isinstance(place, int) else place
    try:
        content = archive.read(place)
        check_values(content)
        return json.loads(content)
    except TooManyValuesError as error:
        raise ArchiveError(f"{name}: {error}") from None
    except RecursionError:
        raise ArchiveError(f"{name}: lists or objects nested too deeply") from None
    except ArchiveError:
        raise
    except ValueError as error:
        raise ArchiveError(f"{name}: not JSON: {error}") from None


class _Attachments:
    """Attachments of samples in chunks: lists of texts, each named by the number of its first."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._starts: dict[str, list[int]] = {}
        for member in filter(None, map(_ATTACHMENTS.fullmatch, archive.names)):
            self._starts.setdefault(member[1], []).append(int(member[2]))
        for starts in self._starts.values():
            starts.sort()
        self._chunk: tuple[str, list[Any]] = ("", [])

    def of(self, sample: str) -> Resolve | None:
        """Returns how the references of a sample are followed; None without attachments."""
        starts = self._starts.get(sample)
        return None if starts is None else lambda number: self._text(sample, starts, number)

    def _text(self, sample: str, starts: list[int], number: str) -> str:
        index = int(number) if number.isdecimal() else -1
        place = bisect.bisect_right(starts, index) - 1
        if place < 0:
            return ""
        name = f"samples/{sample}/attachments/{starts[place]}.json"
        if self._chunk[0] != name:
            self._chunk = (name, list_of(_parsed(self._archive, name)))
        chunk, offset = self._chunk[1], index - starts[place]
        return str(chunk[offset]) if offset < len(chunk) else ""


def _unreadable(error: ValueError) -> Wrong:
    return Wrong(
        f"can't be read as a log of Inspect: {printable(str(error))}; copy it again, or rewrite it "
        "with `inspect log convert`"
    )


class _Log(NamedTuple):
    """What a log says of all its samples."""

    model: str
    task: str
    has_epochs: bool
    scored_on_error: bool

    @classmethod
    def of(cls, header: Mapping[str, Any]) -> _Log:
        evaluation = object_of(header, "eval")
        config = object_of(evaluation, "config")
        return cls(
            model=str(evaluation.get("model") or ""),
            task=str(evaluation.get("task") or ""),
            has_epochs=config.get("epochs") not in (None, 1),
            scored_on_error=config.get("score_on_error") is True,
        )


class _Sample(NamedTuple):
    """A sample of a log.

    Attributes:
        item: its name in the data set.
        fields: of its record, but for what the log says of it.
        content: its input and its targets.
        attributes: of its `LoggedScores`.
    """

    item: str
    fields: dict[str, Any]
    content: tuple[Any, ...]
    attributes: dict[str, Any]


def _records(
    samples: Sequence[Any], log: _Log, references: Resolve | None = None
) -> list[dict[str, Any] | Wrong]:
    read = [_sample(sample, log, references) for sample in samples]
    valid = [sample for sample in read if isinstance(sample, _Sample)]
    contents = [content_digest(sample.content) for sample in valid]
    logged = iter(
        [
            logged_field(sample.item, content=content, **sample.attributes)
            for sample, content in zip(valid, contents, strict=True)
        ]
    )
    return [s if isinstance(s, Wrong) else {**s.fields, LOGGED: next(logged)} for s in read]


def _sample(sample: Any, log: _Log, references: Resolve | None) -> _Sample | Wrong:
    match sample:
        case {"id": str() | int() as id}:
            item = str(id)
        case _:
            return Wrong("expected a sample, which is an object with an id")
    epoch = sample.get("epoch", 1)
    if not isinstance(epoch, int) or abs(epoch) > MOST_DRAWS:
        return Wrong(f"expected a whole number, found {kind(epoch)}", "epoch")
    several = log.has_epochs or epoch != 1
    follow = references or (
        lambda reference: str(object_of(sample, "attachments").get(reference, ""))
    )
    turns = _turns(sample.get("input"), follow)
    target = sample.get("target")
    targets = [t for t in ([target] if isinstance(target, str) else list_of(target)) if t]
    fields = {
        "id": f"{item}/{epoch}" if several else item,
        "text": _text(sample, follow),
        **turns,
        "references": targets,
        "system": log.model,
        "dataset": log.task,
        **({"epoch": epoch} if several else {}),
        "metadata": sample.get("metadata") or {},
    }
    attributes = {"draw": epoch if several else 0, **_scores(sample, log)}
    return _Sample(item, fields, (turns["context"], targets), attributes)


def _scores(sample: Mapping[str, Any], log: _Log) -> dict[str, Any]:
    """Returns the attributes of `LoggedScores` that the scores of a sample make."""
    scores: dict[str, float | None] = {}
    reasons: dict[str, str] = {}
    counted: dict[str, float] = {}
    lists: dict[str, list[Any]] = {}
    remarks: dict[str, None] = {}
    if sample.get("invalidation") is not None:
        reasons[""] = "the sample was invalidated"
    elif sample.get("error") is not None:
        if log.scored_on_error:
            remarks["ended with an error and were scored all the same (score_on_error)"] = None
        else:
            reasons[""] = "the sample ended with an error"
    for score in _values(sample.get("scores")):
        if isinstance(score.value, list):
            lists[score.name] = score.value
            continue
        number, reason = _number(score.value), score.reason
        if score.remark:
            remarks[f"{score.remark}; it counts as the log scores it"] = None
        if number is None and isinstance(score.value, str):  # which Inspect counts as 0
            number, reason = 0.0, reason or "its value is not a number"
        if reason:
            reasons[score.name] = reason
        is_undefined = bool(reason or "" in reasons)
        scores[score.name] = None if is_undefined else number
        if is_undefined and number is not None:
            counted[score.name] = number
    return {
        "scores": scores,
        "reasons": reasons,
        "counted": counted,
        "lists": lists,
        "remarks": list(remarks),
    }


def _turns(request: object, follow: Resolve) -> dict[str, Any]:
    """Returns what was asked: a string, or messages."""
    if isinstance(request, str):
        return {"context": [_followed(request, follow)]}
    messages = request if isinstance(request, list) else []
    turns = asked([m for m in messages if isinstance(m, Mapping)])
    return {**turns, "context": [_followed(turn, follow) for turn in turns["context"]]}


def _text(sample: Mapping[str, Any], follow: Resolve) -> str:
    match sample:
        case {"output": {"choices": [{"message": {"content": content}}, *_]}}:
            pass
        case {"output": {"choices": [_, *_]}}:
            content = ""
        case {"output": {"completion": str() as content}}:
            pass
        case {"messages": list() as messages}:
            turns = [turn for turn in messages if isinstance(turn, Mapping)]
            answers = [turn.get("content") for turn in turns if turn.get("role") == "assistant"]
            content = answers[-1] if answers else ""
        case _:
            content = ""
    return _followed(content if isinstance(content, str) else message_text(content), follow)


def _followed(text: str, follow: Resolve) -> str:
    return follow(text.removeprefix(_REFERENCE)) if text.startswith(_REFERENCE) else text


class _Score(NamedTuple):
    """A value of a scorer.

    Attributes:
        name: of the scorer, and of the value where it gives several.
        value: as it is in the log.
        reason: why it is not a measurement; empty if it is one.
        remark: what the system did that the value says; empty if nothing.
    """

    name: str
    value: object
    reason: str
    remark: str


def _values(scores: object) -> Iterator[_Score]:
    """Yields the values of a sample."""
    for scorer, score in scores.items() if isinstance(scores, Mapping) else ():
        if not isinstance(score, Mapping):
            score = {}
        match score:
            case {"reason": code} if code:
                pass
            case {"metadata": {"unscored_reason": code}}:
                pass
            case _:
                code = None
        reason = ""
        if code:
            reason = _INSTRUMENT.get(str(code)) or f"unscored: {printable(str(code))}"
        if str(score.get("explanation") or "").startswith(_NO_GRADE_FOUND):
            reason = _NO_GRADE
        remark = "" if reason == _NO_GRADE else _SYSTEM.get(str(code), "")
        value = score.get("value")
        for name, part in value.items() if isinstance(value, Mapping) else [(None, value)]:
            is_measured = bool(remark) and _number(part) is not None
            name = _score_name(scorer, name)
            yield _Score(name, part, "" if is_measured else reason, remark if is_measured else "")


def _score_name(scorer: object, name: object) -> str:
    return str(scorer or name) if name in (None, scorer) else f"{scorer}.{name}"


def _number(value: object) -> float | None:
    """Returns the number of a value, as Inspect's own `value_to_float` has it; None for others.

    >>> _number("C"), _number("P"), _number("no"), _number(True), _number("0.5"), _number("good")
    (1.0, 0.5, 0.0, 1.0, 0.5, None)
    """
    if not isinstance(value, str):
        return number_of(value)
    if value in _WORDS:
        return _WORDS[value]
    if value.lower() in _LOWER_WORDS:
        return _LOWER_WORDS[value.lower()]
    try:
        return finite_number(value)
    except ValueError:
        return None
