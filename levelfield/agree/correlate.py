"""Correlations of every metric with every rated aspect, at segment, group and system level."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from levelfield.agree.design import CorrelationLevel, GroupBy
from levelfield.agree.join import RatedScores
from levelfield.core.arrays import Bools
from levelfield.core.documents import Document
from levelfield.core.strings import shortened
from levelfield.io.tables import Table, TableCell, TableColumn
from levelfield.scoring.standing import three_decimals
from levelfield.stats.clusters import coded
from levelfield.stats.correlation import (
    estimates,
    mean_over_groups,
    shared_estimates,
    statistics,
)
from levelfield.stats.estimands import SOFT_ACCURACY, STATISTICS, Statistic, Systems, TieChoice
from levelfield.stats.estimate import Estimate, estimate_from_draws, undefined
from levelfield.stats.means import cluster_mean
from levelfield.stats.measures import INFINITE, why_undefined
from levelfield.stats.resampling import DEFAULT, Resampling
from levelfield.stats.soft_accuracy import soft_pairwise_accuracy
from levelfield.stats.system_level import system_correlations
from levelfield.stats.ties import calibrated_within
from levelfield.stats.two_way import crossed_estimates

_MOST_NAMED = 20
"""The most groups that a document names for each reason to leave some out."""

SYSTEMS: Mapping[Systems, str] = {
    "these": "true means of these systems",
    "like-these": "true means of systems like these",
}
"""What an interval at system level holds the correlation of."""

SUBJECTS: Mapping[Systems, str] = {
    "these": "these systems on sources like these",
    "like-these": "systems like these on sources like these",
}
"""What an interval at segment level speaks of."""

ALL = "all"


@dataclass(frozen=True)
class Correlation(Document):
    """How far one metric agrees with the ratings on one aspect.

    Attributes:
        metric, aspect: their names.
        group: `all`, the group's name, or for a mean over groups empty.
        estimates: of every statistic.
        n: how many samples have a value and a rating.
        undefined: how many are rated and have no value.
        systems: how many systems, at system level; else 0.
        corrected: at system level, Pearson's r without the noise of the means; else, and where it
            is undefined, NaN.
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
    corrected: float = math.nan
    groups: int = 0
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    _entries = (
        "metric aspect group|null mean_over_groups=is_mean n undefined systems|null corrected "
        "*_groups statistics=estimates"
    )

    @property
    def is_mean(self) -> bool:
        """Whether it is a mean over groups."""
        return not self.group

    @property
    def _groups(self) -> dict[str, Any]:
        left_out = {
            reason: {"n": len(groups), "groups": groups[:_MOST_NAMED]}
            for reason, groups in self.left_out.items()
        }
        return {"groups": self.groups if self.is_mean else None, "left_out": left_out}


def correlations(
    table: RatedScores,
    *,
    level: CorrelationLevel = "segment",
    group: GroupBy = "all",
    systems: Systems = "like-these",
    wanted: Sequence[Statistic] = STATISTICS,
    ties: TieChoice = "held-out",
    resampling: Resampling = DEFAULT,
) -> list[Correlation]:
    """Correlates every metric with every aspect.

    Segment level: `all` samples together; by `system` or `dataset`, one row each and their mean;
    by `source`, the mean over sources of the correlation among the outputs for one source. A group
    in which a statistic is undefined (constant ratings, one sample) is left out of its mean.
    Intervals are for systems `like-these`, of which these are a sample (`crossed_estimates`), or
    for `these` (`estimates`); a row of one system, and samples that name fewer than two, have the
    latter.
    System level: means per system over the samples with a value and a rating. Values are those of
    the observed means; intervals are of true means, of these systems or of the population that they
    are a sample of (`system_correlations`).

    Raises:
        UserError: the samples do not say what the grouping needs.
    """
    if level == "system":
        names = table.groups("system")
        return [
            _system_level(table, metric, aspect, names, systems, wanted, resampling)
            for aspect, metric in itertools.product(table.aspects, table.metrics)
        ]
    crossed = systems == "like-these" and table.has_systems
    if group == "all" and not crossed:
        return _together(table, wanted, resampling, ties)
    if group == "all":
        return [
            correlation_within(
                table, metric, aspect, None, ALL, wanted, resampling, crossed=True, ties=ties
            )
            for aspect, metric in itertools.product(table.aspects, table.metrics)
        ]
    group_of = table.groups(group)
    results: list[Correlation] = []
    for aspect, metric in itertools.product(table.aspects, table.metrics):
        if group == "source":
            mean = _source_mean(table, metric, aspect, group_of, wanted, resampling, ties)
        else:
            rows = [
                correlation_within(
                    table, metric, aspect, group_of == name, str(name), wanted, resampling,
                    crossed=crossed and group == "dataset", ties=ties,
                )
                for name in np.unique(group_of[~np.isnan(table.aspects[aspect])])
            ]  # fmt: skip
            results += rows
            mean = _group_mean(
                table, metric, aspect, group_of, rows, wanted, resampling, crossed=crossed
            )
        results.append(_for_like_systems(table, mean, group_of, resampling) if crossed else mean)
    return results


