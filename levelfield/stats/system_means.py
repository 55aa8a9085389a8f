"""Means of systems over clusters, the noise in them, and draws of the true means.

A mean over K clusters (inputs) is a system's true mean plus noise. With C the covariance matrix of
the observed means across systems and E that of their noise, true means have C − E.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from levelfield.core.arrays import Codes, Floats
from levelfield.stats.clusters import coded
from levelfield.stats.rows import rounded

JITTER = 1e-12
"""Keeps matrices from being singular and r from 1."""


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
        """Returns why the true means may be equal, by F = C / E; empty if they are told apart.

        F has S − 1 and (S − 1) / S × f degrees of freedom, f Satterthwaite's of S variances that
        are proportional to 1 / K_s: S (K − 1) where every system has all K clusters.
        """
        if not self.df:
            return "one cluster in a system"
        S, K_s = len(self.means), self.clusters
        f = float(np.sum(1 / K_s) ** 2 / np.sum(1 / (K_s**2 * (K_s - 1))))
        for name, c, e in zip(names, np.diag(self.C), np.diag(self.E), strict=True):
            p = float(scipy.special.fdtrc(S - 1, (S - 1) / S * f, c / e)) if e > 0 else 0.0
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
        E = covariances(parts * np.sqrt(K_s / (K_s - 1))[:, None]).sum(axis=0)
    means = (means - means.mean(axis=0)) / scale
    return SystemMeans(means, covariances(means), E, K_s)


def means_of(values: npt.ArrayLike, systems: npt.ArrayLike) -> Floats:
    """Returns the means of the systems, (S,), in sorted order; those equal up to rounding are
    equal."""
    _, system = coded(systems)
    means = np.bincount(system, weights=np.asarray(values)) / np.bincount(system)
    return np.asarray(rounded(means[None])[0], dtype=np.float64)


def drawn_true_means(moments: SystemMeans, draws: int, rng: np.random.Generator) -> Floats:
    """Returns (draws, S, v) true means of these systems, given the observed ones."""
    T, E = drawn_covariances(moments, draws, rng)
    V = _nonnegative(T - E)
    shrink = V @ np.linalg.inv(V + E + JITTER * np.eye(len(moments.C)))
    left = V - shrink @ V
    w, U = np.linalg.eigh((left + left.transpose(0, 2, 1)) / 2)
    root = U * np.sqrt(np.maximum(w, 0.0))[:, None, :]
    noise = rng.normal(size=(draws, *moments.means.shape))
    means = moments.means @ shrink.transpose(0, 2, 1) + noise @ root.transpose(0, 2, 1)
    return np.asarray(means, dtype=np.float64)


def drawn_covariances(
    moments: SystemMeans, draws: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Returns (draws, v, v) covariance matrices of observed means, and of their noise."""
    v, df = len(moments.C), len(moments.means) - 1
    L = np.linalg.cholesky(moments.C + JITTER * np.eye(v))
    A = np.tril(rng.normal(size=(draws, v, v)), -1)  # Bartlett's decomposition of a Wishart matrix
    for i in range(v):
        A[:, i, i] = np.sqrt(rng.chisquare(df - i, draws))
    root = math.sqrt(df) * L @ np.linalg.inv(A)
    noise = moments.df / rng.chisquare(moments.df, draws)
    return root @ root.transpose(0, 2, 1), noise[:, None, None] * moments.E


def _nonnegative(V: Floats) -> Floats:
    """Returns symmetric matrices with their negative eigenvalues set to 0."""
    w, U = np.linalg.eigh(V)
    return np.asarray((U * np.maximum(w, 0.0)[:, None, :]) @ U.transpose(0, 2, 1))


def covariances(M: Floats) -> Floats:
    """Returns (…, v, v) covariance matrices of (…, S, v) across the S."""
    M = M - M.mean(axis=-2, keepdims=True)
    return np.asarray(np.swapaxes(M, -1, -2) @ M / (M.shape[-2] - 1), dtype=np.float64)


def r_of_covariances(V: Floats) -> Floats:
    """Returns (…, v, v) correlations of covariance matrices, in [−1, 1]; NaN without a variance."""
    variance = np.diagonal(V, axis1=-2, axis2=-1)
    scale = np.sqrt(np.where(variance > 0, variance, np.nan))
    r = np.clip(V / (scale[..., :, None] * scale[..., None, :]), -1.0, 1.0)
    return np.asarray(r, dtype=np.float64)
