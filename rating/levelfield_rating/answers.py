"""Answers of raters: what is valid on each scale, and which answers pass a practice item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from levelfield_rating.model import SLIDER, RatingCriterion

Answer = int | tuple[int, ...]
"""Slider: 1 to 100. Likert: 1 to points. Pairwise: the position of the better candidate, or −1 for
neither. Ranking: a rank for each candidate, 1 the best; a rank r means that r − 1 candidates come
before it."""

TRIES = 2
"""Tries at a practice item, after which the rater goes on anyway."""

NEITHER = -1
"""Answer that neither of two texts is better."""


class BadAnswer(ValueError):  # noqa: N818 - what it says is the rater's, not the code's
    """Not an answer on this scale; the message says why, in words a rater may read."""


def scale_ends(criterion: RatingCriterion) -> tuple[int, int]:
    """Returns the least and the greatest answer on a slider or a Likert scale."""
    return SLIDER if criterion.scale == "slider" else (1, criterion.points)


def checked(criterion: RatingCriterion, candidates: int, value: object) -> Answer:
    """Returns a value as an answer to a criterion about an item, given its number of candidates.

    Only integers are answers: `True`, `3.0`, `"3"` and NaN are not.

    Raises:
        BadAnswer: the value is not an answer.
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
    """Returns competition ranks: 1 + how many numbers are smaller; equal numbers tie."""
    return tuple(1 + sum(other < number for other in order) for number in order)


def shown_answer(criterion: RatingCriterion, order: Sequence[int], value: Answer) -> Answer:
    """Returns a stored answer, for the texts in the order shown."""
    if criterion.scale == "ranking" and isinstance(value, tuple):
        return tuple(value[position] for position in order)
    if criterion.scale == "pairwise" and isinstance(value, int) and value != NEITHER:
        return list(order).index(value)
    return value


def stored_answer(criterion: RatingCriterion, order: Sequence[int], value: Any) -> Any:
    """Returns a page's answer in terms of `Item.candidates`.

    Any other value is returned as it is, for the store to refuse. A ranking may be any whole
    numbers, the smallest for the best.
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
