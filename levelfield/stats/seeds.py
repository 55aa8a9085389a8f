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
from scipy.sparse import csr_array, diags_array
from scipy.special import stdtr, stdtrit

from levelfield.core.arrays import Bools, Codes, Floats
from levelfield.stats.clusters import cluster_sums, coded

_ROUNDING = 1e-10
"""A standard error below this share of the absolute sum is rounding."""

_MOST_SEEDS = 500
"""With more seeds, the degrees of freedom of V_a are a lower bound."""


@dataclass(frozen=True)
class VarianceParts:
    """The parts of a variance over prompts and seeds, as `contrast` names them.

    Attributes:
        prompts: V_p, which holds the noise of the texts.
        texts: Σ R_a, the noise of the texts.
        seeds: V_a of each system with several seeds, which holds its R_a.
        prompts_df, seeds_df: degrees of freedom of V_p and of each V_a.
    """

    prompts: float
    texts: float
    seeds: tuple[float, ...]
    prompts_df: float
    seeds_df: tuple[float, ...]

    def total(self) -> tuple[float, float]:
        """Returns V and its degrees of freedom."""
        net = sum(self.seeds) - self.texts
        if net <= 0:
            return self.prompts, self.prompts_df
        V = self.prompts + net
        parts, df = (*self.seeds, self.prompts), (*self.seeds_df, self.prompts_df)
        return V, _df(V, np.array(parts), np.array(df))

    def scaled(self, *, inputs: float = 1.0, seeds: float = 1.0) -> VarianceParts:
        """Returns the parts to expect of another study.

        Args:
            inputs: its number of prompts, as a multiple of this one's.
            seeds: its number of seeds a system, as a multiple of this one's.
        """
        texts = self.texts / (inputs * seeds)
        prompts = max(0.0, self.prompts - self.texts) / inputs + texts
        # a V_a without its share of R, which falls with both, falls with seeds alone
        of_texts = self.texts / max(1, len(self.seeds))
        V_a = (max(0.0, v - of_texts) / seeds + of_texts / (inputs * seeds) for v in self.seeds)
        df = tuple(max(1.0, (df + 1) * seeds - 1) for df in self.seeds_df)
        return VarianceParts(prompts, texts, tuple(V_a), (self.prompts_df + 1) * inputs - 1, df)


