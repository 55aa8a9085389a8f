"""Soft pairwise accuracy of a metric on systems (Thompson, Mathur, Deutsch and Khayrallah 2024)."""

from __future__ import annotations

import itertools

import numpy as np

from levelfield.core.arrays import Codes, Floats
from levelfield.stats.clusters import chunks
from levelfield.stats.estimate import Estimate, undefined
from levelfield.stats.resampling import DEFAULT, Resampling

_TIE = 1e-10
"""Sums nearer to each other than this share of their largest possible size are equal."""


def soft_pairwise_accuracy(
    x: Floats,
    y: Floats,
    cluster: Codes,
    system: Codes,
    *,
    resampling: Resampling = DEFAULT,
) -> Estimate:
    """Agreement of a metric and ratings on how certain each pairwise ranking of systems is.

    For every two systems i, j, p_ij is the one-sided p of i being better, from a paired permutation
    test that swaps the clusters that both have; permutations that equal the observed difference
    count one half, so p_ij + p_ji = 1 and equal systems have 1 / 2. With p^x of the metric and p^y
    of the ratings, the accuracy is the mean over pairs of `1 − |p^x − p^y|`. Pairwise accuracy has
    0 or 1 there, and so depends on differences that ratings do not show. A system's texts of one
    cluster are averaged. The metric and the ratings have the same permutations.

    Args:
        x, y: (n,) metric and ratings, no NaN.
        cluster, system: (n,) codes.
        resampling: its permutations and seed.

    Undefined: no two systems share a cluster. A pair that shares none is left out and counted in
    the note. The accuracy has no interval.
    """
    S, K = int(system.max()) + 1, int(cluster.max()) + 1
    code = system * K + cluster
    sizes = np.bincount(code, minlength=S * K).reshape(S, K)
    pair_p = []
    has = sizes > 0
    pairs = [(i, j) for i, j in itertools.combinations(range(S), 2) if (has[i] & has[j]).any()]
    if not pairs:
        return undefined("no two systems share a source", n=S, clusters=K)
    for v in (x, y):
        with np.errstate(invalid="ignore"):
            means = np.bincount(code, v, minlength=S * K).reshape(S, K) / sizes
        differences = np.stack([means[i] - means[j] for i, j in pairs], axis=1)  # (K, pairs)
        pair_p.append(_p_values(np.nan_to_num(differences, nan=0.0), resampling))
    p_x, p_y = pair_p
    left = S * (S - 1) // 2 - len(pairs)
    return Estimate(
        float(np.mean(1 - np.abs(p_x - p_y))), float("nan"), float("nan"), S, K,
        why_no_interval="soft accuracy has none",
        note=f"{left:,} pairs of systems share no source and are left out" if left else "",
    )  # fmt: skip


def _p_values(differences: Floats, resampling: Resampling) -> Floats:
    """Returns the one-sided p of (K, pairs) differences of clusters: (pairs,)."""
    observed = differences.sum(axis=0)
    tie = _TIE * np.abs(differences).sum(axis=0)
    reached = np.zeros(observed.size)
    rng = np.random.default_rng(resampling.seed)
    for rows in chunks(resampling.permutations, max(differences.shape)):
        signs = rng.choice((-1.0, 1.0), size=(rows.stop - rows.start, len(differences)))
        further = signs @ differences - observed
        reached += (further > tie).sum(axis=0) + 0.5 * (np.abs(further) <= tie).sum(axis=0)
    return np.asarray(reached / resampling.permutations, dtype=np.float64)
