"""Bootstrap of means over strata of unequal weight, clusters resampled within their stratum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from levelfield.core.arrays import Codes, Floats
from levelfield.stats.clusters import cluster_draws, cluster_sums, coded
from levelfield.stats.estimate import percentile_ends


def resampled_means(sums: Floats, counts: Floats, *, resamples: int, seed: int) -> Floats:
    """Means of the values of whole clusters drawn with replacement, as many as there are.

    Args:
        sums, counts: (measures, clusters, …) of the values of each cluster.

    Returns:
        (measures, resamples, …); NaN where a resample has no value.
    """
    measures, K, *shape = sums.shape
    chunks: list[Floats] = []
    for W in cluster_draws(K, resamples, seed, width=K):
        chunk = np.empty((measures, len(W), *shape))
        for m in range(measures):
            with np.errstate(invalid="ignore", divide="ignore"):
                means = (W @ sums[m].reshape(K, -1)) / (W @ counts[m].reshape(K, -1))
            chunk[m] = means.reshape(len(W), *shape)
        chunks.append(chunk)
    return np.concatenate(chunks, axis=1)


def weighted_mean_ends(
    D: Floats,
    clusters: Codes,
    strata: Codes,
    weights: Floats,
    *,
    resamples: int,
    level: float,
    seeds: Sequence[int],
) -> tuple[Floats, Floats]:
    """Ends of the intervals of `Σ w_s m_s / Σ w_s`, m_s the mean of a column over stratum s.

    Strata without a value in a resample have no weight in it.

    Args:
        D: (n, columns) values; NaN is left out.
        clusters: (n,) code of the cluster; no cluster is in two strata.
        strata: (n,) code of the stratum.
        weights: (strata,) weight of each stratum.
        seeds: (strata,) seed of the draws of each stratum.

    Returns:
        (columns,) low and high ends; NaN where a column has no value.
    """
    use = ~np.isnan(D)
    K = len(np.unique(clusters))
    total = np.zeros((resamples, D.shape[1]))
    weight = np.zeros_like(total)
    for s, w in enumerate(weights.tolist()):
        rows = np.flatnonzero(strata == s)
        if not use[rows].any():
            continue
        own_K, own = coded(clusters[rows])
        S = cluster_sums(np.where(use[rows], D[rows], 0.0), own, own_K)
        N = cluster_sums(use[rows].astype(np.float64), own, own_K)
        start = 0
        for W in cluster_draws(own_K, resamples, seeds[s], width=K):
            drawn = slice(start, start + len(W))
            start += len(W)
            size = W @ N
            with np.errstate(invalid="ignore", divide="ignore"):
                mean = (W @ S) / size
            total[drawn] += np.where(size > 0, w * mean, 0.0)
            weight[drawn] += w * (size > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = total / weight
    ends = np.full((2, D.shape[1]), np.nan)
    for j in np.flatnonzero((~np.isnan(means)).any(axis=0)):
        ends[:, j] = percentile_ends(means[~np.isnan(means[:, j]), j], level)
    return ends[0], ends[1]
