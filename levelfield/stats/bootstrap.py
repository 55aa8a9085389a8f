"""Means, and statistics of means, with intervals that resample whole clusters.

Values that are NaN (undefined) are left out; whoever compares systems leaves them out for all
systems beforehand (listwise) and says how many.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Floats
from levelfield.stats.clusters import chunks, cluster_sizes, cluster_sums, coded, defined_rows
from levelfield.stats.estimate import Estimate, estimate_of_mean, percentile_ends
from levelfield.stats.resampling import DEFAULT, Resampling
from levelfield.stats.shares import share_ends

OfMeans = Callable[[Floats], Floats]
"""A statistic of several means: (resamples, columns) -> (resamples,)."""


def cluster_bootstrap_mean(
    values: npt.ArrayLike,
    clusters: npt.ArrayLike,
    *,
    votes: int = 0,
    resampling: Resampling = DEFAULT,
) -> Estimate:
    """Mean with an interval from the pairs cluster bootstrap; of shares, with Wilson's interval.

    K clusters are drawn from the K clusters with replacement, each with all its values, and the
    mean of the pooled values is taken: `sum_k S_k / sum_k n_k` over the drawn clusters, where
    S_k and n_k are the sum and the number of values in cluster k. (Efron 1979; Field and Welsh
    2007; Cameron, Gelbach and Miller 2008 call it the pairs cluster bootstrap.) The ends are those
    of `percentile_ends`.

    Where few clusters or shares near 0 and 1 leave a bootstrap little to draw from, shares have the
    interval of `share_ends`, with the variance between clusters
    `K / (K − 1) Σ_k (S_k − n_k m)² / (Σ_k n_k)²`.

    Args:
        values: (n,); NaN is left out.
        clusters: (n,) anything that sorts; equal entries are one cluster.
        votes: of how many the values are shares, as `votes_of` tells; 0 if they are none.
        resampling: how many means are drawn, and the share of them inside the interval; equal
            seeds and equal clusters give equal intervals, in whatever order they come.

    Undefined: no ends with fewer than two clusters, since nothing then shows how clusters differ;
    no mean without a value. `Estimate.why_no_interval` says so.
    """
    if votes:
        return _mean_of_shares(*defined_rows(values, clusters), votes, resampling.level)
    columns = np.asarray(values, dtype=np.float64)[..., None]
    return cluster_bootstrap(columns, clusters, lambda means: means[:, 0], resampling=resampling)


def _mean_of_shares(
    values: Floats, clusters: npt.NDArray[np.generic], votes: int, level: float
) -> Estimate:
    K, code = coded(clusters)
    n = len(values)
    if K < 2:
        mean = float(values.mean()) if n else math.nan
        return estimate_of_mean(mean, math.nan, math.nan, n=n, clusters=K)
    S, sizes = cluster_sums(values, code, K), cluster_sizes(code, K)
    p = float(S.sum() / n)
    variance = K / (K - 1) * float(((S - sizes * p) ** 2).sum()) / n**2
    low, high = share_ends(p, variance, n=n, clusters=K, level=level, votes=votes)
    return estimate_of_mean(p, low, high, n=n, clusters=K)


def cluster_bootstrap(
    values: npt.ArrayLike,
    clusters: npt.ArrayLike,
    statistic: OfMeans,
    *,
    resampling: Resampling = DEFAULT,
) -> Estimate:
    """A statistic of the means of several columns, with its interval; see `cluster_bootstrap_mean`.

    Args:
        values: (n, columns); a row with a NaN is left out.
        clusters: (n,) anything that sorts; equal entries are one cluster.
        statistic: of the columns' means; `Estimate.value` is its value.
        resampling: as for `cluster_bootstrap_mean`, and the same clusters are drawn.
    """
    values, clusters = defined_rows(values, clusters)
    K, code = coded(clusters)
    S, n = cluster_sums(values, code, K), cluster_sizes(code, K)  # (K, columns), (K,)
    observed = float(statistic(S.sum(axis=0, keepdims=True) / n.sum())[0]) if K else math.nan
    low = high = math.nan
    if K > 1:
        rng = np.random.default_rng(resampling.seed)
        drawn = np.empty(resampling.resamples)
        for rows in chunks(drawn.size, S.size):
            k = rng.integers(K, size=(rows.stop - rows.start, K))
            drawn[rows] = statistic(S[k].sum(axis=1) / n[k].sum(axis=1)[:, None])
        low, high = percentile_ends(drawn, resampling.level, K)
    return estimate_of_mean(observed, low, high, n=len(values), clusters=K)
