"""Every two raters of a table of ratings: correlations and Cohen's κ, all pairs together.

Each pair has the numbers of `estimates` and `cohen_kappa` on the items that both rated. Sums over
items are linear in how often a resample draws each cluster, so a product of matrices computes them
for many pairs and resamples at once:

- With few different values, a pair is a table of how often the raters gave which two values. A
  resample reweights the table, and its cells have the moments and ranks.
- With many, pairs on the same items share the ranks of their raters, and one product of ranks has
  the covariances of all these pairs.

Pairs with equally many clusters share draws. Counts and sums of ranks are exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Codes, Floats
from levelfield.stats.clusters import chunks, coded, shared_draws
from levelfield.stats.correlation import estimates
from levelfield.stats.estimate import Estimate, estimates_from_draws, too_few
from levelfield.stats.first_order import first_order
from levelfield.stats.kappa import KappaWeights, cohen_kappa, why_no_kappa
from levelfield.stats.moments import LARGE, r_of_moments
from levelfield.stats.reliability import MidRanks, checked_ratings, ratio, value_counts
from levelfield.stats.resampling import DEFAULT, Resampling

_HELD = 1 << 20
"""Numbers that resamples make at a time: 8 MB."""

_SUMS = 1 << 23
"""Sums over clusters held at a time: 64 MB."""

_MOST_PAIRS = 1024
"""Pairs whose resamples are held at a time: 16 MB a statistic."""

_EXACT = 1 << 24
"""Whole numbers up to this are exact in single precision."""

_ITEMS_OF_CELL = 200
"""A cell of a table of this number of items takes as long as a rank of one item."""

_PAIRS_OF_RANK = 50
"""Products of two ranks that take as long as a rank."""


class PairEstimates(NamedTuple):
    """Two raters, by their columns, on the items that both rated."""

    a: int
    b: int
    items: int
    pearson: Estimate
    spearman: Estimate
    kappa: Estimate


def rater_pairs(
    values: npt.ArrayLike,
    *,
    weights: KappaWeights = "quadratic",
    clusters: npt.ArrayLike | None = None,
    resampling: Resampling = DEFAULT,
) -> list[PairEstimates]:
    """Pearson's r, Spearman's ρ and Cohen's κ of every two raters with an item in common.

    Args:
        values: (items, raters); NaN is missing.
        weights: of κ.
        clusters: (items,) anything that sorts; equal entries are drawn together. By default each
            item is a cluster.

    >>> [pair] = rater_pairs([[1, 1], [2, 3], [3, 2], [4, 4], [5, 5], [2, 2]])
    >>> round(pair.pearson.value, 3), round(pair.kappa.value, 3)
    (0.908, 0.908)
    """
    v, cluster = checked_ratings(values, clusters)
    _, code = coded(cluster)
    rated = ~np.isnan(v)
    on_items: dict[bytes, list[_Pair]] = {}
    for a, b in itertools.combinations(range(v.shape[1]), 2):
        common = rated[:, a] & rated[:, b]
        if common.any():
            same = on_items.setdefault(np.packbits(common).tobytes(), [])
            if same:
                same.append(same[0]._replace(a=a, b=b))
            else:
                rows = np.flatnonzero(common)
                same.append(_Pair(a, b, rows, *coded(code[rows])))
    unique, category = np.unique(v[rated], return_inverse=True)
    categories = np.zeros(v.shape, np.intp)
    categories[rated] = category
    results: list[PairEstimates] = []
    table_pairs: dict[int, list[_Pair]] = {}
    for pairs in on_items.values():
        K = pairs[0].K
        if first_order(pairs[0].rows.size, K):
            results += (_plain(v, cluster, pair, weights, resampling) for pair in pairs)
        elif _prefer_tables(pairs, unique.size):
            table_pairs.setdefault(K, []).extend(pairs)
        else:
            for block in _blocks(pairs, width=K):
                results += _estimated(_Ranked(block, v, weights), block, resampling)
    for K, pairs in table_pairs.items():
        for block in _blocks(pairs, width=K * unique.size**2):
            tables = _Tables(block, categories, unique, weights)
            results += _estimated(tables, block, resampling)
    return sorted(results, key=lambda pair: (pair.a, pair.b))


class _Pair(NamedTuple):
    """Two columns, the rows that both have, and the clusters of these, 0 to K − 1."""

    a: int
    b: int
    rows: Codes
    K: int
    code: Codes


def _plain(
    v: Floats,
    cluster: npt.NDArray[np.generic],
    pair: _Pair,
    weights: KappaWeights,
    resampling: Resampling,
) -> PairEstimates:
    """Returns the estimates of a pair with enough items for resamples of first order."""
    x, y, clusters = v[pair.rows, pair.a], v[pair.rows, pair.b], cluster[pair.rows]
    r = estimates(x, y, clusters, wanted=("pearson", "spearman"), resampling=resampling)
    kappa = cohen_kappa(x, y, weights=weights, clusters=clusters, resampling=resampling)
    return PairEstimates(pair.a, pair.b, x.size, r["pearson"], r["spearman"], kappa)


def _prefer_tables(pairs: Sequence[_Pair], V: int) -> bool:
    """Returns whether tables of V × V values are faster than ranks, for pairs on the same items."""
    n, raters = pairs[0].rows.size, len({column for pair in pairs for column in pair[:2]})
    table_cost = len(pairs) * V * V * (1 + n / _ITEMS_OF_CELL)
    return table_cost < n * (raters + len(pairs) / _PAIRS_OF_RANK)


def _blocks(pairs: Sequence[_Pair], *, width: int) -> Iterator[Sequence[_Pair]]:
    """Yields the pairs in blocks small enough to hold `width` sums of each."""
    step = min(_MOST_PAIRS, max(1, _SUMS // width))
    return (pairs[start : start + step] for start in range(0, len(pairs), step))


class _Sums(NamedTuple):
    """Sums over the items of each pair in each resample.

    Attributes:
        moments: (pairs, resamples, 6) of standardised ratings, as `r_of_moments` takes them.
        ranks: `Σ w R_x R_y`, `Σ w R_x²` and `Σ w R_y²` of centred ranks, (pairs, resamples) each.
        alike: `Σ w [x = y]` and `Σ_g n_x(g) n_y(g)` over the values g, (pairs, resamples) each;
            None but for κ without weights.
    """

    moments: Floats
    ranks: Floats | Sequence[Floats]
    alike: tuple[Floats, Floats] | None


class _Spread(NamedTuple):
    """Lowest and highest rating, the mean above the lowest, and the deviation (with n)."""

    low: Floats
    high: Floats
    mean: Floats
    deviation: Floats


class _PairSums(Protocol):
    """What `_estimated` needs to know of pairs."""

    x: _Spread
    y: _Spread
    width: int
    """Numbers that a resample makes."""

    def sums(self, w: Floats) -> _Sums:
        """Sums under weights (resamples, K) of clusters."""
        ...


class _Tables:
    """Pairs in equally many clusters by tables of values, (pairs, V, V) in each resample."""

    def __init__(
        self, pairs: Sequence[_Pair], categories: Codes, unique: Floats, weights: KappaWeights
    ) -> None:
        P, V, K = len(pairs), unique.size, pairs[0].K
        self._shape, self._labels, self.width = (P, V, V), weights == "none", P * V * V
        cell = np.concatenate(
            [
                ((p * V + categories[rows, a]) * V + categories[rows, b]) * K + code
                for p, (a, b, rows, _, code) in enumerate(pairs)
            ]
        )
        T = np.bincount(cell, minlength=self.width * K).reshape(self.width, K)
        most = K * max(int(np.bincount(pair.code).max()) for pair in pairs)  # items of a resample
        self._T = T.astype(np.float32 if most <= _EXACT else np.float64)
        N = T.sum(axis=1).reshape(self._shape)
        self.x, x = _spread_of_counts(N.sum(axis=2), unique)
        self.y, y = _spread_of_counts(N.sum(axis=1), unique)
        x, y = np.broadcast_arrays(x[:, :, None], y[:, None, :])
        powers = np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)
        # how often each value occurs, and its centred mid-rank: ½ Σ_u sign(v − u) n(u)
        counts_x, counts_y = np.repeat(np.eye(V), V, axis=1), np.tile(np.eye(V), V)
        half = np.tri(V, k=-1) / 2
        counts = np.stack([counts_x, counts_y])
        value_sums = np.concatenate([counts, (half - half.T) @ counts])
        self._linear = np.concatenate(
            [
                powers.reshape(P, 6, V * V),
                np.broadcast_to(value_sums.reshape(4 * V, V * V), (P, 4 * V, V * V)),
            ],
            axis=1,
        )

    def sums(self, w: Floats) -> _Sums:
        P, V, _ = self._shape
        N = (self._T @ w.T.astype(self._T.dtype)).astype(np.float64)
        linear = self._linear @ N.reshape(P, V * V, -1)
        n_x, n_y, R_x, R_y = np.moveaxis(linear[:, 6:].reshape(P, 4, V, -1), 1, 0)
        N = N.reshape(*self._shape, -1)  # (pairs, V, V, resamples)
        alike = None
        if self._labels:
            alike = np.einsum("puur->pr", N), np.einsum("pur,pur->pr", n_x, n_y)
        N *= R_y[:, None]
        ranks = (
            np.einsum("pur,pur->pr", N.sum(axis=2), R_x),
            np.einsum("pur,pur,pur->pr", n_x, R_x, R_x),
            np.einsum("pur,pur,pur->pr", n_y, R_y, R_y),
        )
        return _Sums(np.moveaxis(linear[:, :6], 1, -1), ranks, alike)


class _Ranked:
    """Pairs on the same items by the ranks of every rater, (raters, resamples, items)."""

    def __init__(self, pairs: Sequence[_Pair], v: Floats, weights: KappaWeights) -> None:
        _, _, rows, K, code = pairs[0]
        columns, place = np.unique([pair[:2] for pair in pairs], return_inverse=True)
        self._a, self._b = a, b = place.reshape(-1, 2).T
        X = v[np.ix_(rows, columns)].T  # (raters, items)
        self._code, self.width = code, 6 * len(pairs)
        spread, Z = _spread(_within_range(X), np.ones(X.shape))
        self.x, self.y = (_Spread(*(part[which] for part in spread)) for which in (a, b))
        self._ranks = [MidRanks(x, code, K) for x in X]
        self._counts = []
        linear = [np.ones((1, rows.size)), Z, Z * Z, Z[a] * Z[b]]
        if weights == "none":
            unique, category = np.unique(X, return_inverse=True)
            self._counts = [
                value_counts(c, code, unique.size, K) for c in category.reshape(X.shape)
            ]
            linear.append((X[a] == X[b]).astype(np.float64))
        self._S = np.stack(
            [np.bincount(code, weights=row, minlength=K) for row in np.concatenate(linear)]
        )

    def sums(self, w: Floats) -> _Sums:
        m, a, b = len(self._ranks), self._a, self._b
        n, z, zz, products, equal = np.split(self._S @ w.T, np.cumsum([1, m, m, a.size]))
        moments = np.stack(
            [np.broadcast_to(n, products.shape), z[a], z[b], zz[a], zz[b], products], axis=1
        )
        step = chunks(len(w), m * self._code.size, held=_HELD)
        ranks = np.concatenate([self._rank_sums(w[part]) for part in step], axis=2)
        alike = None
        if self._counts:
            value_counts = [counts @ w.T for counts in self._counts]  # (V, resamples) each
            by_chance = [
                np.einsum("vr,vr->r", value_counts[i], value_counts[j])
                for i, j in zip(a, b, strict=True)
            ]
            alike = equal, np.stack(by_chance)
        return _Sums(np.moveaxis(moments, 1, -1), ranks, alike)

    def _rank_sums(self, w: Floats) -> Floats:
        """Returns the sums of ranks: (3, pairs, resamples)."""
        a, b = self._a, self._b
        R = np.empty((len(self._ranks), len(w), self._code.size))
        w = np.asfortranarray(w)  # sparse products copy its transpose otherwise
        for ranks, rater_ranks in zip(self._ranks, R, strict=True):
            ranks(w, out=rater_ranks)
        weighted = R * w[:, self._code]
        squares = np.einsum("mri,mri->mr", weighted, R)
        left, right = (slice(which.min(), which.max() + 1) for which in (a, b))
        product = weighted[left].swapaxes(0, 1) @ R[right].transpose(1, 2, 0)
        covariance = product[:, a - left.start, b - right.start].T
        return np.stack([covariance, squares[a], squares[b]])


def _spread_of_counts(counts: Codes, unique: Floats) -> tuple[_Spread, Floats]:
    """Returns `_spread` of values that occur (pairs, V) times."""
    return _spread(np.where(counts > 0, _within_range(unique), np.nan), counts)


def _spread(v: Floats, counts: npt.NDArray[np.number]) -> tuple[_Spread, Floats]:
    """Returns the spread of each row and the standardised values; 0 where all are equal.

    Args:
        v: (rows, values); NaN where a value does not occur.
        counts: how often each occurs.
    """
    low, high = np.nanmin(v, axis=1), np.nanmax(v, axis=1)
    varies = high > low
    unit = np.where(varies, high - low, 1)[:, None]  # so that no square is lost to underflow
    above = np.nan_to_num(v - low[:, None]) / unit
    n = counts.sum(axis=1, keepdims=True)
    mean = (above * counts).sum(axis=1, keepdims=True) / n
    centred = above - mean
    deviation = np.sqrt((centred**2 * counts).sum(axis=1, keepdims=True) / n)
    z = np.divide(centred, deviation, out=np.zeros_like(centred), where=varies[:, None])
    scaled_deviation = np.where(varies, (unit * deviation)[:, 0], 0)
    return _Spread(low, high, (unit * mean)[:, 0], scaled_deviation), z


def _within_range(v: Floats) -> Floats:
    """Returns the ratings, scaled down if their differences may overflow."""
    return v / 4 if np.abs(v).max() > LARGE else v


def _statistics(pair_sums: _PairSums, w: Floats) -> Floats:
    """Returns r, ρ and κ: (3, pairs, resamples)."""
    moments, (covariance, vx, vy), alike = pair_sums.sums(w)
    with np.errstate(invalid="ignore", divide="ignore"):
        rho = np.where((vx > 0) & (vy > 0), np.clip(covariance / np.sqrt(vx * vy), -1, 1), np.nan)
    n = moments[..., 0]
    if alike:
        equal, by_chance = alike[0] / n, alike[1] / n**2
        kappa = ratio(equal - by_chance, 1 - by_chance)
    else:
        kappa = _quadratic(moments, pair_sums.x, pair_sums.y)
    return np.stack([r_of_moments(moments), rho, kappa])


def _quadratic(moments: Floats, x: _Spread, y: _Spread) -> Floats:
    """κ with quadratic weights: 2 cov / (var + var + difference of means²).

    All in the unit of the pair, in which no rating is above 1 in size.
    """
    low, high = np.minimum(x.low, y.low), np.maximum(x.high, y.high)
    centre, unit = (low + high) / 2, np.where(high > low, (high - low) / 2, 1)
    n, sx, sy, sxx, syy, sxy = np.moveaxis(moments, -1, 0)
    s_x, s_y = ((rater.deviation / unit)[:, None] for rater in (x, y))
    m_x, m_y = (((rater.low - centre + rater.mean) / unit)[:, None] for rater in (x, y))
    apart = m_x - m_y + (s_x * sx - s_y * sy) / n
    spread = s_x**2 * (sxx - sx * sx / n) + s_y**2 * (syy - sy * sy / n) + n * apart**2
    return ratio(2 * s_x * s_y * (sxy - sx * sy / n), spread)


def _estimated(
    pair_sums: _PairSums, pairs: Sequence[_Pair], resampling: Resampling
) -> Iterator[PairEstimates]:
    K, n = pairs[0].K, [pair.rows.size for pair in pairs]
    values = _statistics(pair_sums, np.ones((1, K)))[:, :, 0]
    drawn: Sequence[Floats | None] = (None, None, None)
    if K > 1:
        draws = shared_draws(K, resampling.resamples, resampling.seed)
        parts = [
            _statistics(pair_sums, w[part])
            for w in draws
            for part in chunks(len(w), pair_sums.width, held=_HELD)
        ]
        drawn = list(np.concatenate(parts, axis=2))
    x, y = pair_sums.x, pair_sums.y
    constant = ((x.low == x.high) | (y.low == y.high)).tolist()
    low, high = np.minimum(x.low, y.low).tolist(), np.maximum(x.high, y.high).tolist()
    why_no_r = [
        too_few(k) or "constant ratings" * same for k, same in zip(n, constant, strict=True)
    ]
    why_not = [
        why_no_kappa(*pair_range) or "hardly any variance" * undefined
        for *pair_range, undefined in zip(n, low, high, np.isnan(values[2]).tolist(), strict=True)
    ]
    by_statistic = (
        estimates_from_draws(value, d, n=n, clusters=K, reasons=reasons, level=resampling.level)
        for value, d, reasons in zip(values, drawn, (why_no_r, why_no_r, why_not), strict=True)
    )
    for pair, k, *estimates_of_pair in zip(pairs, n, *by_statistic, strict=True):
        yield PairEstimates(pair.a, pair.b, k, *estimates_of_pair)
