"""Small p-values of tests that exchange two systems or metrics at random.

With m random patterns of signs p is at least 1 / (m + 1) however clear a difference is, so that p
adjusted for hundreds of comparisons could never be small. Where few patterns reach the observed
statistic, p is estimated from patterns that are drawn to reach it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from levelfield.core.arrays import Bools, Floats
from levelfield.stats.clusters import chunks

RARE = 0.005
"""p is estimated by `tilted_p` where a smaller share of random patterns reaches the statistic."""

_DRAWS = 2000

_FEWEST = 20
"""So many draws at least reach the statistic, or its linear part says little of it."""

Reaches = Callable[[Bools], Bools]
"""(r, K) which signs are + -> (r,) whether the statistic is at least the observed one."""


def tilted_p(reaches: Reaches, coefficients: Floats, observed: float, *, seed: int) -> float | None:
    """Two-sided p of a statistic T of K random signs with T(−g) = −T(g), by importance sampling.

    Signs are drawn with `P(g_k = 1) = 1 / (1 + e^(−2 θ a_k))`, θ such that `Σ a_k tanh(θ a_k)`, the
    mean of the linear statistic Σ a_k g_k, is the observed one. A pattern that reaches it weighs
    `Π cosh(θ a_k) e^(−θ a_k g_k)`, how much likelier it is under fair signs, so the mean weight is
    the one-sided p without bias (exponential tilting; Siegmund 1976). Its standard error is a few
    percent of p; two of them are added, so that chance makes p too large rather than too small.

    Args:
        reaches: the test.
        coefficients: (K,) a, the statistic's linear part: T(g) is near Σ a_k g_k. The nearer, the
            smaller the error; without bias whatever they are.
        observed: T with all signs +; above 0.

    Undefined (None): hardly any draw reaches the statistic, since its linear part is far from it.
    """
    a = coefficients
    # nearer to the largest possible value than the smallest coefficient, all signs would be +
    sizes = np.abs(a)
    theta = _tilt(a, min(observed, float(sizes.sum() - 0.001 * sizes[sizes > 0].min())))
    log_norm = float(np.sum(np.logaddexp(theta * a, -theta * a) - np.log(2)))
    chance = expit(2 * theta * a)
    rng = np.random.default_rng((seed, 1))
    weights = np.zeros(_DRAWS)
    for rows in chunks(_DRAWS, a.size):
        plus = rng.random((rows.stop - rows.start, a.size)) < chance
        weight = np.exp(log_norm - theta * (2 * (plus @ a) - a.sum()))
        weights[rows] = np.where(reaches(plus), weight, 0.0)
    if np.count_nonzero(weights) < _FEWEST:
        return None
    error = weights.std() / np.sqrt(_DRAWS)
    return float(min(1.0, 2 * (weights.mean() + 2 * error)))


def _tilt(a: Floats, aim: float) -> float:
    """θ with Σ a_k tanh(θ a_k) = aim."""
    from scipy.optimize import brentq

    scale = 1 / float(np.abs(a).max())

    def excess(theta: float) -> float:
        return float(a @ np.tanh(theta * a)) - aim

    high = scale
    while excess(high) < 0:
        high *= 2
    return float(brentq(excess, 0.0, high, rtol=1e-6))
