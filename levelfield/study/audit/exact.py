"""Tests of counts and of lengths, with a level that a study without a fault does not reach."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import bdtr, bdtrc, gammaln
from scipy.stats import mannwhitneyu

LEVEL = 1e-7
"""A study has thousands of comparisons; p below this is no chance of any of them."""


def p_of_shares(a: int, n: int, b: int, m: int) -> float:
    """Fisher's exact test of a of n against b of m: twice the smaller tail, at most 1.

    >>> round(p_of_shares(1, 10, 9, 10), 6)
    0.001093
    """
    least, most = max(0, a + b - m), min(n, a + b)
    k = np.arange(least, most + 1)
    log_p = -sum(gammaln(x + 1) for x in (k, n - k, a + b - k, m - a - b + k))
    p = np.exp(log_p - log_p.max())
    tails = p[: a - least + 1].sum(), p[a - least :].sum()
    return min(1.0, 2 * float(min(tails) / p.sum()))


def p_of_more(k: int, n: int, p: float) -> float:
    """P(X ≥ k) of a binomial of n draws with share p.

    >>> round(p_of_more(3, 3, 0.5), 6)
    0.125
    """
    return float(bdtrc(k - 1, n, p)) if k > 0 else 1.0


def p_of_fewer(k: int, n: int, p: float) -> float:
    """P(X ≤ k) of a binomial of n draws with share p.

    >>> round(p_of_fewer(0, 3, 0.5), 6)
    0.125
    """
    return float(bdtr(k, n, p))


def p_of_order(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Mann and Whitney's test: P(X > Y) + P(X = Y) / 2 as it is here, and p, asymptotic.

    >>> share, p = p_of_order([1, 2, 3], [4, 5, 6])
    >>> share
    0.0
    """
    test = mannwhitneyu(x, y, method="asymptotic")
    return float(test.statistic) / (len(x) * len(y)), float(test.pvalue)
