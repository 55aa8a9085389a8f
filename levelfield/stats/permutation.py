"""Tests of paired systems: the clusters of what they answered change sides at random."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Floats
from levelfield.stats.bootstrap import OfMeans
from levelfield.stats.clusters import chunks, cluster_sums, coded, defined_rows

_TIE = 1e-10
"""Numbers nearer to each other than this share of their largest possible size are equal."""

_EQUAL = 1e-12
"""Values no farther apart than this share of the larger are equal."""

_SIGNS = 1 << 22
"""Signs held at a time: 32 MB, so that one product of matrices does much of the work."""


def paired_differences(x: Floats, y: Floats) -> Floats:
    """x − y, 0 where the two are equal but for rounding."""
    d = x - y
    d[np.abs(d) <= _EQUAL * np.maximum(np.abs(x), np.abs(y))] = 0.0
    return d


def swap_permutation(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    clusters: npt.ArrayLike,
    statistic: OfMeans,
    *,
    permutations: int = 10_000,
    seed: int = 0,
) -> float:
    """Two-sided p of a difference in a statistic of several means, by swapping whole clusters.

    What `paired_permutation` is for the difference of one mean: if two systems are exchangeable,
    what they have on the inputs of a cluster could as well be the other way round. The statistic
    is |f(means of a) − f(means of b)|. p = (b + 1) / (m + 1), b of m random patterns reaching it.

    Args:
        a, b: (n, columns) of two systems on the same inputs; a row with a NaN in either is left
            out.
        clusters: (n,) equal entries are swapped together.

    Undefined (NaN): no inputs.
    """
    pair = np.concatenate([np.asarray(a, np.float64), np.asarray(b, np.float64)], axis=1)
    pair, clusters = defined_rows(pair, clusters)
    if not len(pair):
        return float("nan")
    K, code = coded(clusters)
    S = cluster_sums(pair, code, K)
    S_a, S_b = np.split(S / float(len(pair)), 2, axis=1)  # (K, columns) each

    def difference(unswapped: Floats) -> Floats:
        # sums without a subtraction: what is left of one under a root would be no small error
        of_a, of_b = (unswapped @ x + (1 - unswapped) @ y for x, y in ((S_a, S_b), (S_b, S_a)))
        return np.asarray(np.abs(statistic(of_a) - statistic(of_b)))

    observed = float(difference(np.ones((1, K), np.float64))[0])
    rng = np.random.default_rng(seed)
    reached = 0
    for rows in chunks(permutations, K):
        unswapped = rng.integers(2, size=(rows.stop - rows.start, K)).astype(np.float64)
        reached += int((difference(unswapped) >= observed - _TIE * np.abs(S).sum()).sum())
    return (reached + 1) / (permutations + 1)


def paired_permutation(
    differences: npt.ArrayLike,
    clusters: npt.ArrayLike,
    *,
    permutations: int = 10_000,
    seed: int = 0,
) -> float:
    """Two-sided p of the mean of paired differences, by flipping the signs of whole clusters.

    If the two systems are exchangeable, every difference could as well have had the other sign;
    the pairs of one cluster flip together. The statistic is `|sum_k g_k S_k|`, S_k the sum of the
    differences in cluster k and g_k = ±1.

    With `2^K <= permutations` all sign patterns are tried, and p is the exact share of those
    whose statistic is at least the observed one (the observed pattern is one of them, so no
    correction is due). Else p = (b + 1) / (m + 1), b of m random patterns reaching it; without
    the 1 a p could be 0, and the test would reject too often (Phipson and Smyth 2010). Statistics
    equal up to rounding count as reached. A cluster whose differences sum to 0 changes no
    statistic and is not flipped; if all do, p = 1.

    Tests of this kind for language generation: Dror, Baumer, Shlomov and Reichart 2018, section 3.

    Args:
        differences: (n,) a − b on each input; NaN is left out.
        clusters: (n,) anything that sorts; equal entries flip together.

    Undefined (NaN): no differences.
    """
    differences, clusters = defined_rows(differences, clusters)
    if not differences.size:
        return float("nan")
    S = _flippable(differences, clusters)  # (K,)
    if not S.size:
        return 1.0
    reached = float(np.abs(S.sum()) - _TIE * np.abs(S).sum())
    if S.size < permutations.bit_length():  # 2^K <= permutations
        sums = np.zeros(1)
        for s in S:
            sums = np.concatenate([sums + s, sums - s])
        return float(np.mean(np.abs(sums) >= reached))
    rng = np.random.default_rng(seed)
    b = 0
    for rows in chunks(permutations, S.size):
        m = rows.stop - rows.start
        bits = np.frombuffer(rng.bytes(-(-m * S.size // 8)), np.uint8)
        plus = np.unpackbits(bits, count=m * S.size).reshape(m, S.size)
        # sum over + minus sum over − is twice the sum over + minus everything
        b += int((np.abs(2 * (plus.astype(np.float64) @ S) - S.sum()) >= reached).sum())
    return (b + 1) / (permutations + 1)


def smallest_p(differences: npt.ArrayLike, clusters: npt.ArrayLike) -> float:
    """The smallest p that an exact `paired_permutation` of these differences can give.

    It is `2 / 2^K`, K the clusters whose differences do not cancel: all signs as observed or all
    the other way round. With K < 6 it is above 0.05, so no difference can be shown.
    """
    differences, clusters = defined_rows(differences, clusters)
    return min(1.0, 2.0 ** (1 - _flippable(differences, clusters).size))


def sign_flip_p(S: Floats, *, permutations: int, seed: int = 0) -> Floats:
    """`paired_permutation` of many comparisons over the same clusters, at once.

    Every column is tested by `|Σ_k g_k S_k|` under the same random signs g, which leaves each p as
    it is and makes the work one product of matrices. A column with so few clusters that all sign
    patterns can be tried is tested exactly.

    Args:
        S: (clusters, comparisons) sums of the (weighted) differences of each cluster.

    Returns:
        (comparisons,) two-sided p; 1 where no cluster differs.
    """
    size = np.abs(S).sum(axis=0)
    active = np.abs(S) > _TIE * size
    few = active.sum(axis=0) < permutations.bit_length()
    p = np.full(S.shape[1], np.nan)
    for column in np.flatnonzero(few):
        mine = np.flatnonzero(active[:, column])
        p[column] = paired_permutation(S[mine, column], mine) if mine.size else 1.0
    many = np.flatnonzero(~few)
    if many.size:
        S = S[:, many]
        total = S.sum(axis=0)
        reached = np.abs(total) - _TIE * size[many]
        b = np.zeros(many.size)
        K, rng = S.shape[0], np.random.default_rng(seed)
        step = max(1, _SIGNS // K)
        for start in range(0, permutations, step):
            m = min(step, permutations - start)
            bits = np.frombuffer(rng.bytes(-(-m * K // 8)), np.uint8)
            plus = np.unpackbits(bits, count=m * K).reshape(m, K).astype(np.float64)
            b += (np.abs(2 * (plus @ S) - total) >= reached).sum(axis=0)
        p[many] = (b + 1) / (permutations + 1)
    return p


def _flippable(differences: Floats, clusters: npt.NDArray[np.generic]) -> Floats:
    """The sums of the differences of those clusters in which they do not cancel."""
    K, code = coded(clusters)
    S, size = (cluster_sums(v, code, K) for v in (differences, np.abs(differences)))
    return S[np.abs(S) > _TIE * size]