def _for_like_systems(
    table: RatedScores, mean: Correlation, group_of: npt.NDArray[Any], resampling: Resampling
) -> Correlation:
    """A mean over groups, with intervals for systems like these."""
    rows = table.rows(mean.aspect, mean.metric)
    crossed = crossed_estimates(
        table.metrics[mean.metric][rows], table.aspects[mean.aspect][rows],
        table.groups("system")[rows], table.clusters[rows], tuple(mean.estimates), group_of[rows],
        level=resampling.level,
    )  # fmt: skip
    estimates = dict(mean.estimates)
    for s, e in crossed.items():
        if not mean.estimates[s].why_undefined:
            estimates[s] = replace(
                mean.estimates[s], low=e.low, high=e.high, clusters=e.clusters,
                why_no_interval=e.why_no_interval,
            )  # fmt: skip
    if "calibrated" in estimates and not estimates["calibrated"].why_undefined:
        estimates["calibrated"] = replace(
            estimates["calibrated"], low=math.nan, high=math.nan,
            why_no_interval="a mean of calibrated accuracies has none",
        )  # fmt: skip
    return replace(mean, estimates=estimates)


def _together(
    table: RatedScores, kinds: Sequence[Statistic], resampling: Resampling, ties: TieChoice
) -> list[Correlation]:
    """All samples together; metrics and aspects on the same samples share what is drawn."""
    pairs_by_rows: dict[bytes, list[tuple[str, str]]] = {}
    for aspect, metric in itertools.product(table.aspects, table.metrics):
        rows = table.rows(aspect, metric)
        pairs_by_rows.setdefault(hashlib.blake2b(rows.tobytes()).digest(), []).append(
            (aspect, metric)
        )
    results = {}
    for same in pairs_by_rows.values():
        rows = table.rows(*same[0])
        pairs = ((table.metrics[m][rows], table.aspects[a][rows]) for a, m in same)
        estimated = shared_estimates(
            pairs, table.clusters[rows], kinds=kinds, ties=ties, resampling=resampling
        )
        for (aspect, metric), by_statistic in zip(same, estimated, strict=True):
            lacking = table.rows(aspect).size - rows.size
            results[aspect, metric] = Correlation(
                metric, aspect, ALL, by_statistic, rows.size, lacking
            )
    return [results[key] for key in itertools.product(table.aspects, table.metrics)]


def within_systems(
    table: RatedScores,
    statistic: Statistic,
    *,
    systems: Systems = "like-these",
    resampling: Resampling = DEFAULT,
) -> list[Correlation]:
    """The mean over systems of a correlation among the samples of one, to be read beside that of
    all samples together, which differences between systems raise or lower; none of one system."""
    if not table.has_systems:
        return []
    rows = correlations(
        table, group="system", systems=systems, wanted=(statistic,), resampling=resampling
    )
    return [c for c in rows if c.is_mean]


def parts_from(within: Estimate, pooled: Estimate) -> bool:
    """Whether the correlation within systems is another than that of all samples together: the
    interval of one does not hold the other, or, without any interval, they differ by 0.2."""
    if within.why_undefined or pooled.why_undefined:
        return False
    held = [
        a.low <= b.value <= a.high
        for a, b in ((within, pooled), (pooled, within))
        if not a.why_no_interval
    ]
    return not all(held) if held else abs(within.value - pooled.value) > _APART


_APART = 0.2


def correlation_within(
    table: RatedScores,
    metric: str,
    aspect: str,
    within: Bools | None,
    name: str,
    kinds: Sequence[Statistic],
    resampling: Resampling,
    *,
    crossed: bool = False,
    ties: TieChoice = "held-out",
) -> Correlation:
    """The correlation of some samples.

    Args:
        within: (n,) which; all if None.
        name: of the group that they are.
        crossed: whether it speaks of systems like these.
    """
    rated = table.rows(aspect)
    rows = table.rows(aspect, metric)
    if within is not None:
        rated, rows = rated[within[rated]], rows[within[rows]]
    x, y, clusters = table.metrics[metric][rows], table.aspects[aspect][rows], table.clusters[rows]
    results = (
        crossed_estimates(
            x, y, table.groups("system")[rows], clusters, kinds,
            ties=ties, level=resampling.level, seed=resampling.seed,
        )
        if crossed
        else estimates(x, y, clusters, wanted=kinds, ties=ties, resampling=resampling)
    )  # fmt: skip
    return Correlation(metric, aspect, name, results, rows.size, rated.size - rows.size)


