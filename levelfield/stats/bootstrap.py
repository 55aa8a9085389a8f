"""Means, and statistics of means, with intervals that resample whole clusters.

Values that are NaN (undefined) are left out; whoever compares systems leaves them out for all
systems beforehand and says how many.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Floats
from levelfield.stats.clusters import (
    MANY,
    chunks,
    cluster_sizes,
    cluster_sums,
    coded,
    defined_rows,
    shared_draws,
)
from levelfield.stats.estimate import Estimate, estimate_of_mean, percentile_ends
from levelfield.stats.resampling import DEFAULT, Resampling
from levelfield.stats.shares import share_ends

_MOST_HELD = 1 << 24
"""Clusters whose sums and sizes are held before they are drawn."""

_FEW = 2
"""So many columns are gathered sooner than draws are counted."""

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
    means = BootstrapMeans(resampling)
    return means.add(values, clusters, votes=votes)()


class BootstrapMeans:
    """Means with their intervals; those over equally many clusters share what is drawn.

    Each is the one of `cluster_bootstrap_mean`, with more than `MANY` clusters but for rounding.
    Sums over clusters are held until an estimate is wanted, 256 MB of them at most.

    >>> means = BootstrapMeans(Resampling(resamples=100))
    >>> a, b = (means.add(values, ["x", "y", "z"]) for values in ([1, 2, 3], [5, 5, 5]))
    >>> a().value, b().high
    (2.0, 5.0)
    """

    def __init__(self, resampling: Resampling = DEFAULT) -> None:
        self._resampling = resampling
        self._held: list[_Sums] = []

    def add(
        self, values: npt.ArrayLike, clusters: npt.ArrayLike, *, votes: int = 0
    ) -> Callable[[], Estimate]:
        """Takes a mean on, and returns what gives its estimate.

        Args:
            values, clusters, votes: as for `cluster_bootstrap_mean`.
        """
        values, clusters = defined_rows(values, clusters)
        if votes:
            shares = _mean_of_shares(values, clusters, votes, self._resampling.level)
            return lambda: shares
        K, code = coded(clusters)
        sums = _Sums(cluster_sums(values, code, K), cluster_sizes(code, K))
        self._held.append(sums)
        if sum(held.S.size for held in self._held) > _MOST_HELD:
            self._draw()

        def estimate() -> Estimate:
            if sums.estimate is None:
                self._draw()
            assert sums.estimate is not None
            return sums.estimate

        return estimate

    def _draw(self) -> None:
        for K in {held.S.size for held in self._held}:
            columns = [held for held in self._held if held.S.size == K]
            drawn = _drawn_means(columns, K, self._resampling) if K > 1 else [None] * len(columns)
            for sums, means in zip(columns, drawn, strict=True):
                sums.set_estimate(means, self._resampling.level)
        self._held = []


class _Sums:
    """Sums of values over clusters, S (K,), and how many they are, n (K,), until they are drawn."""

    def __init__(self, S: Floats, n: Floats) -> None:
        self.S, self.n = S, n
        self.estimate: Estimate | None = None

    def set_estimate(self, drawn: Floats | None, level: float) -> None:
        K, n = self.S.size, self.n.sum()
        low, high = (math.nan, math.nan) if drawn is None else percentile_ends(drawn, level, K)
        value = float((self.S[:, None].sum(axis=0, keepdims=True) / n)[0, 0]) if K else math.nan
        self.estimate = estimate_of_mean(value, low, high, n=int(n), clusters=K)
        self.S = self.n = np.empty(0)


def _drawn_means(columns: Sequence[_Sums], K: int, resampling: Resampling) -> list[Floats]:
    """(resamples,) means of each column, from the same draws of K clusters."""
    arrays: dict[bytes, Floats] = {}  # equal columns are summed once

    def place(x: Floats) -> bytes:
        key = hashlib.blake2b(x.tobytes(), digest_size=16).digest()
        arrays.setdefault(key, x)
        return key

    places = [(place(sums.S), place(sums.n)) for sums in columns]
    sums = _drawn_sums(list(arrays.values()), K, resampling)
    sum_of = dict(zip(arrays, sums, strict=True))
    return [sum_of[S] / sum_of[n] for S, n in places]


def _drawn_sums(arrays: Sequence[Floats], K: int, resampling: Resampling) -> list[Floats]:
    """(resamples,) sums of each array over the same draws of K clusters."""
    R, seed = resampling.resamples, resampling.seed
    fixed = [x[0].is_integer() and x.min() == x.max() for x in arrays]  # such as sizes of 1
    varying = [x for x, is_fixed in zip(arrays, fixed, strict=True) if not is_fixed]
    if K > MANY and len(varying) > _FEW:
        X = np.stack(varying, axis=1)  # (K, columns)
        totals = iter(np.concatenate([c @ X for c in shared_draws(K, R, seed)]).T)
    else:
        drawn = np.empty((len(varying), R))
        rng = np.random.default_rng(seed)
        for rows in chunks(R, K):
            k = rng.integers(K, size=(rows.stop - rows.start, K))
            for x, total in zip(varying, drawn, strict=True):
                total[rows] = x[k].sum(axis=1)
        totals = iter(drawn)
    return [np.full(R, K * x[0]) if f else next(totals) for x, f in zip(arrays, fixed, strict=True)]


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
