"""Means of systems, and their differences, with prompts and seeds as samples.

Another run of a system draws other seeds, as another study draws other prompts. A test that flips
the signs of prompts holds the seeds fixed: it says how certain a difference between these runs is,
not between these systems.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy

from levelfield.core.arrays import Bools, Codes, Floats
from levelfield.stats.clusters import cluster_sums, coded

_ROUNDING = 1e-10
"""A standard error below this share of the absolute sum is rounding."""

_MOST_SEEDS = 500
"""With more seeds, the degrees of freedom of V_a are a lower bound."""


@dataclass(frozen=True)
class Contrast:
    """A weighted sum of values with its variance over prompts and seeds.

    Attributes:
        value: of the sum.
        variance: its square root is the standard error; 0 if nothing varies.
        df: degrees of freedom of the t distribution that `value / √variance` follows under 0.
        samples_seeds: whether seeds are a sample: a system has two on an input.
        parts: what the variance is made of.
    """

    value: float
    variance: float
    df: float
    samples_seeds: bool
    parts: VarianceParts | None = None

    @property
    def seed_variances(self) -> tuple[tuple[float, float], ...]:
        """The variance of one seed of each system whose seeds differ, with its degrees of freedom;
        empty where nothing varies."""
        sampled = () if self.parts is None else self.parts.sampled
        return tuple((c.seed_variance, c.df) for c in sampled if c.seed_variance)

    @property
    def p(self) -> float:
        """Two-sided p of the value 0; the variance is above 0."""
        return float(2 * scipy.special.stdtr(self.df, -abs(self.value) / math.sqrt(self.variance)))

    def ends(self, level: float) -> tuple[float, float]:
        """Returns the ends of the interval, which holds 0 exactly if `p > 1 - level`."""
        half = float(scipy.special.stdtrit(self.df, (1 + level) / 2)) * math.sqrt(self.variance)
        return self.value - half, self.value + half


@dataclass(frozen=True)
class SeedPrior:
    """The variance between seeds of one system, as all systems of a run suggest it.

    Attributes:
        variance: of one seed, pooled over the systems.
        df: d_0, the degrees of freedom that this is worth to one system.
        pooled_df: of all systems together.
    """

    variance: float
    df: float
    pooled_df: float


_PRIOR_DF = np.geomspace(2**-2, 2**20, 67)
"""The d_0 that are tried; at the largest every system has the pooled variance."""


def seed_prior(seed_variances: Sequence[tuple[float, float]]) -> SeedPrior | None:
    """Returns the prior of the seed variance of one system from those of all systems.

    With two to five seeds the variance of one system is known so badly that Holm's first
    threshold is out of reach, and with the variance pooled over all systems one whose seeds differ
    more is called different too often. So each variance is drawn towards the pooled one, as far as
    the variances allow (Smyth 2004, section 4):

        s̃_a² = (d_0 s_0² + ν_a s_a²) / (d_0 + ν_a),   s_0² = Σ ν_a s_a² / Σ ν_a

    If the true variances are scaled inverse χ² with d_0 degrees of freedom, `s_a² / s_0²` follows
    F(ν_a, d_0). d_0 is the smallest whose log-likelihood is at most 1 below the greatest, rather
    than the most likely, which relies on systems being alike where they merely look so.

    Args:
        seed_variances: s_a² > 0 and ν_a of each system.

    Undefined (None): fewer than two systems.
    """
    if len(seed_variances) < 2:
        return None
    s2, df = np.array(seed_variances).T
    pooled = float(df @ s2 / df.sum())
    d = _PRIOR_DF[:, None]
    log_likelihood = (
        scipy.special.gammaln((df + d) / 2)
        - scipy.special.gammaln(d / 2)
        - df / 2 * np.log(d)
        - (df + d) / 2 * np.log1p(df * s2 / (pooled * d))
    ).sum(axis=1)
    first = int(np.argmax(log_likelihood >= log_likelihood.max() - 1))
    return SeedPrior(pooled, float(_PRIOR_DF[first]), float(df.sum()))


class SeedComponent(NamedTuple):
    """What the seeds of a system add to a variance.

    Attributes:
        seed_variance: variance of one seed, `Σ_s u_s² / ‖A‖²`.
        weight: `Σ_s W_s²`; V_a is `weight * seed_variance`.
        residual: R_a.
        df: degrees of freedom of V_a.
    """

    seed_variance: float
    weight: float
    residual: float
    df: float

    def moderated(self, prior: SeedPrior) -> SeedComponent:
        """Returns the component with its seed variance drawn towards the prior's."""
        df = self.df + prior.df
        variance = (prior.df * prior.variance + self.df * self.seed_variance) / df
        return self._replace(seed_variance=variance, df=min(df, prior.pooled_df))

    @property
    def noise(self) -> float:
        """The part of the seed variance that is noise of texts."""
        return self.residual / self.weight

    def scaled(self, *, inputs: float, seeds: float) -> SeedComponent:
        """Returns the component to expect of multiples of the inputs and seeds."""
        return SeedComponent(
            _with_inputs(self.seed_variance, self.noise, inputs),
            self.weight / seeds,
            self.residual / (inputs * seeds),
            max(1.0, (self.df + 1) * seeds - 1),
        )


