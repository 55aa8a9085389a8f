"""What raters said, in numbers: of samples, of systems, of negative samples, of the raters."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from levelfield.core.sample import Sample
from levelfield.io import Rated, Rating, load_samples
from levelfield.io.records import FIELDS
from levelfield.meta.agreement import ALL_ASPECTS, AgreementReport, agreement, z_scores
from levelfield.rating.answers import NEITHER, Answer
from levelfield.rating.model import SLIDER, Criterion, Frozen, Item
from levelfield.rating.store import Store
from levelfield.rating.store.records import LogRow, RaterState
from levelfield.stats.bootstrap import cluster_bootstrap_mean
from levelfield.stats.estimate import Estimate
from levelfield.stats.reliability import Measurement
from levelfield.stats.resampling import DEFAULT, Resampling

LEAST_REAL = 3
"""Ratings of real texts that a negative sample is compared with, at least."""

LEAST_FOR_STRAIGHT = 8
"""Answers on a criterion before anything is said of their spread."""

STRAIGHT_SHARE = 0.8
"""Of answers that are the same, from which on a rater is called straight-lining."""

STRAIGHT_SD = 0.04
"""Standard deviation as a share of a scale's length, up to which a rater is so called."""

IDLE = timedelta(minutes=5)
"""Between two events of a rater; of a longer break no more is counted as time spent."""

LEVELS: Mapping[str, Measurement] = {
    "direct": "interval",
    "pairwise": "nominal",
    "ranking": "ordinal",
}
"""design -> of measurement, of its answers."""


@dataclass(frozen=True)
class Verdict:
    """Whether a rater fails by the negative samples of their survey.

    Attributes:
        failed: None where `why` says that it can't be known.
        why: what was found, in words.
    """

    failed: bool | None
    why: str


@dataclass(frozen=True)
class Spread:
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
class Progress:
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


@dataclass(frozen=True)
class SystemMean:
    """What raters said of a system on a criterion.

    Attributes:
        mean: over samples, each the mean of its raters; the interval resamples sources.
        z: the same of ratings as z per rater; NaN if none has one.
        ratings: how many.
    """

    system: str
    criterion: str
    mean: Estimate
    z: float
    ratings: int


@dataclass(frozen=True)
class Reliability:
    """Agreement of the raters, as they said it and as z per rater.

    Attributes:
        level: of measurement.
        texts: unit -> what it is: the item, and which candidate (−1: the item as a whole).
        why: why there is nothing; empty if there is.
    """

    level: Measurement
    raw: AgreementReport | None
    standardised: AgreementReport | None
    texts: Mapping[str, tuple[Item, int]]
    why: str = ""


# who counts


def counted(store: Store, *, excluded: bool = False) -> list[RaterState]:
    """The raters whose answers are results: no previews, nobody who withdrew.

    Args:
        excluded: also those whom the organiser has excluded, and who were replaced.
    """
    left_out = {} if excluded else store.excluded()
    return [
        state
        for state in store.raters()
        if state.phase != "withdrawn" and state.rater not in left_out
    ]


def progress(frozen: Frozen, state: RaterState) -> Progress:
    """How far a rater is; of a slot that the study no longer has, nothing is asked."""
    placed = frozen.slots[state.slot].items if state.slot < len(frozen.slots) else ()
    wanted = {criterion.id for criterion in frozen.criteria}
    given = [len(wanted & state.answers.get(p.item, {}).keys()) for p in placed]
    return Progress(
        done=sum(n == len(wanted) for n in given),
        items=len(placed),
        answers=sum(given),
        asked=len(placed) * len(wanted),
    )


def time_spent(log: Iterable[LogRow]) -> dict[str, timedelta]:
    """Rater -> time between their events by the server's clock, breaks cut to five minutes."""
    last: dict[str, datetime] = {}
    spent: defaultdict[str, timedelta] = defaultdict(timedelta)
    for row in log:
        if row.kind not in ("rating", "comment", "problem", "practice", "phase", "consent"):
            continue
        if row.rater in last:
            spent[row.rater] += max(timedelta(), min(row.at - last[row.rater], IDLE))
        last[row.rater] = row.at
    return dict(spent)


