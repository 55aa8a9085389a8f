"""Worked examples and practice items of a study file."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from levelfield.core.options import Options, choices, option
from levelfield.io.problems import Wrong, listed, shown
from levelfield.io.toml import TomlTable, suggestion, toml_kind
from levelfield_rating.answers import scale_ends
from levelfield_rating.model import (
    Design,
    Practice,
    RatingCriterion,
    TextPart,
    WorkedExample,
)
from levelfield_rating.plan.questions import LANGUAGE, MISPLACED, TASK, UNREAD
from levelfield_rating.units import Show, part

PLACES = {"first": 0, "second": 1, "neither": -1}
"""How a study file names the answers to a pair."""

_OPAQUE_BYTES = 12

_RANGE = {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}
_ACCEPTED = {"anyOf": [_RANGE, {"enum": [*PLACES]}]}


@dataclass(frozen=True)
class Questions:
    """The parts of a study that examples and practice must agree with.

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
        if id not in ids and UNREAD not in ids:
            table.wrong_field(id, f"there is no such criterion; {suggestion(id, ids)}")
        return ids.get(id)


@dataclass(frozen=True, kw_only=True)
class ItemCard(Options):
    """What an example or a practice item shows."""

    source: str = option("", "Source, if the study shows it.", example='"It rains."')
    prompt: str = option("", "Prompt, if the study shows it.", example='"It rains."')
    context: tuple[str, ...] | None = option(
        None, "Turns of a dialogue, if the study shows them.", fewest=1, example='["Hello!", "Hi."]'
    )
    text: str | None = option(
        None, "Text to judge, in a direct design.", example='"Rain is expected."'
    )
    texts: tuple[str, ...] | None = option(
        None,
        "Texts to judge: two in a pairwise design, two or more in a ranking.",
        example='["Rain is expected.", "It will rain."]',
        schema=lambda: {"minItems": 2},
    )
    direction: str = option("", "Direction of the item.", example='"formal"')
    task: str = option(
        "",
        "Task that the texts were written for.",
        otherwise="the task of the direction",
        example=TASK,
    )
    language: str | None = option(
        None, "Language of the texts.", otherwise="that of the study", **LANGUAGE
    )

    @classmethod
    def schema_rules(cls) -> Mapping[str, Any]:
        """Returns the rule that requires either `text` or `texts`."""
        return {"oneOf": [{"required": [name]} for name in ("text", "texts")]}


@dataclass(frozen=True, kw_only=True)
class ExampleCard(ItemCard):
    """An item with answers and why."""

    answers: Mapping[str, str] = option(
        {},
        "Good answers in words, by criterion.",
        example='{ content = "high: nothing is missing" }',
    )
    why: str = option("", "Reason why these answers are good.", example='"Nothing is missing."')


@dataclass(frozen=True, kw_only=True)
class PracticeCard(ItemCard):
    """An item that is answered before the rating."""

    accept: Mapping[str, str | tuple[int, ...]] = option(
        {},
        "Answers that pass, by criterion: the lowest and the highest, or in a pair first, second "
        "or neither. An order can't be checked.",
        example="{ content = [50, 100] }",
        schema=lambda: {"additionalProperties": _ACCEPTED},
    )
    hint: str = option(
        "",
        "Hint shown after a first answer that does not pass.",
        example='"Look at the number again."',
    )


def read_examples(tables: Iterable[TomlTable], questions: Questions) -> tuple[WorkedExample, ...]:
    examples = []
    for table in tables:
        fields = _values(table, ExampleCard, questions)
        for criterion in fields["answers"]:
            questions.criterion(table.table("answers"), criterion)
        words = {"answers": fields["answers"], "why": fields["why"]}
        examples.append(WorkedExample(**_shown(table, fields, questions), **words))
        table.finish(elsewhere=MISPLACED)
    return tuple(examples)


