"""Correlations of the means of systems: of these systems, or of systems like these.

A mean over K clusters (inputs) is a system's true mean plus noise, for the metric and for the
ratings. With S systems, C the covariance matrix of the observed means and E that of their noise
(both taken across systems), the true means have the covariance matrix C − E. Two targets differ:

    these       the correlation of the true means of these S systems
    like-these  the correlation of true means over the population that these are a sample of

Resampling clusters around the observed means answers neither: the observed means hold the noise
already, and the resamples add it a second time.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from levelfield.core.arrays import Codes, Floats
from levelfield.stats.estimands import Statistic, Systems
from levelfield.stats.estimate import ONE_CLUSTER, Estimate, undefined
from levelfield.stats.resampling import DEFAULT, Resampling
from levelfield.stats.rows import row_statistics
from levelfield.stats.system_means import (
    SystemMeans,
    covariances,
    drawn_covariances,
    drawn_true_means,
    means_of,
    r_of_covariances,
    system_means,
)

FEWEST = 4
"""Systems that an interval for these systems needs."""

FEWEST_LIKE_THESE = 6
"""Systems that a claim about systems like these needs."""

FEW = 8
"""With fewer systems, ranks have no interval, and a note warns that little can be said."""

_GRID = np.concatenate([[-1.0], np.tanh(np.linspace(-3.5, 3.5, 57)), [1.0]])
"""Correlations at which the distribution of a rank statistic is simulated."""

_TABLE_DRAWS = 1000
_MOST_DRAWN = 50
_BLOCK = 100_000
"""Draws held at a time."""


def too_few_systems(S: int) -> str:
    """Returns why S systems allow no claim about systems like these; empty if they do."""
    if S >= FEWEST_LIKE_THESE:
        return ""
    return f"{S} systems, and a claim about systems like these needs {FEWEST_LIKE_THESE}"


class SystemCorrelations(NamedTuple):
    """Statistics of the systems' means.

    Attributes:
        estimates: `value` of the observed means; `low` and `high` hold that of the true means.
        corrected: Pearson's r without the noise of the means; NaN where it is undefined.
    """

    estimates: dict[Statistic, Estimate]
    corrected: float


def system_correlations(
    x: Floats,
    y: Floats,
    cluster: Codes,
    system: Codes,
    kinds: Sequence[Statistic],
    *,
    systems: Systems = "like-these",
    resampling: Resampling = DEFAULT,
) -> SystemCorrelations:
    """Statistics of the means of two or more systems, with intervals for their true means.

    Pearson's r takes draws of the covariance matrix T of observed means from its fiducial
    distribution (`(S − 1) C` is Wishart with T; for r without noise these draws are exact, Berger
    and Sun 2008) and of the noise E, which is known up to a χ² of K − 1 degrees of freedom, K the
    clusters of the system with the fewest:

    - like-these: r of T − E. A draw whose variance is not positive counts as −1 at the lower end
      and as 1 at the upper.
    - these: the true means given the observed ones, normal with the shrinkage `V (V + E)⁻¹`,
      `V = T − E` without negative eigenvalues; r of every such set of S means.

    Rank statistics have an interval for like-these: the correlations of a normal copula under which
    the observed value is not among the (1 − level) / 2 lowest or highest of 1,000 draws, without
    noise by `ρ √(C_x C_y) − E_xy` over `√((C_x − E_x)(C_y − E_y))`, and turned into the statistic.
    Their order under shrinkage depends on how the systems are spread, so for these systems there is
    none.

    No interval: fewer than 4 systems, or 6 for like-these; of ranks fewer than 8, which would be
    0.9 to 1.9 wide; a system with one cluster; true means of the metric or of the ratings that
    can't be told apart by an F test at (1 − level) / 2. `calibrated` is undefined.

    Args:
        x, y: (n,) metric and ratings, no NaN.
        cluster, system: (n,) codes; there are two systems or more.
    """
    S, K = int(system.max()) + 1, int(cluster.max()) + 1
    X, Y = means_of(x, system), means_of(y, system)
    value = {s: float(v[0]) for s, v in row_statistics(X[None], Y[None], kinds).items()}
    corrected, why_none = math.nan, "constant means"
    ends: Mapping[Statistic, tuple[float, float]] = {}
    if np.ptp(X) > 0 and np.ptp(Y) > 0:
        moments = system_means((x, y), cluster, system)
        why_none = (
            too_few_systems(S) if systems == "like-these" and too_few_systems(S)
            else ("two systems" if S == 2 else f"fewer than {FEWEST} systems") if S < FEWEST
            else ONE_CLUSTER if K < 2
            else moments.indistinct(("metric", "ratings"), resampling.level)
        )  # fmt: skip
        if not why_none:
            corrected = float(r_of_covariances(moments.C - moments.E)[0, 1])
            ends = _ends(moments, value, systems, resampling)
    few = f"{S} systems: little can be said" if S < FEW else ""
    results: dict[Statistic, Estimate] = {}
    for s, v in value.items():
        reason = (
            "not calibrated at system level" if s == "calibrated"
            else "constant means" if math.isnan(v) else ""
        )  # fmt: skip
        if reason:
            results[s] = undefined(reason, n=S, clusters=K)
            continue
        low, high = ends.get(s, (math.nan, math.nan))
        few_ranks = f"{S} systems, and ranks need {FEW}" if systems == "like-these" else ""
        no = why_none or (
            "" if s in ends else few_ranks if S < FEW and few_ranks
            else "noise can't be taken out of ranks"
        )  # fmt: skip
        results[s] = Estimate(v, low, high, S, K, why_no_interval=no, note=few)
    return SystemCorrelations(results, corrected)


def _ends(
    moments: SystemMeans, value: Mapping[Statistic, float], systems: Systems, resampling: Resampling
) -> dict[Statistic, tuple[float, float]]:
    q, rng = (1 - resampling.level) / 2, np.random.default_rng(resampling.seed)
    B = resampling.resamples
    ends: dict[Statistic, tuple[float, float]] = {}
    if "pearson" in value:
        blocks = [min(_BLOCK, B - start) for start in range(0, B, _BLOCK)]
        drawn = np.concatenate([_drawn_r(moments, draws, systems, rng) for draws in blocks])
        lost = np.isnan(drawn)
        ends["pearson"] = (
            float(np.quantile(np.where(lost, -1.0, drawn), q)),
            float(np.quantile(np.where(lost, 1.0, drawn), 1 - q)),
        )
    if systems == "like-these" and len(moments.means) >= FEW:
        (cx, cy), (ex, ey), exy = np.diag(moments.C), np.diag(moments.E), moments.E[0, 1]
        for s, v in value.items():
            if s in ("pearson", "calibrated") or math.isnan(v):
                continue
            tau = 2 * v - 1 if s == "accuracy" else v
            bounds = _copula_ends(tau, s == "spearman", len(moments.means), resampling.level)
            low, high = (
                float(np.clip((ρ * math.sqrt(cx * cy) - exy)
                              / math.sqrt((cx - ex) * (cy - ey)), -1, 1))
                for ρ in bounds
            )  # fmt: skip
            ends[s] = (normal_statistic(s, low), normal_statistic(s, high))
    return ends


def _drawn_r(
    moments: SystemMeans, draws: int, systems: Systems, rng: np.random.Generator
) -> Floats:
    """Returns Pearson's r of each draw, (draws,); NaN where a variance is not positive."""
    if systems == "these":
        return np.asarray(
            r_of_covariances(covariances(drawn_true_means(moments, draws, rng)))[:, 0, 1]
        )
    T, E = drawn_covariances(moments, draws, rng)
    return np.asarray(r_of_covariances(T - E)[:, 0, 1])


