"""Choices between two texts as ratings by names, for the agreement of those who chose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.io import Rated, Rating, open_samples
from levelfield.io.comparisons import PairChoice
from levelfield.io.fields import has
from levelfield.io.samples import Input
from levelfield.io.streams import STDIN

CATEGORIES = ("a", "b", "equal", "both", "neither")
"""What a choice may be: one of two sides, or a kind of tie. Ratings have their positions."""


def are_choices(items: Sequence[Any], format: str | None, mapping: Mapping[str, str]) -> bool:
    """Whether what raters said are choices: `PairChoice`s, or rows whose first has `better` or
    `ranks`, and neither texts nor values. Standard input is one of choices if the mapping says so.

    Args:
        items: as `items_of` returns them.
    """
    if not items or not isinstance(items[0], str | Input):
        return bool(items) and isinstance(items[0], PairChoice)
    if items[0] == STDIN or "better" in mapping:
        return "better" in mapping
    first = items[0]
    source = first if isinstance(first, Input) else open_samples([first], format=format).inputs[0]
    if (record := source.first()) is None:
        return False
    fields = {name for name in ("better", "ranks", "text", "value") if has(record, name, name)}
    return bool(fields) and fields <= {"better", "ranks"}


def as_ratings(choices: Sequence[PairChoice]) -> tuple[Rated, bool]:
    """Returns choices as ratings of pairs by `CATEGORIES`, and whether their raters have no names.

    A pair is an item and two texts; where a choice names no texts, a prompt or item and two
    systems. Its sides are those of its first choice; choices that have them the other way round are
    turned. Where a choice names no rater, each judgement of a pair is that of another rater.

    Raises:
        UserError: a choice names no texts, item or prompt, or a rater has two judgements of a pair.
    """
    first: dict[tuple[object, ...], tuple[str, str, str]] = {}
    seen: dict[tuple[str, str], int] = {}
    ratings: dict[tuple[str, str, str], Rating] = {}
    samples: dict[str, Sample] = {}
    nameless = any(not c.rater for c in choices)
    for c in choices:
        texts = (c.sample_a, c.sample_b) if c.sample_a and c.sample_b else (c.a, c.b)
        if not (c.item or c.prompt or texts == (c.sample_a, c.sample_b)):
            raise UserError(
                f"a choice between {c.a} and {c.b} names no texts; name sample_a and sample_b, "
                "item or prompt"
            )
        key = (c.item or c.prompt, frozenset(texts))
        id, side, _ = first.setdefault(key, (" / ".join((c.item or c.prompt, *texts)), *texts))
        samples.setdefault(id, Sample(id, "", prompt=c.prompt or id))
        seen[id, c.aspect] = seen.get((id, c.aspect), 0) + 1
        rater = f"judgement {seen[id, c.aspect]}" if nameless else c.rater
        if (id, c.aspect, rater) in ratings:
            raise UserError(f"rater {rater} has two judgements of {id} on {c.aspect}; keep one")
        turned = side != texts[0]
        category = c.tie or ("equal" if c.outcome == 0.5 else "ba"[(c.outcome == 1) != turned])
        value = float(CATEGORIES.index(category))
        ratings[id, c.aspect, rater] = Rating(id, c.aspect or "choice", rater, value)
    return Rated(tuple(ratings.values()), samples), nameless
