"""Tests of paired systems by a statistic of several means: whole clusters change sides."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Bools, Floats
from levelfield.stats.bootstrap import OfMeans
from levelfield.stats.clusters import chunks, cluster_sums, coded, defined_rows
from levelfield.stats.tilting import RARE, tilted_p

_TIE = 1e-10
"""Numbers nearer to each other than this share of their largest possible size are equal."""

_STEP = 1e-6
"""Of the derivative of the statistic, as a share of the means."""


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

    What `sign_flips` is for the difference of one mean: if two systems are exchangeable, what they
    have on the inputs of a cluster could as well be the other way round. The statistic is
    |f(means of a) − f(means of b)|. p = (b + 1) / (m + 1), b of m random patterns reaching it;
    where b / m < 0.005, p comes from `tilted_p`.

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
        return np.asarray(statistic(of_a) - statistic(of_b))

    observed = float(difference(np.ones((1, K), np.float64))[0])
    sign, least = 1.0 if observed >= 0 else -1.0, abs(observed) - _TIE * float(np.abs(S).sum())
    rng = np.random.default_rng(seed)
    reached = 0
    for rows in chunks(permutations, K):
        unswapped = rng.integers(2, size=(rows.stop - rows.start, K)).astype(np.float64)
        reached += int((np.abs(difference(unswapped)) >= least).sum())
    differing = int((np.abs(S_a - S_b) > _TIE * np.abs(S).sum()).any(axis=1).sum())
    if reached >= RARE * permutations or 2.0 ** (1 - differing) > RARE:
        return (reached + 1) / (permutations + 1)

    def reaches(plus: Bools) -> Bools:
        return np.asarray(sign * difference(plus.astype(np.float64)) >= least)

    half = (S_a + S_b).sum(axis=0) / 2
    slope = np.array([_slope(statistic, half, j) for j in range(half.size)])
    p = tilted_p(reaches, sign * (S_a - S_b) @ slope, abs(observed), seed=seed)
    return (reached + 1) / (permutations + 1) if p is None else max(p, 2.0 ** (1 - differing))


def _slope(statistic: OfMeans, means: Floats, j: int) -> float:
    """The derivative of a statistic of means by one of them."""
    step = _STEP * max(abs(float(means[j])), 1e-3)
    ends = np.stack([means, means])
    ends[:, j] += [step, -step]
    above, below = statistic(ends)
    return float(above - below) / (2 * step)
