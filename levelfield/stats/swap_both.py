"""PERM-BOTH: two metrics exchange the values of whole systems and of whole sources."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Floats
from levelfield.stats.clusters import chunks, cluster_sums, coded
from levelfield.stats.dependent import Swapped
from levelfield.stats.estimate import too_few
from levelfield.stats.grouped import ranked_within
from levelfield.stats.measures import constant
from levelfield.stats.moments import r_of_moments, standardised

_SAME = 1e-9
"""Correlations nearer than this are equal but for rounding."""


def swap_both(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    y: npt.ArrayLike,
    systems: npt.ArrayLike,
    sources: npt.ArrayLike,
    *,
    ranks: bool = False,
    permutations: int = 10_000,
    seed: int = 0,
) -> Swapped:
    """Tests two metrics by PERM-BOTH of Deutsch, Dror and Roth 2021, section 4.

    Both metrics are standardised. In a permutation the values of each system are exchanged or not,
    then those of each source, so that a value changes sides if one of the two does and the other
    does not; the difference of the correlations is computed again. p = (b + 1) / (m + 1), b of m
    random permutations reaching the observed difference (Phipson and Smyth 2010).

    Args:
        a, b, y: (n,) the metrics and the ratings, no NaN.
        systems, sources: (n,) anything that sorts.
        ranks: correlate ranks, which are not ranked again.

    Undefined: fewer than two samples, a constant metric or constant ratings.
    """
    columns = [np.asarray(v, np.float64) for v in (a, b, y)]
    n, nan = columns[2].size, math.nan
    (S, system), (K, source) = coded(systems), coded(sources)
    reason = too_few(n) or ("constant rating" if constant(columns[2]) else "")
    reason = reason or ("constant metric" if any(constant(v) for v in columns[:2]) else "")
    if reason:
        return Swapped(nan, nan, nan, n, K, 0, reason)
    if ranks:
        columns = [ranked_within(v, np.zeros(n, np.intp)) for v in columns]
    x_a, x_b, y = (standardised(v) for v in columns)
    gaps = np.stack([x_b - x_a, x_b**2 - x_a**2, (x_b - x_a) * y], axis=1)
    cells = cluster_sums(gaps, system * K + source, S * K).reshape(S, K, 3)

    def differences(system_swaps: Floats, source_swaps: Floats) -> Floats:
        """Returns (r,) differences from (r, S) and (r, K), 1 where a unit is exchanged."""
        gained = system_swaps @ cells.sum(axis=1) + source_swaps @ cells.sum(axis=0)
        for j in range(3):
            gained[:, j] -= 2 * ((system_swaps @ cells[:, :, j]) * source_swaps).sum(axis=1)
        ones = np.ones(len(gained))

        def r(sign: float) -> Floats:
            s, ss, sy = (sign * gained).T
            x = x_a if sign > 0 else x_b
            return r_of_moments(
                np.stack(
                    [n * ones, s + x.sum(), y.sum() * ones, ss + n, n * ones, sy + x @ y], axis=1
                )
            )

        return np.asarray(r(1.0) - r(-1.0))

    observed = float(differences(np.zeros((1, S)), np.zeros((1, K)))[0])
    if abs(observed) < _SAME:
        return Swapped(0.0, 1.0, 0.5, n, K, 1)
    rng = np.random.default_rng(seed)
    either = greater = 0
    for rows in chunks(permutations, S + K):
        m = rows.stop - rows.start
        d = differences(*(rng.integers(0, 2, (m, N)).astype(np.float64) for N in (S, K)))
        d = np.where(np.isnan(d), np.inf, d)  # exchanged into a constant
        either += int((np.abs(d) >= abs(observed) - _SAME).sum())
        greater += int((d >= observed - _SAME).sum())
    p, p_greater = ((count + 1) / (permutations + 1) for count in (either, greater))
    return Swapped(observed, p, p_greater, n, K, 1)