def _group_mean(
    table: RatedScores,
    metric: str,
    aspect: str,
    group_of: npt.NDArray[Any],
    groups: Sequence[Correlation],
    kinds: Sequence[Statistic],
    resampling: Resampling,
    *,
    crossed: bool = False,
) -> Correlation:
    """The mean over systems or datasets; the sources they share are drawn for all at once.

    Args:
        crossed: whether intervals come from elsewhere, so that none is drawn.
    """
    rows = table.rows(aspect, metric)
    _, K_of = np.unique(table.clusters[rows], return_inverse=True)
    drawn = (
        {}
        if crossed
        else mean_over_groups(
            table.metrics[metric][rows],
            table.aspects[aspect][rows],
            K_of,
            np.unique(group_of[rows], return_inverse=True)[1],
            kinds=[s for s in kinds if s != "calibrated"],
            resampling=resampling,
        )
    )
    K = int(K_of.max(initial=-1)) + 1
    results: dict[Statistic, Estimate] = {}
    for s in kinds:
        defined = [g.estimates[s].value for g in groups if not g.estimates[s].why_undefined]
        # a group with an infinite value has no r, and can't be drawn as one that has
        infinite = s == "pearson" and any(g.estimates[s].why_undefined == INFINITE for g in groups)
        whys = {g.estimates[s].why_undefined for g in groups}
        reason = "" if defined else whys.pop() if len(whys) == 1 else "undefined in every group"
        value = float(np.mean(defined)) if defined else math.nan
        e = estimate_from_draws(
            value, drawn.get(s), n=rows.size, clusters=K, reason=reason, level=resampling.level
        )
        if s == "calibrated" and not reason:
            e = replace(e, why_no_interval="a mean of calibrated accuracies has none", note="")
        if infinite and not reason:
            e = replace(e, low=math.nan, high=math.nan, why_no_interval=INFINITE)
        results[s] = replace(e, note=_used(e.note, len(defined), len(groups)))
    reasons: dict[str, tuple[str, ...]] = {}
    for g in groups:
        reason = g.estimates[kinds[0]].why_undefined
        if reason:
            reasons[reason] = (*reasons.get(reason, ()), g.group)
    return Correlation(
        metric, aspect, "", results, rows.size, sum(g.undefined for g in groups),
        groups=len(groups) - sum(map(len, reasons.values())), left_out=reasons,
    )  # fmt: skip


def _used(note: str, used: int, total: int) -> str:
    remark = f"mean over {used:,} of {total:,} groups" if used < total else ""
    return "; ".join(filter(None, (remark, note)))


def _source_mean(
    table: RatedScores,
    metric: str,
    aspect: str,
    group_of: npt.NDArray[Any],
    kinds: Sequence[Statistic],
    resampling: Resampling,
    ties: TieChoice,
) -> Correlation:
    """The mean over sources of the correlation among the outputs for one source."""
    rows = table.rows(aspect, metric)
    x, y, source = table.metrics[metric][rows], table.aspects[aspect][rows], group_of[rows]
    order = np.argsort(source, kind="stable")
    names, starts = np.unique(source[order], return_index=True)
    parts = np.split(order, starts[1:]) if rows.size else []
    infinite = bool(np.isinf(x).any() or np.isinf(y).any())
    plain = [s for s in kinds if s != "calibrated"]
    by_source: dict[Statistic, list[float]] = {s: [] for s in kinds}
    reasons: dict[str, tuple[str, ...]] = {}
    for part in parts:
        for s, value in statistics(x[part], y[part], plain).items():
            by_source[s].append(value)
        reason = why_undefined(kinds[0], x[part], y[part])
        if reason:
            reasons[reason] = (*reasons.get(reason, ()), _source_name(table, int(rows[part[0]])))
    if "calibrated" in kinds and infinite:
        by_source["calibrated"] = [math.nan] * names.size
    elif "calibrated" in kinds:
        accuracy, _ = calibrated_within(x, y, source, ties=ties, seed=resampling.seed)
        by_source["calibrated"] = [accuracy.get(name.item(), math.nan) for name in names]
    results = {}
    for s in kinds:
        limits = (0.0 if s in ("accuracy", "calibrated") else -1.0, 1.0)
        e = cluster_mean(by_source[s], names, limits=limits, level=resampling.level)
        reason = "" if e.n else "undefined for every source"
        results[s] = replace(
            e,
            n=rows.size,
            why_undefined=reason,
            why_no_interval=reason or ("one source" if e.why_no_interval else ""),
            note=_used("", e.n, len(parts)) if e.n else "",
        )
    return Correlation(
        metric, aspect, "", results, rows.size, table.rows(aspect).size - rows.size,
        groups=len(parts) - sum(map(len, reasons.values())), left_out=reasons,
    )  # fmt: skip


