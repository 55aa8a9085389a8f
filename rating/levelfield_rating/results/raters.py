"""Raters in numbers: who counts, how far each is, how long it took, how they used the scales.

`rating_status` has all of it, of every rater of a study.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from levelfield.core.documents import Document
from levelfield_rating.answers import Answer, scale_ends, shown_answer
from levelfield_rating.model import Frozen, RatingCriterion
from levelfield_rating.results.negatives import ControlVerdict, verdict
from levelfield_rating.results.ratings import answers_of
from levelfield_rating.store import RatingStore
from levelfield_rating.store.records import LogRow, RaterState

LEAST_FOR_STRAIGHT = 8
"""Fewest answers on a criterion for a judgement of their spread."""

STRAIGHT_SHARE = 0.8
"""Share of equal answers from which on a rater counts as straight-lining."""

STRAIGHT_SD = 0.04
"""Standard deviation as a share of a scale's length, up to which a rater is so called."""

IDLE = timedelta(minutes=5)
"""Between two events of a rater; of a longer break no more is counted as time spent."""


@dataclass(frozen=True)
class ScaleUse(Document):
    """How one rater used a criterion's scale.

    Attributes:
        n: answers about real texts.
        mean, sd: of sliders and Likert scales, sd with n − 1; NaN otherwise and for too few.
        same: share of the most frequent answer; of pairs by side, which shows a rater who always
            takes the left text. NaN if there is no answer.
        straight: whether that share suggests straight-lining.
    """

    n: int
    mean: float
    sd: float
    same: float
    straight: bool

    _entries = "n mean sd same"


@dataclass(frozen=True)
class RaterProgress:
    """How far a rater is.

    Attributes:
        done: items with an answer on every criterion.
        items: of the slot, negative samples included.
        answers: given.
        questions: items × criteria.
    """

    done: int
    items: int
    answers: int
    questions: int


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
    placed = frozen.placed(state.slot)
    criteria = {criterion.id for criterion in frozen.criteria}
    counts = [len(criteria & state.answers.get(p.item, {}).keys()) for p in placed]
    return RaterProgress(
        done=sum(n == len(criteria) for n in counts),
        items=len(placed),
        answers=sum(counts),
        questions=len(placed) * len(criteria),
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
    orders = {placed.item: placed.order for placed in frozen.placed(state.slot)}
    answers: defaultdict[str, list[Answer]] = defaultdict(list)
    for item, criterion, answer in answers_of(frozen, state):
        answers[criterion.id].append(shown_answer(criterion, orders[item.key], answer))
    return {c.id: _spread(c, answers[c.id]) for c in frozen.criteria}


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
        low, high = scale_ends(criterion)
        if n > 1:
            sd = statistics.stdev(values)
            narrow = sd <= STRAIGHT_SD * (high - low)
    straight = n >= LEAST_FOR_STRAIGHT and (same >= STRAIGHT_SHARE or narrow)
    return ScaleUse(n, mean, sd, same, straight)


@dataclass(frozen=True)
class RaterStatus(Document):
    """How far one rater is.

    Attributes:
        survey: None if the study has fewer slots now.
        excluded: the reason; empty if not excluded.
        scales: id of a criterion -> how they used its scale.
    """

    state: RaterState
    survey: int | None
    progress: RaterProgress
    verdict: ControlVerdict
    scales: Mapping[str, ScaleUse]
    excluded: str

    _entries = (
        "rater=state.rater slot=_slot phase=state.phase done=progress.done items=progress.items "
        "last_seen=state.last_seen failed=verdict.failed negative=verdict.details straight "
        "scale=scales excluded replaced=state.replaced"
    )

    @property
    def _slot(self) -> int:
        return self.state.slot + 1

    @property
    def straight(self) -> list[str]:
        """The criteria that look like straight-lining."""
        return [name for name, use in self.scales.items() if use.straight]


@dataclass(frozen=True)
class RatingStatus(Document):
    """How far a study is."""

    study: str
    version: int
    digest: str
    closed: bool
    slots: int
    raters: tuple[RaterStatus, ...]

    @property
    def done(self) -> int:
        """Raters who are done and still have their slot."""
        return sum(
            rater.state.phase == "done" and not rater.state.replaced for rater in self.raters
        )

    @property
    def failing(self) -> list[RaterStatus]:
        """Raters who fail by the negative samples and still count."""
        return [rater for rater in self.raters if rater.verdict.failed and not rater.excluded]


def rating_status(store: RatingStore) -> RatingStatus:
    """Returns how far the study of a store and each of its raters are."""
    frozen, excluded = store.frozen, store.excluded()
    raters = tuple(
        RaterStatus(
            state=state,
            survey=frozen.slots[state.slot].survey if state.slot < len(frozen.slots) else None,
            progress=progress(frozen, state),
            verdict=verdict(frozen, state),
            scales=spreads(frozen, state),
            excluded=excluded.get(state.rater, ""),
        )
        for state in store.raters()
    )
    return RatingStatus(
        study=frozen.id,
        version=frozen.version,
        digest=frozen.digest,
        closed=store.closed(),
        slots=len(frozen.slots),
        raters=raters,
    )
