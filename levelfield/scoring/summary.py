"""From scores to what a paper reports: means with intervals, and comparisons of systems."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from levelfield.core.arrays import Bools, Codes, Floats
from levelfield.core.direction import Direction, higher_is_better
from levelfield.core.documents import Document
from levelfield.core.scores import Scores, mean_of_defined
from levelfield.core.signature import with_run
from levelfield.scoring.comparison import (
    Comparison,
    ValuesOfSystems,
    adjusted_comparisons,
    compared_systems,
    undefined_ends,
)
from levelfield.scoring.run_table import Pairing, RunTable
from levelfield.scoring.seeds import mean_with_seeds
from levelfield.stats.estimate import Estimate, estimate_of_mean
from levelfield.stats.grouped import ranked_within
from levelfield.stats.means import Range, cluster_mean, natural_range
from levelfield.stats.resampling import DEFAULT, Resampling
from levelfield.stats.shares import votes_of

OVERALL = "all"
"""The name of the row over all groups."""

INFINITE = "infinite values"
"""Why a mean over some has no interval."""

CORPUS = "values of corpora"
"""Why the mean of a corpus metric has no interval."""

MOST_LABELS = 8
"""So many labels have columns of their own."""

POINTS = 500
"""How many single values of a group a summary carries, for figures."""


@dataclass(frozen=True)
class GroupSummary(Document):
    """One metric over one group of samples.

    Attributes:
        group: its name, e.g. the system.
        n: how many samples it has.
        undefined: for how many of them the metric is undefined; `mean.n` is the rest.
        mean: of the defined values; its interval is clustered on what samples share. Of values
            that are infinite at one end it is infinite, at both ends NaN, and has no interval.
        points: at most `POINTS` of the defined values, drawn by the hashes of the samples' ids.
        infinite: how many of the defined values are.
    """

    group: str
    n: int
    undefined: int
    mean: Estimate
    points: tuple[float, ...] = field(default=(), repr=False)
    infinite: int = 0

    _entries = (
        "group n defined=mean.n undefined mean=mean.value|inf low=mean.low high=mean.high "
        "clusters=mean.clusters"
    )


@dataclass(frozen=True)
class MetricSummary(Document):
    """What one metric says of a run.

    Attributes:
        metric: its name.
        signature: every choice that could change a number, with the run part.
        direction: which end of its values is better.
        overall: all samples together; `groups` splits them.
        groups: by name.
        comparisons: every pair of groups; empty if the groups are not to be compared.
        reasons: why values are undefined -> how many, the most frequent first.
        by_label: wanted label -> its groups; empty if groups are not split by labels.
    """

    metric: str
    signature: str
    direction: Direction
    overall: GroupSummary
    groups: tuple[GroupSummary, ...]
    comparisons: tuple[Comparison, ...]
    reasons: Mapping[str, int]
    by_label: Mapping[str, tuple[GroupSummary, ...]] = field(default_factory=dict)

    _entries = "metric signature higher_is_better overall groups comparisons undefined=reasons"

    @property
    def higher_is_better(self) -> bool | None:
        """Whether higher values are better; None if no end is."""
        return higher_is_better(self.direction)


def summarise(
    run: RunTable,
    *,
    compare: bool = True,
    split: Container[str] = (),
    resampling: Resampling = DEFAULT,
) -> list[MetricSummary]:
    """Summaries of every metric of a run, with p adjusted over its comparisons.

    The result does not depend on the order of the samples. Arguments and errors are those of
    `unadjusted`.
    """
    return adjusted(
        unadjusted(run, compare=compare, split=split, resampling=resampling), resampling
    )


def unadjusted(
    run: RunTable,
    *,
    compare: bool = True,
    split: Container[str] = (),
    by_input: bool = False,
    resampling: Resampling = DEFAULT,
) -> list[MetricSummary]:
    """Summaries of every metric of a run whose p are yet to be adjusted.

    Means are over the defined values of a group, with the intervals of `cluster_mean`, or those
    of `mean_with_seeds` for systems with several seeds; neither leaves the `natural_range` of the
    values. `compared_systems` compares every two
    systems on the inputs that both have a value for; the defined values of a system on one input
    (several seeds) are averaged.

    Args:
        run: the samples and scores.
        compare: whether the groups are systems. Labels or datasets are not compared with each
            other: their inputs differ, so a difference says nothing of who is better.
        split: the metrics whose groups are split by labels as well.
        by_input: whether in the mean of a system every input weighs the same, however many of its
            texts have a value.
        resampling: how intervals and tests are drawn.

    Raises:
        ValueError: as `RunTable.table`.
    """
    table = run.table()
    clusters = table.own_clusters
    pairing = Pairing(table) if compare else None

    def group_summary(
        name: str,
        rows: Bools,
        values: Floats,
        *,
        votes: int,
        limits: Range,
        code: int | None = None,
    ) -> GroupSummary:
        v = values[rows]
        defined = v[~np.isnan(v)]
        n, points = v.size, tuple(defined[:POINTS].tolist())
        undefined = n - defined.size
        infinite = int(np.isinf(defined).sum())
        mean = (
            infinite_mean(defined, clusters[rows][~np.isnan(v)])
            if infinite
            else mean_of_rows(
                values, rows, clusters, pairing, code,
                votes=votes, limits=limits, level=resampling.level, by_input=by_input,
            )
        )  # fmt: skip
        return GroupSummary(name, n, undefined, mean, points, infinite)

    def group_summaries(
        within: Bools, values: Floats, *, votes: int, limits: Range
    ) -> tuple[GroupSummary, ...]:
        every = ((code, within & (table.groups == code)) for code in range(len(table.names)))
        return tuple(
            group_summary(table.names[code], rows, values, votes=votes, limits=limits, code=code)
            for code, rows in every
            if rows.any()
        )

    def values_of_systems(pairing: Pairing) -> Iterator[ValuesOfSystems]:
        for column in run.columns():
            values = table.values[column.metric]
            of_ranks = bool(np.isinf(values).any())
            values = ranks(values) if of_ranks else values
            yield ValuesOfSystems(
                names=table.names,
                values=pairing.means(values),
                texts=pairing.texts,
                lacking=pairing.lacking(values),
                clusters=pairing.clusters,
                seeded=pairing.seeded(values),
                why_empty=pairing.why_empty,
                ends=undefined_ends(values),
                votes=votes_of(values[~np.isnan(values)]),
                of_ranks=of_ranks,
                separate=partial(pairing.separate, values),
            )

    whole = np.ones(table.groups.size, np.bool_)
    labels = {name: table.labels == i for i, name in enumerate(_told_apart(table.label_names))}
    comparisons: Sequence[Sequence[Comparison]] = [()] * len(list(run.columns()))
    if pairing is not None and len(table.names) > 1:
        comparisons = compared_systems(values_of_systems(pairing), resampling)
    summaries = []
    for column, metric_comparisons in zip(run.columns(), comparisons, strict=True):
        values = table.values[column.metric]
        votes, limits = votes_of(values[~np.isnan(values)]), natural_range(values)
        summarise_groups = partial(group_summaries, values=values, votes=votes, limits=limits)
        summaries.append(
            MetricSummary(
                metric=column.metric,
                signature=with_run(
                    column.signature,
                    n=table.groups.size,
                    undefined=sum(column.reasons.values()),
                    truncated=column.truncated,
                ),
                direction=column.direction,
                overall=group_summary(OVERALL, whole, values, votes=votes, limits=limits),
                groups=summarise_groups(whole),
                comparisons=tuple(metric_comparisons),
                reasons=dict(sorted(column.reasons.items(), key=lambda r: (-r[1], r[0]))),
                by_label=(
                    {name: summarise_groups(rows) for name, rows in labels.items()}
                    if column.metric in split
                    else {}
                ),
            )
        )
    return summaries


def mean_of_rows(
    values: Floats,
    rows: Bools,
    clusters: Codes,
    pairing: Pairing | None,
    code: int | None,
    *,
    votes: int,
    limits: Range,
    level: float,
    by_input: bool = False,
) -> Estimate:
    """The mean of the defined values of some rows: that of `mean_with_seeds` for a system with
    several seeds, else `cluster_mean`; it has no interval from fewer than five clusters.

    Args:
        values, clusters: (n,) of all rows.
        rows: (n,) those that count.
        pairing: None if groups are not systems.
        code: of the group that the rows are of; None of several.
        votes, limits, level: as for `cluster_mean`.
        by_input: as for `mean_with_seeds`.
    """
    v = values[rows]
    if pairing is not None and pairing.has_seeds and code is not None:
        texts = pairing.seeded(np.where(rows, values, np.nan), code)
        if texts is not None and texts.values.size == np.count_nonzero(~np.isnan(v)):
            mean = mean_with_seeds(
                texts, votes=votes, limits=limits, level=level, by_input=by_input
            )
            if mean is not None:
                return mean
    weights = None
    if by_input and pairing is not None:
        weights = pairing.shares_of_inputs(np.where(rows, values, np.nan))[rows]
    return cluster_mean(v, clusters[rows], weights=weights, votes=votes, limits=limits, level=level)


def summarise_corpus(
    scores: Scores, groups: Mapping[str, str], labels: Mapping[str, str] = {}
) -> MetricSummary:
    """The summary of a corpus metric: means over its values, each as heavy as the others.

    There are no intervals and no tests: a corpus has one value, which says nothing of how another
    corpus of the same system would do.

    Args:
        scores: one value a corpus; ids are the corpora's names.
        groups: corpus -> the row that it belongs to; a corpus that is not named belongs to no row
            and counts in the overall mean only.
        labels: corpus -> what its texts were asked for; one that is not named has no such row.
    """

    def row(name: str, ids: Sequence[str]) -> GroupSummary:
        row_ids = set(ids)
        v = np.array([v for id, v in zip(scores.ids, scores.values, strict=True) if id in row_ids])
        defined = v[~np.isnan(v)]
        infinite = int(np.isinf(defined).sum())
        mean = mean_of_defined(defined)
        return GroupSummary(
            group=name,
            n=v.size,
            undefined=v.size - defined.size,
            mean=estimate_of_mean(
                mean, math.nan, math.nan, n=defined.size, clusters=0, why_no_interval=CORPUS
            ),
            points=tuple(defined[:POINTS].tolist()),
            infinite=infinite,
        )

    def group_rows(label: str | None = None) -> tuple[GroupSummary, ...]:
        members: dict[str, list[str]] = {}
        for id in scores.ids:
            if id in groups and label in (None, labels.get(id)):
                members.setdefault(groups[id], []).append(id)
        return tuple(row(name, members[name]) for name in sorted(members))

    reasons = Counter(scores.undefined.values())
    return MetricSummary(
        metric=scores.metric,
        signature=scores.run_signature,
        direction=scores.direction,
        overall=row(OVERALL, scores.ids),
        groups=group_rows(),
        comparisons=(),
        reasons=dict(sorted(reasons.items(), key=lambda r: (-r[1], r[0]))),
        by_label={name: group_rows(name) for name in _told_apart(sorted(set(labels.values())))},
    )


def infinite_mean(values: Floats, clusters: Codes) -> Estimate:
    """The mean of defined values of which some are infinite; it has no interval."""
    return estimate_of_mean(
        mean_of_defined(values),
        math.nan,
        math.nan,
        n=values.size,
        clusters=np.unique(clusters).size,
        why_no_interval=INFINITE,
    )


def ranks(values: Floats) -> Floats:
    """The rank of each defined value among all, equal ones sharing the mean of theirs; NaN stays.

    >>> ranks(np.array([-np.inf, 3.0, np.nan, 3.0])).tolist()
    [1.0, 2.5, nan, 2.5]
    """
    defined = ~np.isnan(values)
    order = np.full(values.shape, np.nan)
    order[defined] = ranked_within(values[defined], np.zeros(defined.sum(), np.intp))
    return order


def _told_apart(labels: Sequence[str]) -> Sequence[str]:
    """The labels, if there are several and not too many."""
    return labels if 1 < len(labels) <= MOST_LABELS else ()


def adjusted(
    summaries: Sequence[MetricSummary], resampling: Resampling = DEFAULT
) -> list[MetricSummary]:
    """The summaries with p adjusted over the comparisons of each family."""
    metric_comparisons = adjusted_comparisons(
        [s.comparisons for s in summaries], resampling, [s.metric for s in summaries]
    )
    return [
        replace(s, comparisons=comparisons)
        for s, comparisons in zip(summaries, metric_comparisons, strict=True)
    ]
