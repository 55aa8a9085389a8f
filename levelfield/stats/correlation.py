"""How far a metric agrees with ratings: correlations and pairwise accuracy, with intervals.

Every statistic takes the metric's values x and the ratings y of the same n samples, both (n,),
and is NaN where it is undefined; `why_undefined` says why. Pairs of samples are counted as

    C  concordant: x and y order the pair alike        D  discordant: they order it contrarily
    T_x  tied in x only     T_y  tied in y only        T_xy  tied in both

which takes n log n steps. Intervals are drawn by resampling whole clusters (what samples share:
the source or prompt) and computing the statistic anew on every resample, ranks and pairs included.
Two systems that gave the same text to one source have one judgement between them; they share the
source, so they are always drawn together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Codes, Floats

Statistic = Literal["pearson", "spearman", "kendall", "tau-like", "accuracy", "calibrated"]
STATISTICS: tuple[Statistic, ...] = get_args(Statistic)
CORRELATIONS: tuple[Statistic, ...] = ("pearson", "spearman", "kendall", "tau-like")

MOST_CALIBRATED = 2000
"""Of more samples than these, tie calibration takes whole clusters at random until it has these."""

_ROUNDING = 1e-12
_CHUNK = 1 << 17
"""Weights of resamples held at a time: 1 MB, which a processor's cache can hold."""


class PairCounts(NamedTuple):
    """The pairs of n samples by how two variables order them; they add up to n (n − 1) / 2."""

    concordant: int
    discordant: int
    tied_metric: int
    tied_rating: int
    tied_both: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic with its confidence interval.

    Attributes:
        value: NaN where `why_undefined` gives a reason.
        low, high: ends of the percentile interval; NaN where `why_no_interval` gives a reason.
        n: how many samples (at system level: systems) it rests on.
        clusters: how many independent clusters they form.
        note: what a reader must know of the numbers; empty if nothing.
    """

    value: float
    low: float
    high: float
    n: int
    clusters: int
    why_undefined: str = ""
    why_no_interval: str = ""
    note: str = ""


def pearson(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """`r = Σ (x − x̄)(y − ȳ) / √(Σ (x − x̄)² Σ (y − ȳ)²)`.

    >>> round(pearson([1, 2, 3, 4], [1, 3, 2, 4]), 3)
    0.8
    """
    return statistics(x, y, ("pearson",))["pearson"]


def spearman(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Pearson's r of the ranks; equal values share the mean of their ranks."""
    return statistics(x, y, ("spearman",))["spearman"]


