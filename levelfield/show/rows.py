"""The rows of the page's table of samples: how a sample is shown, and the parts of its values."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from levelfield.core.sample import Sample, wanted_name
from levelfield.core.strings import shortened
from levelfield.scoring.gallery import ShownSample, ValuePart

PREVIEW = 320
"""Characters of a text that its row shows; the rest is in the expansion."""

PART_TEXT = 300
FEW_PARTS = 12
"""Up to this many parts are listed one by one; more are drawn as a plot."""

_BETWEEN = re.compile(r"(\s|</UTT>)+")
"""The gaps between parts of a text: blanks, and the marks between turns."""

FARTHEST = 6
"""The number of parts named where there are many: those that pull the value farthest."""


class Piece(NamedTuple):
    """A stretch of a text and the score of the part that it is."""

    text: str
    score: float


@dataclass(frozen=True)
class Axis:
    """The range of the scores of one metric's parts, over all samples shown."""

    low: float
    high: float

    def place(self, score: float) -> float:
        """Returns the place of a score between the ends, in percent."""
        width = self.high - self.low
        return round(100 * (score - self.low) / width, 1) if width > 0 else 50.0


@dataclass(frozen=True)
class Breakdown:
    """The parts of one value.

    Attributes:
        metric: its metric.
        parts: all of them, in the order given.
        listed: those to list: all if they are few, else those that pull farthest.
        lowest: the part that pulls the value down most; None if none does.
        value: the weighted mean of the parts.
        many: whether they are too many to list.
        heaviest: the largest weight.
        pieces: the text piece by piece with their scores, where the parts are the text itself
            (tokens with their momentum); empty where they are not.
        strongest: the largest score of a piece, its sign aside.
    """

    metric: str
    parts: tuple[ValuePart, ...]
    listed: tuple[ValuePart, ...]
    lowest: ValuePart | None
    value: float
    many: bool
    heaviest: float
    pieces: tuple[Piece, ...]
    strongest: float


@dataclass(frozen=True)
class Row:
    """One sample of the table.

    Attributes:
        shown: the sample with its values.
        prompt, text: the beginning of the text, split after the prompt where it is a prefix.
        cut: whether the row shows less than the whole text, or its lines run together.
        whole_prompt, whole_text: the whole, split the same way.
        control: the wanted attributes in words.
        fields: what else is known of the sample: name, text.
        breakdowns: one for each metric that has parts.
    """

    shown: ShownSample
    prompt: str
    text: str
    cut: bool
    whole_prompt: str
    whole_text: str
    control: str
    fields: tuple[tuple[str, str], ...]
    breakdowns: tuple[Breakdown, ...]


def rows(samples: Sequence[ShownSample]) -> list[Row]:
    """Returns the rows of the table, in the order of the samples."""
    return [_row(shown) for shown in samples]


def score_axes(samples: Sequence[ShownSample]) -> dict[str, Axis]:
    """Metric -> the range of its parts' scores: 0 to 1 if they lie within, else as they are."""
    scores: dict[str, list[float]] = {}
    for shown in samples:
        for metric, parts in shown.parts.items():
            scores.setdefault(metric, []).extend(p.score for p in parts if math.isfinite(p.score))
    return {
        metric: Axis(0.0, 1.0) if not s or (min(s) >= 0 and max(s) <= 1) else Axis(min(s), max(s))
        for metric, s in scores.items()
    }


def pull(part: ValuePart, value: float) -> float:
    """Returns how far a part moves the value: `w (s − S)`."""
    moved = part.weight * (part.score - value)
    return moved if math.isfinite(moved) else 0.0


def _row(shown: ShownSample) -> Row:
    sample = shown.sample
    prompt = sample.prompt if sample.text.startswith(sample.prompt) else ""
    cut = len(sample.text) > PREVIEW
    head = " ".join(sample.text[:PREVIEW].rsplit(maxsplit=1)[:1]) + " …" if cut else sample.text
    return Row(
        shown=shown,
        prompt=head[: len(prompt)],
        text=head[len(prompt) :],
        cut=cut or "\n" in sample.text.strip(),
        whole_prompt=prompt,
        whole_text=sample.text[len(prompt) :],
        control="; ".join(
            f"{attribute}: {wanted_name(v)}" for attribute, v in sample.control.items()
        ),
        fields=tuple(_fields(sample, prompt)),
        breakdowns=tuple(
            _breakdown(metric, tuple(parts), sample)
            for metric, parts in shown.parts.items()
            if parts
        ),
    )


def _breakdown(metric: str, parts: tuple[ValuePart, ...], sample: Sample) -> Breakdown:
    weights = sum(p.weight for p in parts)
    value = sum(p.weight * p.score for p in parts) / weights if weights else float("nan")
    brief_parts = tuple(p._replace(part=shortened(p.part, PART_TEXT, " …")) for p in parts)
    by_pull = sorted(brief_parts, key=lambda p: pull(p, value))
    many = len(parts) > FEW_PARTS
    lowest = by_pull[0] if len(parts) > 2 and pull(by_pull[0], value) < 0 else None
    farthest = sorted(brief_parts, key=lambda p: -abs(pull(p, value)))[:FARTHEST]
    pieces = _pieces(parts, sample) if many else ()
    return Breakdown(
        metric=metric,
        parts=brief_parts,
        listed=tuple(farthest) if many else brief_parts,
        lowest=None if many else lowest,
        value=value,
        many=many,
        heaviest=max((p.weight for p in parts), default=0.0),
        pieces=pieces,
        strongest=max((abs(p.score) for p in pieces if math.isfinite(p.score)), default=0.0),
    )


def _pieces(parts: Sequence[ValuePart], sample: Sample) -> tuple[Piece, ...]:
    """Parts that are numbered from 1, have scores of both signs and are the text in its order, all
    of it, what follows its prompt, or it with its context before it; none where they are not."""
    labels = [part.part.partition(": ") for part in parts]
    if [label for label, _, _ in labels] != [str(n) for n in range(1, len(parts) + 1)]:
        return ()
    if min(part.score for part in parts) >= 0 or max(part.score for part in parts) <= 0:
        return ()
    whole = "\n".join([*sample.context, sample.text])
    for text in (sample.text, sample.text.removeprefix(sample.prompt), whole):
        if stretches := _aligned([piece for _, _, piece in labels], text):
            return tuple(Piece(t, part.score) for t, part in zip(stretches, parts, strict=True))
    return ()


def _aligned(pieces: Sequence[str], text: str) -> list[str]:
    """Returns each piece with the gap before it; empty if the pieces don't make up the text."""
    position, stretches = 0, []
    for piece in pieces:
        between = _BETWEEN.match(text, position)
        skipped = between[0] if between and not text.startswith(piece, position) else ""
        if not text.startswith(piece, position + len(skipped)):
            return []
        stretches.append(skipped + piece)
        position += len(skipped) + len(piece)
    return [] if text[position:].strip() else stretches


def _fields(sample: Sample, prompt: str) -> list[tuple[str, str]]:
    fields = [
        ("prompt, not a prefix of the text", sample.prompt if not prompt else ""),
        ("source", sample.source),
        *((f"reference {i}", text) for i, text in enumerate(sample.references, start=1)),
        *((f"context {i}", text) for i, text in enumerate(sample.context, start=1)),
        ("dataset", sample.dataset),
        ("seed", "" if sample.seed is None else str(sample.seed)),
    ]
    return [(name, text) for name, text in fields if text]
