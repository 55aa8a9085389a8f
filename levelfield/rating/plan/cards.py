"""Worked examples and practice items of a study file."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from levelfield.io.problems import Wrong, listed, shown
from levelfield.io.toml import TomlTable, suggestion, toml_kind
from levelfield.rating.model import (
    SLIDER,
    Design,
    Practice,
    RatingCriterion,
    TextPart,
    WorkedExample,
)
from levelfield.rating.plan.fields import MISPLACED, language_tag
from levelfield.rating.units import Show, part

PLACES = {"first": 0, "second": 1, "neither": -1}
"""How a study file names the answers to a pair."""

_OPAQUE_BYTES = 12


@dataclass(frozen=True)
class Questions:
    """What a study asks, as far as examples and practice must agree with it.

    Attributes:
        tasks: by direction, or the one task at `""`.
    """

    design: Design
    criteria: tuple[RatingCriterion, ...]
    show: Show
    tasks: Mapping[str, str]

    def criterion(self, table: TomlTable, id: str) -> RatingCriterion | None:
        """Returns the criterion of this id; without one, notes that in the table."""
        ids = {criterion.id: criterion for criterion in self.criteria}
        if id not in ids:
            table.wrong_field(id, f"there is no such criterion; {suggestion(id, ids)}")
        return ids.get(id)


@dataclass(frozen=True)
class _Card:
    """What an example or a practice item shows."""

    given: tuple[TextPart, ...]
    candidates: tuple[TextPart, ...]
    task: str
    direction: str


def read_examples(top: TomlTable, questions: Questions) -> tuple[WorkedExample, ...]:
    examples = []
    for table, card in _cards(top, "examples", questions):
        answers = table.table("answers")
        words = {}
        for criterion in answers:
            words[criterion] = answers.text(criterion, '"high: nothing is missing"')
            questions.criterion(answers, criterion)
        why = table.text("why", '"Nothing is missing."', default="")
        examples.append(
            WorkedExample(card.given, card.candidates, card.task, card.direction, words, why)
        )
    return tuple(examples)


def read_practice(top: TomlTable, questions: Questions) -> tuple[Practice, ...]:
    items = []
    for table, card in _cards(top, "practice", questions):
        accept = table.table("accept")
        ranges = {}
        for name in accept:
            value = accept.take(name)
            criterion = questions.criterion(accept, name)
            if criterion is not None:
                try:
                    ranges[name] = _range(criterion, value)
                except Wrong as wrong:
                    accept.wrong_field(name, str(wrong))
        if not list(accept) and questions.design != "ranking":
            table.wrong_field("accept", "expected the answers that pass, such as { content = … }")
        hint = table.text("hint", '"Look at the number again."', default="")
        opaque = secrets.token_urlsafe(_OPAQUE_BYTES)
        items.append(Practice(opaque, card.given, card.candidates, card.task, ranges, hint))
    return tuple(items)


def _cards(top: TomlTable, key: str, questions: Questions) -> Iterator[tuple[TomlTable, _Card]]:
    """Yields each table of a list with what it shows; notes the fields that the caller leaves."""
    if key not in top:
        top.take(key)
        return
    for table in top.list_of_tables(key, f'[[{key}]] text = "Rain is expected."'):
        language = language_tag(table, "language", questions.show.language)
        given = _given(table, questions.show, language)
        texts = _texts(table, questions.design)
        task, direction = _task(table, questions.tasks)
        candidates = tuple(part(questions.show.text, text, language) for text in texts)
        yield table, _Card(given, candidates, task, direction)
        table.finish(elsewhere=MISPLACED)


def _given(table: TomlTable, show: Show, language: str) -> tuple[TextPart, ...]:
    values = {name: table.text(name, '"It rains."', default="") for name in ("source", "prompt")}
    turns = table.texts("context", '["Hello!", "Hi."]') or ()
    given: list[TextPart] = []
    for name in ("source", "prompt"):
        if values[name] and name not in show.fields:
            table.wrong_field(name, f'is not shown; say show = ["{name}"] for the whole study')
    if turns and "context" not in show.fields:
        table.wrong_field("context", 'is not shown; say show = ["context"] for the whole study')
    for name in show.fields:
        if name == "context":
            speakers = show.speakers
            given += [part(speakers[n % len(speakers)], t, language) for n, t in enumerate(turns)]
        elif values.get(name):
            above = show.source if name == "source" else show.prompt
            given.append(part(above, values[name], language))
    return tuple(given)


def _texts(table: TomlTable, design: Design) -> tuple[str, ...]:
    if design == "direct":
        return (table.text("text", '"Rain is expected."'),)
    texts = table.texts("texts", '["Rain is expected.", "It will rain."]') or ()
    wants = "two" if design == "pairwise" else "at least two"
    if len(texts) < 2 or (design == "pairwise" and len(texts) > 2):
        table.wrong_field("texts", f"expected {wants} texts; found {len(texts)}")
    return texts


def _task(table: TomlTable, tasks: Mapping[str, str]) -> tuple[str, str]:
    """Returns the task in words, and its direction."""
    direction = table.text("direction", '"formal"', default="")
    if direction and tasks and not {direction, ""} & tasks.keys():
        table.wrong_field(
            "direction", f"no task is for {shown(direction)}; {suggestion(direction, tasks)}"
        )
    task = table.text("task", '"Make it formal."', default="")
    template = tasks.get(direction, tasks.get("", ""))
    if not task and "{" not in template:
        task = template
    elif not task:
        table.wrong_field("task", f"{shown(template)} can't be filled in here; say the task")
    return task, direction


def _range(criterion: RatingCriterion, value: object) -> tuple[int, int]:
    """Returns the lowest and the highest answer that passes.

    Raises:
        Wrong: the value names none.
    """
    if criterion.scale == "ranking":
        raise Wrong("an order can't be checked; leave accept out")
    if criterion.scale == "pairwise":
        if not isinstance(value, str) or value not in PLACES:
            raise Wrong(f"expected one of {listed(PLACES)}; found {toml_kind(value)}")
        return PLACES[value], PLACES[value]
    least, most = SLIDER if criterion.scale == "slider" else (1, criterion.points)
    example = f"[{(least + most) // 2}, {most}]"
    if not (isinstance(value, list) and len(value) == 2 and all(type(v) is int for v in value)):
        raise Wrong(
            f"expected the lowest and the highest, such as {example}; found {toml_kind(value)}"
        )
    low, high = value
    if not least <= low <= high <= most:
        raise Wrong(f"expected {least} ≤ lowest ≤ highest ≤ {most}; found {value}")
    return low, high
