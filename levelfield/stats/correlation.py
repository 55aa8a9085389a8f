"""Agreement of a metric with ratings: correlations and pairwise accuracy, with intervals.

Every statistic takes the metric's values x and the ratings y of the same n samples, both (n,),
and is NaN where it is undefined; `measures.why_undefined` gives the reason. Intervals come from
resampling whole clusters (samples that share a source or prompt) and recomputing the statistic,
ranks and pairs included, on every resample. Two systems that gave the same text to one source have
one judgement between them; they share the source, so they are always drawn together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Codes, Floats
from levelfield.stats.clusters import cluster_draws, coded, shared_draws
from levelfield.stats.estimands import STATISTICS, Statistic, TieChoice
from levelfield.stats.estimate import Estimate, estimate_from_draws, undefined
from levelfield.stats.first_order import MOST_COLUMNS, NOTE, FirstOrder, first_order
from levelfield.stats.measures import (
    CORRELATIONS,
    INFINITE,
    PairCounts,
    defined_pair,
    ordered_pair,
    why_undefined,
)
from levelfield.stats.resampling import DEFAULT, Resampling
from levelfield.stats.reweighted import Reweighted
from levelfield.stats.ties import calibrated

_MOST_HELD = 1 << 25
"""Sums over clusters that are held for the same draws: 256 MB."""


def pearson(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """`r = Σ (x − x̄)(y − ȳ) / √(Σ (x − x̄)² Σ (y − ȳ)²)`.

    >>> round(pearson([1, 2, 3, 4], [1, 3, 2, 4]), 3)
    0.8
    """
    return statistics(x, y, ("pearson",))["pearson"]


def spearman(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Pearson's r of the ranks; equal values share the mean of their ranks."""
    return statistics(x, y, ("spearman",))["spearman"]


