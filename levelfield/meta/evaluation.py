"""Meta-evaluation: any number of metrics against any number of rated aspects, at once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from levelfield.core.arrays import Codes, Floats
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.core.signature import signature
from levelfield.io.ratings import Rated, ScoreColumn
from levelfield.meta.drift import (
    EvaluatorDrift,
    QualityDrift,
    Spread,
    evaluator_drift,
    quality_drift,
    spread,
)
from levelfield.stats.bootstrap import cluster_bootstrap_mean
from levelfield.stats.clusters import cluster_draws
from levelfield.stats.correlation import estimates, mean_over_groups, statistics
from levelfield.stats.dependent import Swapped, Williams, swap_test, williams
from levelfield.stats.estimate import Estimate, estimate_from_draws
from levelfield.stats.measures import STATISTICS, Statistic, why_undefined
from levelfield.stats.multiplicity import Correction, adjusted, rank_clusters
from levelfield.stats.resampling import DEFAULT, Resampling
from levelfield.stats.rows import r_of_rows, rounded, row_statistics
from levelfield.stats.ties import calibrated_within

Level = Literal["segment", "system"]
Group = Literal["all", "system", "source", "dataset"]
CompareBy = Literal["pearson", "spearman"]

ALL = "all"
_SHOWN = 3
UNNAMED = "(unnamed)"


@dataclass(frozen=True)
class Unmatched:
    """Ids that only one side has: how many, and the first few."""

    n: int
    ids: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Scores and ratings of the same samples, rows sorted by id. Every array is (n,).

    Attributes:
        ids: of the samples that have a rating on some aspect and a row in the scores.
        metrics: name -> values, NaN where undefined.
        aspects: name -> ratings, the mean over raters; NaN where there are none.
        clusters: samples with equal entries share a source, prompt or context.
        systems, datasets: their names; empty where unknown.
        sources: -1 where nothing is shared.
        samples: the samples as far as they are known.
        signatures: of the metrics.
        raters: aspect -> how many different people rated it.
        only_scored, only_rated: ids that the other side lacks.
        flipped: metrics of which lower is better: their values have changed sign.
        same_text: samples whose source and text another sample has as well: one judgement.
    """

    ids: tuple[str, ...]
    metrics: Mapping[str, Floats]
    aspects: Mapping[str, Floats]
    clusters: Codes
    systems: npt.NDArray[np.str_]
    datasets: npt.NDArray[np.str_]
    sources: Codes
    samples: Mapping[str, Sample]
    signatures: Mapping[str, str]
    raters: Mapping[str, int]
    only_scored: Unmatched
    only_rated: Unmatched
    same_text: int
    flipped: frozenset[str] = frozenset()

    def rows(self, aspect: str, *metrics: str) -> npt.NDArray[np.intp]:
        """The samples that have a rating on the aspect and values of all the metrics."""
        defined = ~np.isnan(self.aspects[aspect])
        for metric in metrics:
            defined &= ~np.isnan(self.metrics[metric])
        return np.flatnonzero(defined)

    def groups(self, group: Group) -> npt.NDArray[Any]:
        """(n,) the group of every sample.

        Raises:
            UserError: nothing is known that could group the samples.
        """
        if group == "source":
            if not np.any(self.sources >= 0):
                raise UserError(_unknown("source, prompt or context", "--group source"))
            alone = -1 - np.arange(len(self.ids))  # nothing shared: a group of one
            return np.where(self.sources >= 0, self.sources, alone)
        names = self.systems if group == "system" else self.datasets
        if not np.any(names != ""):
            raise UserError(_unknown(group, f"--group {group} or --level system"))
        return np.where(names == "", UNNAMED, names)


def _unknown(what: str, option: str) -> str:
    return (
        f"no rated sample has a {what}, which {option} needs; "
        "give a file of the samples with --samples, or --group all"
    )


