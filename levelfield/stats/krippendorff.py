"""Krippendorff's α."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Codes, Floats
from levelfield.stats.clusters import cluster_sums, coded
from levelfield.stats.estimands import MEASUREMENTS, Measurement
from levelfield.stats.estimate import Estimate, undefined
from levelfield.stats.reliability import (
    MidRanks,
    OfDraws,
    checked_ratings,
    ratio,
    resampled,
    scaled,
    value_counts,
    why_incomparable,
)
from levelfield.stats.resampling import DEFAULT, Resampling


def krippendorff_alpha(
    values: npt.ArrayLike,
    *,
    level: Measurement = "interval",
    clusters: npt.ArrayLike | None = None,
    resampling: Resampling = DEFAULT,
) -> Estimate:
    """Krippendorff's α: agreement beyond chance, for any number of raters and missing ratings.

    `α = 1 − D_o / D_e`. With m_u ratings of item u, n of all items together, and δ² the squared
    distance of two ratings, D_o = (1/n) Σ_u Σ_{i≠j} δ²(x_ui, x_uj) / (m_u − 1) is the
    disagreement within items, and D_e, the same over all pairs of the n ratings, is what chance
    would give. 1 is perfect agreement, 0 is chance, below 0 is worse. Only pairable values count:
    those of items with at least two ratings. (Krippendorff 2011, "Computing Krippendorff's
    Alpha-Reliability"; Hayes and Krippendorff 2007.)

    No pair needs to be visited: where δ is a difference, Σ_{i≠j} δ² = 2 m SS, SS the sum of squares
    around the mean, so D_o = (1/n) Σ_u 2 m_u SS_u / (m_u − 1) and D_e = 2 SS / (n − 1). That is
    the interval level. At the ordinal level, δ(c, k) = Σ_{g=c..k} n_g − (n_c + n_k) / 2, n_g the
    frequency of the value g, is the difference of mid-ranks, so the same formula holds for ranks.
    At the nominal level δ is whether two ratings differ, and pairs of equal ones are counted.

    The interval draws clusters of items and recomputes frequencies and ranks in each resample.
    Labels (the nominal level, and two different values at any) have the interval of a Bayesian
    bootstrap (Rubin 1981): clusters weighted by exponential draws, and with them two items of two
    ratings each, with Gamma(1/2) weights: one that agrees on the rarest label, and one that differs
    between it and the most frequent. If a label is rare, α depends on the few items that have it,
    and this is Jeffreys' interval of the share of them that agree (Brown, Cai and DasGupta 2001,
    "Interval Estimation for a Binomial Proportion"); resamples of such items would all be equal.
    The interval always contains the value.

    Args:
        values: (items, raters); NaN is missing.
        level: of measurement: names, ranks, or numbers whose differences mean something.
        clusters: (items,) anything that sorts; equal entries are drawn together. By default each
            item is a cluster.

    Undefined: one rater, no item with two ratings, one item only, all pairable ratings equal.
    """
    return mean_alpha({"": checked_ratings(values, clusters)}, level=level, resampling=resampling)


Rated = tuple[Floats, npt.NDArray[np.generic]]
"""Ratings (items, raters) and the clusters (items,)."""


def mean_alpha(
    tables: Mapping[str, Rated],
    *,
    level: Measurement = "interval",
    resampling: Resampling = DEFAULT,
) -> Estimate:
    """Returns the mean of Krippendorff's α over aspects, (1/A) Σ_a α_a, with its interval.

    Ratings on several aspects in one table would agree on which aspect they are of. The interval
    draws clusters once for all aspects, as the aspects of a sample are not independent. An α that
    is undefined is left out of the mean, and the note says so.

    Args:
        tables: aspect -> ratings and clusters, as for `krippendorff_alpha`.
        level, resampling: as there.

    Undefined: α is on every aspect; the reason is that of the first.
    """
    if level not in MEASUREMENTS:
        raise ValueError(f"level: expected one of {', '.join(MEASUREMENTS)}, found {level!r}")
    reasons: dict[str, str] = {}
    pairable: list[Rated] = []
    for aspect, (v, cluster) in tables.items():
        raters = int((~np.isnan(v)).any(axis=0).sum())
        several = (~np.isnan(v)).sum(axis=1) >= 2
        if reason := why_incomparable(v[several], raters):
            reasons[aspect] = reason
        pairable.append((v[several], cluster[several]))
    K, code = coded(np.concatenate([cluster for _, cluster in pairable]))
    codes = np.split(code, np.cumsum([len(v) for v, _ in pairable])[:-1])
    defined = [
        (v, part)
        for aspect, (v, _), part in zip(tables, pairable, codes, strict=True)
        if aspect not in reasons
    ]
    items = sum(len(v) for v, _ in pairable)
    if not defined:
        return undefined(next(iter(reasons.values())), n=items, clusters=K)
    has_labels = [level == "nominal" or _has_two_values(v) for v, _ in defined]
    labels = any(has_labels)
    make = {"nominal": _nominal, "ordinal": _ordinal, "interval": _interval}[level]
    variants = [
        make(*(_with_pseudo_items(v, part, K) if labels else (v, part)), K + 2 * labels)
        for v, part in defined
    ]

    def mean(w: Floats) -> Floats:
        """Of (resamples, K) weights, or (resamples, K + 2 A), two of each aspect after the rest."""
        # an aspect of which a resample has no item has no α there
        with np.errstate(invalid="ignore", divide="ignore"):
            alphas = [
                alpha(np.hstack([w[:, :K], w[:, K + 2 * n : K + 2 * n + 2] * has_labels[n]]))
                if labels
                else alpha(w)
                for n, (alpha, _) in enumerate(variants)
            ]
        average: Floats = np.mean(alphas, axis=0)
        return average

    estimate = resampled(
        mean,
        sum(width for _, width in variants),
        items=items,
        clusters=K,
        resampling=resampling,
        pseudo=2 * len(variants) * labels,
    )
    left_out = "; ".join(f"{aspect} is left out: {reason}" for aspect, reason in reasons.items())
    return replace(estimate, note="; ".join(filter(None, (estimate.note, left_out))))


def _has_two_values(v: Floats) -> bool:
    return bool(np.isin(v[~np.isnan(v)], (np.nanmin(v), np.nanmax(v))).all())


def _with_pseudo_items(v: Floats, code: Codes, K: int) -> tuple[Floats, Codes]:
    """Returns the ratings and two items more, each a cluster: see `krippendorff_alpha`."""
    unique, n = np.unique(v[~np.isnan(v)], return_counts=True)
    rarest, usual = unique[n.argmin()], unique[len(n) - 1 - n[::-1].argmax()]
    more = np.full((2, v.shape[1]), np.nan)
    more[:, :2] = [[rarest, rarest], [rarest, usual]]
    return np.vstack([v, more]), np.append(code, [K, K + 1])


def _interval(v: Floats, code: Codes, K: int) -> tuple[OfDraws, int]:
    x = scaled(v)
    m, SS = _within(x)
    S = cluster_sums(
        np.column_stack([m, np.nansum(x, axis=1), np.nansum(x**2, axis=1), 2 * m * SS / (m - 1)]),
        code,
        K,
    )

    def alpha(w: Floats) -> Floats:
        n, sums, squares, observed = (w @ S).T
        D_e = 2 * (squares - sums**2 / n) / (n - 1)
        return ratio(D_e - observed / n, D_e)

    return alpha, K


def _ordinal(v: Floats, code: Codes, K: int) -> tuple[OfDraws, int]:
    row, column = np.nonzero(~np.isnan(v))  # ratings item by item
    ranks = MidRanks(v[row, column], code[row], K)
    m = np.bincount(row).astype(np.float64)
    first = np.concatenate([[0], np.cumsum(m)[:-1]]).astype(np.intp)

    def alpha(w: Floats) -> Floats:
        R = ranks(w)  # (resamples, ratings), centred
        n = (w[:, code] * m).sum(axis=1)
        R /= n[:, None]
        squares = np.add.reduceat(R * R, first, axis=1)  # (resamples, items)
        SS = squares - np.add.reduceat(R, first, axis=1) ** 2 / m
        observed = (w[:, code] * (2 * m * SS / (m - 1))).sum(axis=1)
        D_e = 2 * (w[:, code] * squares).sum(axis=1) / (n - 1)
        return ratio(D_e - observed / n, D_e)

    return alpha, len(row)


def _nominal(v: Floats, code: Codes, K: int) -> tuple[OfDraws, int]:
    row, column = np.nonzero(~np.isnan(v))
    _, category = np.unique(v[row, column], return_inverse=True)
    V = int(category.max()) + 1
    cell, n_uc = np.unique(row * V + category, return_counts=True)
    m = np.bincount(row).astype(np.float64)
    # pairs of equal ratings of an item, over m_u − 1
    equal = np.bincount(cell // V, weights=n_uc * (n_uc - 1), minlength=len(m)) / (m - 1)
    S = cluster_sums(np.column_stack([m, equal]), code, K)
    by_category = value_counts(category, code[row], V, K)

    def alpha(w: Floats) -> Floats:
        n, pairs = (w @ S).T
        n_c = by_category @ w.T  # (categories, resamples)
        D_o = 1 - pairs / n
        D_e = 1 - (n_c * (n_c - 1)).sum(axis=0) / (n * (n - 1))
        return ratio(D_e - D_o, D_e)

    return alpha, K + V


def _within(v: Floats) -> tuple[Floats, Floats]:
    """Returns (items,) number of ratings and their sum of squares around their mean."""
    m = (~np.isnan(v)).sum(axis=1).astype(np.float64)
    means = np.nansum(v, axis=1) / m
    return m, np.nansum((v - means[:, None]) ** 2, axis=1)
