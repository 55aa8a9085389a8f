"""Intraclass correlations."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import scipy

from levelfield.core.arrays import Floats
from levelfield.stats.estimate import Estimate, too_few_clusters, undefined
from levelfield.stats.reliability import TINY, checked_ratings, scaled, why_incomparable


def intraclass(
    values: npt.ArrayLike, *, clusters: npt.ArrayLike | None = None, level: float = 0.95
) -> dict[str, Estimate]:
    """Returns the six intraclass correlations of Shrout and Fleiss (1979), with their F intervals.

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
    v, cluster = checked_ratings(values, clusters)
    v = v[:, (~np.isnan(v)).any(axis=0)]
    m = (~np.isnan(v)).sum(axis=1)
    raters = v.shape[1]
    complete = (m == raters) & (raters > 1)
    frequency = np.bincount(m[m >= 2], minlength=3)
    k = len(frequency) - 1 - int(np.argmax(frequency[::-1]))
    has_k_ratings = m == k
    alike = v[has_k_ratings]
    one_way = _OneWay(alike[~np.isnan(alike)].reshape(-1, k), level)
    two_way = _TwoWay(v[complete], level)
    why_one = why_incomparable(v[m >= 2], raters) or one_way.why_undefined
    why_two = why_incomparable(v[m >= 2], raters) or two_way.why_undefined
    by_name = {}
    for several in (False, True):
        for form in (1, 2, 3):
            rows, reason = (has_k_ratings, why_one) if form == 1 else (complete, why_two)
            items, K = int(rows.sum()), len(np.unique(cluster[rows]))
            estimate = undefined(reason, n=items, clusters=K)
            if not reason:
                anova = one_way if form == 1 else two_way
                value, low, high, reason, why_no_interval = anova.icc(form, several=several)
                why_no_interval = why_no_interval or too_few_clusters(K)
                if why_no_interval:
                    low = high = math.nan
                note = f"k = {k} ratings an item" if form == 1 and k != raters else ""
                estimate = Estimate(
                    value, low, high, items, K, reason, why_no_interval, "" if reason else note
                )
            by_name[f"ICC({form},{'k' if several else 1})"] = estimate
    return by_name


_ValueAndEnds = tuple[float, float, float, str, str]
"""Value, low, high, reason for a missing value, reason for a missing interval."""

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
        v = scaled(v)
        means = v.mean(axis=1)
        self.BMS = self.k * float(((means - v.mean()) ** 2).sum()) / (self.n - 1)
        self.WMS = float(((v - means[:, None]) ** 2).sum()) / (self.n * (self.k - 1))
        if self.BMS + self.WMS <= TINY:
            self.why_undefined = "all ratings are equal"

    def icc(self, form: int, *, several: bool) -> _ValueAndEnds:  # noqa: ARG002
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
        v = scaled(v)
        n, k, mean = self.n, self.k, v.mean()
        item_effects, rater_effects = v.mean(axis=1) - mean, v.mean(axis=0) - mean
        residual = v - mean - item_effects[:, None] - rater_effects
        self.BMS = k * float((item_effects**2).sum()) / (n - 1)
        self.JMS = n * float((rater_effects**2).sum()) / (k - 1)
        self.EMS = float((residual**2).sum()) / ((n - 1) * (k - 1))
        if self.BMS + self.JMS + self.EMS <= TINY:
            self.why_undefined = "all ratings are equal"

    def icc(self, form: int, *, several: bool) -> _ValueAndEnds:
        n, k, BMS, JMS, EMS, p = self.n, self.k, self.BMS, self.JMS, self.EMS, self.p
        df = (n - 1) * (k - 1)
        if form == 3:
            return _consistency(BMS, EMS, n - 1, df, k, p, several=several)
        if several:
            top, bottom = BMS - EMS, BMS + (JMS - EMS) / n
        else:
            top, bottom = BMS - EMS, BMS + (k - 1) * EMS + k * (JMS - EMS) / n
        if bottom <= TINY:
            return *_NOTHING, _NO_VARIANCE, _NO_VARIANCE
        value = top / bottom
        if EMS <= TINY:
            return value, math.nan, math.nan, "", "raters differ by a constant only"
        # Satterthwaite's degrees of freedom, at the value for a single rating (Shrout and Fleiss,
        # p. 424; Fleiss and Shrout 1978)
        rho = (BMS - EMS) / (BMS + (k - 1) * EMS + k * (JMS - EMS) / n)
        a = k * rho * JMS / EMS
        b = n * (1 + (k - 1) * rho) - k * rho
        squares = (n - 1) * a**2 + b**2
        if squares <= TINY:  # items have one mean, and raters too: all variance is residual
            return value, math.nan, math.nan, "", "no variance between items or raters"
        df = (k - 1) * (n - 1) * (a + b) ** 2 / squares
        F_low, F_high = (
            float(scipy.special.fdtri(n - 1, df, p)),
            float(scipy.special.fdtri(df, n - 1, p)),
        )
        rest = k * JMS + (k * n - k - n) * EMS
        low = n * (BMS - F_low * EMS) / (F_low * rest + n * BMS)
        high = n * (F_high * BMS - EMS) / (rest + n * F_high * BMS)
        if math.isnan(low) or math.isnan(high):
            return value, math.nan, math.nan, "", "too few degrees of freedom"
        if several:
            low, high = (_mean_reliability(end, k) for end in (low, high))
        return value, low, high, "", ""


def _mean_reliability(single: float, k: int) -> float:
    """Returns the reliability of the mean of k ratings from that of one (Spearman and Brown)."""
    share = 1 + (k - 1) * single
    return k * single / share if share > TINY else -math.inf


def _consistency(
    BMS: float, EMS: float, df_b: int, df_e: int, k: int, p: float, *, several: bool
) -> _ValueAndEnds:
    """(BMS − EMS) / BMS, or its form for single ratings, from F = BMS / EMS and its quantiles."""
    bottom = BMS if several else BMS + (k - 1) * EMS
    if bottom <= TINY:
        return *_NOTHING, _NO_VARIANCE, _NO_VARIANCE
    value = (BMS - EMS) / bottom
    if EMS <= TINY:
        return value, math.nan, math.nan, "", "no residual variance"
    F = BMS / EMS
    F_low, F_high = (
        F / float(scipy.special.fdtri(df_b, df_e, p)),
        F * float(scipy.special.fdtri(df_e, df_b, p)),
    )
    if several:
        low, high = (1 - 1 / end if end else -math.inf for end in (F_low, F_high))
    else:
        low, high = ((end - 1) / (end + k - 1) for end in (F_low, F_high))
    return value, low, high, "", ""