def normal_statistic(s: Statistic, ρ: float) -> float:
    """Returns a rank statistic of normal pairs with correlation ρ (Kendall; Spearman)."""
    if s == "spearman":
        return 6 / math.pi * math.asin(ρ / 2)
    tau = 2 / math.pi * math.asin(ρ)
    return (1 + tau) / 2 if s == "accuracy" else tau


def _copula_ends(value: float, spearman: bool, S: int, level: float) -> tuple[float, float]:
    """Returns the lowest and the highest ρ under which the value is neither too high nor too
    low."""
    low, high = _copula_quantiles(S, level)[int(not spearman)].T
    kept = np.flatnonzero((low <= value + 1e-9) & (value - 1e-9 <= high))
    if not kept.size:  # between two correlations of the grid
        nearest = int(np.argmin(np.abs((low + high) / 2 - value)))
        kept = np.array([nearest])
    return float(_GRID[max(kept[0] - 1, 0)]), float(_GRID[min(kept[-1] + 1, _GRID.size - 1)])


@functools.lru_cache(maxsize=8)
def _copula_quantiles(S: int, level: float) -> Floats:
    """Returns the low and high quantiles of Spearman's ρ and of τ of S normal pairs: (2, grid, 2).

    Of many systems, those of 50 are drawn: quantiles are nearer to the population by √(50 / S).
    """
    n = min(S, _MOST_DRAWN)
    x, z = np.random.default_rng(0).normal(size=(2, _TABLE_DRAWS, n))
    x.sort(axis=1)
    i, j = np.triu_indices(n, k=1)
    table = np.empty((2, _GRID.size, 2))
    for k, ρ in enumerate(_GRID):
        y = ρ * x + math.sqrt(1 - ρ * ρ) * z
        moves = y.argsort(axis=1).argsort(axis=1) - np.arange(n)
        drawn: dict[Statistic, Floats] = {
            "spearman": 1 - 6 * (moves**2).sum(axis=1) / (n * (n * n - 1)),
            "kendall": 2 * np.mean(y[:, i] < y[:, j], axis=1) - 1,
        }
        for quantiles, (s, values) in zip(table, drawn.items(), strict=True):
            ends = (
                np.quantile(values, (1 - level) / 2, method="lower"),
                np.quantile(values, (1 + level) / 2, method="higher"),
            )
            center = normal_statistic(s, float(ρ))
            quantiles[k] = center + (np.array(ends) - center) * math.sqrt(n / S)
    return table
