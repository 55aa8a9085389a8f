"""How far raters agree: Krippendorff's α, intraclass correlations, Cohen's κ.

Ratings are (items, raters) with NaN where there is none. Every statistic but the intraclass
correlations has a percentile bootstrap interval. It draws whole clusters of items, so each of them
is written as a function of w, how often a resample drew each cluster: sums over items become sums
weighted by w, and the value itself is the statistic at w = 1. Correlations of two raters are those
of `correlation`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.special import fdtri

from levelfield.core.arrays import Codes, Floats
from levelfield.stats.correlation import Estimate, cluster_draws, interval_of
from levelfield.stats.resampling import DEFAULT, Resampling

Level = Literal["nominal", "ordinal", "interval"]
Statistic = Callable[[Floats], Floats]
"""(resamples, clusters) counts of how often each cluster was drawn -> (resamples,) values."""

LEVELS: tuple[Level, ...] = get_args(Level)

_TINY = 1e-12
"""Sums of squares below this, of numbers at most 1 in size, are 0 up to rounding."""


def krippendorff_alpha(
    values: npt.ArrayLike,
    *,
    level: Level = "interval",
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
    if level not in LEVELS:
        raise ValueError(f"level: expected one of {', '.join(LEVELS)}, found {level!r}")
    v, of = _checked(values, clusters)
    raters = int((~np.isnan(v)).any(axis=0).sum())
    pairable = (~np.isnan(v)).sum(axis=1) >= 2
    v, of = v[pairable], of[pairable]
    why = _why_not(v, raters)
    K, code = _coded(of)
    if why:
        return _undefined(why, len(v), K)
    make = {"nominal": _nominal, "ordinal": _ordinal, "interval": _interval}[level]
    return _estimate(*make(v, code, K), items=len(v), clusters=K, resampling=resampling)


def cohen_kappa(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    weights: Literal["none", "quadratic"] = "none",
    clusters: npt.ArrayLike | None = None,
    resampling: Resampling = DEFAULT,
) -> Estimate:
    """Cohen's κ of two raters (Cohen 1960, 1968): agreement beyond what their own habits give.

    Without weights, `κ = (p_o − p_e) / (1 − p_e)`, p_o the share of equal ratings and p_e what
    two raters with these frequencies would have by chance. With quadratic weights,
    `κ = 1 − mean((x − y)²) / (var(x) + var(y) + (mean(x) − mean(y))²)`, variances with n: no
    categories are needed, and on continuous ratings it is Lin's (1989) concordance correlation.

    Undefined: fewer than three items that both rated, or both gave all of them one same rating.
    """

    def unweighted(x: Floats, y: Floats, code: Codes, K: int) -> tuple[Statistic, int]:
        both = np.concatenate([x, y])
        _, category = np.unique(both, return_inverse=True)
        V = int(category.max()) + 1
        by_x = _counts(category[: len(x)], code, V, K)
        by_y = _counts(category[len(x) :], code, V, K)
        S = _cluster_sums(np.column_stack([np.ones(len(x)), x == y]), code, K)

        def kappa(w: Floats) -> Floats:
            n, equal = (w @ S).T
            by_chance = ((by_x @ w.T) * (by_y @ w.T)).sum(axis=0) / n**2
            return _ratio(equal / n - by_chance, 1 - by_chance)

        return kappa, K + 2 * V

    def quadratic(x: Floats, y: Floats, code: Codes, K: int) -> tuple[Statistic, int]:
        S = _cluster_sums(_moments(x, y), code, K)

        def kappa(w: Floats) -> Floats:
            n, sx, sy, sxx, syy, sxy = (w @ S).T
            spread = sxx + syy - 2 * sx * sy / n
            return _ratio(2 * (sxy - sx * sy / n), spread)

        return kappa, K

    v, of = _checked(np.column_stack([np.asarray(x, float), np.asarray(y, float)]), clusters)
    both = ~np.isnan(v).any(axis=1)
    v = v[both]
    K, code = _coded(of[both])
    if len(v) < 3:
        few = ("no item", "one item", "two items")[len(v)]
        return _undefined(f"{few} in common", len(v), K)
    if np.all(v == v[0, 0]):
        return _undefined(f"all ratings are {v[0, 0]:g}", len(v), K)
    make = unweighted if weights == "none" else quadratic
    statistic, width = make(v[:, 0], v[:, 1], code, K)
    return _estimate(statistic, width, items=len(v), clusters=K, resampling=resampling)


def intraclass(
    values: npt.ArrayLike, *, clusters: npt.ArrayLike | None = None, level: float = 0.95
) -> dict[str, Estimate]:
    """The six intraclass correlations of Shrout and Fleiss (1979), with their F intervals.

    `ICC(1,·)`: each item has raters of its own; `ICC(2,·)`: the same raters, a sample of many,
    absolute agreement; `ICC(3,·)`: these raters and no others, consistency. `·` is 1 for the
    reliability of a single rating and k for that of the mean of k raters. With BMS, WMS, JMS and
    EMS the mean squares between items, within items, between raters (judges) and residual:

        ICC(1,1) = (BMS − WMS) / (BMS + (k − 1) WMS)
        ICC(1,k) = (BMS − WMS) / BMS
        ICC(2,1) = (BMS − EMS) / (BMS + (k − 1) EMS + k (JMS − EMS) / n)
        ICC(2,k) = (BMS − EMS) / (BMS + (JMS − EMS) / n)
        ICC(3,1) = (BMS − EMS) / (BMS + (k − 1) EMS)
        ICC(3,k) = (BMS − EMS) / BMS

    An analysis of variance wants complete items: ICC(2) and ICC(3) rest on those that all raters
    rated, ICC(1), for which it does not matter who rated, on those with the most frequent number
    of ratings (of two equally frequent numbers the larger), at least two. The intervals suppose
    normal and independent items; they know nothing of clusters, which are only counted. The note
    of ICC(1) says k if it is not the number of raters.

    Args:
        values: (items, raters); NaN is missing.
        level: of the intervals.

    Undefined: one rater, fewer than two complete items, all ratings equal; ICC(·,k) also if all
    items have the same mean.

    Returns:
        By name: ICC(1,1), ICC(2,1), ICC(3,1), ICC(1,k), ICC(2,k), ICC(3,k).
    """
    v, of = _checked(values, clusters)
    v = v[:, (~np.isnan(v)).any(axis=0)]
    m = (~np.isnan(v)).sum(axis=1)
    raters = v.shape[1]
    complete = (m == raters) & (raters > 1)
    frequency = np.bincount(m[m >= 2], minlength=3)
    k = len(frequency) - 1 - int(np.argmax(frequency[::-1]))
    of_k = m == k
    alike = v[of_k]
    one_way = _OneWay(alike[~np.isnan(alike)].reshape(-1, k), level)
    two_way = _TwoWay(v[complete], level)
    why_one = _why_not(v[m >= 2], raters) or one_way.why_undefined
    why_two = _why_not(v[m >= 2], raters) or two_way.why_undefined
    made = {}
    for several in (False, True):
        for form in (1, 2, 3):
            rows, why = (of_k, why_one) if form == 1 else (complete, why_two)
            items, K = int(rows.sum()), len(np.unique(of[rows]))
            estimate = _undefined(why, items, K)
            if not why:
                anova = one_way if form == 1 else two_way
                value, low, high, why, why_no_interval = anova.icc(form, several=several)
                note = f"k = {k} ratings an item" if form == 1 and k != raters else ""
                estimate = Estimate(
                    value, low, high, items, K, why, why_no_interval, "" if why else note
                )
            made[f"ICC({form},{'k' if several else 1})"] = estimate
    return made


_Found = tuple[float, float, float, str, str]
"""Value, low, high, why there is no value, why there is no interval."""

_NO_VARIANCE = "no variance between items"
_NOTHING = (math.nan, math.nan, math.nan)


class _OneWay:
    """Analysis of variance of (n, k) ratings, an item a row, whoever gave them."""

    def __init__(self, v: Floats, level: float) -> None:
        self.n, self.k = v.shape
        self.p = (1 + level) / 2
        self.why_undefined = "" if self.n > 1 else "fewer than two items with equally many ratings"
        if self.why_undefined:
            return
        v = _scaled(v)
        means = v.mean(axis=1)
        self.BMS = self.k * float(((means - v.mean()) ** 2).sum()) / (self.n - 1)
        self.WMS = float(((v - means[:, None]) ** 2).sum()) / (self.n * (self.k - 1))
        if self.BMS + self.WMS <= _TINY:
            self.why_undefined = "all ratings are equal"

    def icc(self, form: int, *, several: bool) -> _Found:  # noqa: ARG002
        df = self.n * (self.k - 1)
        return _consistency(self.BMS, self.WMS, self.n - 1, df, self.k, self.p, several=several)


class _TwoWay:
    """Analysis of variance of (n, k) ratings, an item a row and a rater a column."""

    def __init__(self, v: Floats, level: float) -> None:
        self.n, self.k = v.shape
        self.p = (1 + level) / 2
        self.why_undefined = ""
        if self.n < 2:
            few = "no item was" if self.n == 0 else "only one item was"
            self.why_undefined = f"{few} rated by all {self.k} raters"
            return
        v = _scaled(v)
        n, k, mean = self.n, self.k, v.mean()
        of_items, of_raters = v.mean(axis=1) - mean, v.mean(axis=0) - mean
        residual = v - mean - of_items[:, None] - of_raters
        self.BMS = k * float((of_items**2).sum()) / (n - 1)
        self.JMS = n * float((of_raters**2).sum()) / (k - 1)
        self.EMS = float((residual**2).sum()) / ((n - 1) * (k - 1))
        if self.BMS + self.JMS + self.EMS <= _TINY:
            self.why_undefined = "all ratings are equal"

    def icc(self, form: int, *, several: bool) -> _Found:
        n, k, BMS, JMS, EMS, p = self.n, self.k, self.BMS, self.JMS, self.EMS, self.p
        df = (n - 1) * (k - 1)
        if form == 3:
            return _consistency(BMS, EMS, n - 1, df, k, p, several=several)
        if several:
            top, bottom = BMS - EMS, BMS + (JMS - EMS) / n
        else:
            top, bottom = BMS - EMS, BMS + (k - 1) * EMS + k * (JMS - EMS) / n
        if bottom <= _TINY:
            return *_NOTHING, _NO_VARIANCE, _NO_VARIANCE
        value = top / bottom
        if EMS <= _TINY:
            return value, math.nan, math.nan, "", "raters differ by a constant only"
        # Satterthwaite's degrees of freedom, at the value for a single rating (Shrout and Fleiss,
        # p. 424; Fleiss and Shrout 1978)
        rho = (BMS - EMS) / (BMS + (k - 1) * EMS + k * (JMS - EMS) / n)
        a = k * rho * JMS / EMS
        b = n * (1 + (k - 1) * rho) - k * rho
        squares = (n - 1) * a**2 + b**2
        if squares <= _TINY:  # items have one mean, and raters too: all variance is residual
            return value, math.nan, math.nan, "", "no variance between items or raters"
        df = (k - 1) * (n - 1) * (a + b) ** 2 / squares
        F_low, F_high = float(fdtri(n - 1, df, p)), float(fdtri(df, n - 1, p))
        rest = k * JMS + (k * n - k - n) * EMS
        low = n * (BMS - F_low * EMS) / (F_low * rest + n * BMS)
        high = n * (F_high * BMS - EMS) / (rest + n * F_high * BMS)
        if math.isnan(low) or math.isnan(high):
            return value, math.nan, math.nan, "", "too few degrees of freedom"
        if several:
            low, high = (_of_mean(end, k) for end in (low, high))
        return value, low, high, "", ""


def _of_mean(single: float, k: int) -> float:
    """Reliability of the mean of k ratings from that of one (Spearman and Brown)."""
    share = 1 + (k - 1) * single
    return k * single / share if share > _TINY else -math.inf


def _consistency(
    BMS: float, EMS: float, df_b: int, df_e: int, k: int, p: float, *, several: bool
) -> _Found:
    """(BMS − EMS) / BMS, or its form for single ratings, from F = BMS / EMS and its quantiles."""
    bottom = BMS if several else BMS + (k - 1) * EMS
    if bottom <= _TINY:
        return *_NOTHING, _NO_VARIANCE, _NO_VARIANCE
    value = (BMS - EMS) / bottom
    if EMS <= _TINY:
        return value, math.nan, math.nan, "", "no residual variance"
    F = BMS / EMS
    F_low, F_high = F / float(fdtri(df_b, df_e, p)), F * float(fdtri(df_e, df_b, p))
    if several:
        low, high = (1 - 1 / end if end else -math.inf for end in (F_low, F_high))
    else:
        low, high = ((end - 1) / (end + k - 1) for end in (F_low, F_high))
    return value, low, high, "", ""


def _interval(v: Floats, code: Codes, K: int) -> tuple[Statistic, int]:
    x = _scaled(v)
    m, SS = _within(x)
    S = _cluster_sums(
        np.column_stack([m, np.nansum(x, axis=1), np.nansum(x**2, axis=1), 2 * m * SS / (m - 1)]),
        code,
        K,
    )

    def alpha(w: Floats) -> Floats:
        n, sums, squares, observed = (w @ S).T
        D_e = 2 * (squares - sums**2 / n) / (n - 1)
        return _ratio(D_e - observed / n, D_e)

    return alpha, K


def _ordinal(v: Floats, code: Codes, K: int) -> tuple[Statistic, int]:
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
        return _ratio(D_e - observed / n, D_e)

    return alpha, len(row)


def _nominal(v: Floats, code: Codes, K: int) -> tuple[Statistic, int]:
    row, column = np.nonzero(~np.isnan(v))
    _, category = np.unique(v[row, column], return_inverse=True)
    V = int(category.max()) + 1
    cell, n_uc = np.unique(row * V + category, return_counts=True)
    m = np.bincount(row).astype(np.float64)
    # pairs of equal ratings of an item, over m_u − 1
    equal = np.bincount(cell // V, weights=n_uc * (n_uc - 1), minlength=len(m)) / (m - 1)
    S = _cluster_sums(np.column_stack([m, equal]), code, K)
    by_category = _counts(category, code[row], V, K)

    def alpha(w: Floats) -> Floats:
        n, pairs = (w @ S).T
        n_c = by_category @ w.T  # (categories, resamples)
        D_o = 1 - pairs / n
        D_e = 1 - (n_c * (n_c - 1)).sum(axis=0) / (n * (n - 1))
        return _ratio(D_e - D_o, D_e)

    return alpha, K + V


class _Ranks:
    """Centred mid-ranks of (n,) values in a resample: (resamples, n) from its counts."""

    def __init__(self, values: Floats, code: Codes, K: int) -> None:
        unique, self._value = np.unique(values, return_inverse=True)
        self._by_value = _counts(self._value, code, len(unique), K)

    def __call__(self, w: Floats) -> Floats:
        n_g = (self._by_value @ w.T).T  # (resamples, different values)
        total = n_g.sum(axis=1, keepdims=True)
        ranks: Floats = np.cumsum(n_g, axis=1) - n_g / 2 - total / 2
        return ranks[:, self._value]


def _estimate(
    statistic: Statistic, width: int, *, items: int, clusters: int, resampling: Resampling
) -> Estimate:
    """The statistic at w = 1 and over the resamples; width: of the widest array it makes."""
    value = float(statistic(np.ones((1, clusters)))[0])
    draws = cluster_draws(clusters, resampling.resamples, resampling.seed, width=width)
    drawn = np.concatenate([statistic(w) for w in draws]) if clusters > 1 else None
    made = interval_of(
        value,
        drawn,
        n=items,
        clusters=clusters,
        why="hardly any variance" if math.isnan(value) else "",
        level=resampling.level,
    )
    return replace(made, note="two items only") if items == 2 else made


def _undefined(why: str, items: int, clusters: int) -> Estimate:
    return Estimate(math.nan, math.nan, math.nan, items, clusters, why, why)


def _checked(
    values: npt.ArrayLike, clusters: npt.ArrayLike | None
) -> tuple[Floats, npt.NDArray[np.generic]]:
    v = np.asarray(values, dtype=np.float64)
    if v.ndim != 2 or np.isinf(v).any():
        raise ValueError("expected ratings of shape (items, raters), finite or NaN")
    of = np.arange(len(v)) if clusters is None else np.asarray(clusters)
    if of.shape != (len(v),):
        raise ValueError(f"expected one cluster an item, got {of.shape} for {v.shape}")
    return v, of


def _why_not(pairable: Floats, raters: int) -> str:
    """Why raters can't be compared over these items with two ratings or more."""
    if raters < 2:
        return "one rater only" if raters else "no ratings"
    if not len(pairable):
        return "no item was rated by two raters"
    if len(pairable) == 1:
        return "only one item was rated by two raters"
    if np.nanmin(pairable) == np.nanmax(pairable):
        return f"all ratings are {np.nanmin(pairable):g}"
    return ""


