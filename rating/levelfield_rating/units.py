"""Samples as raters see them: grouped by what they were made from, equal texts shown once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

from levelfield.core.options import Options, option
from levelfield.core.sample import Sample
from levelfield_rating.model import Candidate, Design, Direction, Item, TextPart

Column = tuple[str, ...]
"""What places are balanced over: a system (and the number of its text); two of them in a pair."""

_RTL = frozenset(
    {"ar", "arc", "ckb", "dv", "fa", "he", "iw", "ks", "nqo", "pnb", "ps", "sd", "syr", "ug"}
    | {"ur", "yi"}
)
_RTL_SCRIPTS = frozenset({"adlm", "arab", "hebr", "nkoo", "rohg", "syrc", "thaa"})
TAG = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
"""Of a language, after BCP 47."""


@dataclass(frozen=True, kw_only=True)
class Headings(Options):
    """Headings above texts; a study in a language other than English gives all that it shows."""

    source: str = option("Original", "Heading above a source.", example='"Original"')
    prompt: str = option("Beginning", "Heading above a prompt.", example='"Beginning"')
    text: str = option("Text", "Heading above a text to judge.", example='"Rewritten"')
    speakers: str | tuple[str, ...] = option(
        ("A", "B"),
        "Headings above the turns of a context, used in turn.",
        key="context",
        fewest=1,
        example='["A", "B"]',
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.speakers, str):
            object.__setattr__(self, "speakers", (self.speakers,))


@dataclass(frozen=True, kw_only=True)
class Show(Headings):
    """What of a sample raters see, and what they read above it.

    Attributes:
        fields: which of source, prompt and context are shown above the texts.
        language: language of the texts whose samples don't have one.
    """

    fields: tuple[str, ...] = ()
    language: str = "en"


@dataclass(frozen=True)
class Output:
    """A text, and all samples of one unit that have it.

    Attributes:
        columns: the systems that it is from, each with the number of its text of this unit.
    """

    part: TextPart
    samples: tuple[str, ...]
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Unit:
    """The common parts of comparable samples, and their texts.

    Attributes:
        key: its number in the order of the files: `u0001`.
        shared: equal for units whose items should not be neighbours.
        given: what raters see above the texts.
        task, direction: as in `Item`.
        outputs: all distinct texts, in the order of the files.
    """

    key: str
    shared: tuple[str, ...]
    given: tuple[TextPart, ...]
    task: str
    direction: str
    outputs: tuple[Output, ...]


@dataclass(frozen=True)
class BalancedItem:
    """An item with what its place is balanced by.

    Attributes:
        unit: key of its unit.
        shared: of its unit.
        columns: the systems, or pairs of systems, that it shows.
        places: for a ranking: the columns of each candidate.
    """

    item: Item
    unit: str
    shared: tuple[str, ...]
    columns: tuple[Column, ...]
    places: tuple[tuple[Column, ...], ...] = field(default=())


def is_language(tag: object) -> bool:
    """Returns whether it looks like a language tag of BCP 47."""
    return isinstance(tag, str) and TAG.fullmatch(tag) is not None


def direction_of(language: str) -> Direction:
    """Returns `rtl` for languages written from right to left, else the text's own direction.

    >>> direction_of("he"), direction_of("uz-Arab"), direction_of("en")
    ('rtl', 'rtl', 'auto')
    """
    steps = language.lower().split("-")
    script = next((step for step in steps[1:] if len(step) == 4 and step.isalpha()), "")
    if script:
        return "rtl" if script in _RTL_SCRIPTS else "auto"
    return "rtl" if steps[0] in _RTL else "auto"


def part(name: str, text: str, language: str) -> TextPart:
    return TextPart(name, text, language, direction_of(language))


def normal(text: str) -> str:
    """Returns the text as it is compared: every run of white space is one blank.

    >>> normal(" Oh,\\n no. ")
    'Oh, no.'
    """
    return " ".join(text.split())


def wanted(sample: Sample, attribute: str) -> str:
    """Returns the value of a control; several with commas between; empty for none."""
    value = sample.control.get(attribute, "")
    return value if isinstance(value, str) else ", ".join(value)


def language_of(sample: Sample, show: Show) -> str:
    tag = sample.extra.get("language")
    return str(tag) if is_language(tag) else show.language


def units_of(
    samples: Iterable[Sample],
    show: Show,
    *,
    attribute: str = "",
    tasks: Mapping[str, str] = {},
) -> list[Unit]:
    """Samples with equal source, prompt, context, direction and task are a unit.

    A sample made from nothing is a unit by itself. Texts of a unit that differ in white space only
    are one output; it is shown as the first of them has it.

    Args:
        attribute: of the control; its value is the direction. Empty for none.
        tasks: sample's id -> its task in words.
    """
    groups: dict[tuple[object, ...], list[Sample]] = {}
    for sample in samples:
        made_from = (sample.source, sample.prompt, sample.context)
        alone = "" if any(made_from) else sample.id
        direction = wanted(sample, attribute) if attribute else ""
        key = (*made_from, alone, direction, tasks.get(sample.id, ""))
        groups.setdefault(key, []).append(sample)
    units = []
    for n, group in enumerate(groups.values(), 1):
        first = group[0]
        units.append(
            Unit(
                key=f"u{n:04}",
                shared=first.shared or (first.id,),
                given=given_of(first, show),
                task=tasks.get(first.id, ""),
                direction=wanted(first, attribute) if attribute else "",
                outputs=_outputs(group, show),
            )
        )
    return units


def given_of(sample: Sample, show: Show) -> tuple[TextPart, ...]:
    """Returns what raters see above the text; parts that the sample doesn't have are left out."""
    tag = sample.extra.get("source_language")
    language = str(tag) if is_language(tag) else language_of(sample, show)
    parts: list[TextPart] = []
    for name in show.fields:
        if name == "context":
            parts += [
                part(show.speakers[n % len(show.speakers)], turn, language)
                for n, turn in enumerate(sample.context)
            ]
        elif name == "source" and sample.source:
            parts.append(part(show.source, sample.source, language))
        elif name == "prompt" and sample.prompt:
            parts.append(part(show.prompt, sample.prompt, language))
    return tuple(parts)