def join(
    columns: Sequence[ScoreColumn],
    rated: Rated,
    *,
    aspects: Sequence[str] = (),
    metrics: Sequence[str] = (),
    flip: Sequence[str] = (),
    samples: Mapping[str, Sample] | None = None,
) -> Table:
    """Scores and ratings by id.

    Args:
        columns: one a metric. Infinite values count as undefined.
        rated: ratings; a sample's rating on an aspect is the mean over its raters.
        aspects, metrics: those to keep, all if empty; `ctrleval` stands for its family.
        flip: metrics of which lower is better; their values change sign, so that every
            correlation is one of agreement.
        samples: id -> sample, over those in `rated`: for systems, sources and datasets.

    Raises:
        UserError: a name that is not there, two columns of one metric, or no id in common.
    """
    by_name: dict[str, ScoreColumn] = {}
    for column in columns:
        if column.metric in by_name:
            raise UserError(
                f"two columns of {column.metric}: {by_name[column.metric].signature} and "
                f"{column.signature}; correlate one of them at a time"
            )
        by_name[column.metric] = column
    kept = _chosen("metric", list(by_name), metrics)
    turned = set(_chosen("metric", list(by_name), flip)) if flip else set()
    sums: dict[str, dict[str, list[float]]] = {}
    raters: dict[str, set[str]] = {}
    for rating in rated.ratings:
        sums.setdefault(rating.aspect, {}).setdefault(rating.id, []).append(rating.value)
        raters.setdefault(rating.aspect, set()).add(rating.rater)
    names = _chosen("aspect", list(sums), aspects)
    rated_ids = {id for aspect in names for id in sums[aspect]}
    scored_ids = {id for metric in kept for id in by_name[metric].values}
    only_scored, only_rated = scored_ids - rated_ids, rated_ids - scored_ids
    ids = tuple(sorted(rated_ids & scored_ids))
    if not ids:
        raise UserError(
            f"no id is in both: the scores have {_some(only_scored)}, "
            f"the ratings have {_some(only_rated)}; ids must be equal"
        )
    known = {**rated.samples, **(samples or {})}
    found = [known.get(id) for id in ids]
    shared = [s.shared if s else () for s in found]
    codes = {key: i for i, key in enumerate(sorted({s for s in shared if s}))}
    sources = np.array([codes.get(s, -1) for s in shared], dtype=np.intp)
    texts: dict[tuple[tuple[str, ...], str], int] = {}
    for sample in found:
        if sample and sample.shared and sample.text:
            key = (sample.shared, sample.text)
            texts[key] = texts.get(key, 0) + 1

    def values(column: ScoreColumn) -> Floats:
        v = np.array([column.values.get(id, math.nan) for id in ids], dtype=np.float64)
        v[~np.isfinite(v)] = np.nan
        return -v if column.metric in turned else v

    return Table(
        ids=ids,
        metrics={metric: values(by_name[metric]) for metric in kept},
        aspects={
            a: np.array([_mean(sums[a].get(id, [])) for id in ids], dtype=np.float64) for a in names
        },
        clusters=np.where(sources >= 0, sources, len(codes) + np.arange(len(ids))),
        systems=np.array([s.system if s else "" for s in found], dtype=np.str_),
        datasets=np.array([s.dataset if s else "" for s in found], dtype=np.str_),
        sources=sources,
        samples={id: s for id, s in zip(ids, found, strict=True) if s},
        signatures={metric: by_name[metric].signature for metric in kept},
        raters={a: len(raters[a]) for a in names},
        only_scored=Unmatched(len(only_scored), tuple(sorted(only_scored)[:_SHOWN])),
        only_rated=Unmatched(len(only_rated), tuple(sorted(only_rated)[:_SHOWN])),
        same_text=sum(n for n in texts.values() if n > 1),
        flipped=frozenset(turned),
    )


def _chosen(kind: str, there: Sequence[str], wanted: Sequence[str]) -> list[str]:
    if not wanted:
        return list(there)
    found: list[str] = []
    for name in wanted:
        matching = [t for t in there if t == name or t.startswith(f"{name}.")]
        if not matching:
            raise UserError(f"there is no {kind} '{name}'; there are {', '.join(there)}")
        found += [m for m in matching if m not in found]
    return found


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def _some(ids: set[str]) -> str:
    shown = ", ".join(repr(id) for id in sorted(ids)[:_SHOWN])
    return f"{len(ids):,} ids ({shown}{', …' if len(ids) > _SHOWN else ''})" if ids else "none"


