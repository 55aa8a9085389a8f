"""Values within groups of samples, all groups at once."""

from __future__ import annotations

import numpy as np

from levelfield.core.arrays import Bools, Codes, Floats
from levelfield.stats.moments import moments, r_of_moments


def group_rows(group: Codes, G: int) -> list[Codes]:
    """Returns the rows of each of G groups, in their order. group: (n,) codes."""
    order = np.argsort(group, kind="stable")
    return np.split(order, np.searchsorted(group[order], np.arange(1, G)))


def varies_within(v: Floats, group: Codes, G: int) -> Bools:
    """Returns (G,) whether values of a group differ."""
    low, high = np.full(G, np.inf), np.full(G, -np.inf)
    np.minimum.at(low, group, v)
    np.maximum.at(high, group, v)
    return np.asarray(low < high)


def standardised_within(v: Floats, group: Codes, G: int) -> Floats:
    """Returns (n,) values with mean 0 and standard deviation 1 in each group; 0 where they are
    equal."""
    size = np.maximum(np.bincount(group, minlength=G), 1)

    def mean(values: Floats) -> Floats:
        return np.asarray(np.bincount(group, weights=values, minlength=G) / size)

    low = np.full(G, np.inf)
    np.minimum.at(low, group, v)
    d = v - low[group]  # so that a mean far from 0 takes no digits
    d = d - mean(d)[group]
    largest = np.zeros(G)
    np.maximum.at(largest, group, np.abs(d))
    scale = np.where(varies_within(v, group, G) & (largest > 0), largest, np.inf)
    d = d / scale[group]  # so that no square is lost to underflow
    deviation = np.sqrt(mean(d * d))
    return np.asarray(d / np.where(deviation > 0, deviation, 1.0)[group], dtype=np.float64)


def ranked_within(v: Floats, group: Codes) -> Floats:
    """Returns the (n,) ranks within groups; equal values share the mean of their ranks."""
    order = np.lexsort((v, group))
    s, g = v[order], group[order]
    first = np.r_[True, (s[1:] != s[:-1]) | (g[1:] != g[:-1])][: s.size]
    starts = np.flatnonzero(first)
    ends = np.r_[starts[1:], s.size]
    group_first = np.r_[True, g[1:] != g[:-1]][: s.size]
    group_start = np.flatnonzero(group_first)[np.cumsum(group_first) - 1]
    run = np.cumsum(first) - 1
    ranks = np.empty(v.size)
    ranks[order] = ((starts + ends + 1) / 2)[run] - group_start
    return ranks


def r_within(x: Floats, y: Floats, group: Codes, G: int) -> Floats:
    """Returns (G,) Pearson's r within each group; NaN where one of the two is constant."""
    M = moments(standardised_within(x, group, G), standardised_within(y, group, G), group, G)
    varies = varies_within(x, group, G) & varies_within(y, group, G)
    r = r_of_moments(np.concatenate([np.maximum(M[:, :1], 1), M[:, 1:]], axis=1))
    return np.where(varies, r, np.nan)
