"""Means of values in clusters, with Student's interval; of shares, with Wilson's."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import scipy

from levelfield.core.arrays import Floats
from levelfield.stats.clusters import (
    cluster_errors,
    cluster_sizes,
    cluster_sums,
    coded,
    defined_rows,
)
from levelfield.stats.estimate import FEWEST_CLUSTERS, Estimate, estimate_of_mean
from levelfield.stats.shares import share_ends

Range = tuple[float, float]
"""The least and the greatest value that is possible."""

UNBOUNDED: Range = (-math.inf, math.inf)

_RANGES: tuple[Range, ...] = (
    (0.0, 1.0), (-1.0, 1.0), (0.0, 100.0), (0.0, math.inf), (-math.inf, 0.0),
)  # fmt: skip

_BEYOND = 1e-5
"""A value may be so far outside a range by rounding, in float32 of numbers up to 100."""

_ROUNDING = 1e-12
"""A standard error below this share of the mean absolute value is rounding."""


def natural_range(values: Floats) -> Range:
    """Returns the first of [0, 1], [−1, 1], [0, 100], [0, ∞) and (−∞, 0] that holds all defined
    values.

    A value outside it by rounding extends it.

    >>> natural_range(np.array([0.2, 3.0, np.nan])), natural_range(np.array([-2.0, 3.0]))
    ((0.0, 100.0), (-inf, inf))
    """
    defined = values[~np.isnan(values)]
    if not defined.size:
        return UNBOUNDED
    least, most = float(defined.min()), float(defined.max())
    held = (r for r in _RANGES if r[0] - _BEYOND <= least and most <= r[1] + _BEYOND)
    low, high = next(held, UNBOUNDED)
    return min(low, least), max(high, most)


def within(ends: Range, limits: Range) -> Range:
    """Returns the part of an interval that lies within limits."""
    return max(ends[0], limits[0]), min(ends[1], limits[1])


def cluster_mean(
    values: npt.ArrayLike,
    clusters: npt.ArrayLike,
    *,
    weights: Floats | None = None,
    votes: int = 0,
    limits: Range = UNBOUNDED,
    level: float = 0.95,
) -> Estimate:
    """Returns the mean with Student's interval from sums over clusters; of shares, with Wilson's.

    With S_k and n_k the sum and the number of values in cluster k of K, the mean is
    `m = Σ S_k / Σ n_k`, its variance `K / (K − 1) Σ_k (S_k − n_k m)² / (Σ n_k)²` (a ratio of means;
    Cochran 1977, section 6.4), and the ends are `m ± t SE`, t with K − 1 degrees of freedom. They
    cover as often as a bootstrap that draws clusters, and more often with five clusters. Shares
    have the interval of `share_ends` with the same variance.

    With weights, S_k and n_k are the sums of `w v` and of w.

    Args:
        values: (n,); NaN is left out.
        clusters: (n,) anything that sorts; equal entries are one cluster.
        weights: (n,) above 0; all 1 by default.
        votes: number of votes that the values are shares of, from `votes_of`; 0 if they are not.
        limits: of the values; the interval stays within them.
        level: of the interval.

    Undefined: the ends with fewer than `FEWEST_CLUSTERS`, or where all clusters have one mean and
    values are not shares, since nothing then shows how clusters differ; the mean without values.
    `Estimate.why_no_interval` gives the reason.
    """
    defined = ~np.isnan(np.asarray(values, dtype=np.float64))
    values, clusters = defined_rows(values, clusters)
    K, code = coded(clusters)
    n = values.size
    if weights is None:
        S, W, total = cluster_sums(values, code, K), cluster_sizes(code, K), float(n)
    else:
        w = weights[defined]
        S, W, total = cluster_sums(w * values, code, K), cluster_sums(w, code, K), float(w.sum())
    mean = float(S.sum() / total) if n else math.nan
    if K < FEWEST_CLUSTERS:
        return estimate_of_mean(mean, math.nan, math.nan, n=n, clusters=K)
    se = float(cluster_errors(S[:, None], W[:, None])[0][0])
    if votes:
        low, high = share_ends(mean, se**2, n=n, clusters=K, level=level, votes=votes)
    else:
        se = se if se > _ROUNDING * float(np.abs(values).mean()) else 0.0
        half = float(scipy.special.stdtrit(K - 1, (1 + level) / 2)) * se
        low, high = within((mean - half, mean + half), limits)
    return estimate_of_mean(mean, low, high, n=n, clusters=K)