@dataclass(frozen=True)
class Correlation:
    """How far one metric agrees with the ratings on one aspect.

    Attributes:
        metric, aspect: their names.
        group: `all`, the group's name, or for a mean over groups empty.
        estimates: of every statistic.
        n: how many samples have a value and a rating.
        undefined: how many are rated and have no value.
        systems: how many systems, at system level; else 0.
        groups: over how many groups a mean is taken; 0 if it is none.
        left_out: why groups are not in the mean -> which.
    """

    metric: str
    aspect: str
    group: str
    estimates: Mapping[Statistic, Estimate]
    n: int
    undefined: int
    systems: int = 0
    groups: int = 0
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_mean(self) -> bool:
        """Whether it is a mean over groups."""
        return not self.group


def correlate(
    table: Table,
    *,
    level: Level = "segment",
    group: Group = "all",
    wanted: Sequence[Statistic] = STATISTICS,
    resampling: Resampling = DEFAULT,
) -> list[Correlation]:
    """Every metric against every aspect.

    Segment level: `all` samples together; by `system` or `dataset`, one row each and their mean;
    by `source`, the mean over sources of the correlation among the outputs for one source. A group
    in which a statistic is undefined (constant ratings, one sample) is left out of its mean.
    System level: means per system over the samples with a value and a rating; intervals resample
    the sources, the systems stay.

    Raises:
        UserError: the samples do not say what the grouping needs.
    """
    if level == "system":
        systems = table.groups("system")
        return [
            _system_level(table, metric, aspect, systems, wanted, resampling)
            for aspect, metric in itertools.product(table.aspects, table.metrics)
        ]
    if group == "all":
        return [
            _one(table, metric, aspect, None, ALL, wanted, resampling)
            for aspect, metric in itertools.product(table.aspects, table.metrics)
        ]
    of = table.groups(group)
    found: list[Correlation] = []
    for aspect, metric in itertools.product(table.aspects, table.metrics):
        if group == "source":
            found.append(_source_mean(table, metric, aspect, of, wanted, resampling))
            continue
        rows = [
            _one(table, metric, aspect, of == name, str(name), wanted, resampling)
            for name in np.unique(of[~np.isnan(table.aspects[aspect])])
        ]
        found += [*rows, _group_mean(table, metric, aspect, of, rows, wanted, resampling)]
    return found


def _one(
    table: Table,
    metric: str,
    aspect: str,
    within: npt.NDArray[np.bool_] | None,
    name: str,
    wanted: Sequence[Statistic],
    resampling: Resampling,
) -> Correlation:
    rated = table.rows(aspect)
    rows = table.rows(aspect, metric)
    if within is not None:
        rated, rows = rated[within[rated]], rows[within[rows]]
    found = estimates(
        table.metrics[metric][rows],
        table.aspects[aspect][rows],
        table.clusters[rows],
        wanted=wanted,
        resamples=resampling.resamples,
        level=resampling.level,
        seed=resampling.seed,
    )
    return Correlation(metric, aspect, name, found, rows.size, rated.size - rows.size)


def _group_mean(
    table: Table,
    metric: str,
    aspect: str,
    of: npt.NDArray[Any],
    groups: Sequence[Correlation],
    wanted: Sequence[Statistic],
    resampling: Resampling,
) -> Correlation:
    """The mean over systems or datasets; the sources they share are drawn for all at once."""
    rows = table.rows(aspect, metric)
    _, K_of = np.unique(table.clusters[rows], return_inverse=True)
    drawn = mean_over_groups(
        table.metrics[metric][rows],
        table.aspects[aspect][rows],
        K_of,
        np.unique(of[rows], return_inverse=True)[1],
        wanted=[s for s in wanted if s != "calibrated"],
        resamples=resampling.resamples,
        seed=resampling.seed,
    )
    K = int(K_of.max(initial=-1)) + 1
    found: dict[Statistic, Estimate] = {}
    for s in wanted:
        defined = [g.estimates[s].value for g in groups if not g.estimates[s].why_undefined]
        whys = {g.estimates[s].why_undefined for g in groups}
        why = "" if defined else whys.pop() if len(whys) == 1 else "undefined in every group"
        value = float(np.mean(defined)) if defined else math.nan
        e = estimate_from_draws(
            value, drawn.get(s), n=rows.size, clusters=K, why=why, level=resampling.level
        )
        if s == "calibrated" and not why:
            e = replace(e, why_no_interval="a mean of calibrated accuracies has none", note="")
        found[s] = replace(e, note=_used(e.note, len(defined), len(groups)))
    reasons: dict[str, tuple[str, ...]] = {}
    for g in groups:
        why = g.estimates[wanted[0]].why_undefined
        if why:
            reasons[why] = (*reasons.get(why, ()), g.group)
    return Correlation(
        metric, aspect, "", found, rows.size, sum(g.undefined for g in groups),
        groups=len(groups) - sum(map(len, reasons.values())), left_out=reasons,
    )  # fmt: skip