def kendall(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """`τ_b = (C − D) / √((C + D + T_x)(C + D + T_y))` (Kendall 1945)."""
    return statistics(x, y, ("kendall",))["kendall"]


def tau_like(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Kendall's-τ-like coefficient of the style transfer thesis, section 3.4.

    `τ = (C − D') / (C + D')` with `D' = D + T_x`: a pair that the ratings tie is left out; a pair
    that they order and the metric ties counts as discordant.

    >>> tau_like([1, 2, 2], [1, 2, 3])
    0.3333333333333333
    """
    return statistics(x, y, ("tau-like",))["tau-like"]


def pairwise_accuracy(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Returns pairwise accuracy with ties, `(C + T_xy) / (C + D + T_x + T_y + T_xy)`.

    A pair counts if the metric orders it as the ratings do, ties included (Deutsch, Foster and
    Freitag 2023, "Ties Matter", section 4). A constant metric has one: the share of rated ties.
    """
    return statistics(x, y, ("accuracy",))["accuracy"]


def pair_counts(x: npt.ArrayLike, y: npt.ArrayLike) -> PairCounts:
    """Returns the pairs of samples, counted in n log n steps."""
    x, y = ordered_pair(x, y)
    if x.size < 2:
        return PairCounts(0, 0, 0, 0, 0)
    pairs = Reweighted(x, y, np.arange(x.size)).pairs(np.ones((1, x.size)))
    return PairCounts(*(round(float(count[0])) for count in pairs))


def statistics(
    x: npt.ArrayLike, y: npt.ArrayLike, kinds: Sequence[Statistic] = (*CORRELATIONS, "accuracy")
) -> dict[Statistic, float]:
    """Returns several statistics of the same samples, except `calibrated`."""
    x, y = defined_pair(x, y)
    if x.size < 2:
        return dict.fromkeys(kinds, float("nan"))
    finite = ordered_pair(x, y)
    values = Reweighted(*finite, np.arange(x.size)).values(np.ones((1, x.size)), kinds)
    return {s: float("nan") if why_undefined(s, x, y) else float(values[s][0]) for s in kinds}


def estimates(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    clusters: npt.ArrayLike,
    *,
    wanted: Sequence[Statistic] = STATISTICS,
    ties: TieChoice = "held-out",
    resampling: Resampling = DEFAULT,
) -> dict[Statistic, Estimate]:
    """Statistics with expanded percentile intervals from the pairs cluster bootstrap.

    K clusters are drawn from the K clusters with replacement, each with all its samples, and the
    statistic is computed on what was drawn: Pearson's r from sums per cluster, Spearman's ρ on the
    ranks within the resample, the pair statistics on the pairs of the resample without those of a
    sample with a copy of itself. A resample in which a statistic is undefined is left out of its
    interval, and the note says how many were. With more than `MOST_EXACT` samples in
    `FEWEST_CLUSTERS` clusters, ranks and pairs are those of `FirstOrder`, which the note says. The
    interval of `calibrated` holds its thresholds fixed.

    Args:
        x, y: (n,) metric and ratings, no NaN.
        clusters: (n,) anything that sorts; equal entries are one cluster.
        wanted: which statistics.
        ties: as for `calibrated`.
        resampling: equal seeds and clusters give equal intervals, in whatever order the samples
            come.
    """
    return shared_estimates([(x, y)], clusters, kinds=wanted, ties=ties, resampling=resampling)[0]


def shared_estimates(
    pairs: Iterable[tuple[npt.ArrayLike, npt.ArrayLike]],
    clusters: npt.ArrayLike,
    *,
    kinds: Sequence[Statistic] = STATISTICS,
    ties: TieChoice = "held-out",
    resampling: Resampling = DEFAULT,
) -> list[dict[Statistic, Estimate]]:
    """Returns `estimates` of several metrics and aspects on the same samples, with shared draws.

    Args:
        pairs: values and ratings, (n,) each.
    """
    K, code = coded(clusters)
    plain = tuple(s for s in kinds if s != "calibrated")
    results: list[dict[Statistic, Estimate]] = []
    held: list[tuple[Floats, Floats]] = []

    def finish() -> None:
        finite = [ordered_pair(*pair) for pair in held if plain and K > 1]
        every = _drawn(finite, code, plain, resampling)
        for (x, y), drawn in zip(held, every or [{}] * len(held), strict=True):
            by_statistic: dict[Statistic, Estimate] = {}
            value = statistics(x, y, plain)
            for s in plain:
                reason = why_undefined(s, x, y)
                e = estimate_from_draws(
                    value[s],
                    drawn.get(s),
                    n=x.size,
                    clusters=K,
                    reason=reason,
                    level=resampling.level,
                )
                if s != "pearson" and not e.why_no_interval and first_order(x.size, K):
                    e = replace(e, note="; ".join(filter(None, (e.note, NOTE))))
                by_statistic[s] = e
            if "calibrated" in kinds:
                reason = why_undefined("calibrated", x, y)
                by_statistic["calibrated"] = (
                    undefined(reason, n=x.size, clusters=K)
                    if reason == INFINITE
                    else calibrated(x, y, code, ties=ties, resampling=resampling).estimate
                )
            results.append({s: by_statistic[s] for s in kinds})
        held.clear()

    for x, y in pairs:
        held.append(defined_pair(x, y))
        if not first_order(code.size, K) or (len(held) + 1) * MOST_COLUMNS * K > _MOST_HELD:
            finish()
    finish()
    return results


def _drawn(
    pairs: Sequence[tuple[Floats, Floats]],
    code: Codes,
    kinds: Sequence[Statistic],
    resampling: Resampling,
) -> list[Mapping[Statistic, Floats]]:
    """Returns every statistic of each pair, (resamples,), from the same draws of clusters."""
    if not pairs:
        return []
    K, n, draws = int(code.max()) + 1, code.size, (resampling.resamples, resampling.seed)
    if first_order(n, K):
        expanded = [FirstOrder(x, y, code, kinds) for x, y in pairs]
        G = np.concatenate([e.gradients for e in expanded], axis=1)
        sums = np.concatenate([counts @ G for counts in shared_draws(K, *draws)])
        ends = np.cumsum([e.gradients.shape[1] for e in expanded])
        parts = np.split(sums, ends[:-1], axis=1)
        return [e.from_sums(part) for e, part in zip(expanded, parts, strict=True)]
    weighted = [Reweighted(x, y, code) for x, y in pairs]
    chunks = [
        [w.values(counts, kinds) for w in weighted] for counts in cluster_draws(K, *draws, width=n)
    ]
    return [
        {s: np.concatenate([c[s] for c in pair_chunks]) for s in kinds}
        for pair_chunks in zip(*chunks, strict=True)
    ]


def mean_over_groups(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    code: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    kinds: Sequence[Statistic],
    resampling: Resampling = DEFAULT,
) -> dict[Statistic, Floats]:
    """Returns the means over groups of a statistic, (resamples,), with the same draw of clusters
    for all groups.

    Args:
        code: (n,) 0 to K − 1, the cluster. groups: (n,) 0 to G − 1, e.g. the system.

    In a resample, a group in which the statistic is undefined is left out of the mean.
    """
    x, y = ordered_pair(x, y)
    code, groups = np.asarray(code, dtype=np.intp), np.asarray(groups, dtype=np.intp)
    K = int(code.max(initial=-1)) + 1
    if K < 2 or not kinds:
        return {}
    order = np.argsort(code, kind="stable")  # so that equal samples in any order give equal sums
    order = order[np.argsort(groups[order], kind="stable")]
    starts = np.flatnonzero(np.r_[True, groups[order][1:] != groups[order][:-1]])

    def pair(rows: Codes) -> Reweighted | FirstOrder:
        K, cluster = coded(code[rows])
        if first_order(rows.size, K):
            return FirstOrder(x[rows], y[rows], cluster, kinds)
        return Reweighted(x[rows], y[rows], cluster)

    weighted = [
        (np.unique(code[rows]), pair(rows)) for rows in np.split(order, starts[1:]) if rows.size > 1
    ]
    chunks: list[dict[Statistic, Floats]] = []
    for counts in cluster_draws(K, resampling.resamples, resampling.seed, width=x.size):
        sums = {s: np.zeros(counts.shape[0]) for s in kinds}
        n = {s: np.zeros(counts.shape[0]) for s in kinds}
        for clusters, group in weighted:
            for s, v in group.values(counts[:, clusters], kinds).items():
                defined = ~np.isnan(v)
                sums[s] += np.where(defined, v, 0.0)
                n[s] += defined
        with np.errstate(invalid="ignore", divide="ignore"):
            chunks.append({s: sums[s] / n[s] for s in kinds})
    return {s: np.concatenate([c[s] for c in chunks]) for s in kinds}
