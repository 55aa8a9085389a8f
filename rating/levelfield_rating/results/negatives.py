"""Who fails by the negative samples."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from levelfield_rating.answers import NEITHER, Answer
from levelfield_rating.model import Frozen, Item
from levelfield_rating.store.records import RaterState

LEAST_REAL = 3
"""Ratings of real texts that a negative sample is compared with, at least."""


@dataclass(frozen=True)
class ControlVerdict:
    """Whether a rater fails by the negative samples of their survey.

    Attributes:
        failed: None where `details` say why it can't be known.
        details: what was found, in words.
    """

    failed: bool | None
    details: str


def verdict(frozen: Frozen, state: RaterState) -> ControlVerdict:
    """Returns whether a rater fails by the negative samples, on the first criterion.

    A rater fails if, in the direct kind, a negative sample is not rated below the median of the
    rater's ratings of the survey's real texts; in a pair, the real text is not the better one; in
    a ranking, the negative sample is not below the median of the real texts shown with it. One
    failure is enough.
    """
    if frozen.fail_rule == "none":
        return ControlVerdict(None, "no rule")
    first = frozen.criteria[0]
    real: list[float] = []
    negative: list[tuple[Item, Answer]] = []
    controls = 0
    for place in frozen.placed(state.slot):
        item = frozen.items[place.item]
        answer = state.answers.get(item.key, {}).get(first.id)
        controls += bool(item.control)
        if answer is None:
            continue
        if item.control:
            negative.append((item, answer))
        elif isinstance(answer, int):
            real.append(answer)
    if not controls:
        return ControlVerdict(None, "no negative sample")
    if not negative:
        return ControlVerdict(None, "not rated yet")
    if frozen.design == "direct":
        if len(real) < LEAST_REAL:
            return ControlVerdict(None, "too few real texts rated so far")
        middle = statistics.median(real)
        answers = [answer for _, answer in negative if isinstance(answer, int)]
        failed = [answer for answer in answers if answer >= middle]
        details = ", ".join(map(str, failed or answers))
        return ControlVerdict(
            bool(failed), f"{first.id}: {details}; median of the real texts {middle:g}"
        )
    failed_items = [item for item, answer in negative if not _is_last(item, answer)]
    details = f"{len(failed_items)} of {len(negative)} not ranked below the real texts"
    return ControlVerdict(bool(failed_items), f"{first.id}: {details}")


def negative_of(item: Item) -> int:
    """Returns the position of the negative sample among the candidates of a control item."""
    without = [n for n, candidate in enumerate(item.candidates) if not candidate.samples]
    return without[0] if len(without) == 1 else len(item.candidates) - 1


def _is_last(item: Item, answer: Answer) -> bool:
    place = negative_of(item)
    if isinstance(answer, tuple):
        return answer[place] > statistics.median(answer[:place] + answer[place + 1 :])
    return answer not in (NEITHER, place)
