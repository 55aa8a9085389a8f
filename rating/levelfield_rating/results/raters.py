"""Raters in numbers: who counts, how far each is, how long it took, how they used the scales."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from levelfield_rating.answers import NEITHER, Answer
from levelfield_rating.model import SLIDER, Frozen, RatingCriterion
from levelfield_rating.results.ratings import answers_of
from levelfield_rating.store import RatingStore
from levelfield_rating.store.records import LogRow, RaterState

LEAST_FOR_STRAIGHT = 8
"""Answers on a criterion before anything is said of their spread."""

STRAIGHT_SHARE = 0.8
"""Of answers that are the same, from which on a rater is called straight-lining."""

STRAIGHT_SD = 0.04
"""Standard deviation as a share of a scale's length, up to which a rater is so called."""

IDLE = timedelta(minutes=5)
"""Between two events of a rater; of a longer break no more is counted as time spent."""


@dataclass(frozen=True)
class ScaleUse:
    """How one rater used a criterion's scale.

    Attributes:
        n: answers about real texts.
        mean, sd: of sliders and Likert scales, sd with n − 1; NaN otherwise and for too few.
        same: share of the most frequent answer; of pairs as they were shown, so that somebody who
            always takes the left one is seen. NaN if there is no answer.
        straight: whether that looks like straight-lining.
    """

    n: int
    mean: float
    sd: float
    same: float
    straight: bool


@dataclass(frozen=True)
class RaterProgress:
    """How far a rater is.

    Attributes:
        done: items with an answer on every criterion.
        items: of the slot, negative samples included.
        answers: given.
        asked: items × criteria.
    """

    done: int
    items: int
    answers: int
    asked: int


def counted(store: RatingStore, *, excluded: bool = False) -> list[RaterState]:
    """Returns the raters whose answers are results: no previews, nobody who withdrew.

    Args:
        excluded: also those whom the organiser has excluded, and who were replaced.
    """
    left_out = {} if excluded else store.excluded()
    return [
        state
        for state in store.raters()
        if state.phase != "withdrawn" and state.rater not in left_out
    ]


def progress(frozen: Frozen, state: RaterState) -> RaterProgress:
    """Returns how far a rater is; of a slot that the study no longer has, nothing is asked."""
    placed = frozen.slots[state.slot].items if state.slot < len(frozen.slots) else ()
    criteria = {criterion.id for criterion in frozen.criteria}
    counts = [len(criteria & state.answers.get(p.item, {}).keys()) for p in placed]
    return RaterProgress(
        done=sum(n == len(criteria) for n in counts),
        items=len(placed),
        answers=sum(counts),
        asked=len(placed) * len(criteria),
    )


def time_spent(log: Iterable[LogRow]) -> dict[str, timedelta]:
    """Returns the time between each rater's events by the server, breaks cut to five minutes."""
    last: dict[str, datetime] = {}
    spent: defaultdict[str, timedelta] = defaultdict(timedelta)
    for row in log:
        if row.kind not in ("rating", "comment", "problem", "practice", "phase", "consent"):
            continue
        if row.rater in last:
            spent[row.rater] += max(timedelta(), min(row.at - last[row.rater], IDLE))
        last[row.rater] = row.at
    return dict(spent)


def spreads(frozen: Frozen, state: RaterState) -> dict[str, ScaleUse]:
    """Returns how the rater used the scale of each criterion on real texts, by id."""
    orders = {}
    if state.slot < len(frozen.slots):
        orders = {p.item: p.order for p in frozen.slots[state.slot].items}
    answers: defaultdict[str, list[Answer]] = defaultdict(list)
    for item, criterion, answer in answers_of(frozen, state):
        if not item.control:
            answers[criterion.id].append(_as_shown(answer, criterion, orders[item.key]))
    return {c.id: _spread(c, answers[c.id]) for c in frozen.criteria}


def _as_shown(answer: Answer, criterion: RatingCriterion, order: Sequence[int]) -> Answer:
    if isinstance(answer, tuple):
        return tuple(answer[position] for position in order)
    if criterion.scale == "pairwise" and answer != NEITHER:
        return list(order).index(answer)
    return answer


def _spread(criterion: RatingCriterion, answers: Sequence[Answer]) -> ScaleUse:
    n = len(answers)
    if not n:
        return ScaleUse(0, math.nan, math.nan, math.nan, False)
    same = Counter(answers).most_common(1)[0][1] / n
    mean = sd = math.nan
    narrow = False
    if criterion.scale in ("slider", "likert"):
        values = [value for value in answers if isinstance(value, int)]
        mean = statistics.fmean(values)
        low, high = SLIDER if criterion.scale == "slider" else (1, criterion.points)
        if n > 1:
            sd = statistics.stdev(values)
            narrow = sd <= STRAIGHT_SD * (high - low)
    straight = n >= LEAST_FOR_STRAIGHT and (same >= STRAIGHT_SHARE or narrow)
    return ScaleUse(n, mean, sd, same, straight)