# answers as numbers


def scores(criterion: Criterion, answer: Answer, candidates: int) -> tuple[float, ...]:
    """A number for each candidate, larger is better.

    Slider and Likert: the answer. Pair and ranking: the share of the other candidates that it
    stands before, a tie counting one half; in a pair that is 1, 0.5 or 0.
    """
    if isinstance(answer, tuple):
        return tuple(
            sum((mine < other) + 0.5 * (mine == other) for n, other in enumerate(answer) if n != at)
            / (candidates - 1)
            for at, mine in enumerate(answer)
        )
    if criterion.scale == "pairwise":
        if answer == NEITHER:
            return (0.5,) * candidates
        return tuple(float(n == answer) for n in range(candidates))
    return (float(answer),)


def sample_ratings(frozen: Frozen, states: Iterable[RaterState]) -> list[Rating]:
    """The ratings of every sample: those of its text, for a text that several samples share.

    In pairs a sample has the mean over the pairs that a rater saw it in. Negative samples, and
    real texts beside them, are left out.
    """
    values: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
    for state in states:
        for item, criterion, answer in answers_of(frozen, state):
            if item.control:
                continue
            numbers = scores(criterion, answer, len(item.candidates))
            for candidate, value in zip(item.candidates, numbers, strict=True):
                for sample in candidate.samples:
                    values[sample, criterion.id, state.rater].append(value)
    order = {id: n for n, id in enumerate(sample_ids(frozen))}
    criteria = {criterion.id: n for n, criterion in enumerate(frozen.criteria)}
    ordered = sorted(values, key=lambda k: (order[k[0]], criteria[k[1]], natural(k[2])))
    return [Rating(*key, statistics.fmean(values[key])) for key in ordered]


def answers_of(frozen: Frozen, state: RaterState) -> Iterator[tuple[Item, Criterion, Answer]]:
    """All that a rater answered, in the order of their slot."""
    placed = frozen.slots[state.slot].items if state.slot < len(frozen.slots) else ()
    for place in placed:
        answers = state.answers.get(place.item, {})
        for criterion in frozen.criteria:
            if criterion.id in answers:
                yield frozen.items[place.item], criterion, answers[criterion.id]


def sample_ids(frozen: Frozen) -> list[str]:
    """Every sample that is rated, in the order of the samples' files."""
    there = dict.fromkeys(
        id
        for item in frozen.items.values()
        if not item.control
        for candidate in item.candidates
        for id in candidate.samples
    )
    ordered = [id for id in frozen.samples if id in there]
    return ordered + [id for id in there if id not in frozen.samples]


def surveys_of(frozen: Frozen) -> dict[str, int]:
    """Sample -> the survey that it is in."""
    return {
        id: item.survey
        for item in frozen.items.values()
        if not item.control
        for candidate in item.candidates
        for id in candidate.samples
    }


def records(frozen: Frozen, ratings: Iterable[Rating]) -> list[dict[str, Any]]:
    """The samples as they were given, with these ratings; earlier ones are left out.

    `survey` and `study_digest` are ours; what a sample has under these names, or in a field of its
    own that is named like one of `Sample`'s, is kept as `survey_of_sample`.
    """
    rated: defaultdict[str, dict[str, dict[str, float]]] = defaultdict(dict)
    for id, criterion, rater, value in ratings:
        whole = int(value) if value == int(value) else value
        rated[id].setdefault(criterion, {})[rater] = whole
    texts = {
        id: candidate.part.text
        for item in frozen.items.values()
        if not item.control
        for candidate in item.candidates
        for id in candidate.samples
    }
    survey = surveys_of(frozen)
    made = []
    for id in sample_ids(frozen):
        record = {"id": id, **frozen.samples.get(id, {"text": texts[id]})}
        record.pop("ratings", None)
        own = {"survey": survey[id], "study_digest": frozen.digest}
        extra = {
            f"{name}_of_sample" if name in own or name in FIELDS else name: value
            for name, value in record.pop("extra", {}).items()
        }
        made.append({**extra, **record, **own, "ratings": rated.get(id, {})})
    return made