def _used(note: str, used: int, total: int) -> str:
    said = f"mean over {used:,} of {total:,} groups" if used < total else ""
    return "; ".join(filter(None, (said, note)))


def _source_mean(
    table: Table,
    metric: str,
    aspect: str,
    of: npt.NDArray[Any],
    wanted: Sequence[Statistic],
    resampling: Resampling,
) -> Correlation:
    """The mean over sources of the correlation among the outputs for one source."""
    rows = table.rows(aspect, metric)
    x, y, source = table.metrics[metric][rows], table.aspects[aspect][rows], of[rows]
    order = np.argsort(source, kind="stable")
    names, starts = np.unique(source[order], return_index=True)
    parts = np.split(order, starts[1:]) if rows.size else []
    plain = [s for s in wanted if s != "calibrated"]
    of_source: dict[Statistic, list[float]] = {s: [] for s in wanted}
    reasons: dict[str, tuple[str, ...]] = {}
    for part in parts:
        for s, value in statistics(x[part], y[part], plain).items():
            of_source[s].append(value)
        why = why_undefined(wanted[0], x[part], y[part])
        if why:
            reasons[why] = (*reasons.get(why, ()), _source_name(table, int(rows[part[0]])))
    if "calibrated" in wanted:
        accuracy, _ = calibrated_within(x, y, source, seed=resampling.seed)
        of_source["calibrated"] = [accuracy.get(name.item(), math.nan) for name in names]
    found = {}
    for s in wanted:
        e = cluster_bootstrap_mean(
            of_source[s], names, resamples=resampling.resamples, level=resampling.level,
            seed=resampling.seed,
        )  # fmt: skip
        why = "" if e.n else "undefined for every source"
        found[s] = replace(
            e,
            n=rows.size,
            why_undefined=why,
            why_no_interval=why or ("one source" if e.why_no_interval else ""),
            note=_used("", e.n, len(parts)) if e.n else "",
        )
    return Correlation(
        metric, aspect, "", found, rows.size, table.rows(aspect).size - rows.size,
        groups=len(parts) - sum(map(len, reasons.values())), left_out=reasons,
    )  # fmt: skip


def _source_name(table: Table, row: int) -> str:
    sample = table.samples.get(table.ids[row])
    name = " / ".join(sample.shared) if sample and sample.shared else table.ids[row]
    return name if len(name) <= 60 else name[:59] + "…"


def _system_level(
    table: Table,
    metric: str,
    aspect: str,
    systems: npt.NDArray[Any],
    wanted: Sequence[Statistic],
    resampling: Resampling,
) -> Correlation:
    rows = table.rows(aspect, metric)
    x, y = table.metrics[metric][rows], table.aspects[aspect][rows]
    _, system = np.unique(systems[rows], return_inverse=True)
    _, cluster = np.unique(table.clusters[rows], return_inverse=True)
    S, K = int(system.max(initial=-1)) + 1, int(cluster.max(initial=-1)) + 1
    undefined = table.rows(aspect).size - rows.size
    if S < 2:
        why = f"{'one system' if S else 'no samples'}"
        none = estimate_from_draws(math.nan, None, n=S, clusters=K, why=why)
        return Correlation(
            metric, aspect, ALL, dict.fromkeys(wanted, none), rows.size, undefined, S
        )
    cell = cluster * S + system
    sums = [
        np.bincount(cell, weights=w, minlength=K * S).reshape(K, S) for w in (x, y, np.ones_like(x))
    ]

    def of_means(counts: Floats) -> dict[Statistic, Floats]:
        sum_x, sum_y, n = (counts @ s for s in sums)
        with np.errstate(invalid="ignore", divide="ignore"):
            return row_statistics(sum_x / n, sum_y / n, wanted)

    value = of_means(np.ones((1, K)))
    draws = [of_means(c) for c in cluster_draws(K, resampling.resamples, resampling.seed,
                                                 width=S * S)] if K > 1 else []  # fmt: skip
    found: dict[Statistic, Estimate] = {}
    for s in wanted:
        drawn = np.concatenate([d[s] for d in draws]) if draws else None
        v = float(value[s][0])
        why = (
            "not calibrated at system level" if s == "calibrated"
            else "constant means" if math.isnan(v) else ""
        )  # fmt: skip
        found[s] = estimate_from_draws(
            v, drawn, n=S, clusters=K, why=why, level=resampling.level, what="systems"
        )
    return Correlation(metric, aspect, ALL, found, rows.size, undefined, S)