@dataclass(frozen=True)
class VarianceParts:
    """The parts of a variance over prompts and seeds, as `contrast` names them.

    Attributes:
        prompts: V_p, which holds the noise of the texts.
        prompts_df: ν_p.
        sampled: what the seeds of each system add that has several.
        prior: of the variance of seeds; None without one.
    """

    prompts: float
    prompts_df: float
    sampled: tuple[SeedComponent, ...]
    prior: SeedPrior | None = None

    @property
    def texts(self) -> float:
        """Σ R_a, the noise of the texts."""
        return sum(c.residual for c in self.sampled)

    @property
    def seeds(self) -> tuple[float, ...]:
        """V_a of each system with several seeds, whatever the prior; it holds R_a."""
        return tuple(c.weight * c.seed_variance for c in self.sampled)

    @property
    def seeds_df(self) -> tuple[float, ...]:
        """ν_a of these."""
        return tuple(c.df for c in self.sampled)

    @property
    def error_df(self) -> float:
        """Degrees of freedom that the variance has at most as an estimate: those of all seeds.

        Where seeds seem to add little, `total` has the prompts' degrees of freedom and variance;
        but that impression is itself an estimate from few seeds.
        """
        seeds_df = sum(self.seeds_df) if self.prior is None else self.prior.pooled_df
        return min(self.total()[1], seeds_df) if seeds_df else self.prompts_df

    def total(self) -> tuple[float, float]:
        """Returns V and its degrees of freedom."""
        V_p, df_p, prior = self.prompts, self.prompts_df, self.prior
        differing = [c for c in self.sampled if c.seed_variance]
        parts = differing if prior is None else [c.moderated(prior) for c in differing]
        V_a = np.array([c.weight * c.seed_variance for c in parts])
        df_a = np.array([c.df for c in parts])
        V = V_p + max(0.0, float(V_a.sum()) - self.texts)
        if not parts:
            return V, df_p
        G_s, df_s = float(V_a.sum()), _pooled_df(V_a, df_a)
        squares = float((V_a**2 / (df_a + 2)).sum())
        if prior is not None:  # what the systems share makes one part of theirs
            df_s = min(df_s, prior.pooled_df)
            squares = G_s**2 / (df_s + 2)
        if not V_p:
            return V, df_s
        satterthwaite = V**2 / (V_p**2 / (df_p + 2) + squares) - 2
        linear = (V_p + G_s) / (V_p / df_p + G_s / df_s)
        return V, min(linear, max(min(float(df_a.min()), df_p), satterthwaite))

    def scaled(self, *, inputs: float = 1.0, seeds: float = 1.0) -> VarianceParts:
        """Returns the parts to expect of another study, d_0 of the prior being the same.

        Args:
            inputs: its number of prompts, as a multiple of this one's.
            seeds: its number of seeds a system, as a multiple of this one's.
        """
        texts = self.texts / (inputs * seeds)
        prompts = max(0.0, self.prompts - self.texts) / inputs + texts
        sampled = tuple(c.scaled(inputs=inputs, seeds=seeds) for c in self.sampled)
        prior = self.prior
        if prior is not None and sampled:
            noise = float(np.mean([c.noise for c in self.sampled]))
            more = sum(c.df for c in sampled) / sum(self.seeds_df)
            prior = SeedPrior(
                _with_inputs(prior.variance, noise, inputs), prior.df, prior.pooled_df * more
            )
        return VarianceParts(prompts, (self.prompts_df + 1) * inputs - 1, sampled, prior)


def _with_inputs(variance: float, noise: float, inputs: float) -> float:
    """Returns the variance of one seed on a multiple of the inputs: its noise of texts falls."""
    return variance - min(variance, noise) * (1 - 1 / inputs)