def read_practice(tables: Iterable[TomlTable], questions: Questions) -> tuple[Practice, ...]:
    items = []
    for table in tables:
        fields = _values(table, PracticeCard, questions, "accept")
        accept = table.table("accept")
        ranges = {}
        for name in accept:
            criterion = questions.criterion(accept, name)
            if criterion is not None:
                try:
                    ranges[name] = _range(criterion, accept.take(name))
                except Wrong as wrong:
                    accept.wrong_field(name, str(wrong))
        if not list(accept) and questions.design != "ranking":
            table.wrong_field("accept", "expected the answers that pass, such as { content = … }")
        card = _shown(table, fields, questions)
        del card["direction"]
        opaque = secrets.token_urlsafe(_OPAQUE_BYTES)
        items.append(Practice(opaque, **card, accept=ranges, hint=fields["hint"]))
        table.finish(elsewhere=MISPLACED)
    return tuple(items)


def _values(
    table: TomlTable, cls: type[ItemCard], questions: Questions, *without: str
) -> dict[str, Any]:
    """Returns the values of a table, with what goes with another design left unread."""
    other = "texts" if questions.design == "direct" else "text"
    return table.values(cls, without=(other, *without), complete=True)


def _shown(table: TomlTable, fields: Mapping[str, Any], questions: Questions) -> dict[str, Any]:
    """Returns what an item shows, by the names that an example and a practice item have."""
    show = questions.show
    language = fields["language"] or show.language
    task, direction = _task(table, fields, questions.tasks)
    return {
        "given": _given(table, fields, show, language),
        "candidates": tuple(
            part(show.text, text, language) for text in _texts(table, fields, questions.design)
        ),
        "task": task,
        "direction": direction,
    }


def _given(
    table: TomlTable, fields: Mapping[str, Any], show: Show, language: str
) -> tuple[TextPart, ...]:
    for name in ("source", "prompt", "context"):
        if fields[name] and name not in show.fields:
            table.wrong_field(name, f'is not shown; set show = ["{name}"] for the whole study')
    parts: list[TextPart] = []
    for name in show.fields:
        if name == "context":
            above = itertools.cycle(show.speakers)
            parts += [part(next(above), turn, language) for turn in fields["context"] or ()]
        elif fields[name]:
            parts.append(part(getattr(show, name), fields[name], language))
    return tuple(parts)


def _texts(table: TomlTable, fields: Mapping[str, Any], design: Design) -> tuple[str, ...]:
    if design == "direct":
        if "text" not in table:
            expected = choices(ItemCard)["text"].expected
            table.wrong_field("text", f"expected {expected}; there is none")
        return (fields["text"] or "",)
    texts: tuple[str, ...] = fields["texts"] or ()
    was_read = fields["texts"] is not None or "texts" not in table
    if was_read and (len(texts) < 2 or (design == "pairwise" and len(texts) > 2)):
        wants = "two" if design == "pairwise" else "at least two"
        table.wrong_field("texts", f"expected {wants} texts; found {len(texts)}")
    return texts


def _task(table: TomlTable, fields: Mapping[str, Any], tasks: Mapping[str, str]) -> tuple[str, str]:
    """Returns the task in words, and its direction."""
    task, direction = fields["task"], fields["direction"]
    if direction and tasks and not {direction, ""} & tasks.keys():
        table.wrong_field(
            "direction", f"there is no task for {shown(direction)}; {suggestion(direction, tasks)}"
        )
    template = tasks.get(direction, tasks.get("", ""))
    if not task and "{" not in template:
        task = template
    elif not task:
        table.wrong_field("task", f"{shown(template)} can't be filled in here; give the task")
    return task, direction


def _range(criterion: RatingCriterion, value: object) -> tuple[int, int]:
    """Returns the lowest and the highest answer that passes.

    Raises:
        Wrong: the value names none.
    """
    if criterion.scale == "ranking":
        raise Wrong("an order can't be checked; leave out accept")
    if criterion.scale == "pairwise":
        if not isinstance(value, str) or value not in PLACES:
            raise Wrong(f"expected one of {listed(PLACES)}; found {toml_kind(value)}")
        return PLACES[value], PLACES[value]
    least, most = scale_ends(criterion)
    example = f"[{(least + most) // 2}, {most}]"
    if not (isinstance(value, list) and len(value) == 2 and all(type(v) is int for v in value)):
        raise Wrong(
            f"expected the lowest and the highest, such as {example}; found {toml_kind(value)}"
        )
    low, high = value
    if not least <= low <= high <= most:
        raise Wrong(f"expected {least} ≤ lowest ≤ highest ≤ {most}; found {value}")
    return low, high