@dataclass(frozen=True)
class MetricComparison:
    """Two metrics on one aspect, on the samples for which every metric has a value.

    Attributes:
        aspect, a, b: names; a has the higher correlation.
        r_a, r_b: their correlations with the ratings (means over groups, if there are any).
        r_ab: the correlation of the two with each other, among samples or among systems.
        n: samples (at system level: systems).
        left_out: rated samples that some metric has no value for, or whose group is constant.
        williams, swapped: the tests.
        williams_adjusted, p_adjusted: their two-sided p over all comparisons of the run.
    """

    aspect: str
    a: str
    b: str
    r_a: float
    r_b: float
    r_ab: float
    n: int
    left_out: int
    williams: Williams
    swapped: Swapped
    williams_adjusted: float = math.nan
    p_adjusted: float = math.nan

    def verdict(self, alpha: float = 0.05) -> str:
        """Who agrees better, by the permutation test: `a > b`, or that no difference is shown."""
        if math.isnan(self.p_adjusted):
            return "not compared"
        shown = self.p_adjusted <= alpha and self.swapped.difference > 0
        return f"{self.a} > {self.b}" if shown else "no difference shown"


@dataclass(frozen=True)
class Ranking:
    """The metrics on one aspect, those that can't be told apart together.

    Attributes:
        aspect: its name.
        clusters: best first; within a cluster by correlation.
        r: metric -> correlation on the compared samples.
        not_ranked: metric -> why.
    """

    aspect: str
    clusters: tuple[tuple[str, ...], ...]
    r: Mapping[str, float]
    not_ranked: Mapping[str, str]


@dataclass(frozen=True)
class Comparisons:
    """All comparisons of a run, and the ranking on every aspect."""

    comparisons: tuple[MetricComparison, ...]
    rankings: tuple[Ranking, ...]


