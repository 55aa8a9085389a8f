"""Bootstrap of means over strata of unequal weight, clusters resampled within their stratum."""

from __future__ import annotations

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.stats.clusters import cluster_draws


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
