"""Means of the systems, and agreement of the raters."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from levelfield.agree.agreement import MEAN_OF_ASPECTS, AgreementReport, rater_agreement
from levelfield.agree.sources import z_scores
from levelfield.core.sample import Sample
from levelfield.io import Rated, Rating
from levelfield.stats.estimands import Measurement
from levelfield.stats.estimate import Estimate
from levelfield.stats.means import cluster_mean
from levelfield.stats.resampling import DEFAULT, Resampling
from levelfield_rating.model import Frozen, Item
from levelfield_rating.results.ratings import answers_of, sample_ratings, samples, score_ends
from levelfield_rating.store.records import RaterState

LEVELS: Mapping[str, Measurement] = {
    "direct": "interval",
    "pairwise": "nominal",
    "ranking": "ordinal",
}
"""design -> of measurement, of its answers."""


@dataclass(frozen=True)
class SystemMean:
    """The ratings of a system on a criterion.

    Attributes:
        mean: over samples, each the mean of its raters; the interval is Student's over sources,
            within the scale.
        z: the same mean of z per rater; NaN if no rating has one.
        ratings: their number.
    """

    system: str
    criterion: str
    mean: Estimate
    z: float
    ratings: int


@dataclass(frozen=True)
class StudyReliability:
    """Agreement of the raters: of raw ratings, and of z per rater.

    Attributes:
        level: of measurement.
        texts: unit -> the item, and which candidate (−1: the item as a whole).
        gap: why there is no agreement; empty if there is.
    """

    level: Measurement
    raw: AgreementReport | None
    standardised: AgreementReport | None
    texts: Mapping[str, tuple[Item, int]]
    gap: str = ""


def system_means(
    frozen: Frozen, states: Sequence[RaterState], *, level: float = DEFAULT.level
) -> list[SystemMean]:
    """Returns the mean of every system on every criterion, raw and as z per rater."""
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
    limits = {criterion.id: score_ends(criterion) for criterion in frozen.criteria}
    means_of_systems = []
    for system, criterion in sorted(raw, key=lambda k: (order[k[1]], k[0])):
        text_ratings = raw[system, criterion]
        means = [statistics.fmean(r.value for r in ratings) for ratings in text_ratings.values()]
        clusters = [repr(rated.samples[id].shared or id) for id in text_ratings]
        scaled = [
            statistics.fmean(scores)
            for ratings in text_ratings.values()
            if (scores := [v for r in ratings if not math.isnan(v := z[r.id, r.aspect, r.rater])])
        ]
        means_of_systems.append(
            SystemMean(
                system=system,
                criterion=criterion,
                mean=cluster_mean(means, clusters, limits=limits[criterion], level=level),
                z=statistics.fmean(scaled) if scaled else math.nan,
                ratings=sum(map(len, text_ratings.values())),
            )
        )
    return means_of_systems


def unit_ratings(
    frozen: Frozen, states: Iterable[RaterState]
) -> tuple[Rated, dict[str, tuple[Item, int]]]:
    """Answers as raters gave them, and unit -> what it is.

    A unit is a text that was shown (once, however many samples have it), a pair, or a text within
    a ranking; the answers are ratings, choices as numbers, or ranks. Negative samples are left out.
    """
    ratings: list[Rating] = []
    texts: dict[str, tuple[Item, int]] = {}
    for state in states:
        for item, criterion, answer in answers_of(frozen, state):
            if isinstance(answer, tuple):
                for n, rank in enumerate(answer):
                    unit = f"{item.key} ({n + 1})"
                    texts[unit] = (item, n)
                    ratings.append(Rating(unit, criterion.id, state.rater, float(rank)))
            else:
                texts[item.key] = (item, 0 if frozen.design == "direct" else -1)
                ratings.append(Rating(item.key, criterion.id, state.rater, float(answer)))
    units = {
        unit: Sample(
            id=unit,
            text=item.candidates[max(n, 0)].part.text,
            context=tuple(part.text for part in item.given),
            extra={"survey": item.survey},
        )
        for unit, (item, n) in texts.items()
    }
    return Rated(tuple(ratings), units), texts


def reliability(
    frozen: Frozen,
    states: Sequence[RaterState],
    *,
    worst: int = 10,
    resampling: Resampling = DEFAULT,
) -> StudyReliability:
    """Returns how far the raters agree, on each criterion, in each survey and in all.

    z per rater takes out that raters use a scale differently; choices and ranks have none.
    """
    level = LEVELS[frozen.design]
    rated, texts = unit_ratings(frozen, states)
    if not rated.ratings:
        return StudyReliability(level, None, None, texts, "nothing has been rated yet")
    by = "survey" if len({item.survey for item, _ in texts.values()}) > 1 else ""
    raw = rater_agreement(rated, by=by, level=level, worst=worst, resampling=resampling)
    standardised = None
    if level == "interval":
        z = tuple(
            Rating(r.id, r.aspect, r.rater, r.z) for r in z_scores(rated) if not math.isnan(r.z)
        )
        if z:
            scaled = Rated(z, rated.samples)
            standardised = rater_agreement(
                scaled, by=by, level=level, worst=0, resampling=resampling
            )
    if len({(c.scale, c.points) for c in frozen.criteria}) > 1:  # α of unlike scales
        raw = replace(raw, groups=tuple(g for g in raw.groups if g.aspect != MEAN_OF_ASPECTS))
    return StudyReliability(level, raw, standardised, texts)
