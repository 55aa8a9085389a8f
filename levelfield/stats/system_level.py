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
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.stats

from levelfield.core.arrays import Codes, Floats
from levelfield.stats.clusters import coded
from levelfield.stats.correlation import statistics
from levelfield.stats.dependent import Swapped, swap_test
from levelfield.stats.estimate import ONE_CLUSTER, Estimate, undefined
from levelfield.stats.measures import Statistic
from levelfield.stats.resampling import DEFAULT, Resampling
from levelfield.stats.rows import rounded, row_statistics

Systems = Literal["these", "like-these"]

FEWEST = 4
"""Systems that an interval needs."""

FEW = 8
"""Below so many systems a note says that little can be said."""

_JITTER = 1e-12
_GRID = np.concatenate([[-1.0], np.tanh(np.linspace(-3.5, 3.5, 57)), [1.0]])
"""Correlations at which the distribution of a rank statistic is simulated."""

_TABLE_DRAWS = 1000
_MOST_DRAWN = 50
_RARE = 0.005
"""A smaller share of draws is taken from Student's distribution."""


class SystemCorrelations(NamedTuple):
    """Statistics of the systems' means.

    Attributes:
        estimates: `value` of the observed means; `low` and `high` hold that of the true means.
        corrected: Pearson's r without the noise of the means; NaN where it is undefined.
    """

    estimates: dict[Statistic, Estimate]
    corrected: float


@dataclass(frozen=True)
class SystemMeans:
    """Means of S systems over K clusters, of v variables.

    Attributes:
        means: (S, v), in units of their standard deviation.
        C: (v, v) covariance matrix of the means across systems, its diagonal 1.
        E: (v, v) covariance matrix of their noise; NaN where a system has one cluster.
        clusters: (S,) how many clusters each system has samples in, K_s.
    """

    means: Floats
    C: Floats
    E: Floats
    clusters: Codes

    @property
    def df(self) -> int:
        """Degrees of freedom that E has at least, K_s − 1 of the system with the fewest clusters.

        It has no more where the noise of all systems moves together.
        """
        return int(self.clusters.min()) - 1

    def indistinct(self, names: Sequence[str], level: float) -> str:
        """Why the true means may be equal, by F = C / E; empty if they are told apart.

        F has S − 1 and (S − 1) / S × f degrees of freedom, f Satterthwaite's of S variances that
        are proportional to 1 / K_s: S (K − 1) where every system has all K clusters.
        """
        if not self.df:
            return "one cluster in a system"
        S, K_s = len(self.means), self.clusters
        f = float(np.sum(1 / K_s) ** 2 / np.sum(1 / (K_s**2 * (K_s - 1))))
        for name, c, e in zip(names, np.diag(self.C), np.diag(self.E), strict=True):
            p = float(scipy.stats.f.sf(c / e, S - 1, (S - 1) / S * f)) if e > 0 else 0.0
            if p > (1 - level) / 2:
                return f"the systems' true means of the {name} can't be told apart (p = {p:.2g})"
        return ""


def system_means(values: Sequence[Floats], cluster: Codes, system: Codes) -> SystemMeans:
    """Means and the covariance of their noise.

    A mean x̄_s over the samples of a system moves with cluster k by
    `(Σ x − n x̄_s) / N_s`, the sum and n over its samples in the cluster, times √(K_s / (K_s − 1))
    for the K_s clusters in which s has samples; E is the sum over clusters of products of these
    parts, centred across systems.

    Args:
        values: v arrays (n,); none has equal means for all systems.
        cluster, system: (n,) codes.
    """
    S, K = int(system.max()) + 1, int(cluster.max()) + 1
    N = np.bincount(system, minlength=S)
    means = np.stack([np.bincount(system, weights=v, minlength=S) / N for v in values], axis=1)
    scale = means.std(axis=0, ddof=1)
    cell = cluster * S + system
    K_s = np.bincount(np.unique(cell) % S, minlength=S)
    E = np.full((len(values), len(values)), math.nan)
    if K_s.min() > 1:
        moved = [
            np.bincount(cell, weights=(v - m[system]) / N[system] / s, minlength=K * S)
            for v, m, s in zip(values, means.T, scale, strict=True)
        ]
        parts = np.stack(moved, axis=-1).astype(np.float64).reshape(K, S, len(values))
        E = _covariances(parts * np.sqrt(K_s / (K_s - 1))[:, None]).sum(axis=0)
    means = (means - means.mean(axis=0)) / scale
    return SystemMeans(means, _covariances(means), E, K_s)


