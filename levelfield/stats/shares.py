"""Intervals of shares, which stay inside [0, 1] and have a width where all values are equal."""

from __future__ import annotations

import math

import numpy as np
import scipy

from levelfield.core.arrays import Floats

MOST_VOTES = 12
"""A value is a share of so many votes at most."""


def votes_of(values: Floats) -> int:
    """Of how many votes values are shares, as those of judges: 1 if they are 0 or 1; 0 if none.

    >>> votes_of(np.array([0.0, 1.0, 1.0])), votes_of(np.array([0.0, 0.5, 1.0]))
    (1, 2)
    >>> votes_of(np.array([0.0, 0.4137])), votes_of(np.array([]))
    (0, 0)
    """
    if not values.size or values.min() < 0 or values.max() > 1:
        return 0
    distinct = np.unique(values)
    if distinct.size > MOST_VOTES + 1:
        return 0
    for votes in range(1, MOST_VOTES + 1):
        if np.allclose(distinct * votes, np.round(distinct * votes), rtol=0, atol=1e-9):
            return votes
    return 0


def share_ends(
    p: float,
    variance: float,
    *,
    n: float,
    clusters: float,
    level: float,
    df: float | None = None,
    votes: int = 1,
) -> tuple[float, float]:
    """The ends of Wilson's interval of a share, with the effective number of values.

    The ends are the shares π with `|p − π| = z √(π (1 − π) / n_e)` (Wilson 1927), where
    `n_e = p (1 − p) / variance`, at most the number of votes, counts how many independent votes
    tell as much (Dean and Pagano 2015), and z is Student's with the degrees of freedom of the
    variance. If every value is 0 or 1 and a cluster, the variance follows from p: n_e is n and z
    normal. Without any variance each cluster counts as one vote.

    >>> low, high = share_ends(1.0, 0.0, n=50, clusters=50, level=0.95)
    >>> round(low, 3), high
    (0.929, 1.0)

    Args:
        p: the share, in [0, 1].
        variance: of p, from the differences between clusters; not looked at where every value is
            one vote and a cluster.
        n: how many values, effectively if they differ in weight.
        clusters: how many clusters they form, likewise; two or more.
        df: degrees of freedom of the variance; clusters − 1 by default.
        votes: of how many a value is the share.
    """
    if clusters >= n and votes == 1:
        n_e, z = float(n), float(scipy.special.ndtri((1 + level) / 2))
    else:
        varies = variance > 0 and 0 < p < 1
        n_e = min(p * (1 - p) / variance, float(n * votes)) if varies else clusters
        z = float(scipy.special.stdtrit(clusters - 1 if df is None else df, (1 + level) / 2))
    shrunk = z * z / n_e
    centre = (p + shrunk / 2) / (1 + shrunk)
    half = z * math.sqrt(p * (1 - p) / n_e + shrunk / (4 * n_e)) / (1 + shrunk)
    return (
        0.0 if p == 0 else max(0.0, centre - half),
        1.0 if p == 1 else min(1.0, centre + half),
    )
