"""Agreement of raters on what they rated: by aspect, by part of the study, pair by pair."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from levelfield.agree.agreement_report import (
    ALL_ASPECTS,
    Agreement,
    AgreementReport,
    Disagreement,
    RaterPair,
    RaterSummary,
)
from levelfield.agree.design import AgreementOptions
from levelfield.agree.ratings import (
    RatingTable,
    of_aspects,
    parts_of,
    rating_table,
    split,
    z_scores,
)
from levelfield.agree.sources import Ratings, file_names, read_ratings
from levelfield.core.arrays import Floats
from levelfield.core.options import keywords
from levelfield.core.signature import signature
from levelfield.io import Rated, Rating
from levelfield.scoring.summary import OVERALL
from levelfield.stats.correlation import estimates
from levelfield.stats.estimands import Measurement
from levelfield.stats.icc import intraclass
from levelfield.stats.kappa import cohen_kappa
from levelfield.stats.krippendorff import krippendorff_alpha
from levelfield.stats.resampling import DEFAULT, Resampling


@keywords(AgreementOptions)
def agreement(
    ratings: Ratings,
    chosen: AgreementOptions | None = None,
    **words: Any,
) -> AgreementReport:
    """How far raters agree with each other, and on what they do not.

    Args:
        ratings: files of samples with ratings or of one rating a row, what `load_ratings`
            returns, or samples with ratings.
        chosen: whose agreement is measured, and how.
        words: options of `AgreementOptions`, instead of those there.

    Raises:
        InputError: a file can't be read.
        UserError: no rating is on such an aspect, or no sample says its part.

    >>> report = agreement("ratings.jsonl", by="survey")  # doctest: +SKIP
    >>> report.to_latex()  # doctest: +SKIP
    """
    chosen = AgreementOptions.of(chosen, **words)
    reading = chosen.reading
    report = rater_agreement(
        read_ratings(ratings, format=reading.format, mapping=reading.mapping),
        aspects=chosen.aspects,
        by=chosen.by,
        level=chosen.level,
        worst=chosen.worst,
        resampling=Resampling(seed=chosen.seed),
    )
    return replace(report, files=file_names(ratings))


def rater_agreement(
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

    >>> from levelfield.io import Rated, Rating
    >>> ratings = [Rating(id, "style", rater, value) for id, rater, value in (
    ...     ("1", "ann", 80), ("1", "bo", 75), ("2", "ann", 20), ("2", "bo", 35),
    ...     ("3", "ann", 55), ("3", "bo", 50))]
    >>> report = rater_agreement(Rated(tuple(ratings), {}))
    >>> round(report.groups[0].alpha.value, 3), report.worst[0].id
    (0.913, '2')
    """
    ratings = of_aspects(rated.ratings, aspects)
    part = parts_of(ratings, rated.samples, by)
    of_aspect = split(ratings, lambda r: r.aspect)
    if len(of_aspect) > 1:
        of_aspect[ALL_ASPECTS] = ratings
    groups = []
    for aspect, some in of_aspect.items():
        of_part = split(some, part)
        if len(of_part) > 1:
            of_part[OVERALL] = some
        groups += [
            _group(aspect, name, rating_table(few, rated.samples), level, resampling)
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
        z_scores=z_scores(rated, aspects=aspects, by=by),
        by=by,
        level=level,
    )


def _group(
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


def _pair(
    table: RatingTable, a: int, b: int, level: Measurement, resampling: Resampling
) -> RaterPair:
    both = ~np.isnan(table.values[:, [a, b]]).any(axis=1)
    x, y = table.values[both, a], table.values[both, b]
    clusters = table.clusters[both]
    r = estimates(x, y, clusters, wanted=("pearson", "spearman"), resampling=resampling)
    names = (table.raters[a], table.raters[b])
    if constant := [
        f"{name} gave every item {v[0]:g}"
        for name, v in zip(names, (x, y), strict=True)
        if len(v) > 1 and v.min() == v.max()
    ]:
        why = " and ".join(constant)
        r = {s: replace(e, why_undefined=why, why_no_interval=why) for s, e in r.items()}
    return RaterPair(
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
    disagreements = []
    for some in split(sorted(ratings), lambda r: (r.id, r.aspect)).values():
        x = np.array([r.value for r in some])
        if len(x) > 1 and x.min() < x.max():
            first, values = some[0], {r.rater: r.value for r in some}
            variance = float(x.var(ddof=1))
            disagreements.append(
                Disagreement(first.id, first.aspect, part(first), variance, values)
            )
    disagreements.sort(key=lambda d: (-d.variance, d.id, d.aspect))
    return tuple(disagreements[:most])