def samples(frozen: Frozen) -> dict[str, Sample]:
    """Id -> sample, as `ratings.jsonl` has it, ratings left out."""
    made = records(frozen, ())
    return {sample.id: sample for sample in load_samples(made)} if made else {}


def natural(rater: str) -> tuple[int, str]:
    """Sorts r2 before r10."""
    digits = rater.removeprefix("r")
    return (int(digits) if digits.isdecimal() else 0, rater)


# negative samples


def verdict(frozen: Frozen, state: RaterState) -> Verdict:
    """Whether a rater fails by the negative samples, on the first criterion.

    Direct: a negative sample whose rating is not below the median of the ratings that the rater
    gave to the real texts of the survey. Pair: the real text is not the better one. Ranking: the
    negative sample is not behind the median of the real texts beside it. One failure fails.
    """
    if frozen.fail_rule == "none":
        return Verdict(None, "no rule")
    first = frozen.criteria[0]
    real: list[float] = []
    negative: list[tuple[Item, Answer]] = []
    asked = 0
    placed = frozen.slots[state.slot].items if state.slot < len(frozen.slots) else ()
    for place in placed:
        item = frozen.items[place.item]
        answer = state.answers.get(item.key, {}).get(first.id)
        asked += bool(item.control)
        if answer is None:
            continue
        if item.control:
            negative.append((item, answer))
        elif isinstance(answer, int):
            real.append(answer)
    if not asked:
        return Verdict(None, "no negative sample")
    if not negative:
        return Verdict(None, "not rated yet")
    if frozen.design == "direct":
        if len(real) < LEAST_REAL:
            return Verdict(None, "too few real texts rated yet")
        middle = statistics.median(real)
        given = [answer for _, answer in negative if isinstance(answer, int)]
        failed = [answer for answer in given if answer >= middle]
        said = ", ".join(map(str, failed or given))
        return Verdict(bool(failed), f"{first.id}: {said}; median of the real texts {middle:g}")
    failed_items = [item for item, answer in negative if not _is_last(item, answer)]
    said = f"{len(failed_items)} of {len(negative)} not behind the real texts"
    return Verdict(bool(failed_items), f"{first.id}: {said}")


def negative_of(item: Item) -> int:
    """Which candidate of a control item is the negative sample."""
    without = [n for n, candidate in enumerate(item.candidates) if not candidate.samples]
    return without[0] if len(without) == 1 else len(item.candidates) - 1


def _is_last(item: Item, answer: Answer) -> bool:
    at = negative_of(item)
    if isinstance(answer, tuple):
        return answer[at] > statistics.median(answer[:at] + answer[at + 1 :])
    return answer not in (NEITHER, at)


# how raters used the scale


def spreads(frozen: Frozen, state: RaterState) -> dict[str, Spread]:
    """Criterion -> how the rater used its scale, on real texts."""
    orders = {}
    if state.slot < len(frozen.slots):
        orders = {p.item: p.order for p in frozen.slots[state.slot].items}
    given: defaultdict[str, list[Answer]] = defaultdict(list)
    for item, criterion, answer in answers_of(frozen, state):
        if not item.control:
            given[criterion.id].append(_as_shown(answer, criterion, orders[item.key]))
    return {c.id: _spread(c, given[c.id]) for c in frozen.criteria}


def _as_shown(answer: Answer, criterion: Criterion, order: Sequence[int]) -> Answer:
    if isinstance(answer, tuple):
        return tuple(answer[position] for position in order)
    if criterion.scale == "pairwise" and answer != NEITHER:
        return list(order).index(answer)
    return answer


def _spread(criterion: Criterion, answers: Sequence[Answer]) -> Spread:
    n = len(answers)
    if not n:
        return Spread(0, math.nan, math.nan, math.nan, False)
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
    return Spread(n, mean, sd, same, straight)


# systems and agreement


