"""Agreement of raters on what they rated: by aspect, by part of the study, pair by pair."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Floats
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.core.signature import signature
from levelfield.io import Rated, Rating
from levelfield.meta.summary import OVERALL
from levelfield.stats.correlation import estimates
from levelfield.stats.estimate import Estimate
from levelfield.stats.icc import intraclass
from levelfield.stats.kappa import cohen_kappa
from levelfield.stats.krippendorff import krippendorff_alpha
from levelfield.stats.reliability import Measurement
from levelfield.stats.resampling import DEFAULT, Resampling

K = TypeVar("K", str, tuple[str, ...])
"""What ratings are split by."""

ALL_ASPECTS = "all aspects"
"""The name of the group in which an item is a sample on an aspect."""

NO_PART = "(none)"
"""The part of samples that do not say theirs."""


@dataclass(frozen=True)
class RatingTable:
    """Ratings as a matrix. An item is a sample on an aspect.

    Attributes:
        items: (id, aspect), sorted.
        raters: sorted.
        values: (items, raters); NaN where a rater did not rate.
        clusters: (items,) what an item shares with others, such as the source of its sample.
    """

    items: tuple[tuple[str, str], ...]
    raters: tuple[str, ...]
    values: Floats
    clusters: npt.NDArray[np.str_]


@dataclass(frozen=True)
class Pair:
    """Two raters on the items that both rated.

    Attributes:
        a, b: the raters.
        items: how many items both rated.
        pearson, spearman: correlations.
        kappa: Cohen's κ, without weights for nominal ratings, else with quadratic ones.
    """

    a: str
    b: str
    items: int
    pearson: Estimate
    spearman: Estimate
    kappa: Estimate


@dataclass(frozen=True)
class RaterSummary:
    """How one rater used the scale.

    Attributes:
        n: how many ratings.
        mean, sd: sd with n − 1; NaN for one rating.
        low, high: the lowest and the highest rating.
    """

    rater: str
    n: int
    mean: float
    sd: float
    low: float
    high: float


@dataclass(frozen=True)
class Agreement:
    """Agreement on one aspect within one part.

    Attributes:
        aspect: its name, or `ALL_ASPECTS`.
        part: which part of the samples, e.g. a survey; `OVERALL` for all of them.
        items: samples on an aspect with at least one rating.
        ratings: how many.
        alpha: Krippendorff's.
        icc: the six of `intraclass`, by name.
        pairs: every two raters who rated an item in common.
        raters: by name.
    """

    aspect: str
    part: str
    items: int
    ratings: int
    alpha: Estimate
    icc: Mapping[str, Estimate]
    pairs: tuple[Pair, ...]
    raters: tuple[RaterSummary, ...]


@dataclass(frozen=True)
class Disagreement:
    """An item that raters disagree on.

    Attributes:
        variance: of its ratings, with m − 1.
        values: rater -> rating.
    """

    id: str
    aspect: str
    part: str
    variance: float
    values: Mapping[str, float]


@dataclass(frozen=True)
class AgreementReport:
    """What `agreement` found.

    Attributes:
        groups: by aspect, then by part; the group of all comes last.
        worst: the items with the largest variance, the largest first.
        signature: every choice that could change a number.
    """

    groups: tuple[Agreement, ...]
    worst: tuple[Disagreement, ...]
    signature: str


class Standardised(NamedTuple):
    """A rating and where it stands among those of its rater; `z` is NaN if all are equal."""

    id: str
    aspect: str
    rater: str
    value: float
    z: float


def agreement(
    rated: Rated,
    *,
    aspects: Sequence[str] = (),
    by: str = "",
    level: Measurement = "interval",
    worst: int = 10,
    resampling: Resampling = DEFAULT,
) -> AgreementReport:
    """How far the raters agree, on each aspect and, if there are several, on all of them together.

    Raters of the same name are taken for the same person, also in different parts. Intervals
    resample what samples share (the source, else the prompt, else the context) and, where nothing
    is known of that, samples, since the aspects of a sample are not independent.

    Args:
        rated: as `load_ratings` returns it.
        aspects: only these; by default all.
        by: parts to look at one by one, see `part_of`.
        level: of measurement, for α and κ.
        worst: how many items of the largest disagreement to name.
        resampling: how intervals are drawn.

    Raises:
        UserError: if no rating is on such an aspect, or no sample says its part.

    >>> ratings = [Rating(id, "style", rater, value) for id, rater, value in (
    ...     ("1", "ann", 80), ("1", "bo", 75), ("2", "ann", 20), ("2", "bo", 35),
    ...     ("3", "ann", 55), ("3", "bo", 50))]
    >>> report = agreement(Rated(tuple(ratings), {}))
    >>> round(report.groups[0].alpha.value, 3), report.worst[0].id
    (0.913, '2')
    """
    ratings = _of_aspects(rated.ratings, aspects)
    part = _parts(ratings, rated.samples, by)
    of_aspect = _split(ratings, lambda r: r.aspect)
    if len(of_aspect) > 1:
        of_aspect[ALL_ASPECTS] = ratings
    groups = []
    for aspect, some in of_aspect.items():
        of_part = _split(some, part)
        if len(of_part) > 1:
            of_part[OVERALL] = some
        groups += [
            _agreement(aspect, name, rating_table(few, rated.samples), level, resampling)
            for name, few in of_part.items()
        ]
    choices = {
        "aspects": ",".join(sorted({r.aspect for r in ratings})),
        "by": by or "none",
        "level": level,
        "clusters": "shared",
        "resamples": resampling.resamples,
        "confidence": resampling.level,
        "seed": resampling.seed,
    }
    return AgreementReport(
        groups=tuple(groups),
        worst=_worst(ratings, part, worst),
        signature=signature("agreement", choices),
    )


def z_scores(
    rated: Rated, *, aspects: Sequence[str] = (), by: str = ""
) -> tuple[Standardised, ...]:
    """Every rating as z = (x − mean) / sd over the ratings of its rater on its aspect.

    Takes out that raters use a scale differently. sd with n, so that the z of a rater have mean 0
    and variance 1 exactly. With `by`, over those within the part.

    Undefined (NaN): all those ratings are equal, one rating among them.
    """
    ratings = _of_aspects(rated.ratings, aspects)
    part = _parts(ratings, rated.samples, by)
    z: dict[Rating, float] = {}
    for some in _split(ratings, lambda r: (r.aspect, r.rater, part(r))).values():
        x = np.array([r.value for r in some])
        varied = x.min() < x.max()
        scores = (x - x.mean()) / x.std() if varied else np.full(x.shape, np.nan)
        z.update(zip(some, scores.tolist(), strict=True))
    return tuple(Standardised(*r, z[r]) for r in ratings)


def rating_table(ratings: Iterable[Rating], samples: Mapping[str, Sample] = {}) -> RatingTable:
    """Ratings as a matrix, the same whatever order they come in.

    Args:
        ratings: no rater twice on the same sample and aspect.
        samples: id -> sample; items whose samples share something are one cluster, see `Sample`.
    """
    ratings = list(ratings)
    items = sorted({(r.id, r.aspect) for r in ratings})
    raters = sorted({r.rater for r in ratings})
    row = {item: n for n, item in enumerate(items)}
    column = {rater: n for n, rater in enumerate(raters)}
    values = np.full((len(items), len(raters)), np.nan)
    for r in ratings:
        values[row[r.id, r.aspect], column[r.rater]] = r.value
    clusters = [_cluster(id, samples.get(id)) for id, _ in items]
    return RatingTable(tuple(items), tuple(raters), values, np.array(clusters, dtype=np.str_))


def part_of(sample: Sample | None, by: str) -> str:
    """The part of the samples that one belongs to; `NO_PART` if it does not say.

    Args:
        by: `system`, `dataset`, `seed`, `control.ATTRIBUTE`, or a field of `extra` as `survey`.
    """
    if sample is None:
        return NO_PART
    if by in ("system", "dataset", "seed"):
        value = getattr(sample, by)
    elif by.startswith("control."):
        value = sample.control.get(by.removeprefix("control."), "")
        value = value if isinstance(value, str) else ", ".join(value)
    else:
        value = sample.extra.get(by)
    return NO_PART if value is None or value == "" else str(value)


def _parts(
    ratings: Sequence[Rating], samples: Mapping[str, Sample], by: str
) -> Callable[[Rating], str]:
    """The part of each rating; `OVERALL` if the user names none."""
    if not by:
        return lambda _: OVERALL
    part = {id: part_of(samples.get(id), by) for id in {r.id for r in ratings}}
    if all(name == NO_PART for name in part.values()):
        there = dict.fromkeys(
            name
            for sample in samples.values()
            for name in ("system", "dataset", "seed", *(f"control.{a}" for a in sample.control))
            if part_of(sample, name) != NO_PART
        )
        there |= dict.fromkeys(name for sample in samples.values() for name in sample.extra)
        which = f"there are {', '.join(there)}" if there else "the files hold nothing to group by"
        raise UserError(f"--by {by}: no rated sample has it; {which}")
    return lambda r: part[r.id]


def _of_aspects(ratings: Sequence[Rating], aspects: Sequence[str]) -> list[Rating]:
    there = dict.fromkeys(r.aspect for r in ratings)
    for aspect in aspects:
        if aspect not in there:
            raise UserError(f"--aspect {aspect}: nothing is rated on it; there are {list(there)}")
    return [r for r in ratings if not aspects or r.aspect in aspects]


def _split(ratings: Sequence[Rating], key: Callable[[Rating], K]) -> dict[K, list[Rating]]:
    """The ratings by a key, keys sorted."""
    made: dict[K, list[Rating]] = {}
    for rating in ratings:
        made.setdefault(key(rating), []).append(rating)
    return dict(sorted(made.items()))


def _cluster(id: str, sample: Sample | None) -> str:
    return repr(sample.shared if sample and sample.shared else id)


def _agreement(
    aspect: str, part: str, table: RatingTable, level: Measurement, resampling: Resampling
) -> Agreement:
    v, clusters = table.values, table.clusters
    rated = ~np.isnan(v)
    return Agreement(
        aspect=aspect,
        part=part,
        items=len(table.items),
        ratings=int(rated.sum()),
        alpha=krippendorff_alpha(v, level=level, clusters=clusters, resampling=resampling),
        icc=intraclass(v, clusters=clusters, level=resampling.level),
        pairs=tuple(
            _pair(table, a, b, level, resampling)
            for a, b in itertools.combinations(range(len(table.raters)), 2)
            if np.any(rated[:, a] & rated[:, b])
        ),
        raters=tuple(_rater(name, v[rated[:, n], n]) for n, name in enumerate(table.raters)),
    )


def _pair(table: RatingTable, a: int, b: int, level: Measurement, resampling: Resampling) -> Pair:
    both = ~np.isnan(table.values[:, [a, b]]).any(axis=1)
    x, y = table.values[both, a], table.values[both, b]
    clusters = table.clusters[both]
    r = estimates(
        x,
        y,
        clusters,
        wanted=("pearson", "spearman"),
        resamples=resampling.resamples,
        level=resampling.level,
        seed=resampling.seed,
    )
    names = (table.raters[a], table.raters[b])
    if constant := [
        f"{name} gave every item {v[0]:g}"
        for name, v in zip(names, (x, y), strict=True)
        if len(v) > 1 and v.min() == v.max()
    ]:
        why = " and ".join(constant)
        r = {s: replace(e, why_undefined=why, why_no_interval=why) for s, e in r.items()}
    return Pair(
        a=names[0],
        b=names[1],
        items=int(both.sum()),
        pearson=r["pearson"],
        spearman=r["spearman"],
        kappa=cohen_kappa(
            x,
            y,
            weights="none" if level == "nominal" else "quadratic",
            clusters=clusters,
            resampling=resampling,
        ),
    )


def _rater(name: str, x: Floats) -> RaterSummary:
    sd = float(x.std(ddof=1)) if len(x) > 1 else math.nan
    return RaterSummary(name, len(x), float(x.mean()), sd, float(x.min()), float(x.max()))


def _worst(
    ratings: Sequence[Rating], part: Callable[[Rating], str], most: int
) -> tuple[Disagreement, ...]:
    found = []
    for some in _split(sorted(ratings), lambda r: (r.id, r.aspect)).values():
        x = np.array([r.value for r in some])
        if len(x) > 1 and x.min() < x.max():
            first, given = some[0], {r.rater: r.value for r in some}
            variance = float(x.var(ddof=1))
            found.append(Disagreement(first.id, first.aspect, part(first), variance, given))
    found.sort(key=lambda d: (-d.variance, d.id, d.aspect))
    return tuple(found[:most])
