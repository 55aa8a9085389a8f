"""Small p-values of tests that exchange two systems or metrics at random.

With m random patterns of signs p is at least 1 / (m + 1) however clear a difference is, so that p
adjusted for hundreds of comparisons could never be small. Where few patterns reach the observed
statistic, p of a sum over clusters is approximated, and of any other statistic it is estimated from
patterns that are drawn to reach it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy

from levelfield.core.arrays import Bools, Floats
from levelfield.stats.clusters import chunks

RARE = 0.005
"""p is not counted if a smaller share of random patterns reaches the statistic."""

_DRAWS = 2000

_FEWEST = 20
"""So many draws at least reach the statistic, or its linear part says little of it."""

_FEW = 64
"""p of a sum of no more coefficients is drawn: an approximation may be half too large there."""

_MARGIN = 1.05
"""An approximate p is so much larger."""

_LARGEST = 0.05
"""p of a sum is approximated if no coefficient has so large a share of the variance."""


def is_rare(reached: int, tried: int) -> bool:
    """Returns whether a statistic is reached by too few random patterns to count p; never of fewer
    than 200 patterns, of which none may reach a statistic whose p is large."""
    return tried >= 1 / RARE and reached < RARE * tried


Reaches = Callable[[Bools], Bools]
"""(r, K) which signs are + -> (r,) whether the statistic is at least the observed one."""


def tilted_p(reaches: Reaches, coefficients: Floats, observed: float, *, seed: int) -> float | None:
    """Returns the two-sided p of a statistic T of K random signs with T(−g) = −T(g), by importance
    sampling.

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
    tilt = _Tilt(a, observed)
    rng = np.random.default_rng((seed, 1))
    weights = np.zeros(_DRAWS)
    for rows in chunks(_DRAWS, a.size):
        plus = rng.random((rows.stop - rows.start, a.size)) < tilt.chance
        weights[rows] = np.where(reaches(plus), tilt.weights(plus @ a), 0.0)
    return _p_of(weights)


def small_p_of_sum(a: Floats, tie: float, *, seed: int) -> float | None:
    """Returns a small two-sided p of `|Σ a_k g_k|` of random signs.

    Of more than 64 coefficients it is that of `saddlepoint_p`, where that is defined, and a
    twentieth more, so that its error makes p too large rather than too small; else that of
    `tilted_p`.

    Args:
        a: (K,) coefficients, none of them 0.
        tie: a share of Σ |a_k|; a sum that misses the observed one by less reaches it.
    """
    a = a * np.sign(a.sum())
    p = saddlepoint_p(a) if a.size > _FEW else None
    if p is not None:
        return _MARGIN * p
    total = float(a.sum())
    least = total - tie * float(np.abs(a).sum())
    return tilted_p(lambda plus: 2 * (plus @ a) - total >= least, a, total, seed=seed)


def saddlepoint_p(a: Floats) -> float | None:
    """Returns the two-sided p of `|Σ a_k g_k|` of K random signs, by a saddlepoint approximation.

    `C(θ) = Σ log cosh(θ a_k)` is the logarithm of the sum's moment generating function. With θ such
    that `C'(θ) = x`, `r = √(2 (θ x − C(θ)))` and `v = sinh(θ m) / m √C''(θ)`, p is
    `2 Φ(−r − log(v / r) / r)` (Barndorff-Nielsen 1986; of permutation tests Robinson 1982). m is
    `min |a_k|` and x is `Σ a_k − m`, half of the least that a sum can differ by below the observed
    one, so that sums on a grid reach it with their whole probability (Daniels 1987, section 6); of
    others m is small, and v is θ √C''(θ). Where no coefficient dominates, the error is of the
    order 1 / K, a few percent with 65 coefficients. At the end of its range, near 2^(1 − K), p may
    be half too large. What is below the smallest normal number (2e-308) is that.

    Args:
        a: (K,) coefficients, none of them 0; their sum is the observed one, above 0.

    Undefined (None): one coefficient has a twentieth of the variance C''(θ) or more.
    """
    m = float(np.abs(a).min())
    x = float(a.sum()) - m
    if x <= 0:
        return None
    tilt = _Tilt(a, x)
    variances = 4 * a**2 * tilt.chance * (1 - tilt.chance)
    variance = float(variances.sum())
    if variances.max() >= _LARGEST * variance:
        return None
    r = math.sqrt(2 * (tilt.theta * x - tilt.log_norm))
    v = math.sinh(tilt.theta * m) / m * math.sqrt(variance)
    return float(max(2 * scipy.special.ndtr(-r - math.log(v / r) / r), np.finfo(np.float64).tiny))


class _Tilt:
    """How signs are drawn so that Σ a_k g_k is near what was observed.

    Attributes:
        theta: θ.
        log_norm: Σ log cosh(θ a_k).
        chance: (K,) of each sign to be +.
    """

    def __init__(self, a: Floats, observed: float) -> None:
        # nearer to the largest possible value than the smallest coefficient, all signs would be +
        sizes = np.abs(a)
        self.theta = _theta(a, min(observed, float(sizes.sum() - 0.001 * sizes[sizes > 0].min())))
        scaled = self.theta * a
        self.log_norm = float(np.sum(np.logaddexp(scaled, -scaled) - np.log(2)))
        self._total = float(a.sum())
        self.chance: Floats = scipy.special.expit(2 * scaled)

    def weights(self, plus_sums: Floats) -> Floats:
        """Returns the weights (r,) of patterns whose coefficients with a + have these sums."""
        return np.asarray(np.exp(self.log_norm - self.theta * (2 * plus_sums - self._total)))


def _p_of(weights: Floats) -> float | None:
    """Returns p from the weights of the draws, 0 where one does not reach the statistic."""
    if np.count_nonzero(weights) < _FEWEST:
        return None
    error = weights.std() / np.sqrt(_DRAWS)
    return float(min(1.0, 2 * (weights.mean() + 2 * error)))


def _theta(a: Floats, aim: float) -> float:
    """Returns θ with Σ a_k tanh(θ a_k) = aim."""
    from scipy.optimize import brentq

    scale = 1 / float(np.abs(a).max())

    def excess(theta: float) -> float:
        return float(a @ np.tanh(theta * a)) - aim

    high, ones = scale, 20 / float(np.abs(a).min())
    while excess(high) < 0:
        if high > ones:  # every tanh is 1: the aim is their sum but for rounding
            return high
        high *= 2
    return float(brentq(excess, 0.0, high, rtol=1e-6))
