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
    sign, size = 1.0 if observed >= 0 else -1.0, abs(observed) - _TIE * float(np.abs(S).sum())
    rng = np.random.default_rng(seed)
    reached = 0
    for rows in chunks(permutations, K):
        unswapped = rng.integers(2, size=(rows.stop - rows.start, K)).astype(np.float64)
        reached += int((np.abs(difference(unswapped)) >= size).sum())
    differing = int((np.abs(S_a - S_b) > _TIE * np.abs(S).sum()).any(axis=1).sum())
    least, p = 2.0 ** (1 - differing), (reached + 1) / (permutations + 1)
    if p >= RARE or least > RARE:
        return min(1.0, max(p, least))

    def reaches(plus: Bools) -> Bools:
        return np.asarray(sign * difference(plus.astype(np.float64)) >= size)

    a_k = sign * (S_a - S_b) @ slopes(statistic, (S_a + S_b).sum(axis=0) / 2)
    tilted = tilted_p(reaches, a_k, abs(observed), seed=seed)
    return p if tilted is None else max(tilted, least)


def slopes(statistic: OfMeans, means: Floats) -> Floats:
    """(columns,) the derivatives of a statistic by each of its means."""
    steps = np.diag(_STEP * np.maximum(np.abs(means), 1e-3))
    above, below = np.split(statistic(np.concatenate([means + steps, means - steps])), 2)
    return np.asarray((above - below) / (2 * np.diag(steps)))