def compare(
    table: Table,
    *,
    level: Level = "segment",
    group: Group = "all",
    by: CompareBy = "pearson",
    correction: Correction = "holm",
    alpha: float = 0.05,
    resampling: Resampling = DEFAULT,
) -> Comparisons:
    """Every two metrics on every aspect: `williams`, `swap_test`, and `rank_clusters`.

    Metrics are compared on the samples that all of them have a value for (a metric without any, or
    a constant one, is left aside with the reason), in the groups where none of them is constant.
    p-values are adjusted over all comparisons of the run. Williams' test is for one group; it is
    undefined for means over groups.

    Args:
        by: which correlation. For Spearman values are ranked within groups beforehand.
        alpha: for the clusters of the ranking, on the adjusted p of the permutation test.
    """
    of = None if level == "system" or group == "all" else table.groups(group)
    systems = table.groups("system") if level == "system" else None
    pairs: list[MetricComparison] = []
    parts: list[tuple[str, dict[str, float], dict[str, str]]] = []
    for aspect in table.aspects:
        usable, why_not = _usable(table, aspect)
        rows = table.rows(aspect, *usable)
        if of is not None:
            rows = rows[_varying(table, aspect, usable, rows, of)]
        y = table.aspects[aspect][rows]
        r = {}
        for metric in usable:
            r[metric] = _agreement(
                table.metrics[metric][rows], y,
                None if of is None else of[rows],
                None if systems is None else systems[rows], by,
            )  # fmt: skip
        for metric in [m for m in usable if math.isnan(r[m])]:
            why_not[metric] = "undefined on the samples that all metrics have values for"
        order = sorted((m for m in usable if not math.isnan(r[m])), key=lambda m: (-r[m], m))
        left_out = table.rows(aspect).size - rows.size
        for a, b in itertools.combinations(order, 2):
            xa, xb = table.metrics[a][rows], table.metrics[b][rows]
            swapped = swap_test(
                xa, xb, y, table.clusters[rows],
                None if of is None else of[rows],
                systems=None if systems is None else systems[rows],
                ranks=by == "spearman",
                permutations=resampling.permutations,
                seed=resampling.seed,
            )  # fmt: skip
            n = rows.size if systems is None else np.unique(systems[rows]).size
            r_ab = _agreement(xa, xb, None, None if systems is None else systems[rows], by)
            nan = math.nan
            test = (
                williams(r[a], r[b], r_ab, n)
                if of is None
                else Williams(nan, nan, nan, n, "Williams' test is for one group")
            )
            pairs.append(
                MetricComparison(aspect, a, b, r[a], r[b], r_ab, n, left_out, test, swapped)
            )
        parts.append((aspect, {m: r[m] for m in order}, why_not))
    p = adjusted([c.swapped.p for c in pairs], correction).tolist()
    w = adjusted([c.williams.p for c in pairs], correction).tolist()
    done = tuple(
        replace(c, p_adjusted=p, williams_adjusted=w) for c, p, w in zip(pairs, p, w, strict=True)
    )
    shown = {(c.aspect, c.a, c.b) for c in done if " > " in c.verdict(alpha)}

    def ranking(aspect: str, r: Mapping[str, float], why_not: Mapping[str, str]) -> Ranking:
        clusters = rank_clusters(list(r), lambda a, b: (aspect, a, b) in shown)
        return Ranking(aspect, tuple(map(tuple, clusters)), r, why_not)

    return Comparisons(done, tuple(ranking(*part) for part in parts))


def _usable(table: Table, aspect: str) -> tuple[list[str], dict[str, str]]:
    """The metrics that vary over the rated samples, and why the others do not."""
    usable, why_not = [], {}
    for metric in table.metrics:
        rows = table.rows(aspect, metric)
        why = why_undefined("pearson", table.metrics[metric][rows], table.aspects[aspect][rows])
        if why:
            why_not[metric] = why
        else:
            usable.append(metric)
    return usable, why_not


def _varying(
    table: Table,
    aspect: str,
    metrics: Sequence[str],
    rows: npt.NDArray[np.intp],
    of: npt.NDArray[Any],
) -> npt.NDArray[np.bool_]:
    """Which rows are in a group where the ratings and every metric vary."""
    _, code = np.unique(of[rows], return_inverse=True)
    varies = np.ones(code.size, dtype=bool)
    G = int(code.max(initial=-1)) + 1
    for v in (table.aspects[aspect][rows], *(table.metrics[m][rows] for m in metrics)):
        low, high = np.full(G, np.inf), np.full(G, -np.inf)
        np.minimum.at(low, code, v)
        np.maximum.at(high, code, v)
        varies &= (low < high)[code]
    return varies


def _agreement(
    x: Floats,
    y: Floats,
    of: npt.NDArray[Any] | None,
    systems: npt.NDArray[Any] | None,
    by: CompareBy,
) -> float:
    if systems is not None:
        _, system = np.unique(systems, return_inverse=True)
        n = np.bincount(system)
        mx, my = (np.bincount(system, weights=v) / n for v in (x, y))
        return float(r_of_rows(rounded(mx[None]), rounded(my[None]), by == "spearman")[0]) \
            if n.size > 1 else math.nan  # fmt: skip
    if of is None:
        return statistics(x, y, (by,))[by]
    values = [statistics(x[of == g], y[of == g], (by,))[by] for g in np.unique(of)]
    defined = [v for v in values if not math.isnan(v)]
    return float(np.mean(defined)) if defined else math.nan


@dataclass(frozen=True)
class Drift:
    """How one metric's correlation with one aspect changes.

    Attributes:
        metric, aspect: their names.
        by_system: the correlation on the texts of each system; empty if no systems are named.
        systems: the spread of those.
        by_quality: on the four biased subsets.
        by_evaluators: with fewer evaluators; None without parts.
    """

    metric: str
    aspect: str
    by_system: tuple[tuple[str, Estimate], ...]
    systems: Spread
    by_quality: QualityDrift
    by_evaluators: EvaluatorDrift | None