def _outputs(group: Sequence[Sample], show: Show) -> tuple[Output, ...]:
    texts: dict[str, list[tuple[Sample, Column]]] = {}
    times: dict[str, int] = {}
    for sample in group:
        times[sample.system] = times.get(sample.system, 0) + 1
        column = (f"{sample.system}\0{times[sample.system]}",)
        texts.setdefault(normal(sample.text), []).append((sample, column))
    return tuple(
        Output(
            part=part(show.text, alike[0][0].text, language_of(alike[0][0], show)),
            samples=tuple(sample.id for sample, _ in alike),
            columns=tuple(column for _, column in alike),
        )
        for alike in texts.values()
    )


def systems_of(columns: Iterable[Column]) -> set[str]:
    """Returns the systems of an output's columns."""
    return {name.partition("\0")[0] for column in columns for name in column}


def questions_of(unit: Unit, design: Design, *, pairs_with: str = "") -> list[BalancedItem]:
    """Returns the items of a unit, with survey 0 for now; none if it has nothing to compare.

    Args:
        pairs_with: only pairs with a text of this system; empty for all pairs.
    """

    def question(name: str, outputs: Sequence[Output], columns: Sequence[Column]) -> BalancedItem:
        item = Item(
            key=name,
            survey=0,
            given=unit.given,
            candidates=tuple(Candidate(output.part, output.samples) for output in outputs),
            task=unit.task,
            direction=unit.direction,
        )
        places = tuple(output.columns for output in outputs)
        return BalancedItem(item, unit.key, unit.shared, tuple(columns), places)

    numbered = list(enumerate(unit.outputs, 1))
    if design == "direct":
        return [question(f"{unit.key}-{n}", [o], o.columns) for n, o in numbered]
    if design == "ranking":
        if len(numbered) < 2:
            return []
        columns = [column for output in unit.outputs for column in output.columns]
        return [question(unit.key, unit.outputs, columns)]
    questions = []
    for (n, a), (m, b) in combinations(numbered, 2):
        if columns := _pairs(a, b, pairs_with):
            # the same system first in all units, whatever the order of the files
            outputs = sorted([a, b], key=lambda output: min(output.columns))
            questions.append(question(f"{unit.key}-{n}-{m}", outputs, columns))
    return questions


def _pairs(a: Output, b: Output, pairs_with: str) -> list[Column]:
    """Returns the pairs of systems that two texts compare; a text without a system is from any."""
    pairs: list[Column] = []
    for (x,), (y,) in product(a.columns, b.columns):
        systems = systems_of([(x, y)])
        if (len(systems) > 1 or systems == {""}) and (not pairs_with or pairs_with in systems):
            pairs.append((min(x, y), max(x, y)))
    return pairs