def _source_name(table: RatedScores, row: int) -> str:
    sample = table.samples.get(table.ids[row])
    name = " / ".join(sample.shared) if sample and sample.shared else table.ids[row]
    return shortened(name, 60)


def _system_level(
    table: RatedScores,
    metric: str,
    aspect: str,
    names: npt.NDArray[Any],
    systems: Systems,
    kinds: Sequence[Statistic],
    resampling: Resampling,
) -> Correlation:
    rows = table.rows(aspect, metric)
    lacking = table.rows(aspect).size - rows.size
    S, system = coded(names[rows])
    K, cluster = coded(table.clusters[rows])
    values = table.metrics[metric][rows], table.aspects[aspect][rows]
    if S < 2 or any(np.isinf(v).any() for v in values):
        reason = "one system" if S == 1 else INFINITE if S else "no samples"
        none = undefined(reason, n=S, clusters=K)
        return Correlation(metric, aspect, ALL, dict.fromkeys(kinds, none), rows.size, lacking, S)
    x, y = table.metrics[metric][rows], table.aspects[aspect][rows]
    plain = [s for s in kinds if s != SOFT_ACCURACY]
    results, corrected = system_correlations(
        x, y, cluster, system, plain, systems=systems, resampling=resampling
    )
    if SOFT_ACCURACY in kinds:
        results[SOFT_ACCURACY] = soft_pairwise_accuracy(
            x, y, cluster, system, resampling=resampling
        )
    return Correlation(metric, aspect, ALL, results, rows.size, lacking, S, corrected)


SYMBOLS: Mapping[Statistic, str] = {
    "pearson": "r",
    "spearman": "ρ",
    "kendall": "τ-b",
    "tau-like": "τ-like",
    "accuracy": "acc.",
    "calibrated": "acc. cal.",
    "soft-accuracy": "SPA",
}
"""How tables write the statistics."""

NAMES: Mapping[Statistic, str] = {
    "pearson": "Pearson r",
    "spearman": "Spearman ρ",
    "kendall": "Kendall τ-b",
    "tau-like": "τ-like",
    "accuracy": "accuracy",
    "calibrated": "calibrated accuracy",
    "soft-accuracy": "soft pairwise accuracy",
}
"""How a page names the statistics."""


def numbers_table(
    correlations: Sequence[Correlation],
    *,
    level: float,
    group: str = "",
    system_means: bool = False,
    compact: bool = False,
    within: Sequence[Correlation] = (),
) -> Table:
    """Returns a row a correlation, with every statistic.

    Args:
        level: of the intervals.
        group: what the correlations are grouped by, if each group has a row.
        system_means: whether means of systems are correlated, which have r without noise.
        compact: whether only the first statistic has its interval, in a column of its own, and
            aspects have no column.
        within: the means over systems of a statistic, shown next to it.
    """
    estimates_within = {(c.metric, c.aspect): c.estimates for c in within}
    statistics = list(correlations[0].estimates) if correlations else []
    interval = f"{100 * level:g} % interval"
    why_none = why_no_interval(correlations)
    columns = [TableColumn("metric", words=True)]
    cells: list[list[TableCell]] = [[TableCell(c.metric) for c in correlations]]

    def add(column: TableColumn, values: Iterable[TableCell]) -> None:
        columns.append(column)
        cells.append(list(values))

    if not compact:
        add(TableColumn("aspect", words=True), (TableCell(c.aspect) for c in correlations))
    if group:
        names = (TableCell(c.group or "mean") for c in correlations)
        add(TableColumn(group, words=True, repeated=True), names)
    for i, statistic in enumerate(statistics):
        estimates = [c.estimates[statistic] for c in correlations]
        column = TableColumn(SYMBOLS[statistic] if compact else NAMES[statistic])
        add(column, (_cell(e, with_ends=not compact, omitted=why_none) for e in estimates))
        if compact and i == 0:
            add(
                TableColumn(f"{100 * level:g} % interval"),
                (TableCell(three_decimals.ends(e)) for e in estimates),
            )
        if within and statistic in within[0].estimates:
            inside = (estimates_within[c.metric, c.aspect][statistic] for c in correlations)
            add(
                TableColumn(f"{SYMBOLS[statistic]} within systems"),
                (_cell(e, with_ends=not compact, omitted=why_none) for e in inside),
            )
        if system_means and i == 0:
            corrected = (
                TableCell(three_decimals(c.corrected), value=c.corrected) for c in correlations
            )
            add(TableColumn("r without noise"), corrected)
    add(TableColumn("n"), map(_size_cell, correlations))
    return Table(
        columns,
        list(zip(*cells, strict=True)),
        caption="" if compact else "agreement of metrics with ratings",
        legend=[]
        if compact
        else [f"no intervals: {why_none}"]
        if why_none
        else [f"below: its {interval}, or why there is none"],
    )


