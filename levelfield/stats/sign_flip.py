"""The sign-flip test of paired differences, and the interval that agrees with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Bits, Bools, Floats
from levelfield.stats.clusters import MANY, bits_times, cluster_errors, held_together
from levelfield.stats.resampling import DEFAULT, Resampling
from levelfield.stats.tilting import is_rare, small_p_of_sum

_TIE = 1e-10
"""Sums nearer to 0 than this share of their largest possible size are 0."""

_EQUAL = 1e-12
"""Values no farther apart than this share of the larger are equal."""

_COLUMNS = 64
"""Comparisons tested at a time: 10 MB of means for 10,000 patterns."""

_MOST_ROWS = 1 << 10
"""Patterns whose sums are held at a time."""

_SIGNS = 1 << 22
"""Signs drawn at a time, so that one product of matrices does much of the work."""


def paired_differences(x: Floats, y: Floats) -> Floats:
    """Returns x − y, 0 where the two are equal up to rounding."""
    d = x - y
    d[np.abs(d) <= _EQUAL * np.maximum(np.abs(x), np.abs(y))] = 0.0
    return d


@dataclass(frozen=True)
class SignFlips:
    """Sign-flip tests of several comparisons.

    Attributes:
        p: (comparisons,) two-sided.
        low, high: (comparisons,) ends of the intervals; NaN where no p can be as small as
            1 − level, so that no difference can be excluded, and where all differences are equal,
            so that the two ends would be one.
        least: (comparisons,) the smallest p that differences of this number of clusters can have.
        se, df: (comparisons,) standard errors and their degrees of freedom, for what a test can
            detect; see `cluster_errors`.
    """

    p: Floats
    low: Floats
    high: Floats
    least: Floats
    se: Floats
    df: Floats


def sign_flips(
    S: Floats, W: Floats, *, mid: Bools | None = None, resampling: Resampling = DEFAULT
) -> SignFlips:
    """Returns tests and intervals of several weighted mean differences over the same clusters.

    If differences are symmetric about δ, as those of two exchangeable systems are about 0, each
    could just as well be as far on its other side; those of one cluster change sides together. The
    statistic is `|Σ_k g_k (S_k − δ W_k)|`, S_k and W_k the weighted sum of the differences of
    cluster k and its weight, g_k = ±1. p is the share of sign patterns that reach what is observed,
    at δ = 0 (Dror, Baumer, Shlomov and Reichart 2018, section 3). The interval holds the δ that the
    same patterns do not reject at 1 − level: its ends are quantiles of the means over random
    subsets of clusters, `Σ_F S_k / Σ_F W_k` (Hartigan 1969). So it excludes 0 exactly if
    p ≤ 1 − level.

    Patterns of K clusters whose sums are not 0 are enumerated if `2^K <= permutations`; p is then
    exact. Else p = (b + 1) / (m + 1), b of m random patterns reaching the observed statistic;
    without the 1 the test would reject too often (Phipson and Smyth 2010). Where b / m < 0.005
    and m >= 200, p comes from `small_p_of_sum`. Sums equal up to rounding are ties and count as
    reached.

    The test is exact if differences are symmetric; skewed differences of few clusters are not.

    Differences of values that are 0 or 1 have ties enough to let the test reject half as often as
    it might. With mid-p, patterns that tie with the observed one count half (Lancaster 1961); for
    single clusters this is the mid-p test of McNemar (Fagerland, Lydersen and Laake 2013), except
    for a difference of 0. Its p is 1, twice the mid-p of either side: their 1 − f / 2, f the
    probability of the tie, is 0.5 where no input differs. An end of the interval may be 0 where
    p <= 1 − level, and small p, which `small_p_of_sum` gives, are not halved.

    Args:
        S, W: (clusters, comparisons).
        mid: (comparisons,) which have mid-p; none by default.
        resampling: its permutations, level and seed.

    Undefined (NaN): a comparison without weight.
    """
    p, low, high, least = (np.full(S.shape[1], np.nan) for _ in range(4))
    size = np.abs(S).sum(axis=0)
    active = np.abs(S) > _TIE * size
    n_active = active.sum(axis=0)
    mid = np.zeros(S.shape[1], np.bool_) if mid is None else mid
    halved = mid & (n_active > 0)
    least[:] = np.minimum(1.0, 2.0 ** (1 - n_active.astype(np.float64))) / (1 + halved)
    used = W.sum(axis=0) > 0
    few = n_active < resampling.permutations.bit_length()  # 2^K <= permutations
    groups = [np.array([j]) for j in np.flatnonzero(used & few)]
    many = np.flatnonzero(used & ~few)
    groups += np.split(many, range(_COLUMNS, many.size, _COLUMNS)) if many.size else []
    rare: list[np.intp] = []
    for columns in groups:
        exact = bool(few[columns[0]])
        patterns = (
            _enumerated(active[:, columns[0]], W[:, columns[0]] > 0, resampling)
            if exact
            else _random(S.shape[0], resampling)
        )
        tested = _tested(
            S[:, columns], W[:, columns], mid[columns], patterns, resampling, exact=exact
        )
        p[columns], low[columns], high[columns], reached = tested
        if not exact:
            tried = resampling.permutations
            rare += [j for j, b in zip(columns, reached, strict=True) if is_rare(b, tried)]
    for j in rare:
        small = small_p_of_sum(S[active[:, j], j], _TIE, seed=resampling.seed)
        p[j] = p[j] if small is None else max(least[j], small)
    flat = high - low <= _EQUAL * np.maximum(np.abs(low), np.abs(high))
    low[flat] = high[flat] = np.nan
    return SignFlips(p, low, high, np.where(used, least, np.nan), *cluster_errors(S, W))


def _tested(
    S: Floats,
    W: Floats,
    mid: Bools,
    patterns: Iterator[Bits],
    resampling: Resampling,
    *,
    exact: bool,
) -> tuple[Floats, Floats, Floats, npt.NDArray[np.intp]]:
    """Returns p, low, high and how many patterns reach the observed statistic, each
    (comparisons,)."""
    sign = np.where(S.sum(axis=0) < 0, -1.0, 1.0)
    S = S * sign
    total, weight, tie = S.sum(axis=0), W.sum(axis=0), _TIE * np.abs(S).sum(axis=0)
    mid = mid & (total > tie)
    if len(S) > MANY:
        pattern_sums = _sums_of_many(patterns, S, W)
    else:
        pattern_sums = (
            (plus.astype(np.float64) @ S, plus.astype(np.float64) @ W) for plus in patterns
        )
    lower, upper = [], []  # of the two means that a pattern parts the clusters into
    reached, ties = (np.zeros(S.shape[1], dtype=np.intp) for _ in range(2))
    for sums, weights in pattern_sums:
        sums = np.stack([sums, total - sums])
        weights = np.stack([weights, weight - weights])
        sums[np.abs(sums) <= tie] = 0.0
        reached += (sums <= 0).any(axis=0).sum(axis=0)
        if mid.any():
            ties += ((sums == 0).any(axis=0) & ~(sums < 0).any(axis=0)).sum(axis=0)
        nothing = weights <= _EQUAL * weight
        with np.errstate(invalid="ignore", divide="ignore"):
            means = sums / weights
        lower.append(np.where(nothing.any(axis=0), -np.inf, means.min(axis=0)))
        upper.append(np.where(nothing.any(axis=0), np.inf, means.max(axis=0)))
    m = sum(map(len, lower)) + (not exact)
    p = (reached - mid * ties / 2 + (not exact)) / m
    # the first of the sorted means at which p exceeds 1 − level
    first = int((1 - resampling.level) * m + 1e-9) - (not exact)
    ends = np.full((2, S.shape[1]), np.inf)
    if first >= 0:
        ends[0] = np.partition(np.concatenate(lower), first, axis=0)[first]
        ends[1] = -np.partition(-np.concatenate(upper), first, axis=0)[first]
    ends = np.where(np.isinf(ends).any(axis=0), np.nan, np.sort(sign * ends, axis=0))
    return p, ends[0], ends[1], reached


def _sums_of_many(
    patterns: Iterator[Bits], S: Floats, W: Floats
) -> Iterator[tuple[Floats, Floats]]:
    """Yields the sums of S and of W over the clusters with a +, (r, comparisons); equal columns of
    W are summed once."""
    columns: dict[bytes, int] = {}
    first = [columns.setdefault(w.tobytes(), j) for j, w in enumerate(W.T)]
    columns_used = list(columns.values())
    X = np.concatenate([S, W[:, columns_used]], axis=1)
    place = [S.shape[1] + columns_used.index(j) for j in first]
    for plus in held_together(patterns, _MOST_ROWS):
        sums = bits_times(plus, X)
        yield sums[:, : S.shape[1]], sums[:, place]


def _random(K: int, resampling: Resampling) -> Iterator[Bits]:
    """Yields random patterns in chunks of (r, K), 1 for a + and 0 for a −."""
    rng = np.random.default_rng(resampling.seed)
    step = max(1, _SIGNS // K)
    for start in range(0, resampling.permutations, step):
        m = min(step, resampling.permutations - start)
        yield _bits(rng, m, K)


def _enumerated(active: Bools, used: Bools, resampling: Resampling) -> Iterator[Bits]:
    """Yields all patterns of the active clusters; those that change no p at δ = 0 are random."""
    columns = np.flatnonzero(active)
    every = 1 << columns.size
    idle = bool((used & ~active).any())
    rows = every * (-(-resampling.permutations // every) if idle else 1)
    rng = np.random.default_rng(resampling.seed)
    step = max(1, _SIGNS // active.size)
    for start in range(0, rows, step):
        patterns = np.arange(start, min(start + step, rows)) % every
        shape = (patterns.size, active.size)
        plus = _bits(rng, *shape) if idle else np.zeros(shape, np.uint8)
        plus[:, columns] = (patterns[:, None] >> np.arange(columns.size)) & 1
        yield plus


def _bits(rng: np.random.Generator, rows: int, columns: int) -> Bits:
    """Returns random bits: (rows, columns)."""
    bits = np.frombuffer(rng.bytes(-(-rows * columns // 8)), np.uint8)
    return np.unpackbits(bits, count=rows * columns).reshape(rows, columns)
