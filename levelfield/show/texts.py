"""Texts side by side: a row an input, a column a system, differences between words marked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import Literal, NamedTuple

from levelfield.core.sample import Sample, wanted_name
from levelfield.scoring.gallery import ShownSample
from levelfield.text.words import TOKEN

LONGEST = 1200
"""The most characters of a text that are shown beside others."""

ALIKE = 0.3
"""The least share of words in common; texts that share less would be marked throughout."""

Mark = Literal["", "ins", "del"]


class MarkedStretch(NamedTuple):
    """A stretch of a text that is in both texts, or in one of them only."""

    text: str
    mark: Mark


class ShownValue(NamedTuple):
    """One metric's value of a text, as it is written, or why there is none."""

    metric: str
    written: str
    undefined: str


@dataclass(frozen=True)
class SideText:
    """One text of a system.

    Attributes:
        id: of its sample.
        seed: of its sample.
        lead: whether the prompt that it continues is left out before it.
        stretches: the text, with what differs.
        marked: whether differences are marked.
        cut: whether its end is left out.
        values: one a metric.
    """

    id: str
    seed: int | None
    lead: bool
    stretches: tuple[MarkedStretch, ...]
    marked: bool
    cut: bool
    values: tuple[ShownValue, ...]


@dataclass(frozen=True)
class InputRow:
    """One input.

    Attributes:
        fields: names and texts of its fields.
        texts: (systems) the texts of each system.
    """

    fields: tuple[tuple[str, str], ...]
    texts: tuple[tuple[SideText, ...], ...]


@dataclass(frozen=True)
class SideTable:
    """The texts of some inputs side by side.

    Attributes:
        systems: the columns.
        rows: the inputs.
        sources: whether differences are those from the source, else from the first text of a row.
    """

    systems: tuple[str, ...]
    rows: tuple[InputRow, ...]
    sources: bool


def side_by_side(
    inputs: Sequence[Sequence[ShownSample]],
    systems: Sequence[str],
    write: Mapping[str, Callable[[float], str]],
) -> SideTable | None:
    """Returns the table of these inputs; None if there is nothing to lay beside a text.

    Args:
        systems: in the order of the columns; those without any text here have none.
        write: metric -> how its values are written; metrics without an entry are left out.
    """
    input_systems = [{shown.sample.system for shown in texts} for texts in inputs]
    here = set().union(*input_systems)
    systems = [system for system in systems if system in here]
    sources = any(shown.sample.source for texts in inputs for shown in texts)
    if not sources and max(map(len, input_systems), default=0) < 2:
        return None
    rows = tuple(_row(texts, systems, write) for texts in inputs)
    return SideTable(tuple(systems), rows, sources)


def difference(old: str, new: str) -> tuple[MarkedStretch, ...]:
    """Returns the new text with the words that the old one lacks, and those of the old one that it
    lacks, marked.

    Words are compared with their case and without the blanks between them; where a script puts no
    blanks between words, every character is one.

    >>> difference("It was bad.", "It was very good.")[1:]
    (MarkedStretch(text='bad', mark='del'), MarkedStretch(text=' ', mark=''), \
MarkedStretch(text='very good', mark='ins'), MarkedStretch(text='.', mark=''))
    """
    olds, news = _pieces(old), _pieces(new)
    matcher = SequenceMatcher(None, [w for _, w in olds], [w for _, w in news], autojunk=False)
    marked: list[MarkedStretch] = []
    for kind, i, j, k, m in matcher.get_opcodes():
        if kind == "equal":
            marked.append(MarkedStretch("".join(blank + word for blank, word in news[k:m]), ""))
            continue
        for mark, pieces in (("del", olds[i:j]), ("ins", news[k:m])):
            if pieces:
                (blank, first), *rest = pieces
                marked.append(MarkedStretch(blank, ""))
                words = first + "".join(before + word for before, word in rest)
                marked.append(MarkedStretch(words, mark))  # type: ignore[arg-type]
    by_mark = groupby((s for s in marked if s.text), key=lambda s: s.mark)
    return tuple(MarkedStretch("".join(s.text for s in same), mark) for mark, same in by_mark)


def _pieces(text: str) -> list[tuple[str, str]]:
    """Returns the words of a text, each with the characters between it and the word before."""
    pieces, end = [], 0
    for match in TOKEN.finditer(text):
        pieces.append((text[end : match.start()], match[0]))
        end = match.end()
    return pieces


def _row(
    texts: Sequence[ShownSample],
    systems: Sequence[str],
    write: Mapping[str, Callable[[float], str]],
) -> InputRow:
    first = texts[0].sample
    by_system = {s: [shown for shown in texts if shown.sample.system == s] for s in systems}
    in_order = [shown for system in systems for shown in by_system[system]]
    old = first.source or (_own(in_order[0].sample) if in_order else "")
    return InputRow(
        fields=tuple(_input_fields(first)),
        texts=tuple(
            tuple(
                _side_text(s, "" if s is in_order[0] and not first.source else old, write)
                for s in by_system[system]
            )
            for system in systems
        ),
    )


def _input_fields(sample: Sample) -> list[tuple[str, str]]:
    fields = [
        *(("context", turn) for turn in sample.context),
        ("source", sample.source),
        ("prompt", sample.prompt),
        *((attribute, wanted_name(target)) for attribute, target in sample.control.items()),
        ("dataset", sample.dataset),
    ]
    return [(name, _head(text)) for name, text in fields if text]


def _own(sample: Sample) -> str:
    """Returns what the system wrote, without the prompt that it continues."""
    return sample.text.removeprefix(sample.prompt)


def _head(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST].rstrip() + " …"


def _side_text(
    shown: ShownSample, old: str, write: Mapping[str, Callable[[float], str]]
) -> SideText:
    sample = shown.sample
    whole = _own(sample).strip()
    text, old = whole[:LONGEST], old.strip()[:LONGEST]
    stretches = difference(old, text) if old and text else ()
    same = sum(len(s.text) for s in stretches if not s.mark)
    marked = bool(stretches) and 2 * same >= ALIKE * (len(old) + len(text))
    if not marked:
        stretches = (MarkedStretch(text, ""),) if text else ()
    cut = len(whole) > LONGEST
    if cut and stretches[-1].mark == "del":  # the words may be in the part that is cut off
        stretches = stretches[:-1]
    return SideText(
        id=sample.id,
        seed=sample.seed,
        lead=bool(sample.prompt) and sample.text.startswith(sample.prompt),
        stretches=stretches,
        marked=marked,
        cut=cut,
        values=tuple(
            ShownValue(
                metric,
                "undefined" if math.isnan(value) else written(value),
                shown.undefined.get(metric, ""),
            )
            for metric, written in write.items()
            if metric in shown.values or metric in shown.undefined
            for value in [shown.values.get(metric, math.nan)]
        ),
    )
