"""Correlations over a sample of systems on a sample of sources: intervals and a test for both.

Samples of one system are dependent, and so are samples of one source. A claim about systems like
these holds for other systems on other sources, so both are resampled, by a jackknife that leaves
out each system, each source and each of their cells in turn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from levelfield.core.arrays import Codes, Floats
from levelfield.stats.clusters import cluster_sums, coded
from levelfield.stats.dependent import Swapped
from levelfield.stats.estimands import Statistic, TieChoice
from levelfield.stats.estimate import Estimate, undefined
from levelfield.stats.first_order import FirstOrder
from levelfield.stats.grouped import group_rows, ranked_within, standardised_within, varies_within
from levelfield.stats.measures import (
    INFINITE,
    OF_PAIRS,
    constant,
    defined_pair,
    ordered_pair,
    why_undefined,
)
from levelfield.stats.moments import moments, r_of_moments
from levelfield.stats.resampling import Resampling
from levelfield.stats.reweighted import Reweighted
from levelfield.stats.system_level import normal_statistic, too_few_systems
from levelfield.stats.ties import calibrated

_SAME = 1e-9
"""Statistics nearer than this are equal but for rounding."""

_EXACT = 64
"""Up to this number of units, leaving one out is exact; beyond it, of first order."""

_WEIGHTS = 1 << 22
"""Weights of samples held at a time: 32 MB."""

_LEAST_SHARE = 0.25
"""The variance is at least this share of the larger one of systems and of sources."""


@dataclass(frozen=True)
class Crossed:
    """The units that samples share. Each is (n,) codes from 0.

    Attributes:
        system, source: of each sample.
        cell: the pair of both.
    """

    system: Codes
    source: Codes
    cell: Codes

    @classmethod
    def of(cls, systems: npt.ArrayLike, sources: npt.ArrayLike) -> Crossed:
        """Returns the crossing of systems and sources, (n,) each, of anything that sorts."""
        _, system = coded(systems)
        K, source = coded(sources)
        return cls(system, source, coded(system * max(K, 1) + source)[1])

    @property
    def systems(self) -> int:
        """How many systems."""
        return int(self.system.max(initial=-1)) + 1

    @property
    def sources(self) -> int:
        """How many sources."""
        return int(self.source.max(initial=-1)) + 1


class Variance(NamedTuple):
    """A variance with its degrees of freedom."""

    value: float
    df: float


@dataclass(frozen=True)
class Deleted:
    """A statistic on all samples and without each unit, as z = atanh of it.

    Attributes:
        value: the statistic itself.
        z: of all samples.
        systems, sources, cells: (units,) z without each; NaN where it is undefined.
    """

    value: float
    z: float
    systems: Floats
    sources: Floats
    cells: Floats

    def minus(self, other: Deleted) -> Deleted:
        """Returns the difference of two statistics of the same units, in z."""
        return Deleted(
            self.value - other.value,
            self.z - other.z,
            self.systems - other.systems,
            self.sources - other.sources,
            self.cells - other.cells,
        )

    def variance(self) -> Variance:
        """Returns the two-way jackknife variance of z.

        `V = V_system + V_source − V_cell`, each `(g − 1) / g Σ (z_(−j) − z̄)²` over g units
        (MacKinnon, Nielsen and Webb 2024, "Jackknife inference with two-way clustering"; Cameron,
        Gelbach and Miller 2011). It is at least a quarter of the larger of the first two. Degrees
        of freedom are Satterthwaite's, `V² / (V_system² / (S − 1) + V_source² / (K − 1))`, and at
        least those of the dimension with fewer units.
        """
        (V_systems, S), (V_sources, K), (V_cells, _) = map(
            _jackknife, (self.systems, self.sources, self.cells)
        )
        V = max(V_systems + V_sources - V_cells, _LEAST_SHARE * max(V_systems, V_sources))
        spread = V_systems**2 / max(S - 1, 1) + V_sources**2 / max(K - 1, 1)
        least = max(1, min(S, K) - 1)
        return Variance(V, max(V * V / spread, least) if spread > 0 else least)

    @property
    def why_no_variance(self) -> str:
        """Why the jackknife says nothing; empty if it does."""
        if self.sources.size < 2:
            return "one source"
        for units, name in ((self.systems, "system"), (self.sources, "source")):
            lost = int(np.isnan(units).sum())
            if 2 * lost > units.size or (name == "system" and lost):
                return f"undefined without one {name}"
        return ""


def _jackknife(z: Floats) -> tuple[float, int]:
    z = z[~np.isnan(z)]
    if not z.size:
        return 0.0, 0
    return float((z.size - 1) / z.size * np.sum((z - z.mean()) ** 2)), z.size


def deletions(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    crossed: Crossed,
    kinds: Sequence[Statistic],
    groups: npt.ArrayLike | None = None,
) -> dict[Statistic, Deleted]:
    """Statistics without each system, each source and each cell.

    Args:
        x, y: (n,) metric and ratings, no NaN.
        kinds: which; `calibrated` is not among them.
        groups: (n,) the statistic is taken within each and averaged over those in which it is
            defined; one group if None.

    Up to 64 systems or sources are left out exactly. More of them, and cells, are left out to first
    order, which is exact for Pearson's r, and for pairs where a unit is one sample.
    """
    x, y = defined_pair(x, y)
    G, group = (1, np.zeros(x.size, np.intp)) if groups is None else coded(groups)
    results: dict[Statistic, Deleted] = {}
    if "pearson" in kinds:
        results["pearson"] = _pearson_deleted(x, y, crossed, group, G)
    ranked: tuple[Statistic, ...] = tuple(s for s in kinds if s not in ("pearson", "calibrated"))
    if ranked:
        results |= _ranks_deleted(*ordered_pair(x, y), crossed, group, G, ranked)
    return {s: results[s] for s in kinds if s in results}


class _Units(NamedTuple):
    """A statistic without a unit, of every unit in every group. Each is (units in groups,)."""

    unit: Codes
    group: Codes
    values: Floats


def _axes(crossed: Crossed) -> tuple[Codes, Codes, Codes]:
    return crossed.system, crossed.source, crossed.cell


def _pearson_deleted(x: Floats, y: Floats, crossed: Crossed, group: Codes, G: int) -> Deleted:
    varies = varies_within(x, group, G) & varies_within(y, group, G)
    for v in (x, y):
        varies[group[np.isinf(v)]] = False
    x, y = (np.where(np.isinf(v), 0.0, v) for v in (x, y))
    x, y = (standardised_within(v, group, G) for v in (x, y))
    M = moments(x, y, group, G)
    units = []
    for axis in _axes(crossed):
        N = int(axis.max(initial=-1)) + 1
        names, code = np.unique(group * N + axis, return_inverse=True)
        left = M[names // N] - moments(x, y, code, names.size)
        values = np.where(
            varies[names // N] & (left[:, 0] > 1.5), r_of_moments(_positive(left)), np.nan
        )
        units.append(_Units(names % N, names // N, values))
    return _mean_over(
        np.where(varies, r_of_moments(_positive(M)), np.nan), units, crossed, "pearson"
    )


def _positive(M: Floats) -> Floats:
    """Moments whose weight can divide."""
    return np.concatenate([np.maximum(M[:, :1], 1e-9), M[:, 1:]], axis=1)


def _ranks_deleted(
    x: Floats, y: Floats, crossed: Crossed, group: Codes, G: int, kinds: Sequence[Statistic]
) -> dict[Statistic, Deleted]:
    whole = {s: np.full(G, np.nan) for s in kinds}
    parts: list[list[tuple[Codes, int, dict[Statistic, Floats]]]] = [[], [], []]
    for g, rows in enumerate(group_rows(group, G)):
        if rows.size < 2:
            continue
        statistics_of_group = _Statistics(x[rows], y[rows], kinds)
        for s in kinds:
            whole[s][g] = statistics_of_group.value[s]
        earlier: list[tuple[Codes, dict[Statistic, Floats]]] = []
        for axis, part in zip(_axes(crossed), parts, strict=True):
            names, code = np.unique(axis[rows], return_inverse=True)
            same = next((v for c, v in earlier if np.array_equal(c, code)), None)
            values = statistics_of_group.without(code, names.size) if same is None else same
            earlier.append((code, values))
            part.append((names, g, values))
    results = {}
    for s in kinds:
        units = [
            _Units(
                np.concatenate([np.empty(0, np.intp), *(names for names, _, _ in part)]),
                np.concatenate(
                    [np.empty(0, np.intp), *(np.full(names.size, g) for names, g, _ in part)]
                ),
                np.concatenate([np.empty(0), *(values[s] for _, _, values in part)]),
            )
            for part in parts
        ]
        results[s] = _mean_over(whole[s], units, crossed, s)
    return results


class _Statistics:
    """Statistics of ranks and pairs of some samples, and without some of them."""

    def __init__(self, x: Floats, y: Floats, kinds: Sequence[Statistic]) -> None:
        self._x, self._y, self._kinds = x, y, kinds
        self._first: FirstOrder | None = None
        counts = np.ones((1, x.size))
        values = Reweighted(x, y, np.arange(x.size)).values(counts, kinds)
        self._undefined = {s for s in kinds if why_undefined(s, x, y)}
        self.value = {s: math.nan if s in self._undefined else float(values[s][0]) for s in kinds}

    def without(self, code: Codes, N: int) -> dict[Statistic, Floats]:
        """Returns every statistic without each unit: (N,)."""
        if N < 2:
            return {s: np.full(N, np.nan) for s in self._kinds}
        if N <= _EXACT:
            pair, every = Reweighted(self._x, self._y, code), 1.0 - np.eye(N)
            step = max(1, _WEIGHTS // self._x.size)
            chunks = [
                pair.values(every[start : start + step], self._kinds) for start in range(0, N, step)
            ]
            values = {s: np.concatenate([c[s] for c in chunks]) for s in self._kinds}
        else:
            if self._first is None:
                self._first = FirstOrder(self._x, self._y, np.arange(self._x.size), self._kinds)
            G = self._first.gradients
            values = self._first.from_sums(G.sum(axis=0) - cluster_sums(G, code, N))
        left = self._x.size - np.bincount(code, minlength=N)
        few = (left < 2) | np.array([s in self._undefined for s in self._kinds])[:, None]
        return {s: np.where(f, np.nan, values[s]) for s, f in zip(self._kinds, few, strict=True)}


def _mean_over(
    whole: Floats, units: Sequence[_Units], crossed: Crossed, statistic: Statistic
) -> Deleted:
    """Returns the mean over groups, and without each unit."""
    n = crossed.system.size
    defined = ~np.isnan(whole)
    total, count = float(whole[defined].sum()), int(defined.sum())

    def z(mean: Floats) -> Floats:
        bounded = 2 * mean - 1 if statistic in ("accuracy", "calibrated") else mean
        # a statistic of pairs may reach its end by chance where one unit is left out
        most = 1 - 1 / max(2.0, n * (n - 1) / 2) if statistic in _OF_COUNTS else 1 - 1e-12
        return np.asarray(np.arctanh(np.clip(bounded, -most, most)))

    deleted = []
    for axis, (unit, group, values) in zip(_axes(crossed), units, strict=True):
        N = int(axis.max(initial=-1)) + 1
        there = ~np.isnan(values)
        gain = np.where(there, values, 0.0) - np.where(defined[group], whole[group], 0.0)
        sums = total + np.bincount(unit, weights=gain, minlength=N)
        counts = count + np.bincount(
            unit, weights=there.astype(np.float64) - defined[group], minlength=N
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            deleted.append(z(np.where(counts > 0.5, sums / counts, np.nan)))
    value = total / count if count else math.nan
    return Deleted(value, float(z(np.array([value]))[0]), *deleted)


_OF_COUNTS = (*OF_PAIRS, "calibrated")


def spread_shift(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    crossed: Crossed,
    groups: npt.ArrayLike | None = None,
    *,
    level: float = 0.95,
) -> tuple[float, float]:
    """Returns Pearson's r, and r if systems differed as much as their population may.

    r depends on how far apart systems are, which a few of them show poorly: the variance between S
    systems may be `S / χ²` times as large in the population, χ² the quantile at (1 − level) / 2
    with S − 1 degrees of freedom. The second r is that of the covariance matrix whose part between
    systems is larger by that factor. Both are taken within groups.
    """
    x, y = ordered_pair(x, y)
    G, group = (1, np.zeros(x.size, np.intp)) if groups is None else coded(groups)
    V = np.stack([standardised_within(v, group, G) for v in (x, y)])
    S = crossed.systems
    size = np.bincount(crossed.system, minlength=S)
    means = np.stack([np.bincount(crossed.system, weights=v, minlength=S) / size for v in V])
    between = (means * size) @ means.T / x.size
    every = V @ V.T / x.size
    largest = every + (S / float(scipy.special.chdtri(S - 1, (1 + level) / 2)) - 1) * between

    def r(C: Floats) -> float:
        scale = C[0, 0] * C[1, 1]
        return float(np.clip(C[0, 1] / math.sqrt(scale), -1, 1)) if scale > 0 else math.nan

    return r(every), r(largest)


def crossed_estimates(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    systems: npt.ArrayLike,
    sources: npt.ArrayLike,
    kinds: Sequence[Statistic],
    groups: npt.ArrayLike | None = None,
    *,
    ties: TieChoice = "held-out",
    level: float = 0.95,
    seed: int = 0,
) -> dict[Statistic, Estimate]:
    """Statistics with intervals for systems like these on sources like these.

    With z = atanh of the statistic (of 2 v − 1 for an accuracy), the interval is `z ± t √V`, V and
    the degrees of freedom of t those of `Deleted.variance`. The end to which a larger spread of
    systems would move the statistic is `√(t² V + m²)` away, m how far the spread of `spread_shift`
    moves it (two errors combined as in Zou 2008, "Toward using confidence intervals to compare
    correlations"); of ranks and pairs, by the statistic of the normal distribution with that r.

    No interval: fewer than 6 systems, one source, a statistic that is undefined without one of
    the systems, or `calibrated`, whose thresholds are held out by sources.

    Args:
        systems, sources: (n,) anything that sorts.
        groups: as for `deletions`; `calibrated` is left out then.
        ties, seed: of `calibrated`.
    """
    x, y = defined_pair(x, y)
    crossed = Crossed.of(systems, sources)
    S, K, n = crossed.systems, crossed.sources, x.size
    deleted_of = deletions(x, y, crossed, kinds, groups)
    enough = not too_few_systems(S)
    shift = spread_shift(x, y, crossed, groups, level=level) if enough else (math.nan, math.nan)
    results: dict[Statistic, Estimate] = {}
    for s, deleted in deleted_of.items():
        reason = why_undefined(s, x, y) if groups is None else ""
        if not reason and math.isnan(deleted.value):
            reason = "undefined in every group"
        if reason:
            results[s] = undefined(reason, n=n, clusters=K)
            continue
        no = too_few_systems(S) or deleted.why_no_variance
        low, high = (math.nan, math.nan) if no else _ends(s, deleted, shift, level)
        note = "two samples: only the ends of its range are possible" if n == 2 else ""
        results[s] = Estimate(deleted.value, low, high, n, K, why_no_interval=no, note=note)
    if "calibrated" in kinds and groups is None:
        once = Resampling(resamples=1, seed=seed)
        reason = why_undefined("calibrated", x, y)
        e = (
            undefined(reason, n=n, clusters=K)
            if reason == INFINITE
            else calibrated(x, y, sources, ties=ties, resampling=once).estimate
        )
        why_no_ties = e.why_no_interval if ties == "in-sample" else ""
        held = why_no_ties or "its thresholds are held out by sources only"
        no = e.why_undefined or too_few_systems(S) or held
        results["calibrated"] = replace(
            e, low=math.nan, high=math.nan, why_no_interval=no, note=e.note
        )
    return {s: results[s] for s in kinds if s in results}


def _ends(
    s: Statistic, deleted: Deleted, shift: tuple[float, float], level: float
) -> tuple[float, float]:
    V, df = deleted.variance()
    half = float(scipy.special.stdtrit(df, (1 + level) / 2)) * math.sqrt(V)
    statistic: Statistic = "accuracy" if s == "calibrated" else "kendall" if s == "tau-like" else s
    now, spread = (_z_of_normal(statistic, r) for r in shift)
    move = 0.0 if math.isnan(spread - now) else spread - now
    low, high = -math.hypot(half, min(move, 0.0)), math.hypot(half, max(move, 0.0))
    ends = math.tanh(deleted.z + low), math.tanh(deleted.z + high)
    if s in ("accuracy", "calibrated"):
        ends = (1 + ends[0]) / 2, (1 + ends[1]) / 2
    return min(ends[0], deleted.value), max(ends[1], deleted.value)


def _z_of_normal(s: Statistic, r: float) -> float:
    v = r if s == "pearson" else normal_statistic(s, r)
    v = 2 * v - 1 if s == "accuracy" else v
    return math.atanh(max(-1 + 1e-12, min(1 - 1e-12, v)))


def crossed_tests(
    metrics: Sequence[npt.ArrayLike],
    pairs: Sequence[tuple[int, int]],
    y: npt.ArrayLike,
    systems: npt.ArrayLike,
    sources: npt.ArrayLike,
    groups: npt.ArrayLike | None = None,
    *,
    ranks: bool = False,
) -> list[Swapped]:
    """Tests whether two metrics agree equally well with people, for systems and sources like these.

    `t = (z_A − z_B) / √V`, z = atanh r (of the mean r over groups), V the two-way jackknife
    variance of the difference and t with its degrees of freedom (`Deleted.variance`). Metrics that
    are the same up to scale have p = 1.

    Args:
        metrics, y: (n,) each, no NaN.
        pairs: places of A and B among the metrics.
        systems, sources, groups: (n,) anything that sorts.
        ranks: correlate ranks within groups (Spearman), which keep their values where a unit is
            left out.

    Undefined: fewer than 6 systems, one source, constant values, or an r that is undefined without
    one of the systems.
    """
    nan = math.nan
    crossed = Crossed.of(systems, sources)
    y = np.asarray(y, np.float64)
    G, group = (1, np.zeros(y.size, np.intp)) if groups is None else coded(groups)
    columns = [np.asarray(v, np.float64) for v in metrics]
    if ranks:
        y, *columns = (ranked_within(v, group) for v in (y, *columns))
    few = too_few_systems(crossed.systems)
    pearsons = [] if few else [_pearson_deleted(v, y, crossed, group, G) for v in columns]
    results = []
    for a, b in pairs:
        K = crossed.sources
        reason = few
        if not reason and math.isnan(pearsons[a].value + pearsons[b].value):
            reason = "constant rating" if y.size and constant(y) else "constant metric"
        if not reason:
            difference = pearsons[a].minus(pearsons[b])
            reason = difference.why_no_variance
        if reason:
            results.append(Swapped(nan, nan, nan, y.size, K, 0, reason))
            continue
        V, df = difference.variance()
        if abs(difference.value) < _SAME or V <= 0:
            results.append(Swapped(0.0, 1.0, 0.5, y.size, K, G))
            continue
        t = difference.z / math.sqrt(V)
        results.append(
            Swapped(
                difference.value,
                float(2 * scipy.special.stdtr(df, -abs(t))),
                float(scipy.special.stdtr(df, -t)),
                y.size,
                K,
                G,
                se=math.sqrt(V) * abs(difference.value / difference.z),  # z at the scale of r
                df=df,
            )
        )
    return results