def _coded(clusters: npt.NDArray[np.generic]) -> tuple[int, Codes]:
    """How many clusters there are, and of each item the position of its own."""
    different, code = np.unique(clusters, return_inverse=True)
    return len(different), code.astype(np.intp)


def _scaled(v: Floats) -> Floats:
    """Values around 0 and at most 1 in size, so that sums of their squares are exact enough.

    Agreement on intervals does not depend on where 0 is or on the unit.
    """
    if not v.size:
        return v
    centred = v - (np.nanmin(v) + np.nanmax(v)) / 2
    largest = float(np.nanmax(np.abs(centred)))
    return centred / largest if largest else centred


def _within(v: Floats) -> tuple[Floats, Floats]:
    """(items,) number of ratings and their sum of squares around their mean."""
    m = (~np.isnan(v)).sum(axis=1).astype(np.float64)
    means = np.nansum(v, axis=1) / m
    return m, np.nansum((v - means[:, None]) ** 2, axis=1)


def _moments(x: Floats, y: Floats) -> Floats:
    """(n, 6): 1, x, y, x², y², xy, scaled as one so that the raters' difference stays."""
    x, y = _scaled(np.stack([x, y]))
    return np.column_stack([np.ones(len(x)), x, y, x * x, y * y, x * y])


def _ratio(top: Floats, bottom: Floats) -> Floats:
    """top / bottom; NaN where bottom is 0 up to rounding."""
    made: Floats = np.full(bottom.shape, np.nan)
    return np.divide(top, bottom, out=made, where=bottom > _TINY)


def _cluster_sums(rows: Floats, code: Codes, K: int) -> Floats:
    """(K, p) sums over the items of each cluster, from (items, p)."""
    return np.column_stack([np.bincount(code, weights=c, minlength=K) for c in rows.T])


def _counts(of: Codes, code: Codes, V: int, K: int) -> csr_array:
    """(V, K): how often each of V values occurs in each cluster; most values occur in few."""
    return csr_array((np.ones(len(of)), (of, code)), shape=(V, K))
