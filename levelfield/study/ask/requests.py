"""What a system is asked for in a cell, and its answers as they come over the wire."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from levelfield.core.errors import UserError
from levelfield.core.sample import Control
from levelfield.io import fields
from levelfield.io.problems import Wrong, kind, shown
from levelfield.study.cells import CellKey, CellRequest, SystemAnswer, value_name
from levelfield.study.plan import Plan, SystemPlan

_NO_WORD = re.compile(r"[\W_]+")


def requests_of(plan: Plan, key: CellKey) -> list[CellRequest]:
    """Returns all requests of a cell: every prompt with every value, prompts outermost.

    A request's id is `PROMPT ID:VALUE`, e.g. `0007:positive`. It depends on the dataset and the
    kind of control alone, so it is the same for every system and seed. Values that the system has
    no word for are not asked for.

    Args:
        key: one of `plan.cells()`.
    """
    system, dataset = plan.system(key.system), plan.dataset(key.dataset)
    controls = plan.control(key.control).values
    slugs = value_slugs(controls)
    return [
        CellRequest(
            id=f"{id}:{slug}",
            prompt="" if dataset.rewrite else prompt,
            control=control,
            labels=labels,
            dataset=key.dataset,
            seed=key.seed,
            source=prompt if dataset.rewrite else "",
            references=dataset.references[n] if dataset.references else (),
        )
        for n, (id, prompt) in enumerate(zip(dataset.ids, dataset.prompts, strict=True))
        for control, slug in zip(controls, slugs, strict=True)
        if (labels := labels_of(system, control, n)) is not None
    ]


def labels_of(system: SystemPlan, control: Control, n: int) -> Control | None:
    """Returns a control in the words of a system, for the prompt with index n.

    The i-th of k words is used where n mod k = i. Values that are several words (keywords) stay
    as they are.

    Returns:
        None if the system has no word for one of the values.
    """
    labels: dict[str, str | tuple[str, ...]] = {}
    for attribute, value in control.items():
        if isinstance(value, tuple):
            labels[attribute] = value
            continue
        words = system.labels.get(attribute, {}).get(value, (value,))
        if not words:
            return None
        labels[attribute] = words[n % len(words)]
    return labels


def value_slugs(controls: Sequence[Control]) -> list[str]:
    """Returns a short name for each value: letters and digits joined by `-`, no two alike.

    >>> value_slugs([{"topic": "Sci/Tech"}, {"topic": "Sci-Tech"}, {"topic": "🎉"}])
    ['Sci-Tech', 'Sci-Tech-2', 'value']
    """
    slugs: dict[str, None] = {}
    numbers: Counter[str] = Counter()
    for control in controls:
        slug = unique = _NO_WORD.sub("-", value_name(control)).strip("-") or "value"
        while unique in slugs:
            numbers[slug] += 1
            unique = f"{slug}-{numbers[slug] + 1}"
        slugs[unique] = None
    return list(slugs)


def request_record(request: CellRequest) -> dict[str, Any]:
    """The JSON object that a system reads: id, prompt, control, labels, dataset, seed; and source
    where there is one to rewrite."""
    record = {
        "id": request.id,
        "prompt": request.prompt,
        "control": _json(request.control),
        "labels": _json(request.labels),
        "dataset": request.dataset,
        "seed": request.seed,
    }
    return record | ({"source": request.source} if request.source else {})


def parse_answer(record: object) -> SystemAnswer:
    """Returns the answer that a JSON value holds: `id` and `text`, perhaps `input`, `tokens` and
    `forward_passes`.

    Other fields are the system's own business and not kept.

    Raises: UserError: it is not an answer; says what is wrong with it.
    """
    if not isinstance(record, Mapping):
        raise UserError(f'expected an object such as {{"id": …, "text": …}}, found {kind(record)}')
    tokens, passes = _count(record, "tokens"), _count(record, "forward_passes")
    id = _string(record, "id")
    if not id:
        raise UserError('id: expected the id of a request, found ""')
    model_input = _string(record, "input") if record.get("input") is not None else ""
    return SystemAnswer(id, _string(record, "text"), model_input, tokens, passes)


def _count(record: Mapping[Any, Any], name: str) -> int | None:
    count = record.get(name)
    if count is None or (type(count) is int and count >= 0):
        return count
    raise UserError(f"{name}: expected a whole number from 0 on, found {kind(count)}")


def _string(record: Mapping[Any, Any], name: str) -> str:
    if name not in record:
        raise UserError(f"there is no {shown(name)}; every answer has an id and a text")
    try:
        return fields.string(record[name])
    except Wrong as wrong:
        raise UserError(str(wrong.inside(name))) from None


def _json(control: Control) -> dict[str, str | list[str]]:
    return {a: v if isinstance(v, str) else list(v) for a, v in control.items()}


@dataclass(frozen=True)
class TimedAnswer:
    """An answer with what it cost up to then.

    Attributes:
        answer: as the system gave it.
        wall_s: seconds from the start of its attempt, and those of earlier attempts up to the
            last answer of each.
        peak_bytes: most memory held in that attempt so far; None if unknown.
        attempt: number of its attempt, those of earlier runs counted.
    """

    answer: SystemAnswer
    wall_s: float = 0.0
    peak_bytes: int | None = None
    attempt: int = 1


class ProblemCounts:
    """Counts what is wrong, kind by kind, with the first example of each.

    A kind is in words: for one, and for several.
    """

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._first: dict[tuple[str, str], str] = {}

    def add(self, words: tuple[str, str], example: str) -> None:
        self._counts[words] += 1
        self._first.setdefault(words, example)

    def add_all(self, others: ProblemCounts) -> None:
        self._counts.update(others._counts)
        self._first = others._first | self._first

    def said(self) -> tuple[str, ...]:
        return tuple(
            f"{n:,} {words[0] if n == 1 else words[1]} (first: {self._first[words]})"
            for words, n in self._counts.items()
        )


class Intake:
    """Takes answers in, whatever their order; knows which requests are open."""

    def __init__(self, requests: Sequence[CellRequest], answers: Collection[SystemAnswer]) -> None:
        self._requests = {request.id: request for request in requests}
        self._texts = {a.id: a.text for a in answers if a.id in self._requests}
        self.findings = ProblemCounts()

    @property
    def open(self) -> list[CellRequest]:
        return [r for id, r in self._requests.items() if id not in self._texts]

    def is_complete(self) -> bool:
        return len(self._texts) == len(self._requests)

    def take(self, answer: SystemAnswer, place: str) -> bool:
        """Whether the answer counts."""
        if answer.id not in self._requests:
            words = ("answer with an unknown id", "answers with unknown ids")
        elif answer.id not in self._texts:
            self._texts[answer.id] = answer.text
            return True
        elif answer.text == self._texts[answer.id]:
            twice = "given twice, with the same text"
            words = (f"answer {twice}", f"answers {twice}")
        else:
            words = (
                "second answer with a different text; the first counts",
                "second answers with different texts; the first counts",
            )
        self.findings.add(words, f"{place}: {shown(answer.id)}")
        return False

    def refuse(self, reason: str, place: str) -> None:
        """Counts a line that is not an answer."""
        words = ("line that is not an answer", "lines that are not answers")
        self.findings.add(words, f"{place}: {reason}")

    def problems(self) -> tuple[str, ...]:
        return self.findings.said()

    def failure(self, reason: str = "") -> str:
        """How many requests are open, and why; empty if none is."""
        if not (requests := self.open):
            return ""
        whole = f"{len(requests):,} of {len(self._requests):,} requests have no answer"
        return f"{whole} (first: {shown(requests[0].id)})" + (f"; {reason}" if reason else "")
