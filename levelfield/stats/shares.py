"""Intervals of shares, which stay inside [0, 1] and have a width where all values are equal."""

from __future__ import annotations

import math

import numpy as np
import scipy

from levelfield.core.arrays import Floats

MOST_VOTES = 12
"""The greatest number of votes that a value may be a share of."""


def votes_of(values: Floats) -> int:
    """Returns the number of votes that values are shares of, as those of judges: 1 if they are 0 or
    1; 0 if none.

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
    """Returns the ends of Wilson's interval of a share, with the effective number of values.

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
    z = _quantile(n, clusters, level, df, votes)
    if clusters >= n and votes == 1:
        n_e = float(n)
    else:
        varies = variance > 0 and 0 < p < 1
        n_e = min(p * (1 - p) / variance, float(n * votes)) if varies else clusters
    shrunk = z * z / n_e
    centre = (p + shrunk / 2) / (1 + shrunk)
    half = z * math.sqrt(p * (1 - p) / n_e + shrunk / (4 * n_e)) / (1 + shrunk)
    return (
        0.0 if p == 0 else max(0.0, centre - half),
        1.0 if p == 1 else min(1.0, centre + half),
    )


def equal_difference_ends(
    d: float, *, n: float, clusters: float, level: float, votes: int = 1
) -> tuple[float, float]:
    """Returns the ends of Tango's interval of a difference of paired shares that is the same on all
    inputs.

    The ends are the differences δ whose score statistic (Tango 1998, "Equivalence test and
    confidence interval for the difference in proportions for the paired-sample design") is z in
    size. With s = z² / K they are `± s / (1 + s)` where no input differs, as far from 0 as the end
    of Wilson's interval of K votes that are all alike is from theirs, and `(1 − s) / (1 + s)` and 1
    where one system has every input and the other none. Each cluster counts as one vote, and z is
    that of `share_ends`.

    >>> low, high = equal_difference_ends(0.0, n=8, clusters=8, level=0.95)
    >>> round(low, 3), round(high, 3)
    (-0.324, 0.324)

    Args:
        d: −1, 0 or 1.
        n, clusters, votes: as for `share_ends`.
        level: of the interval.
    """
    s = _quantile(n, clusters, level, None, votes) ** 2 / clusters
    if d == 0:
        return -s / (1 + s), s / (1 + s)
    end = (1 - s) / (1 + s)
    return (end, 1.0) if d > 0 else (-1.0, -end)


def _quantile(n: float, clusters: float, level: float, df: float | None, votes: int) -> float:
    """Returns the normal quantile if every value is one vote and a cluster, else Student's."""
    if clusters >= n and votes == 1:
        return float(scipy.special.ndtri((1 + level) / 2))
    return float(scipy.special.stdtrit(clusters - 1 if df is None else df, (1 + level) / 2))