def drift(
    table: Table,
    *,
    parts: Mapping[str, pl.DataFrame] | None = None,
    statistic: Statistic = "pearson",
    draws: int = 20,
    resampling: Resampling = DEFAULT,
) -> list[Drift]:
    """Every metric on every aspect: by system, by quality, and by number of evaluators.

    Args:
        parts: metric -> its parts, as `drift.load_parts` reads them.
        draws: of each biased subset, and of each number of evaluators.
    """
    return list(_drifts(table, parts or {}, statistic, draws, resampling))


def _drifts(
    table: Table,
    parts: Mapping[str, pl.DataFrame],
    statistic: Statistic,
    draws: int,
    resampling: Resampling,
) -> Iterator[Drift]:
    named = bool(np.any(table.systems != ""))
    for aspect, metric in itertools.product(table.aspects, table.metrics):
        rows = table.rows(aspect, metric)
        x, y = table.metrics[metric][rows], table.aspects[aspect][rows]
        by_system = []
        if named:
            systems = table.groups("system")
            for name in np.unique(systems[rows]):
                one = _one(table, metric, aspect, systems == name, str(name), (statistic,),
                           resampling)  # fmt: skip
                by_system.append((str(name), one.estimates[statistic]))
        evaluators = None
        if metric in parts:
            sign = -1.0 if metric in table.flipped else 1.0
            evaluators = evaluator_drift(
                metric,
                parts[metric].with_columns(pl.col("score") * sign),
                {table.ids[i]: float(table.aspects[aspect][i]) for i in table.rows(aspect)},
                statistic=statistic, draws=draws, seed=resampling.seed,
            )  # fmt: skip
        yield Drift(
            metric,
            aspect,
            tuple(by_system),
            spread([e.value for _, e in by_system], [e.n for _, e in by_system]),
            quality_drift(x, y, statistic=statistic, draws=draws, seed=resampling.seed),
            evaluators,
        )


@dataclass(frozen=True)
class MetaEvaluation:
    """Everything that a run of `levelfield correlate` found, and how.

    Attributes:
        table: the scores and ratings.
        correlations: as `correlate` orders them.
        comparisons: of the metrics; empty for a single one.
        drifts: empty if they were not asked for.
        level, group, by, correction, alpha, resampling: as given to `correlate` and `compare`.
    """

    table: Table
    correlations: Sequence[Correlation]
    comparisons: Comparisons
    drifts: Sequence[Drift]
    level: Level
    group: Group
    by: CompareBy
    correction: Correction
    alpha: float
    resampling: Resampling

    @property
    def signature(self) -> str:
        """Every choice of this run that could change a number."""
        r = self.resampling
        return signature(
            "correlate",
            {
                "level": self.level,
                "group": self.group,
                "flip": ",".join(sorted(self.table.flipped)) or "none",
                "interval": f"{r.level:g}",
                "resamples": r.resamples,
                "compare": self.by,
                "permutations": r.permutations,
                "correction": self.correction,
                "seed": r.seed,
            },
        )

    def rows(self) -> list[Correlation]:
        """One row a metric and aspect: the mean where there are groups."""
        return [c for c in self.correlations if self.group == "all" or c.is_mean or c.systems]


def evaluate(
    table: Table,
    *,
    level: Level = "segment",
    group: Group = "all",
    wanted: Sequence[Statistic] = STATISTICS,
    by: CompareBy = "pearson",
    correction: Correction = "holm",
    alpha: float = 0.05,
    with_drift: bool = False,
    parts: Mapping[str, pl.DataFrame] | None = None,
    resampling: Resampling = DEFAULT,
) -> MetaEvaluation:
    """`correlate`, `compare` and, if asked for, `drift`, with the same choices."""
    return MetaEvaluation(
        table=table,
        correlations=correlate(
            table, level=level, group=group, wanted=wanted, resampling=resampling
        ),
        comparisons=compare(
            table,
            level=level,
            group=group,
            by=by,
            correction=correction,
            alpha=alpha,
            resampling=resampling,
        ),
        drifts=drift(table, parts=parts, resampling=resampling) if with_drift or parts else (),
        level=level,
        group=group,
        by=by,
        correction=correction,
        alpha=alpha,
        resampling=resampling,
    )
