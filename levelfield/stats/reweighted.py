"""The statistics of many resamples at once, pairs counted in n log n steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from levelfield.core.arrays import Bools, Codes, Floats
from levelfield.stats.estimands import Statistic
from levelfield.stats.measures import OF_PAIRS, pair_statistics
from levelfield.stats.moments import moments, r_of_moments, standardised


class Reweighted:
    """The statistics of many reweightings of the same samples at once.

    A resample is a count per cluster. What depends on the samples alone (the sorted order, the
    runs of equal values, the levels of the merge) is found once; what depends on the counts is
    done for all of them in one pass. W: (n, r) weights of samples, in the order of x, then y.
    """

    def __init__(self, x: Floats, y: Floats, code: Codes) -> None:
        K = int(code.max()) + 1 if code.size else 0
        self._moments = moments(standardised(x), standardised(y), code, K)
        self._pair = pair = SortedPair(x, y)
        self._code = code[pair.order]
        self._levels = _levels(*pair.inverted)

    def values(self, counts: Floats, kinds: Sequence[Statistic]) -> dict[Statistic, Floats]:
        """Returns every statistic, (r,). counts: (r, K)."""
        results: dict[Statistic, Floats] = {}
        if "pearson" in kinds:
            results["pearson"] = r_of_moments(counts @ self._moments)
        if "spearman" in kinds:
            results["spearman"] = self._spearman(counts)
        if set(OF_PAIRS) & set(kinds):
            values = pair_statistics(*self.pairs(counts))
            results |= {s: v for s, v in values.items() if s in kinds}
        return results

    def pairs(self, counts: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Returns C, D, T_x, T_y and T_xy, each (r,), without pairs of a sample with itself."""
        W = self._weights(counts)

        def pairs_within(weights: Floats) -> Floats:
            # np.einsum sums the squares without holding them
            return np.asarray((np.einsum("ir,ir->r", weights, weights) - weights.sum(axis=0)) / 2)

        n = W.sum(axis=0)
        copies = pairs_within(W)
        every = n * (n - 1) / 2 - copies
        tied_x = pairs_within(self._pair.x.sums(W)) - copies
        tied_xy = pairs_within(self._pair.xy.sums(W)) - copies
        tied_y = pairs_within(self._pair.y.sums(W[self._pair.by_y])) - copies
        D = _inversions(self._levels, W)
        C = every - tied_x - tied_y + tied_xy - D
        return C, D, tied_x - tied_xy, tied_y - tied_xy, tied_xy

    def _spearman(self, counts: Floats) -> Floats:
        W = self._weights(counts)
        n = W.sum(axis=0)
        sums_x, sums_y = self._pair.x.sums(W), self._pair.y.sums(W[self._pair.by_y])
        rank_x, rank_y = (np.cumsum(g, axis=0) - g / 2 - n / 2 for g in (sums_x, sums_y))  # centred
        covariance = np.einsum("ir,ir,ir->r", W, rank_x[self._pair.x.of], rank_y[self._pair.rank_y])
        vx = np.einsum("ir,ir,ir->r", sums_x, rank_x, rank_x)
        vy = np.einsum("ir,ir,ir->r", sums_y, rank_y, rank_y)
        with np.errstate(invalid="ignore", divide="ignore"):
            r = covariance / np.sqrt(vx * vy)
        return np.where((vx > 0) & (vy > 0), np.clip(r, -1, 1), np.nan)

    def _weights(self, counts: Floats) -> Floats:
        return np.ascontiguousarray(counts.T)[self._code]


class SortedPair:
    """Order and runs of two variables of n samples, sorted once.

    Attributes:
        order: (n,) the samples in the order of x, then y, which all else is in.
        x, xy: runs of samples with equal x, and with both equal.
        by_y: (n,) the samples in the order of y. y: their runs.
        rank_y: (n,) the run of y that each is in.
        inverted: ranks whose inversions are the discordant pairs, and the samples that have them.
    """

    def __init__(self, x: Floats, y: Floats) -> None:
        self.order = np.lexsort((y, x))
        x, y = x[self.order], y[self.order]
        self.x = EqualRuns(np.r_[True, x[1:] != x[:-1]])
        self.xy = EqualRuns(np.r_[True, (x[1:] != x[:-1]) | (y[1:] != y[:-1])])
        self.by_y = np.argsort(y, kind="stable")
        sorted_y = y[self.by_y]
        self.y = EqualRuns(np.r_[True, sorted_y[1:] != sorted_y[:-1]])
        rank = np.empty(x.size, dtype=np.intp)
        rank[self.by_y] = self.y.of
        self.rank_y: Codes = rank
        # inversions of y in the order of x are those of x in the order of y: the variable with
        # fewer values has fewer levels
        if self.x.n < self.y.n:
            back = np.lexsort((self.x.of, rank))
            self.inverted: tuple[Codes, Codes] = self.x.of[back], back
        else:
            self.inverted = rank, np.arange(x.size)


class EqualRuns:
    """Runs of equal values in a sorted order. n: how many; of: (n samples,) which run."""

    def __init__(self, first: Bools) -> None:
        self._starts = np.flatnonzero(first)
        self.n = self._starts.size
        self.of: Codes = np.cumsum(first) - 1

    def sums(self, W: Floats) -> Floats:
        """Returns the weights of each run: (runs, r)."""
        return W if self.n == W.shape[0] else np.add.reduceat(W, self._starts, axis=0)


class _Level(NamedTuple):
    """One bit of the ranks: rows in the order of the higher bits, then of the other variable.

    ones: the rows whose bit is 1, in that order. zeros: the rows with bit 0 that have ones before
    them in their group. before, base: number of ones before such a row, and before its group.
    """

    ones: Codes
    zeros: Codes
    before: Codes
    base: Codes


def _levels(ranks: Codes, rows: Codes) -> list[_Level]:
    """Returns the levels that count inversions of `ranks`, from the highest bit.

    Two ranks are inverted if, at the first bit in which they differ, the earlier one has 1 and the
    later one 0; before that bit they are in one group. rows: the samples that have the ranks.
    """
    levels = []
    order = np.arange(ranks.size)
    for bit in range(int(ranks.max(initial=0)).bit_length() - 1, -1, -1):
        r = ranks[order]
        bits = (r >> bit) & 1
        group = r >> (bit + 1)
        starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
        sizes = np.diff(np.r_[starts, r.size])
        before = np.cumsum(bits) - bits  # ones strictly before
        base = np.repeat(before[starts], sizes)
        zeros = np.flatnonzero((bits == 0) & (before > base))
        levels.append(
            _Level(
                ones=rows[order[bits == 1]],
                zeros=rows[order[zeros]],
                before=before[zeros],
                base=base[zeros],
            )
        )
        order = order[np.argsort(r >> bit, kind="stable")]
    return levels


def _inversions(levels: Sequence[_Level], W: Floats) -> Floats:
    """Returns the weights of the inverted pairs: (r,)."""
    total = np.zeros(W.shape[1])
    for level in levels:
        if not level.zeros.size:
            continue
        ones = np.zeros((level.ones.size + 1, W.shape[1]))
        np.cumsum(W[level.ones], axis=0, out=ones[1:])
        total += np.einsum("ir,ir->r", W[level.zeros], ones[level.before] - ones[level.base])
    return total