def means_of(values: npt.ArrayLike, systems: npt.ArrayLike) -> Floats:
    """(S,) means of the systems, in sorted order; those equal but for rounding are equal."""
    _, system = coded(systems)
    means = np.bincount(system, weights=np.asarray(values)) / np.bincount(system)
    return np.asarray(rounded(means[None])[0], dtype=np.float64)


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
    """`swap_test` of the means of systems, each system a cluster: for systems like these.

    The systems are the sample, so with S of them p is never below 2 / 2^S: five can't show a
    difference at 0.05. It assumes that a system's two standardised means are exchangeable (Deutsch,
    Dror and Roth 2021, section 4, PERM-SYSTEMS); correlations differ by Fisher's z, which keeps the
    level where they are high. Swapping inputs keeps the systems: of metrics that agree equally well
    over the population it calls a pair different in 4 to 81 % of simulations.
    """
    of_a, of_b, of_y = (means_of(v, systems) for v in (a, b, y))
    swapped = swap_test(
        of_a, of_b, of_y, np.arange(of_y.size),
        ranks=ranks, fisher=True, permutations=permutations, seed=seed,
    )  # fmt: skip
    s: Statistic = "spearman" if ranks else "pearson"
    r_a, r_b = (statistics(v, of_y, (s,))[s] for v in (of_a, of_b))
    return replace(swapped, difference=r_a - r_b)


