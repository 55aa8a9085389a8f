"""Which of two metrics agrees better with people on the means of systems."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import scipy

from levelfield.core.arrays import Codes, Floats
from levelfield.stats.correlation import statistics
from levelfield.stats.dependent import Swapped, swap_test
from levelfield.stats.estimands import Statistic
from levelfield.stats.estimate import ONE_CLUSTER
from levelfield.stats.system_level import FEWEST, too_few_systems
from levelfield.stats.system_means import (
    JITTER,
    covariances,
    drawn_true_means,
    means_of,
    r_of_covariances,
    system_means,
)

_RARE = 0.005
"""A smaller share of draws is taken from Student's distribution."""


def swap_systems(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    y: npt.ArrayLike,
    systems: npt.ArrayLike,
    *,
    ranks: bool = False,
    permutations: int = 10_000,
    seed: int = 0,
) -> Swapped:
    """Returns `swap_test` of the means of systems, each system a cluster: for systems like these.

    The systems are the sample, so with S of them p is never below 2 / 2^S; fewer than 6 have no
    test. It assumes that a system's two standardised means are exchangeable (Deutsch,
    Dror and Roth 2021, section 4, PERM-SYSTEMS); correlations differ by Fisher's z, which keeps the
    level where they are high. Swapping inputs keeps the systems: of metrics that agree equally well
    over the population it calls a pair different in 4 to 81 % of simulations.
    """
    means_a, means_b, means_y = (means_of(v, systems) for v in (a, b, y))
    if reason := too_few_systems(means_y.size):
        nan = math.nan
        return Swapped(nan, nan, nan, means_y.size, means_y.size, 0, reason)
    swapped = swap_test(
        means_a, means_b, means_y, np.arange(means_y.size),
        ranks=ranks, fisher=True, permutations=permutations, seed=seed,
    )  # fmt: skip
    s: Statistic = "spearman" if ranks else "pearson"
    r_a, r_b = (statistics(v, means_y, (s,))[s] for v in (means_a, means_b))
    # of z; dr / dz = 1 − r²
    return replace(swapped, difference=r_a - r_b, se=swapped.se * (1 - ((r_a + r_b) / 2) ** 2))


def corrected_difference(
    a: Floats,
    b: Floats,
    y: Floats,
    cluster: Codes,
    system: Codes,
    *,
    draws: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
    names: tuple[str, str] = ("metric A", "metric B"),
) -> Swapped:
    """Does A agree with people better than B on the true means of these systems?

    p is twice the smaller share of draws of the true means (those of `system_correlations`, for
    three variables) in which the difference of the correlations is at most, or at least, 0. A share
    below 0.5 % is that of Student's t whose median and whose 0.5 % are those of the drawn
    differences of atanh r, with K − 1 degrees of freedom, K the clusters of the system with the
    fewest. Metrics that are the same up to scale have p = 1.

    Undefined: fewer than 4 systems, a system with one cluster, constant means, or true means that
    can't be told apart.

    Args:
        names: of A and B, for the reason.
    """
    S, K, nan = int(system.max(initial=-1)) + 1, int(cluster.max(initial=-1)) + 1, math.nan
    reason = f"fewer than {FEWEST} systems" if S < FEWEST else ONE_CLUSTER if K < 2 else ""
    if not reason:
        varies = all(np.ptp(means_of(v, system)) > 0 for v in (y, a, b))
        reason = "" if varies else "constant means"
    if not reason:
        moments = system_means((y, a, b), cluster, system)
        reason = moments.indistinct(("ratings", *names), level)
    if reason:
        return Swapped(nan, nan, nan, S, K, 0, reason)
    if np.allclose(moments.means[:, 1], moments.means[:, 2], rtol=0, atol=1e-9):
        return Swapped(0.0, 1.0, 0.5, S, K, 1)
    r = r_of_covariances(moments.C - moments.E)
    true_means = drawn_true_means(moments, draws, np.random.default_rng(seed))
    drawn = r_of_covariances(covariances(true_means))[:, 0, 1:]
    z = np.arctanh(np.clip(drawn, -1 + JITTER, 1 - JITTER))
    d = z[:, 0] - z[:, 1]
    sign = 1.0 if np.median(d) >= 0 else -1.0
    tail = min(0.5, _tail(sign * d, moments.df))
    middle = float(r[0, 1] + r[0, 2]) / 2
    return Swapped(
        float(r[0, 1] - r[0, 2]), 2 * tail, tail if sign > 0 else 1 - tail, S, K, 1,
        se=_scale(sign * d, moments.df) * max(0.0, 1 - middle**2),
    )  # fmt: skip


def corrected_r(
    x: Floats, y: Floats, cluster: Codes, system: Codes, *, level: float = 0.95
) -> float:
    """Pearson's r of the systems' means without their noise, r of C − E.

    NaN for fewer than 4 systems, a system with one cluster, constant means, and true means that
    can't be told apart.
    """
    if int(system.max(initial=-1)) + 1 < FEWEST:
        return math.nan
    if any(np.ptp(means_of(v, system)) == 0 for v in (x, y)):
        return math.nan
    moments = system_means((x, y), cluster, system)
    if moments.indistinct(("x", "y"), level):
        return math.nan
    return float(r_of_covariances(moments.C - moments.E)[0, 1])


def _tail(drawn: Floats, df: int) -> float:
    """Returns the share of draws at or below 0; a small one by Student's t between the median and
    0.5 %."""
    share = float(np.mean(drawn <= 0))
    if share >= _RARE:
        return share
    return float(scipy.special.stdtr(df, -np.median(drawn) / _scale(drawn, df)))


def _scale(drawn: Floats, df: int) -> float:
    """Returns the scale of Student's t with the median and the 0.5 % quantile of the drawn
    differences."""
    middle, low = np.quantile(drawn, [0.5, _RARE])
    return float((middle - low) / -scipy.special.stdtrit(df, _RARE))
