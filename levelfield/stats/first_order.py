"""The statistics of many resamples of very many samples, from sums over clusters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from levelfield.core.arrays import Codes, Floats
from levelfield.stats.clusters import cluster_sums
from levelfield.stats.estimands import Statistic
from levelfield.stats.measures import OF_PAIRS, pair_statistics
from levelfield.stats.moments import moments, r_of_moments, standardised
from levelfield.stats.reweighted import SortedPair

MOST_EXACT = 50_000
"""Of more samples than these, ranks and pairs of resamples are of first order."""

FEWEST_CLUSTERS = 2000
"""With fewer clusters, every resample is computed exactly."""

NOTE = "resamples of ranks and pairs to first order"

MOST_COLUMNS = 14
"""Sums of a cluster that the statistics are made of."""


def first_order(n: int, K: int) -> bool:
    """Returns whether resamples of n samples in K clusters are of first order."""
    return n > MOST_EXACT and K >= FEWEST_CLUSTERS


class FirstOrder:
    """Statistics of resamples as `Reweighted` has them, ranks and pairs to first order.

    A count of pairs is `C(w) = ½ Σ_ij w_i w_j c_ij`, w_i how often sample i was drawn. With
    `w = 1 + δ` it is `C(1) + Σ_i δ_i c_i + ½ Σ_ij δ_i δ_j c_ij`, c_i the number of such pairs that
    sample i is part of. The last term is left out: as a share of the interval it is of the order
    1 / √K for K clusters (Hoeffding 1948; Serfling 1980, section 5.3). The sums of squares and
    products of ranks are expanded alike; Pearson's r has none of this and is exact. So a resample
    costs K steps, whatever the number of samples.
    """

    def __init__(self, x: Floats, y: Floats, code: Codes, kinds: Sequence[Statistic]) -> None:
        K = int(code.max()) + 1
        self._kinds = kinds
        moment_gradients = moments(standardised(x), standardised(y), code, K)
        pair = SortedPair(x, y)
        cluster = code[pair.order]
        ranks = _rank_sums(pair) if "spearman" in kinds else np.empty((x.size, 0))
        pairs = _pair_counts(pair) if set(OF_PAIRS) & set(kinds) else np.empty((x.size, 0))
        # sums of squares of ranks are of degree 3 in w, counts of pairs of degree 2
        self._ranks_at_0 = ranks.sum(axis=0) * (1 / 3 - 1)
        self._pairs_at_0 = pairs.sum(axis=0) * (1 / 2 - 1)
        sample_gradients = np.concatenate([ranks, pairs], axis=1)
        self.gradients: Floats = np.concatenate(
            [moment_gradients, *(cluster_sums(g, cluster, K)[:, None] for g in sample_gradients.T)],
            axis=1,
        )

    def values(self, counts: Floats, kinds: Sequence[Statistic]) -> dict[Statistic, Floats]:
        """Returns every statistic, (r,), as `Reweighted.values`. counts: (r, K)."""
        results = self.from_sums(counts @ self.gradients)
        return {s: results[s] for s in kinds}

    def from_sums(self, sums: Floats) -> dict[Statistic, Floats]:
        """Returns the (r,) values of every statistic; sums: (r, p) counts @ gradients."""
        moment_sums, ranks, pairs = np.split(sums, np.cumsum([6, self._ranks_at_0.size]), axis=1)
        results: dict[Statistic, Floats] = {}
        if "pearson" in self._kinds:
            results["pearson"] = r_of_moments(moment_sums)
        if "spearman" in self._kinds:
            covariance, vx, vy = (self._ranks_at_0 + ranks).T
            with np.errstate(invalid="ignore", divide="ignore"):
                r = covariance / np.sqrt(vx * vy)
            results["spearman"] = np.where((vx > 0) & (vy > 0), np.clip(r, -1, 1), np.nan)
        if pairs.shape[1]:
            by_kind = pair_statistics(*(self._pairs_at_0 + pairs).T)
            results |= {s: v for s, v in by_kind.items() if s in self._kinds}
        return results


def _rank_sums(pair: SortedPair) -> Floats:
    """Returns gradients of `Σ w R_x R_y`, `Σ w R_x²` and `Σ w R_y²` with centred ranks: (n, 3).

    `R_x(i) = Σ_j w_j (h(x_j, x_i) − ½)`, h 1 for a smaller x_j and ½ for an equal one.
    """
    n = pair.order.size
    ones = np.ones((n, 1))
    sizes_x, sizes_y = pair.x.sums(ones)[:, 0], pair.y.sums(ones)[:, 0]
    rank_x, rank_y = (np.cumsum(g) - g / 2 - n / 2 for g in (sizes_x, sizes_y))
    R_x, R_y = rank_x[pair.x.of], rank_y[pair.rank_y]

    def above_x(v: Floats) -> Floats:
        """Returns Σ_i v_i (h(x_k, x_i) − ½) of every k."""
        g = pair.x.sums(v[:, None])[:, 0]
        return np.asarray(g.sum() / 2 - np.cumsum(g) + g / 2)[pair.x.of]

    def above_y(v: Floats) -> Floats:
        g = pair.y.sums(v[pair.by_y][:, None])[:, 0]
        return np.asarray(g.sum() / 2 - np.cumsum(g) + g / 2)[pair.rank_y]

    return np.stack(
        [
            R_x * R_y + above_x(R_y) + above_y(R_x),
            R_x**2 + 2 * above_x(R_x),
            R_y**2 + 2 * above_y(R_y),
        ],
        axis=1,
    )


def _pair_counts(pair: SortedPair) -> Floats:
    """Returns the number of pairs C, D, T_x, T_y and T_xy that each sample is in: (n, 5)."""
    n = pair.order.size
    ones = np.ones((n, 1))
    tied_x = pair.x.sums(ones)[:, 0][pair.x.of] - 1
    tied_xy = pair.xy.sums(ones)[:, 0][pair.xy.of] - 1
    tied_y = pair.y.sums(ones)[:, 0][pair.rank_y] - 1
    D = _inversions_of_each(*pair.inverted)
    C = n - 1 - tied_x - tied_y + tied_xy - D
    return np.stack([C, D, tied_x - tied_xy, tied_y - tied_xy, tied_xy], axis=1)


def _inversions_of_each(ranks: Codes, rows: Codes) -> Floats:
    """Returns the number of inversions that each sample is part of, (n,); see
    `reweighted._levels`."""
    inversions = np.zeros(ranks.size)
    order = np.arange(ranks.size)
    for bit in range(int(ranks.max(initial=0)).bit_length() - 1, -1, -1):
        r = ranks[order]
        bits, group = (r >> bit) & 1, r >> (bit + 1)
        starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
        sizes = np.diff(np.r_[starts, r.size])
        ones = np.cumsum(bits)
        zeros = np.arange(1, r.size + 1) - ones
        ones_before = ones - np.repeat(ones[starts] - bits[starts], sizes)
        zeros_after = np.repeat(zeros[starts + sizes - 1], sizes) - zeros
        inversions[rows[order]] += np.where(bits == 1, zeros_after, ones_before)
        order = order[np.argsort(r >> bit, kind="stable")]
    return inversions