@dataclass(frozen=True)
class Contrast:
    """A weighted sum of values with its variance over prompts and seeds.

    Attributes:
        value: of the sum.
        variance: its square root is the standard error; 0 if nothing varies.
        df: degrees of freedom of the t distribution that `value / √variance` follows under 0.
        of_seeds: whether seeds are a sample: a system has two on an input.
        parts: what the variance is made of.
    """

    value: float
    variance: float
    df: float
    of_seeds: bool
    parts: VarianceParts | None = None

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

    Only inputs with two seeds or more add to A and to u. V_a has `ν_a = ‖A‖⁴ / ‖A²‖²` degrees of
    freedom. For more than 500 seeds on such inputs ν_a is its lower bound `‖A‖² / max_s A_s²`, A_s
    the weight of seed s on these inputs; the two are equal if all seeds weigh alike and each is
    with the same others on every input.

    The degrees of freedom of V are `V² / (V_p²/(ν_p + 2) + Σ V_a²/(ν_a + 2)) − 2`, which is
    Satterthwaite's (1946) with an unbiased estimate of each part's variance, at least the smallest
    ν, at most `G / (V_p/ν_p + G_s/ν_s)` with `G_s = Σ V_a`, `ν_s = G_s² / Σ (V_a²/ν_a)` and
    `G = V_p + G_s`; ν_p alone where seeds add nothing. Without that upper bound the test rejects
    too often if one system has most of the variance of seeds.

    A system with one seed adds nothing to V: what is said of it holds for this run. With two seeds
    a system, or one system of few seeds beside one whose seeds are equal, up to 9 % of true nulls
    are rejected at 5 % (`benchmarks/seeds.py`).

    Args:
        values, weights: (texts,) defined; weights not 0, of one sign within a system.
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
    S, system = coded(systems)
    place = system * D + stratum
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = cluster_sums(weights * values, place, S * D) / cluster_sums(weights, place, S * D)
    z = cluster_sums(weights * (values - mean[place]), cluster, K)
    by_stratum = prompts.variances(z)
    V_p = float(by_stratum.sum())
    net = sum(c.variance - c.residual for c in sampled)
    V = V_p + max(0.0, net)
    value, of_seeds = float(weights @ values), bool(sampled)
    if math.sqrt(V) <= _ROUNDING * float(np.abs(weights * values).sum()):
        return Contrast(value, 0.0, float((prompts.sizes - 1).sum()), of_seeds)
    df = _pooled_df(by_stratum, np.maximum(prompts.sizes - 1, 1)) if V_p else math.inf
    parts = VarianceParts(
        V_p,
        sum(c.residual for c in sampled),
        tuple(c.variance for c in sampled),
        df,
        tuple(c.df for c in sampled),
    )
    return Contrast(value, *parts.total(), of_seeds, parts)


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

    def variances(self, z: Floats) -> Floats:
        """(D,) `K_d / (K_d − 1) Σ_{k∈d} (z_k − z̄_d)²` of (K,); 0 if K_d is 1."""
        cluster = self.of_clusters
        centred = z - (cluster_sums(z, cluster, self.D) / self.sizes)[cluster]
        return self._factors * cluster_sums(centred**2, cluster, self.D)

    def residual(self, deviation: Floats, rows: Codes, seed: Codes) -> float:
        """`Σ_s Σ_d K_d / (K_d − 1) Σ_{k∈d} (u_sk − ū_sd)²` of the deviations of these texts."""
        S = int(seed.max()) + 1

        def squares(cluster: Codes) -> tuple[Floats, Codes]:
            names, code = np.unique(cluster * S + seed, return_inverse=True)
            return cluster_sums(deviation, code, names.size) ** 2, names // S

        of_clusters, k = squares(self.code[rows])
        of_strata, d = squares(self.stratum[rows])
        within = cluster_sums(of_clusters, self.of_clusters[k], self.D)
        return float(self._factors @ (within - cluster_sums(of_strata, d, self.D) / self.sizes))

    @property
    def _factors(self) -> Floats:
        """(D,) `K_d / (K_d − 1)`; 0 if K_d is 1."""
        n = self.sizes
        return np.where(n > 1, n / np.maximum(n - 1, 1), 0.0)


class _Seeds(NamedTuple):
    """What seeds of a system add to a variance: V_a, R_a and the degrees of freedom of V_a."""

    variance: float
    residual: float
    df: float


def _seeds(
    values: Floats, weights: Floats, members: Bools, seeds: Codes, inputs: Codes, prompts: _Clusters
) -> _Seeds | None:
    """Returns the component of a system's seeds; None if no input has two."""
    rows = np.flatnonzero(members)
    S, s = coded(seeds[rows])
    n, i = coded(inputs[rows])
    shared = (np.bincount(np.unique(i * S + s) // S, minlength=n) > 1)[i]
    if not shared.any():
        return None
    w = np.abs(weights[rows])
    W = cluster_sums(w, s, S)
    rows, w = rows[shared], w[shared]
    S, s = coded(s[shared])
    n, i = coded(i[shared])
    size, df = _size(csr_array((w, (i, s)), shape=(n, S)))
    if size <= _ROUNDING * float(W @ W):
        return None
    v = values[rows]
    deviation = w * (v - (cluster_sums(w * v, i, n) / cluster_sums(w, i, n))[i])
    u = cluster_sums(deviation, s, S)
    c = float(W @ W) / size
    return _Seeds(c * float(u @ u), c * prompts.residual(deviation, rows, s), df)


def _size(F: csr_array) -> tuple[float, float]:
    """Returns ‖A‖² and ν_a from the (inputs, seeds) weights: `A = diag(W) − GᵀG`, G being F with
    each row over the root of its sum."""
    n, S = F.shape
    W = F.sum(axis=0)
    G = diags_array(1 / np.sqrt(F.sum(axis=1))) @ F
    if S <= _MOST_SEEDS:
        A = np.diag(W) - (G.T @ G).toarray()
        size = float((A**2).sum())
        return size, size**2 / float(((A @ A) ** 2).sum())
    gram = G.T @ G if n > S else G @ G.T  # of equal norm
    size = float(W @ W - 2 * W @ (G**2).sum(axis=0) + (gram**2).sum())
    return size, size / float(W.max()) ** 2