def kendall(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """`τ_b = (C − D) / √((C + D + T_x)(C + D + T_y))` (Kendall 1945)."""
    return statistics(x, y, ("kendall",))["kendall"]


def tau_like(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Kendall's-τ-like coefficient of the style transfer thesis, section 3.4.

    `τ = (C − D') / (C + D')` with `D' = D + T_x`: a pair that the ratings tie is left out; a pair
    that they order and the metric ties counts as discordant.

    >>> tau_like([1, 2, 2], [1, 2, 3])
    0.3333333333333333
    """
    return statistics(x, y, ("tau-like",))["tau-like"]


def pairwise_accuracy(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Pairwise accuracy with ties, `(C + T_xy) / (C + D + T_x + T_y + T_xy)`.

    A pair counts if the metric orders it as the ratings do, ties included (Deutsch, Foster and
    Freitag 2023, "Ties Matter", section 4). A constant metric has one: the share of rated ties.
    """
    return statistics(x, y, ("accuracy",))["accuracy"]


def pair_counts(x: npt.ArrayLike, y: npt.ArrayLike) -> PairCounts:
    """The pairs of samples, counted in n log n steps."""
    x, y = _pair(x, y)
    if x.size < 2:
        return PairCounts(0, 0, 0, 0, 0)
    pairs = _Weighted(x, y, np.arange(x.size)).pairs(np.ones((1, x.size)))
    return PairCounts(*(round(float(count[0])) for count in pairs))


def statistics(
    x: npt.ArrayLike, y: npt.ArrayLike, wanted: Sequence[Statistic] = (*CORRELATIONS, "accuracy")
) -> dict[Statistic, float]:
    """Several statistics of the same samples; `calibrated` is not among them."""
    x, y = _pair(x, y)
    if x.size < 2:
        return dict.fromkeys(wanted, float("nan"))
    values = _Weighted(x, y, np.arange(x.size)).values(np.ones((1, x.size)), wanted)
    return {s: float("nan") if why_undefined(s, x, y) else float(values[s][0]) for s in wanted}


def why_undefined(statistic: Statistic, x: npt.ArrayLike, y: npt.ArrayLike) -> str:
    """Why a statistic is NaN for these values; empty if it is not."""
    x, y = _pair(x, y)
    if x.size < 2:
        return "no samples" if x.size == 0 else "one sample"
    if statistic in ("accuracy", "calibrated"):
        return ""
    constant = [name for name, v in (("metric", x), ("rating", y)) if bool(np.all(v == v[0]))]
    return f"constant {' and '.join(constant)}" if constant else ""


def estimates(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    clusters: npt.ArrayLike,
    *,
    wanted: Sequence[Statistic] = STATISTICS,
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> dict[Statistic, Estimate]:
    """Statistics with percentile intervals from the pairs cluster bootstrap.

    K clusters are drawn from the K clusters with replacement, each with all its samples, and the
    statistic is computed on what was drawn: Pearson's r from sums per cluster, Spearman's ρ on the
    ranks within the resample, the pair statistics on the pairs of the resample without those of a
    sample with a copy of itself. A resample in which a statistic is undefined is left out of its
    interval, and the note says how many were. The interval of `calibrated` holds its thresholds
    fixed.

    Args:
        x, y: (n,) metric and ratings, no NaN.
        clusters: (n,) anything that sorts; equal entries are one cluster.
        wanted: which statistics.
        resamples, level, seed: of the bootstrap. Equal seeds and clusters give equal intervals,
            in whatever order the samples come.
    """
    x, y = _pair(x, y)
    names, code = np.unique(np.asarray(clusters), return_inverse=True)
    K = names.size
    plain = tuple(s for s in wanted if s != "calibrated")
    found: dict[Statistic, Estimate] = {}
    if plain:
        value = statistics(x, y, plain)
        drawn: Mapping[Statistic, Floats] = {}
        if K > 1:
            weighted = _Weighted(x, y, code)
            chunks = [
                weighted.values(counts, plain)
                for counts in cluster_draws(K, resamples, seed, width=x.size)
            ]
            drawn = {s: np.concatenate([c[s] for c in chunks]) for s in plain}
        for s in plain:
            why = why_undefined(s, x, y)
            found[s] = interval_of(
                value[s], drawn.get(s), n=x.size, clusters=K, why=why, level=level
            )
    if "calibrated" in wanted:
        found["calibrated"] = calibrated(
            x, y, code, resamples=resamples, level=level, seed=seed
        ).estimate
    return {s: found[s] for s in wanted}


def mean_over_groups(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    code: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    wanted: Sequence[Statistic],
    resamples: int = 2000,
    seed: int = 0,
) -> dict[Statistic, Floats]:
    """(resamples,) means over groups of a statistic; one draw of clusters is for all groups.

    Args:
        code: (n,) 0 to K − 1, the cluster. groups: (n,) 0 to G − 1, e.g. the system.

    In a resample, a group in which the statistic is undefined is left out of the mean.
    """
    x, y = _pair(x, y)
    code, groups = np.asarray(code, dtype=np.intp), np.asarray(groups, dtype=np.intp)
    K = int(code.max(initial=-1)) + 1
    if K < 2 or not wanted:
        return {}
    order = np.argsort(code, kind="stable")  # so that equal samples in any order give equal sums
    order = order[np.argsort(groups[order], kind="stable")]
    starts = np.flatnonzero(np.r_[True, groups[order][1:] != groups[order][:-1]])
    weighted = [
        (np.unique(code[rows]), _Weighted(x[rows], y[rows], _dense(code[rows])))
        for rows in np.split(order, starts[1:])
        if rows.size > 1
    ]
    chunks: list[dict[Statistic, Floats]] = []
    for counts in cluster_draws(K, resamples, seed, width=x.size):
        sums = {s: np.zeros(counts.shape[0]) for s in wanted}
        n = {s: np.zeros(counts.shape[0]) for s in wanted}
        for clusters, group in weighted:
            for s, v in group.values(counts[:, clusters], wanted).items():
                defined = ~np.isnan(v)
                sums[s] += np.where(defined, v, 0.0)
                n[s] += defined
        with np.errstate(invalid="ignore", divide="ignore"):
            chunks.append({s: sums[s] / n[s] for s in wanted})
    return {s: np.concatenate([c[s] for c in chunks]) for s in wanted}


def _dense(code: Codes) -> Codes:
    return np.asarray(np.unique(code, return_inverse=True)[1], dtype=np.intp)


def interval_of(
    value: float,
    drawn: Floats | None,
    *,
    n: int,
    clusters: int,
    why: str = "",
    level: float = 0.95,
    what: str = "samples",
) -> Estimate:
    """An estimate from a value and its resamples, which are NaN where they are undefined."""
    nan = float("nan")
    if why:
        return Estimate(nan, nan, nan, n, clusters, why, why)
    note = f"two {what}: only the ends of its range are possible" if n == 2 else ""
    if drawn is None or clusters < 2:
        return Estimate(value, nan, nan, n, clusters, "", "one cluster", note)
    if n == 2:
        return Estimate(value, nan, nan, n, clusters, "", f"two {what}", note)
    defined = drawn[~np.isnan(drawn)]
    lost = drawn.size - defined.size
    if lost > drawn.size // 2:
        reason = f"undefined in {lost:,} of {drawn.size:,} resamples"
        return Estimate(value, nan, nan, n, clusters, "", reason, note)
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    if lost:
        left = f"{lost:,} of {drawn.size:,} resamples are undefined and left out of the interval"
        note = "; ".join(filter(None, (note, left)))
    return Estimate(value, float(low), float(high), n, clusters, note=note)


def cluster_draws(K: int, resamples: int, seed: int, *, width: int) -> Iterator[Floats]:
    """How often each of K clusters was drawn, in chunks of (r, K) that add up to `resamples`.

    Args:
        width: of the widest array that a chunk becomes; more of it means smaller chunks.
    """
    rng = np.random.default_rng(seed)
    step = max(1, _CHUNK // max(width, K))
    for start in range(0, resamples, step):
        r = min(step, resamples - start)
        drawn = rng.integers(K, size=(r, K))
        drawn += np.arange(r)[:, None] * K
        yield np.bincount(drawn.ravel(), minlength=r * K).reshape(r, K).astype(np.float64)


def _pair(x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[Floats, Floats]:
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"expected one rating a value, got {y.shape} for {x.shape}")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("values and ratings must be finite; leave out what is undefined")
    return x, y


def standardised(x: Floats) -> Floats:
    """Mean 0 and standard deviation 1 (with n); all 0 if the values are equal."""
    if not x.size or bool(np.all(x == x[0])):
        return np.zeros_like(x)
    d = x / np.abs(x).max()
    d = d - d.mean()
    d /= np.abs(d).max()  # so that no square is lost to underflow
    return np.asarray(d / np.sqrt(np.mean(d * d)), dtype=np.float64)


def r_of_moments(M: Floats) -> Floats:
    """Pearson's r from moments: `M[..., :]` = Σw, Σx, Σy, Σx², Σy², Σxy; NaN if one is constant.

    x and y are standardised, so that their squares are of the size of Σw.
    """
    w, sx, sy, sxx, syy, sxy = np.moveaxis(M, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        vx, vy = sxx - sx * sx / w, syy - sy * sy / w
        r = (sxy - sx * sy / w) / np.sqrt(vx * vy)
    defined = (vx > _ROUNDING * w) & (vy > _ROUNDING * w)
    return np.where(defined, np.clip(r, -1, 1), np.nan)


def moments(x: Floats, y: Floats, code: Codes, K: int) -> Floats:
    """(K, 6) sums per cluster for `r_of_moments`."""
    columns = (np.ones_like(x), x, y, x * x, y * y, x * y)
    return np.stack([np.bincount(code, weights=c, minlength=K) for c in columns], axis=1)


class _Weighted:
    """The statistics of many reweightings of the same samples at once.

    A resample is a count per cluster. What depends on the samples alone (the sorted order, the
    runs of equal values, the levels of the merge) is found once; what depends on the counts is
    done for all of them in one pass. W: (n, r) weights of samples, in the order of x, then y.
    """

    def __init__(self, x: Floats, y: Floats, code: Codes) -> None:
        K = int(code.max()) + 1 if code.size else 0
        self._moments = moments(standardised(x), standardised(y), code, K)
        order = np.lexsort((y, x))
        x, y = x[order], y[order]
        self._code = code[order]
        self._x = _Runs(np.r_[True, x[1:] != x[:-1]])
        self._xy = _Runs(np.r_[True, (x[1:] != x[:-1]) | (y[1:] != y[:-1])])
        self._by_y = np.argsort(y, kind="stable")
        sorted_y = y[self._by_y]
        self._y = _Runs(np.r_[True, sorted_y[1:] != sorted_y[:-1]])
        rank = np.empty(x.size, dtype=np.intp)
        rank[self._by_y] = self._y.of
        self._rank_y = rank
        # inversions of y in the order of x are those of x in the order of y: the variable with
        # fewer values has fewer levels
        if self._x.n < self._y.n:
            back = np.lexsort((self._x.of, rank))
            self._levels = _levels(self._x.of[back], back)
        else:
            self._levels = _levels(rank, np.arange(x.size))

    def values(self, counts: Floats, wanted: Sequence[Statistic]) -> dict[Statistic, Floats]:
        """(r,) of every statistic wanted; counts: (r, K)."""
        found: dict[Statistic, Floats] = {}
        if "pearson" in wanted:
            found["pearson"] = r_of_moments(counts @ self._moments)
        if "spearman" in wanted:
            found["spearman"] = self._spearman(counts)
        if {"kendall", "tau-like", "accuracy"} & set(wanted):
            C, D, Tx, Ty, Txy = self.pairs(counts)
            with np.errstate(invalid="ignore", divide="ignore"):
                of_pairs: dict[Statistic, Floats] = {
                    "kendall": (C - D) / np.sqrt((C + D + Tx) * (C + D + Ty)),
                    "tau-like": (C - D - Tx) / (C + D + Tx),
                    "accuracy": (C + Txy) / (C + D + Tx + Ty + Txy),
                }
            # a constant metric would otherwise have the tau-like −1, by no merit of its order
            of_pairs["tau-like"] = np.where(C + D + Ty > 0, of_pairs["tau-like"], np.nan)
            found |= {s: v for s, v in of_pairs.items() if s in wanted}
        return found

    def pairs(self, counts: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """C, D, T_x, T_y, T_xy, each (r,), without pairs of a sample with itself."""
        W = self._weights(counts)

        def pairs_within(weights: Floats) -> Floats:
            # np.einsum sums the squares without holding them
            return np.asarray((np.einsum("ir,ir->r", weights, weights) - weights.sum(axis=0)) / 2)

        n = W.sum(axis=0)
        copies = pairs_within(W)
        every = n * (n - 1) / 2 - copies
        tied_x = pairs_within(self._x.sums(W)) - copies
        tied_xy = pairs_within(self._xy.sums(W)) - copies
        tied_y = pairs_within(self._y.sums(W[self._by_y])) - copies
        D = _inversions(self._levels, W)
        C = every - tied_x - tied_y + tied_xy - D
        return C, D, tied_x - tied_xy, tied_y - tied_xy, tied_xy

    def _spearman(self, counts: Floats) -> Floats:
        W = self._weights(counts)
        n = W.sum(axis=0)
        of_x, of_y = self._x.sums(W), self._y.sums(W[self._by_y])
        rank_x, rank_y = (np.cumsum(g, axis=0) - g / 2 - n / 2 for g in (of_x, of_y))  # centred
        covariance = np.einsum("ir,ir,ir->r", W, rank_x[self._x.of], rank_y[self._rank_y])
        vx = np.einsum("ir,ir,ir->r", of_x, rank_x, rank_x)
        vy = np.einsum("ir,ir,ir->r", of_y, rank_y, rank_y)
        with np.errstate(invalid="ignore", divide="ignore"):
            r = covariance / np.sqrt(vx * vy)
        return np.where((vx > 0) & (vy > 0), np.clip(r, -1, 1), np.nan)

    def _weights(self, counts: Floats) -> Floats:
        return np.ascontiguousarray(counts.T)[self._code]


class _Runs:
    """Runs of equal values in a sorted order. n: how many; of: (n samples,) which run."""

    def __init__(self, first: npt.NDArray[np.bool_]) -> None:
        self._starts = np.flatnonzero(first)
        self.n = self._starts.size
        self.of: Codes = np.cumsum(first) - 1

    def sums(self, W: Floats) -> Floats:
        """(runs, r) the weights of each run."""
        return W if self.n == W.shape[0] else np.add.reduceat(W, self._starts, axis=0)


class _Level(NamedTuple):
    """One bit of the ranks: rows in the order of the higher bits, then of the other variable.

    ones: the rows whose bit is 1, in that order. zeros: the rows with bit 0 that have ones before
    them in their group. before, base: how many ones stand before such a row, and before its group.
    """

    ones: Codes
    zeros: Codes
    before: Codes
    base: Codes


def _levels(ranks: Codes, rows: Codes) -> list[_Level]:
    """What counts inversions of `ranks`, bit by bit from the highest.

    Two ranks are inverted where, at the first bit in which they differ, the earlier one has 1 and
    the later one 0; before that bit they are in one group. rows: the samples behind the ranks.
    """
    levels = []
    order = np.arange(ranks.size)
    for bit in range(int(ranks.max(initial=0)).bit_length() - 1, -1, -1):
        r = ranks[order]
        one = (r >> bit) & 1
        group = r >> (bit + 1)
        starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
        sizes = np.diff(np.r_[starts, r.size])
        before = np.cumsum(one) - one  # ones strictly before
        base = np.repeat(before[starts], sizes)
        zeros = np.flatnonzero((one == 0) & (before > base))
        levels.append(
            _Level(
                ones=rows[order[one == 1]],
                zeros=rows[order[zeros]],
                before=before[zeros],
                base=base[zeros],
            )
        )
        order = order[np.argsort(r >> bit, kind="stable")]
    return levels


def _inversions(levels: Sequence[_Level], W: Floats) -> Floats:
    """(r,) weights of the inverted pairs."""
    total = np.zeros(W.shape[1])
    for level in levels:
        if not level.zeros.size:
            continue
        ones = np.zeros((level.ones.size + 1, W.shape[1]))
        np.cumsum(W[level.ones], axis=0, out=ones[1:])
        total += np.einsum("ir,ir->r", W[level.zeros], ones[level.before] - ones[level.base])
    return total


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Pairwise accuracy after tie calibration.

    Attributes:
        estimate: the accuracy on held-out pairs.
        thresholds: used on the two halves, each chosen on the other; NaN where undefined.
    """

    estimate: Estimate
    thresholds: tuple[float, float]


def best_threshold(
    d: Floats,
    concordant: npt.NDArray[np.bool_],
    tied: npt.NDArray[np.bool_],
    weights: Floats | None = None,
) -> float:
    """The ε >= 0 with the most pairs right when |x_i − x_j| <= ε counts as a tie of the metric.

    Args:
        d: (p,) |x_i − x_j|. concordant, tied: (p,) the metric orders the pair as the ratings do;
            the ratings tie it. weights: (p,) of the pairs, 1 if none.

    Of several equally good ones the smallest. Tried are 0 and every difference there is.
    """
    w = np.ones(d.size) if weights is None else weights
    order = np.argsort(d, kind="stable")
    d, gain = d[order], (w * (tied.astype(np.float64) - concordant))[order]
    last = np.flatnonzero(np.r_[d[1:] != d[:-1], True])
    total = np.cumsum(gain)[last]
    candidates = d[last]
    if candidates[0] > 0:
        candidates, total = np.r_[0.0, candidates], np.r_[0.0, total]
    return float(candidates[np.flatnonzero(total >= total.max() - _ROUNDING * w.sum())[0]])


def calibrated(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    clusters: npt.ArrayLike,
    *,
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> Calibrated:
    """Pairwise accuracy with ties after tie calibration, on pairs that did not choose the tie.

    A metric with continuous values never ties, people on a scale of five often do. Deutsch,
    Foster and Freitag 2023 (section 5) call a pair tied by the metric if `|x_i − x_j| <= ε` and
    take the ε with the highest accuracy. Chosen and evaluated on the same pairs that is too good;
    so the clusters are split into two halves at random, ε is chosen on the pairs of each and used
    on the pairs of the other, and the accuracy is over the pairs of both.

    Undefined: fewer than two clusters, or a half without a pair. Of more than `MOST_CALIBRATED`
    samples, whole clusters are taken at random until there are so many; the note says so.
    """
    x, y = _pair(x, y)
    names, code = np.unique(np.asarray(clusters), return_inverse=True)
    K, n, nan = names.size, x.size, float("nan")
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(K)
    sizes = np.bincount(code, minlength=K)[shuffled]
    kept = shuffled[: max(2, int(np.searchsorted(np.cumsum(sizes), MOST_CALIBRATED, "right")))]
    note = ""
    if kept.size < K:
        used = int(np.isin(code, kept).sum())
        note = f"calibrated on {used:,} of {n:,} samples, drawn at random"
    halves = [np.sort(kept[: kept.size // 2]), np.sort(kept[kept.size // 2 :])]
    tables = [_HalfPairs(x, y, code, half) for half in halves]
    if K < 2 or not all(t.n > 1 for t in tables):
        why = why_undefined("calibrated", x, y) or (
            "one cluster" if K < 2 else "too few samples to hold pairs out"
        )
        return Calibrated(interval_of(nan, None, n=n, clusters=K, why=why), (nan, nan))
    thresholds = (tables[1].threshold(), tables[0].threshold())
    right = [t.right(e) for t, e in zip(tables, thresholds, strict=True)]
    ones = [np.ones((1, half.size)) for half in halves]

    def accuracy(counts: Sequence[Floats]) -> Floats:
        good = np.zeros(counts[0].shape[0])
        every = np.zeros(counts[0].shape[0])
        for table, matrix, c in zip(tables, right, counts, strict=True):
            good += np.einsum("rk,rk->r", c @ matrix, c)
            every += (c @ table.sizes) ** 2 - (c * c) @ table.sizes
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(good / every)

    value = float(accuracy(ones)[0])
    # each half is resampled by itself, so that every resample holds as many clusters of each
    draws = zip(
        *(cluster_draws(h.size, resamples, seed + i, width=kept.size)
          for i, h in enumerate(halves)),
        strict=True,
    )  # fmt: skip
    drawn = np.concatenate([accuracy(counts) for counts in draws])
    estimate = interval_of(value, drawn, n=n, clusters=K, level=level)
    fixed = f"tie thresholds {thresholds[0]:.3g} and {thresholds[1]:.3g}"
    notes = "; ".join(filter(None, (fixed, note, estimate.note)))
    return Calibrated(
        Estimate(estimate.value, estimate.low, estimate.high, n, K,
                 why_no_interval=estimate.why_no_interval, note=notes),
        thresholds,
    )  # fmt: skip


class _HalfPairs:
    """All pairs of the samples in some clusters. sizes: (k,) samples of each cluster."""

    def __init__(self, x: Floats, y: Floats, code: Codes, clusters: Codes) -> None:
        rows = np.flatnonzero(np.isin(code, clusters))
        rows = rows[np.argsort(code[rows], kind="stable")]
        self.n = rows.size
        self._x, self._y = x[rows], y[rows]
        counts = np.unique(code[rows], return_counts=True)[1]
        self._starts = np.r_[0, np.cumsum(counts)[:-1]].astype(np.intp)
        self.sizes = counts.astype(np.float64)

    def threshold(self) -> float:
        i, j = np.triu_indices(self.n, k=1)
        dx, dy = self._x[i] - self._x[j], self._y[i] - self._y[j]
        return best_threshold(np.abs(dx), dx * dy > 0, dy == 0)

    def right(self, threshold: float) -> Floats:
        """(k, k) how many ordered pairs between two clusters the metric gets right."""
        dx = self._x[:, None] - self._x
        sign = np.where(np.abs(dx) <= threshold, 0, np.sign(dx))
        good = (sign == np.sign(self._y[:, None] - self._y)).astype(np.float64)
        np.fill_diagonal(good, 0.0)
        rows = np.add.reduceat(good, self._starts, axis=0)
        return np.asarray(np.add.reduceat(rows, self._starts, axis=1))


def calibrated_within(
    x: npt.ArrayLike, y: npt.ArrayLike, groups: npt.ArrayLike, *, seed: int = 0
) -> tuple[dict[object, float], tuple[float, float]]:
    """Calibrated accuracy among the samples of each group, e.g. the outputs for one source.

    Half of the groups choose the threshold for the other half and the other way round; in the
    choice every group weighs the same. Returns the accuracy of each group with at least one pair,
    and the two thresholds.
    """
    x, y = _pair(x, y)
    names, code = np.unique(np.asarray(groups), return_inverse=True)
    of: list[tuple[Floats, Floats]] = []
    paired = [k for k in range(names.size) if np.count_nonzero(code == k) > 1]
    order = np.argsort(code, kind="stable")
    starts = np.searchsorted(code[order], np.arange(names.size + 1))
    if len(paired) < 2:
        return {}, (float("nan"), float("nan"))
    for k in paired:
        rows = order[starts[k] : starts[k + 1]]
        i, j = np.triu_indices(rows.size, k=1)
        of.append((x[rows][i] - x[rows][j], y[rows][i] - y[rows][j]))
    shuffled = np.random.default_rng(seed).permutation(len(paired))
    halves = (shuffled[: len(paired) // 2], shuffled[len(paired) // 2 :])
    chosen = []
    for half in halves:
        dx = np.concatenate([of[k][0] for k in half])
        dy = np.concatenate([of[k][1] for k in half])
        weights = np.concatenate([np.full(of[k][0].size, 1 / of[k][0].size) for k in half])
        chosen.append(best_threshold(np.abs(dx), dx * dy > 0, dy == 0, weights))
    accuracy: dict[object, float] = {}
    for half, threshold in zip(halves, reversed(chosen), strict=True):
        for k in half:
            dx, dy = of[k]
            sign = np.where(np.abs(dx) <= threshold, 0, np.sign(dx))
            accuracy[names[paired[k]].item()] = float(np.mean(sign == np.sign(dy)))
    return accuracy, (chosen[1], chosen[0])