def contrast(
    values: Floats,
    weights: Floats,
    *,
    systems: Codes,
    seeds: Codes,
    inputs: Codes,
    clusters: Codes,
    strata: Codes,
    prior: SeedPrior | None = None,
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
    Satterthwaite's (1946) with an unbiased estimate of each part's variance; at least the smallest
    ν, at most `(V_p + G_s) / (V_p/ν_p + G_s/ν_s)` with `G_s = Σ V_a` and
    `ν_s = G_s² / Σ (V_a²/ν_a)`. Without that upper bound the test rejects too often if one
    system has most of the variance of seeds. They are the same where seeds seem to add nothing
    (V = V_p): to take ν_p there would be a preliminary test, with which Holm's first threshold errs
    two to six times too often.

    With a prior, V_a is that of the moderated variance s̃_a² of one seed (`seed_prior`), with
    ν_a + d_0 degrees of freedom. Neither these nor ν_s exceed those of all systems together, and
    the V_a, which share what is known, make one part G_s with ν_s.

    A system with one seed adds nothing to V: what is said of it holds for this run. Nor do seeds
    that give equal values. `benchmarks/seeds.py` has the level and the power.

    Args:
        values, weights: (texts,) defined; weights not 0, of one sign within a system.
        systems, seeds: (texts,) codes; a seed of one system is none of another.
        inputs: (texts,) codes of what texts of a system with different seeds share.
        clusters: (texts,) codes of what inputs share; no input is in two clusters.
        strata: (texts,) codes of the data sets; no cluster is in two.
        prior: of the variance of seeds; None if this contrast alone tells it.

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
    df_p = _pooled_df(by_stratum, np.maximum(prompts.sizes - 1, 1)) if V_p else math.inf
    parts = VarianceParts(V_p, df_p, tuple(sampled), prior)
    V, df = parts.total()
    value = float(weights @ values)
    if math.sqrt(V) <= _ROUNDING * float(np.abs(weights * values).sum()):
        return Contrast(value, 0.0, float((prompts.sizes - 1).sum()), bool(sampled))
    return Contrast(value, V, df, bool(sampled), parts)


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
    def cluster_strata(self) -> Codes:
        """(K,) the stratum of each cluster."""
        stratum = np.zeros(self.K, dtype=np.intp)
        stratum[self.code] = self.stratum
        return stratum

    @property
    def sizes(self) -> Floats:
        """(D,) the number of clusters in each stratum."""
        return np.bincount(self.cluster_strata, minlength=self.D).astype(np.float64)

    def variances(self, z: Floats) -> Floats:
        """Returns (D,) `K_d / (K_d − 1) Σ_{k∈d} (z_k − z̄_d)²` of (K,); 0 if K_d is 1."""
        cluster = self.cluster_strata
        centred = z - (cluster_sums(z, cluster, self.D) / self.sizes)[cluster]
        return self._factors * cluster_sums(centred**2, cluster, self.D)

    def residual(self, deviation: Floats, rows: Codes, seed: Codes) -> float:
        """`Σ_s Σ_d K_d / (K_d − 1) Σ_{k∈d} (u_sk − ū_sd)²` of the deviations of these texts."""
        S = int(seed.max()) + 1

        def squares(cluster: Codes) -> tuple[Floats, Codes]:
            names, code = np.unique(cluster * S + seed, return_inverse=True)
            return cluster_sums(deviation, code, names.size) ** 2, names // S

        cluster_squares, k = squares(self.code[rows])
        stratum_squares, d = squares(self.stratum[rows])
        within = cluster_sums(cluster_squares, self.cluster_strata[k], self.D)
        return float(
            self._factors @ (within - cluster_sums(stratum_squares, d, self.D) / self.sizes)
        )

    @property
    def _factors(self) -> Floats:
        """(D,) `K_d / (K_d − 1)`; 0 if K_d is 1."""
        n = self.sizes
        return np.where(n > 1, n / np.maximum(n - 1, 1), 0.0)


def _seeds(
    values: Floats, weights: Floats, members: Bools, seeds: Codes, inputs: Codes, prompts: _Clusters
) -> SeedComponent | None:
    """Returns the component of a system's seeds; None if no input has two."""
    rows = np.flatnonzero(members)
    S, s = coded(seeds[rows])
    n, i = coded(inputs[rows])
    shared = (np.bincount(np.unique(i * S + s) // S, minlength=n) > 1)[i]
    if not shared.any():
        return None
    w = np.abs(weights[rows])
    W = cluster_sums(w, s, S)
    total = float(W @ W)
    rows, w = rows[shared], w[shared]
    S, s = coded(s[shared])
    n, i = coded(i[shared])
    size, df = _size(scipy.sparse.csr_array((w, (i, s)), shape=(n, S)))
    if size <= _ROUNDING * total:
        return None
    v = values[rows]
    deviation = w * (v - (cluster_sums(w * v, i, n) / cluster_sums(w, i, n))[i])
    if np.abs(deviation).sum() <= _ROUNDING * float(w @ np.abs(v)):
        return SeedComponent(0.0, total, 0.0, df)
    u = cluster_sums(deviation, s, S)
    residual = total / size * prompts.residual(deviation, rows, s)
    return SeedComponent(float(u @ u) / size, total, residual, df)


def _size(F: scipy.sparse.csr_array) -> tuple[float, float]:
    """Returns ‖A‖² and ν_a from the (inputs, seeds) weights: `A = diag(W) − GᵀG`, G being F with
    each row over the root of its sum."""
    n, S = F.shape
    W = F.sum(axis=0)
    G = scipy.sparse.diags_array(1 / np.sqrt(F.sum(axis=1))) @ F
    if S <= _MOST_SEEDS:
        A = np.diag(W) - (G.T @ G).toarray()
        size = float((A**2).sum())
        return size, size**2 / float(((A @ A) ** 2).sum())
    gram = G.T @ G if n > S else G @ G.T  # of equal norm
    size = float(W @ W - 2 * W @ (G**2).sum(axis=0) + (gram**2).sum())
    return size, size / float(W.max()) ** 2