def why_no_interval(correlations: Sequence[Correlation]) -> str:
    """Returns the reason why no value has an interval; empty if one has, or if reasons differ."""
    defined = (e for c in correlations for e in c.estimates.values() if not e.why_undefined)
    reasons = {e.why_no_interval for e in defined}
    return reasons.pop() if len(reasons) == 1 else ""


def _cell(e: Estimate, *, with_ends: bool, omitted: str) -> TableCell:
    """The cell of a value; its reason to have no interval is left out where it is `omitted`."""
    reason = e.why_undefined or e.why_no_interval
    return TableCell(
        three_decimals(e.value),
        beside=three_decimals.ends(e) if with_ends and not reason else "",
        below=(reason,) if reason and reason != omitted else (),
        value=e.value,
        remark=e.note,
    )


def _size_cell(c: Correlation) -> TableCell:
    total = c.groups + sum(map(len, c.left_out.values()))
    groups = f"in {c.groups:,} of {total:,} groups" if c.is_mean else ""
    lacking = (f"{c.undefined:,} undefined",) if c.undefined else ()
    reasons = (f"{len(names):,} left out: {reason}" for reason, names in c.left_out.items())
    names = [name for names in c.left_out.values() for name in names[:20]]
    return TableCell(
        f"{c.systems or c.n:,}",
        beside="systems" if c.systems else groups,
        below=(*lacking, *reasons),
        value=float(c.n),
        remark=", ".join(names[:20]),
    )


def correlation_table(
    correlations: Sequence[Correlation],
    statistics: Sequence[Statistic],
    *,
    signature: str,
    subject: str,
    within: Sequence[Correlation] = (),
) -> Table:
    """Returns metric × (aspect × statistic), the highest number of a column marked.

    The highest is not always shown to be higher than the next; the legend says so.

    Args:
        correlations: one a metric and aspect.
        statistics: columns; those that some correlation lacks are left out.
        signature: of the meta-evaluation.
        subject: is correlated, for the caption.
        within: the means over systems of a statistic, shown next to it.
    """
    estimates_within = {(c.metric, c.aspect): c.estimates for c in within}
    beside = next(iter(within[0].estimates)) if within else None
    estimates = {(c.metric, c.aspect): c.estimates for c in correlations}
    aspects = list(dict.fromkeys(c.aspect for c in correlations))
    metrics = list(dict.fromkeys(c.metric for c in correlations))
    shown = [s for s in statistics if all(s in c.estimates for c in correlations)]

    def column(aspect: str, statistic: Statistic, *, inside: bool) -> list[TableCell]:
        chosen_estimates = estimates_within if inside else estimates
        values = [
            math.nan if e.why_undefined else e.value
            for e in (chosen_estimates[metric, aspect][statistic] for metric in metrics)
        ]
        highest = max((three_decimals.rounded(v) for v in values if v == v), default=math.nan)
        return [
            TableCell(three_decimals(v), three_decimals.rounded(v) == highest, value=v)
            for v in values
        ]

    columns = [
        (aspect, statistic, inside)
        for aspect in aspects
        for statistic in shown
        for inside in ((False, True) if statistic == beside else (False,))
    ]
    sizes = ", ".join(
        f"{aspect}: {_range([c.n for c in correlations if c.aspect == aspect])}"
        for aspect in aspects
    )
    return Table(
        [
            TableColumn("metric", words=True),
            *(
                TableColumn(SYMBOLS[s] + " within systems" * inside, above=aspect)
                for aspect, s, inside in columns
            ),
        ],
        list(zip(metrics, *(column(a, s, inside=i) for a, s, i in columns), strict=True)),
        caption=f"agreement of metrics with ratings ({subject})",
        legend=[f"number of samples: {sizes}"],
        best="highest of its column, which need not be shown to be higher",
        signatures=[signature],
    )


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"
