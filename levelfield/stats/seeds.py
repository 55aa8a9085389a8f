"""Means of systems, and their differences, with prompts and seeds as samples.

Another run of a system draws other seeds, as another study draws other prompts. A test that flips
the signs of prompts holds the seeds fixed: it tells how sure a difference of these runs is, not of
these systems.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

from levelfield.core.arrays import Bools, Codes, Floats
from levelfield.stats.clusters import cluster_sums, coded

_ROUNDING = 1e-10
"""A standard error below this share of the absolute sum is rounding."""


@dataclass(frozen=True)
class Contrast:
    """A weighted sum of values with its variance over prompts and seeds.

    Attributes:
        value: of the sum.
        variance: its square root is the standard error; 0 if nothing varies.
        df: degrees of freedom of the t distribution that `value / √variance` follows under 0.
        of_seeds: whether seeds are a sample: a system has two on an input.
    """

    value: float
    variance: float
    df: float
    of_seeds: bool

    @property
    def p(self) -> float:
        """Two-sided p of the value 0; the variance is above 0."""
        return float(2 * stdtr(self.df, -abs(self.value) / math.sqrt(self.variance)))

    def ends(self, level: float) -> tuple[float, float]:
        """Returns the ends of the interval, which holds 0 exactly if `p > 1 - level`."""
        half = float(stdtrit(self.df, (1 + level) / 2)) * math.sqrt(self.variance)
        return self.value - half, self.value + half


def contrast(
    values: Floats,
    weights: Floats,
    *,
    systems: Codes,
    seeds: Codes,
    inputs: Codes,
    clusters: Codes,
    strata: Codes,
) -> Contrast | None:
    """Returns `C = Σ_t w_t v_t` over texts t with its variance over prompts and seeds.

    With positive weights that sum to 1, C is the mean of a system. With those of a second system
    negative, C is the difference of the two, paired by cluster. The variance is that of a
    two-way clustered mean (Cameron, Gelbach and Miller 2011, section 2.2), prompts within strata,
    seeds within systems:

        V  = V_p + max(0, Σ_a (V_a − R_a))
        V_p = Σ_d K_d / (K_d − 1) Σ_{k∈d} (z_k − z̄_d)²,   z_k = Σ_{t∈k} w_t (v_t − m_ad)
        V_a = c_a Σ_s u_s²,                                 u_s = Σ_{t∈s} w_t (v_t − v̄_i)
        R_a = c_a Σ_s Σ_d K_d / (K_d − 1) Σ_{k∈d} (u_sk − ū_sd)²

    with m_ad the mean of system a in stratum d, v̄_i that of the system over its texts for input i,
    u_sk the part of u_s in cluster k, and `c_a = Σ_s W_s² / ‖A‖²`. There W_s is the weight of seed
    s, and u = A b for effects b of the seeds on every text; c_a is `S / (S − 1)` if every input
    has all S seeds. V_a is the variance that seeds show, R_a what texts show by themselves
    without any effect of seeds: V_p holds it already.

    The degrees of freedom are `V² / (V_p²/(ν_p + 2) + Σ V_a²/(ν_a + 2)) − 2`, which is
    Satterthwaite's (1946) with an unbiased estimate of each part's variance, at least the smallest
    ν, at most `G / (V_p/ν_p + G_s/ν_s)` with `G_s = Σ V_a`, `ν_s = G_s² / Σ (V_a²/ν_a)` and
    `G = V_p + G_s`; ν_p alone where seeds add nothing. Without that upper bound the test rejects
    too often if one system has most of the variance of seeds.

    A system with one seed adds nothing to V: what is said of it holds for this run. With two seeds
    a system, or one system of few seeds beside one whose seeds are equal, up to 9 % of true nulls
    are rejected at 5 % (`benchmarks/seeds.py`).

    Args:
        values, weights: (texts,) defined, weights not 0.
        systems, seeds: (texts,) codes; a seed of one system is none of another.
        inputs: (texts,) codes of what texts of a system with different seeds share.
        clusters: (texts,) codes of what inputs share; no input is in two clusters.
        strata: (texts,) codes of the data sets; no cluster is in two.

    Undefined (None): no stratum has two clusters.
    """
    K, cluster = coded(clusters)
    D, stratum = coded(strata)
    prompts = _Clusters(K, cluster, D, stratum)
    components = [
        _seeds(values, weights, systems == a, seeds, inputs, prompts) for a in np.unique(systems)
    ]
    sampled = [c for c in components if c is not None]
    if prompts.sizes.max() < 2:
        return None
    S, own = coded(systems)
    place = own * D + stratum
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = cluster_sums(weights * values, place, S * D) / cluster_sums(weights, place, S * D)
    z = cluster_sums(weights * (values - mean[place]), cluster, K)
    by_stratum = prompts.variances(z[:, None])[:, 0]
    V_p = float(by_stratum.sum())
    net = sum(c.variance - c.residual for c in sampled)
    V = V_p + max(0.0, net)
    value, of_seeds = float(weights @ values), bool(sampled)
    if math.sqrt(V) <= _ROUNDING * float(np.abs(weights * values).sum()):
        return Contrast(value, 0.0, float((prompts.sizes - 1).sum()), of_seeds)
    df = _pooled_df(by_stratum, np.maximum(prompts.sizes - 1, 1)) if V_p else math.inf
    if net > 0:
        V_a, df_a = (np.array([getattr(c, name) for c in sampled]) for name in ("variance", "df"))
        df = _df(V, np.append(V_a, V_p), np.append(df_a, df))
    return Contrast(value, V, df, of_seeds)


def _df(V: float, parts: Floats, df: Floats) -> float:
    """Returns the degrees of freedom of V from those of its parts, that of the prompts last."""
    satterthwaite = V**2 / float((parts**2 / (df + 2)).sum()) - 2
    G_s, df_s = float(parts[:-1].sum()), _pooled_df(parts[:-1], df[:-1])
    linear = float(parts.sum()) / (float(parts[-1] / df[-1]) + G_s / df_s)
    return min(linear, max(float(df.min()), satterthwaite))


def _pooled_df(variances: Floats, df: Floats) -> float:
    """Returns `(Σ V)² / Σ (V² / ν)`."""
    return float(variances.sum() ** 2 / (variances**2 / df).sum())


class _Clusters(NamedTuple):
    """Clusters of texts within strata.

    Attributes:
        K, code: their number, and (texts,) the cluster of each text.
        D, stratum: the number of strata, and (texts,) the stratum of each text.
    """

    K: int
    code: Codes
    D: int
    stratum: Codes

    @property
    def of_clusters(self) -> Codes:
        """(K,) the stratum of each cluster."""
        stratum = np.zeros(self.K, dtype=np.intp)
        stratum[self.code] = self.stratum
        return stratum

    @property
    def sizes(self) -> Floats:
        """(D,) the number of clusters in each stratum."""
        return np.bincount(self.of_clusters, minlength=self.D).astype(np.float64)

    def variances(self, Z: Floats) -> Floats:
        """(D, columns) `K_d / (K_d − 1) Σ_{k∈d} (Z_k − Z̄_d)²` of (K, columns); 0 if K_d is 1."""
        of, n = self.of_clusters, self.sizes[:, None]
        centred = Z - (cluster_sums(Z, of, self.D) / n)[of]
        return cluster_sums(centred**2, of, self.D) * np.where(n > 1, n / np.maximum(n - 1, 1), 0)


class _Seeds(NamedTuple):
    """What seeds of a system add to a variance: V_a, R_a and the degrees of freedom of V_a."""

    variance: float
    residual: float
    df: float


def _seeds(
    values: Floats, weights: Floats, rows: Bools, seeds: Codes, inputs: Codes, prompts: _Clusters
) -> _Seeds | None:
    """Returns the component of a system's seeds; None if no input has two."""
    v, w = values[rows], weights[rows]
    S, s = coded(seeds[rows])
    n, i = coded(inputs[rows])
    F = cluster_sums(w, i * S + s, n * S).reshape(n, S)
    share = F / F.sum(axis=1, keepdims=True)
    A = np.diag(F.sum(axis=0)) - F.T @ share
    size = float((A**2).sum())
    if size <= _ROUNDING * float((F.sum(axis=0) ** 2).sum()):
        return None
    mean = cluster_sums(w * v, i, n) / F.sum(axis=1)
    deviation = w * (v - mean[i])
    u = cluster_sums(deviation, s, S)
    Z = cluster_sums(deviation, prompts.code[rows] * S + s, prompts.K * S).reshape(prompts.K, S)
    c = float((F.sum(axis=0) ** 2).sum()) / size
    df = size**2 / float(((A @ A.T) ** 2).sum())
    return _Seeds(c * float(u @ u), c * float(prompts.variances(Z).sum()), df)
