"""What the measures of raters' agreement share: ratings as a matrix, and their resampling.

Ratings are (items, raters) with NaN where there is none. Every statistic but the intraclass
correlations has an expanded percentile bootstrap interval. It draws whole clusters of items, so
each of them is written as a function of w, how often a resample drew each cluster: sums over items
become sums weighted by w, and the value itself is the statistic at w = 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import scipy

from levelfield.core.arrays import Codes, Floats
from levelfield.stats.clusters import bayesian_draws, cluster_draws
from levelfield.stats.estimate import Estimate, estimate_from_draws
from levelfield.stats.resampling import Resampling

OfDraws = Callable[[Floats], Floats]
"""(resamples, clusters) counts of how often each cluster was drawn -> (resamples,) values."""

TINY = 1e-12
"""Sums of squares below this, of numbers at most 1 in size, are 0 up to rounding."""


def resampled(
    statistic: OfDraws,
    width: int,
    *,
    items: int,
    clusters: int,
    resampling: Resampling,
    pseudo: int = 0,
) -> Estimate:
    """Returns the statistic at w = 1 and over the resamples.

    Args:
        width: of the widest array that the statistic makes.
        pseudo: how many items after the clusters carry the prior of a Bayesian bootstrap, see
            `bayesian_draws`; 0 for the pairs cluster bootstrap. Their weight in the value is 0.
    """
    value = float(statistic(np.append(np.ones(clusters), np.zeros(pseudo))[None])[0])
    R, seed = resampling.resamples, resampling.seed
    draws = (
        bayesian_draws(clusters, R, seed, width=width, pseudo=pseudo)
        if pseudo
        else cluster_draws(clusters, R, seed, width=width)
    )
    drawn = np.concatenate([statistic(w) for w in draws]) if clusters > 1 else None
    estimate = estimate_from_draws(
        value,
        drawn,
        n=items,
        clusters=clusters,
        reason="hardly any variance" if math.isnan(value) else "",
        level=resampling.level,
    )
    if pseudo:
        low, high = min(estimate.low, value), max(estimate.high, value)
        if not math.isnan(estimate.low):
            estimate = replace(estimate, low=low, high=high)
    return replace(estimate, note="two items only") if items == 2 else estimate


def checked_ratings(
    values: npt.ArrayLike, clusters: npt.ArrayLike | None
) -> tuple[Floats, npt.NDArray[np.generic]]:
    v = np.asarray(values, dtype=np.float64)
    if v.ndim != 2 or np.isinf(v).any():
        raise ValueError("expected ratings of shape (items, raters), finite or NaN")
    cluster = np.arange(len(v)) if clusters is None else np.asarray(clusters)
    if cluster.shape != (len(v),):
        raise ValueError(f"expected one cluster per item, got {cluster.shape} for {v.shape}")
    return v, cluster


def why_incomparable(pairable: Floats, raters: int) -> str:
    """Returns why raters can't be compared over these items with two ratings or more."""
    if raters < 2:
        return "one rater only" if raters else "no ratings"
    if not len(pairable):
        return "no item was rated by two raters"
    if len(pairable) == 1:
        return "only one item was rated by two raters"
    if np.nanmin(pairable) == np.nanmax(pairable):
        return f"all ratings are {np.nanmin(pairable):g}"
    return ""


def scaled(v: Floats) -> Floats:
    """Values around 0 and at most 1 in size, so that sums of their squares are exact enough.

    Agreement on intervals does not depend on where 0 is or on the unit.
    """
    if not v.size:
        return v
    centred = v - (np.nanmin(v) + np.nanmax(v)) / 2
    largest = float(np.nanmax(np.abs(centred)))
    return centred / largest if largest else centred


def ratio(top: Floats, bottom: Floats) -> Floats:
    """Returns top / bottom; NaN where bottom is 0 up to rounding."""
    quotient: Floats = np.full(bottom.shape, np.nan)
    return np.divide(top, bottom, out=quotient, where=bottom > TINY)


def value_counts(category: Codes, code: Codes, V: int, K: int) -> scipy.sparse.csr_array:
    """Returns how often each of V values occurs in each cluster, (V, K); most values occur in
    few."""
    return scipy.sparse.csr_array((np.ones(len(category)), (category, code)), shape=(V, K))


class MidRanks:
    """Centred mid-ranks of (n,) values in a resample: (resamples, n) from its counts."""

    def __init__(self, values: Floats, code: Codes, K: int) -> None:
        unique, self._value = np.unique(values, return_inverse=True)
        self._by_value = value_counts(self._value, code, len(unique), K)

    def __call__(self, w: Floats, *, out: Floats | None = None) -> Floats:
        n_g = (self._by_value @ w.T).T  # (resamples, different values)
        total = n_g.sum(axis=1, keepdims=True)
        ranks: Floats = np.cumsum(n_g, axis=1) - n_g / 2 - total / 2
        return np.take(ranks, self._value, axis=1, out=out, mode="clip")  # to write into `out`
