"""Krippendorff's α."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Codes, Floats
from levelfield.stats.clusters import cluster_sums, coded
from levelfield.stats.estimands import MEASUREMENTS, Measurement
from levelfield.stats.estimate import Estimate, undefined
from levelfield.stats.reliability import (
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

    No pairs need be visited: where δ is a difference, Σ_{i≠j} δ² = 2 m SS, SS the sum of squares
    around the mean, so D_o = (1/n) Σ_u 2 m_u SS_u / (m_u − 1) and D_e = 2 SS / (n − 1). That is
    the interval level. At the ordinal level, δ(c, k) = Σ_{g=c..k} n_g − (n_c + n_k) / 2, n_g the
    frequency of the value g, is the difference of mid-ranks, so the same formula holds for ranks.
    At the nominal level δ is whether two ratings differ, and pairs of equal ones are counted.

    The interval draws clusters of items and takes frequencies and ranks anew in each resample.

    Args:
        values: (items, raters); NaN is missing.
        level: of measurement: names, ranks, or numbers whose differences mean something.
        clusters: (items,) anything that sorts; equal entries are drawn together. By default each
            item is a cluster.

    Undefined: one rater, no item with two ratings, one item only, all pairable ratings equal.
    """
    if level not in MEASUREMENTS:
        raise ValueError(f"level: expected one of {', '.join(MEASUREMENTS)}, found {level!r}")
    v, cluster = checked_ratings(values, clusters)
    raters = int((~np.isnan(v)).any(axis=0).sum())
    pairable = (~np.isnan(v)).sum(axis=1) >= 2
    v, cluster = v[pairable], cluster[pairable]
    reason = why_incomparable(v, raters)
    K, code = coded(cluster)
    if reason:
        return undefined(reason, n=len(v), clusters=K)
    make = {"nominal": _nominal, "ordinal": _ordinal, "interval": _interval}[level]
    return resampled(*make(v, code, K), items=len(v), clusters=K, resampling=resampling)


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
    ranks = _Ranks(v[row, column], code[row], K)
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


class _Ranks:
    """Centred mid-ranks of (n,) values in a resample: (resamples, n) from its counts."""

    def __init__(self, values: Floats, code: Codes, K: int) -> None:
        unique, self._value = np.unique(values, return_inverse=True)
        self._by_value = value_counts(self._value, code, len(unique), K)

    def __call__(self, w: Floats) -> Floats:
        n_g = (self._by_value @ w.T).T  # (resamples, different values)
        total = n_g.sum(axis=1, keepdims=True)
        ranks: Floats = np.cumsum(n_g, axis=1) - n_g / 2 - total / 2
        return ranks[:, self._value]


def _within(v: Floats) -> tuple[Floats, Floats]:
    """(items,) number of ratings and their sum of squares around their mean."""
    m = (~np.isnan(v)).sum(axis=1).astype(np.float64)
    means = np.nansum(v, axis=1) / m
    return m, np.nansum((v - means[:, None]) ** 2, axis=1)
