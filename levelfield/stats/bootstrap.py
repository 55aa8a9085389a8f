"""Statistics of means, with intervals that resample whole clusters.

Values that are NaN (undefined) are left out; whoever compares systems leaves them out for all
systems beforehand and says how many.
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

OfMeans = Callable[[Floats], Floats]
"""A statistic of several means: (resamples, columns) -> (resamples,)."""


def cluster_bootstrap(
    values: npt.ArrayLike,
    clusters: npt.ArrayLike,
    statistic: OfMeans,
    *,
    resampling: Resampling = DEFAULT,
) -> Estimate:
    """A statistic of the means of several columns, with its expanded percentile interval.

    Args:
        values: (n, columns); a row with a NaN is left out.
        clusters: (n,) anything that sorts; equal entries are one cluster.
        statistic: of the columns' means; `Estimate.value` is its value.
        resampling: how many values are drawn, and the share of them inside the interval.
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