def system_correlations(
    x: Floats,
    y: Floats,
    cluster: Codes,
    system: Codes,
    wanted: Sequence[Statistic],
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

    No interval: fewer than 4 systems, a system with one cluster, true means of the metric or of the
    ratings that can't be told apart by an F test at (1 − level) / 2. `calibrated` is undefined.

    Args:
        x, y: (n,) metric and ratings, no NaN.
        cluster, system: (n,) codes; there are two systems or more.
    """
    S, K = int(system.max()) + 1, int(cluster.max()) + 1
    X, Y = means_of(x, system), means_of(y, system)
    value = {s: float(v[0]) for s, v in row_statistics(X[None], Y[None], wanted).items()}
    corrected, why_none = math.nan, "constant means"
    ends: Mapping[Statistic, tuple[float, float]] = {}
    if np.ptp(X) > 0 and np.ptp(Y) > 0:
        of = system_means((x, y), cluster, system)
        why_none = (
            ("two systems" if S == 2 else f"fewer than {FEWEST} systems") if S < FEWEST
            else ONE_CLUSTER if K < 2
            else of.indistinct(("metric", "ratings"), resampling.level)
        )  # fmt: skip
        if not why_none:
            corrected = float(_r(of.C - of.E)[0, 1])
            ends = _ends(of, value, systems, resampling)
    few = f"{S} systems: little can be said" if S < FEW else ""
    results: dict[Statistic, Estimate] = {}
    for s, v in value.items():
        why = (
            "not calibrated at system level" if s == "calibrated"
            else "constant means" if math.isnan(v) else ""
        )  # fmt: skip
        if why:
            results[s] = undefined(why, n=S, clusters=K)
            continue
        low, high = ends.get(s, (math.nan, math.nan))
        no = why_none or ("" if s in ends else "noise can't be taken out of ranks")
        results[s] = Estimate(v, low, high, S, K, why_no_interval=no, note=few)
    return SystemCorrelations(results, corrected)


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
    why = f"fewer than {FEWEST} systems" if S < FEWEST else ONE_CLUSTER if K < 2 else ""
    if not why:
        varies = all(np.ptp(means_of(v, system)) > 0 for v in (y, a, b))
        why = "" if varies else "constant means"
    if not why:
        of = system_means((y, a, b), cluster, system)
        why = of.indistinct(("ratings", *names), level)
    if why:
        return Swapped(nan, nan, nan, S, K, 0, why)
    if np.allclose(of.means[:, 1], of.means[:, 2], rtol=0, atol=1e-9):
        return Swapped(0.0, 1.0, 0.5, S, K, 1)
    r = _r(of.C - of.E)
    drawn = _r(_covariances(_true_means(of, draws, np.random.default_rng(seed))))[:, 0, 1:]
    z = np.arctanh(np.clip(drawn, -1 + _JITTER, 1 - _JITTER))
    d = z[:, 0] - z[:, 1]
    sign = 1.0 if np.median(d) >= 0 else -1.0
    tail = min(0.5, _tail(sign * d, of.df))
    return Swapped(float(r[0, 1] - r[0, 2]), 2 * tail, tail if sign > 0 else 1 - tail, S, K, 1)


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
    of = system_means((x, y), cluster, system)
    return math.nan if of.indistinct(("x", "y"), level) else float(_r(of.C - of.E)[0, 1])


def _tail(drawn: Floats, df: int) -> float:
    """Share of draws at or below 0; a small one by Student's t between the median and 0.5 %."""
    share = float(np.mean(drawn <= 0))
    if share >= _RARE:
        return share
    middle, low = np.quantile(drawn, [0.5, _RARE])
    scale = (middle - low) / scipy.stats.t.isf(_RARE, df)
    return float(scipy.stats.t.sf(middle / scale, df))


def _ends(
    of: SystemMeans, value: Mapping[Statistic, float], systems: Systems, resampling: Resampling
) -> dict[Statistic, tuple[float, float]]:
    q, rng = (1 - resampling.level) / 2, np.random.default_rng(resampling.seed)
    B = resampling.resamples
    ends: dict[Statistic, tuple[float, float]] = {}
    if "pearson" in value:
        if systems == "these":
            drawn = _r(_covariances(_true_means(of, B, rng)))[:, 0, 1]
        else:
            T, E = _drawn(of, B, rng)
            drawn = _r(T - E)[:, 0, 1]
        lost = np.isnan(drawn)
        ends["pearson"] = (
            float(np.quantile(np.where(lost, -1.0, drawn), q)),
            float(np.quantile(np.where(lost, 1.0, drawn), 1 - q)),
        )
    if systems == "like-these":
        (cx, cy), (ex, ey), exy = np.diag(of.C), np.diag(of.E), of.E[0, 1]
        for s, v in value.items():
            if s in ("pearson", "calibrated") or math.isnan(v):
                continue
            tau = 2 * v - 1 if s == "accuracy" else v
            of_means = _copula_ends(tau, s == "spearman", len(of.means), resampling.level)
            low, high = (
                float(np.clip((ρ * math.sqrt(cx * cy) - exy)
                              / math.sqrt((cx - ex) * (cy - ey)), -1, 1))
                for ρ in of_means
            )  # fmt: skip
            ends[s] = (_of_normal(s, low), _of_normal(s, high))
    return ends


def _of_normal(s: Statistic, ρ: float) -> float:
    """A rank statistic of the normal distribution with correlation ρ (Kendall; Spearman)."""
    if s == "spearman":
        return 6 / math.pi * math.asin(ρ / 2)
    tau = 2 / math.pi * math.asin(ρ)
    return (1 + tau) / 2 if s == "accuracy" else tau


def _copula_ends(value: float, spearman: bool, S: int, level: float) -> tuple[float, float]:
    """The lowest and the highest ρ under which the value is neither too high nor too low."""
    low, high = _copula_quantiles(S, level)[int(not spearman)].T
    kept = np.flatnonzero((low <= value + 1e-9) & (value - 1e-9 <= high))
    if not kept.size:  # between two correlations of the grid
        nearest = int(np.argmin(np.abs((low + high) / 2 - value)))
        kept = np.array([nearest])
    return float(_GRID[max(kept[0] - 1, 0)]), float(_GRID[min(kept[-1] + 1, _GRID.size - 1)])


@functools.lru_cache(maxsize=8)
def _copula_quantiles(S: int, level: float) -> Floats:
    """(2, grid, 2) low and high quantiles of Spearman's ρ and of τ of S normal pairs.

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
        for of_statistic, (s, values) in zip(table, drawn.items(), strict=True):
            ends = (
                np.quantile(values, (1 - level) / 2, method="lower"),
                np.quantile(values, (1 + level) / 2, method="higher"),
            )
            center = _of_normal(s, float(ρ))
            of_statistic[k] = center + (np.array(ends) - center) * math.sqrt(n / S)
    return table


def _true_means(of: SystemMeans, draws: int, rng: np.random.Generator) -> Floats:
    """(draws, S, v) true means of these systems, given the observed ones."""
    T, E = _drawn(of, draws, rng)
    V = _nonnegative(T - E)
    shrink = V @ np.linalg.inv(V + E + _JITTER * np.eye(len(of.C)))
    left = V - shrink @ V
    w, U = np.linalg.eigh((left + left.transpose(0, 2, 1)) / 2)
    root = U * np.sqrt(np.maximum(w, 0.0))[:, None, :]
    noise = rng.normal(size=(draws, *of.means.shape))
    means = of.means @ shrink.transpose(0, 2, 1) + noise @ root.transpose(0, 2, 1)
    return np.asarray(means, dtype=np.float64)


def _drawn(of: SystemMeans, draws: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """(draws, v, v) covariance matrices of observed means, and of their noise."""
    v, df = len(of.C), len(of.means) - 1
    L = np.linalg.cholesky(of.C + _JITTER * np.eye(v))
    A = np.tril(rng.normal(size=(draws, v, v)), -1)  # Bartlett's decomposition of a Wishart matrix
    for i in range(v):
        A[:, i, i] = np.sqrt(rng.chisquare(df - i, draws))
    root = math.sqrt(df) * L @ np.linalg.inv(A)
    noise = of.df / rng.chisquare(of.df, draws)
    return root @ root.transpose(0, 2, 1), noise[:, None, None] * of.E


def _nonnegative(V: Floats) -> Floats:
    """Symmetric matrices without their negative eigenvalues."""
    w, U = np.linalg.eigh(V)
    return np.asarray((U * np.maximum(w, 0.0)[:, None, :]) @ U.transpose(0, 2, 1))


def _covariances(M: Floats) -> Floats:
    """(…, v, v) covariance matrices of (…, S, v) across the S."""
    M = M - M.mean(axis=-2, keepdims=True)
    return np.asarray(np.swapaxes(M, -1, -2) @ M / (M.shape[-2] - 1), dtype=np.float64)


def _r(V: Floats) -> Floats:
    """(…, v, v) correlations of covariance matrices, in [−1, 1]; NaN without a variance."""
    variance = np.diagonal(V, axis1=-2, axis2=-1)
    scale = np.sqrt(np.where(variance > 0, variance, np.nan))
    r = np.clip(V / (scale[..., :, None] * scale[..., None, :]), -1.0, 1.0)
    return np.asarray(r, dtype=np.float64)