def system_means(
    frozen: Frozen, states: Sequence[RaterState], *, resampling: Resampling = DEFAULT
) -> list[SystemMean]:
    """The mean of every system on every criterion, raw and as z per rater."""
    rated = Rated(tuple(sample_ratings(frozen, states)), samples(frozen))
    if not rated.ratings:
        return []
    z = {(r.id, r.aspect, r.rater): r.z for r in z_scores(rated)}
    raw: defaultdict[tuple[str, str], defaultdict[str, list[Rating]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for rating in rated.ratings:
        raw[rated.samples[rating.id].system, rating.aspect][rating.id].append(rating)
    order = {criterion.id: n for n, criterion in enumerate(frozen.criteria)}
    made = []
    for system, criterion in sorted(raw, key=lambda k: (order[k[1]], k[0])):
        of_sample = raw[system, criterion]
        means = [statistics.fmean(r.value for r in ratings) for ratings in of_sample.values()]
        clusters = [repr(rated.samples[id].shared or id) for id in of_sample]
        scaled = [
            statistics.fmean(known)
            for ratings in of_sample.values()
            if (known := [v for r in ratings if not math.isnan(v := z[r.id, r.aspect, r.rater])])
        ]
        made.append(
            SystemMean(
                system=system,
                criterion=criterion,
                mean=cluster_bootstrap_mean(
                    means,
                    np.array(clusters),
                    resamples=resampling.resamples,
                    level=resampling.level,
                    seed=resampling.seed,
                ),
                z=statistics.fmean(scaled) if scaled else math.nan,
                ratings=sum(map(len, of_sample.values())),
            )
        )
    return made


def unit_ratings(
    frozen: Frozen, states: Iterable[RaterState]
) -> tuple[Rated, dict[str, tuple[Item, int]]]:
    """Answers as raters gave them, and unit -> what it is.

    A unit is a text that was shown (once, however many samples have it), a pair, or a text within
    a ranking; the answers are ratings, choices as numbers, or ranks. Negative samples are left out.
    """
    found: list[Rating] = []
    texts: dict[str, tuple[Item, int]] = {}
    for state in states:
        for item, criterion, answer in answers_of(frozen, state):
            if item.control:
                continue
            if isinstance(answer, tuple):
                for n, rank in enumerate(answer):
                    unit = f"{item.key} ({n + 1})"
                    texts[unit] = (item, n)
                    found.append(Rating(unit, criterion.id, state.rater, float(rank)))
            else:
                texts[item.key] = (item, 0 if frozen.design == "direct" else -1)
                found.append(Rating(item.key, criterion.id, state.rater, float(answer)))
    units = {
        unit: Sample(
            id=unit,
            text=item.candidates[max(n, 0)].part.text,
            context=tuple(part.text for part in item.given),
            extra={"survey": item.survey},
        )
        for unit, (item, n) in texts.items()
    }
    return Rated(tuple(found), units), texts


def reliability(
    frozen: Frozen,
    states: Sequence[RaterState],
    *,
    worst: int = 10,
    resampling: Resampling = DEFAULT,
) -> Reliability:
    """How far the raters agree, on each criterion, in each survey and in all.

    z per rater takes out that raters use a scale differently; choices and ranks have none.
    """
    level = LEVELS[frozen.design]
    rated, texts = unit_ratings(frozen, states)
    if not rated.ratings:
        return Reliability(level, None, None, texts, "nothing is rated yet")
    by = "survey" if len({item.survey for item, _ in texts.values()}) > 1 else ""
    raw = agreement(rated, by=by, level=level, worst=worst, resampling=resampling)
    standardised = None
    if level == "interval":
        z = tuple(
            Rating(r.id, r.aspect, r.rater, r.z) for r in z_scores(rated) if not math.isnan(r.z)
        )
        if z:
            scaled = Rated(z, rated.samples)
            standardised = agreement(scaled, by=by, level=level, worst=0, resampling=resampling)
    if len({(c.scale, c.points) for c in frozen.criteria}) > 1:  # no common scale to pool on
        raw = replace(raw, groups=tuple(g for g in raw.groups if g.aspect != ALL_ASPECTS))
    return Reliability(level, raw, standardised, texts)
