"""Answers of raters: what one is on each scale, and whether one passes a practice item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from levelfield_rating.model import SLIDER, RatingCriterion

Answer = int | tuple[int, ...]
"""Slider 1 to 100; Likert 1 to points; pairwise the position of the better candidate or −1 for
neither; ranking a rank a candidate, 1 best, where a rank r > 1 says that r − 1 candidates stand
before it."""

TRIES = 2
"""At a practice item; then the rater goes on anyway."""

NEITHER = -1
"""Of two texts neither is the better one."""


class BadAnswer(ValueError):  # noqa: N818 - what it says is the rater's, not the code's
    """Not an answer on this scale; the message says why, in words a rater may read."""


def scale_ends(criterion: RatingCriterion) -> tuple[int, int]:
    """Returns the least and the greatest answer on a slider or a Likert scale."""
    return SLIDER if criterion.scale == "slider" else (1, criterion.points)


def checked(criterion: RatingCriterion, candidates: int, value: object) -> Answer:
    """Returns the value as an answer to a criterion about an item with so many candidates.

    Integers only: `True`, `3.0`, `"3"` and NaN are no answers.

    Raises:
        BadAnswer: it is none.
    """
    if criterion.scale == "ranking":
        return _checked_ranks(candidates, value)
    low, high = (
        (NEITHER, candidates - 1) if criterion.scale == "pairwise" else scale_ends(criterion)
    )
    if type(value) is not int or not low <= value <= high:
        raise BadAnswer(f"{criterion.id} takes a whole number from {low} to {high}")
    return value


def _checked_ranks(candidates: int, value: object) -> tuple[int, ...]:
    if not isinstance(value, list | tuple) or len(value) != candidates:
        raise BadAnswer(f"a ranking has {candidates} ranks, one per text")
    ranks = tuple(value)
    if any(type(rank) is not int for rank in ranks):
        raise BadAnswer("ranks are whole numbers")
    if ranks != standard_ranks(ranks):
        raise BadAnswer("ranks count from 1, and each is 1 + the number of texts before it")
    return ranks


def standard_ranks(order: Sequence[int]) -> tuple[int, ...]:
    """Ranks in the manner of a competition: 1 + how many stand before; equal numbers tie."""
    return tuple(1 + sum(other < number for other in order) for number in order)


def shown_answer(criterion: RatingCriterion, order: Sequence[int], value: Answer) -> Answer:
    """Returns a stored answer, for the texts in the order shown."""
    if criterion.scale == "ranking" and isinstance(value, tuple):
        return tuple(value[position] for position in order)
    if criterion.scale == "pairwise" and isinstance(value, int) and value != NEITHER:
        return list(order).index(value)
    return value


def stored_answer(criterion: RatingCriterion, order: Sequence[int], value: Any) -> Any:
    """What a page says, for `Item.candidates`. What is no answer stays as it is: the store says no.

    A ranking may come as any whole numbers, smaller ones first.
    """
    if criterion.scale == "ranking" and isinstance(value, list | tuple):
        if len(value) != len(order) or any(type(rank) is not int for rank in value):
            return tuple(value)
        stored = [0] * len(order)
        for rank, position in zip(value, order, strict=True):
            stored[position] = rank
        return tuple(stored)
    if criterion.scale == "pairwise" and type(value) is int and 0 <= value < len(order):
        return order[value]
    return value


def passes(accept: Mapping[str, tuple[int, int]], answers: Mapping[str, Answer]) -> bool:
    """Returns whether answers to a practice item are in all accepted ranges.

    For a ranking the accepted number is the position of the text that must be among the best.
    """
    return all(
        name in answers and _in_range(bounds, answers[name]) for name, bounds in accept.items()
    )


def _in_range(bounds: tuple[int, int], answer: Answer) -> bool:
    low, high = bounds
    if isinstance(answer, tuple):
        return any(answer[place] == 1 for place in range(low, high + 1) if 0 <= place < len(answer))
    return low <= answer <= high
