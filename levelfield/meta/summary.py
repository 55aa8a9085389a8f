"""From scores to what a paper reports: means with intervals, and comparisons of systems."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Floats, Hashes
from levelfield.core.scores import Scores
from levelfield.core.signature import with_run
from levelfield.meta.pairing import Pairing
from levelfield.meta.tally import RunTally
from levelfield.stats.bootstrap import cluster_bootstrap_mean
from levelfield.stats.effect import cohen_dz
from levelfield.stats.estimate import Estimate, estimate_of_mean
from levelfield.stats.multiplicity import holm
from levelfield.stats.permutation import paired_differences, paired_permutation, smallest_p
from levelfield.stats.resampling import DEFAULT, Resampling

OVERALL = "all"
"""The name of the row over all groups."""

CORPUS = "values of corpora"
"""Why the mean of a corpus metric has no interval."""

POINTS = 500
"""How many single values of a group a summary carries, for figures."""


@dataclass(frozen=True)
class GroupSummary:
    """One metric over one group of samples.

    Attributes:
        group: its name, e.g. the system.
        n: how many samples it has.
        undefined: for how many of them the metric is undefined; `mean.n` is the rest.
        mean: of the defined values; its interval is clustered on what samples share.
        points: at most `POINTS` of the defined values, drawn by the hashes of the samples' ids.
    """

    group: str
    n: int
    undefined: int
    mean: Estimate
    points: tuple[float, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Comparison:
    """Two systems under one metric, on the inputs that every system answered.

    Attributes:
        a, b: the systems.
        inputs: how many inputs the comparison rests on.
        left_out: how many inputs some system has no defined value for.
        clusters: how many independent clusters the inputs form.
        difference: mean over the inputs of a − b.
        low, high: ends of its interval; not adjusted for the number of comparisons.
        effect: d_z, the difference over its standard deviation between inputs.
        p: of the sign-flip permutation test, two-sided.
        p_adjusted: p by Holm over all comparisons of the run.
        note: what a reader must know of these numbers; empty if nothing.
    """

    a: str
    b: str
    inputs: int
    left_out: int
    clusters: int
    difference: float
    low: float
    high: float
    effect: float
    p: float
    p_adjusted: float
    note: str


@dataclass(frozen=True)
class MetricSummary:
    """What one metric says of a run.

    Attributes:
        metric: its name.
        signature: every choice that could change a number, with the run part.
        higher_is_better: its direction.
        overall: all samples together; `groups` splits them.
        groups: by name.
        comparisons: every pair of groups; empty if the groups are not to be compared.
        reasons: why values are undefined -> how many, the most frequent first.
    """

    metric: str
    signature: str
    higher_is_better: bool
    overall: GroupSummary
    groups: tuple[GroupSummary, ...]
    comparisons: tuple[Comparison, ...]
    reasons: Mapping[str, int]


def summarise(
    tally: RunTally,
    *,
    compare: bool = True,
    resampling: Resampling = DEFAULT,
) -> list[MetricSummary]:
    """Summaries of every metric of a run.

    Means are over the defined values of a group, with `cluster_bootstrap_mean` intervals.
    Systems are compared on equal inputs: the defined values of a system on one input (several
    seeds) are averaged; an input counts if every system has a value there (listwise); tests and
    intervals are those of `significance`, on the differences between inputs, Holm over all
    comparisons of all metrics. The result does not depend on the order of the samples.

    Args:
        tally: the samples and scores.
        compare: whether the groups are systems. Labels or datasets are not compared with each
            other: their inputs differ, so a difference says nothing of who is better.
        resampling: how intervals and tests are drawn.

    Raises:
        ValueError: as `RunTally.table`.
    """
    table = tally.table()
    clusters = table.own_clusters
    pairing = Pairing(table) if compare and len(table.names) > 1 else None

    def group_summary(name: str, rows: npt.NDArray[np.bool_], values: Floats) -> GroupSummary:
        v = values[rows]
        defined = v[~np.isnan(v)]
        return GroupSummary(
            group=name,
            n=v.size,
            undefined=v.size - defined.size,
            mean=cluster_bootstrap_mean(v, clusters[rows], resampling=resampling),
            points=tuple(defined[:POINTS].tolist()),
        )

    def compared(values: Floats) -> Iterator[Comparison]:
        if pairing is None:
            return
        means = pairing.means(values)  # (inputs, systems)
        complete = ~np.isnan(means).any(axis=1)
        of = pairing.clusters[complete]
        for a, b in itertools.combinations(range(len(table.names)), 2):
            x, y = means[complete, a], means[complete, b]
            d = paired_differences(x, y)
            mean = cluster_bootstrap_mean(d, of, resampling=resampling)
            yield Comparison(
                a=table.names[a],
                b=table.names[b],
                inputs=d.size,
                left_out=int((~complete).sum()),
                clusters=mean.clusters,
                difference=mean.value,
                low=mean.low,
                high=mean.high,
                effect=cohen_dz(d),
                p=paired_permutation(
                    d, of, permutations=resampling.permutations, seed=resampling.seed
                ),
                p_adjusted=float("nan"),
                note=_note(d, of) if d.size else pairing.why_empty,
            )

    summaries = []
    for column in tally.columns():
        values = table.values[column.metric]
        summaries.append(
            MetricSummary(
                metric=column.metric,
                signature=with_run(
                    column.signature,
                    n=values.size,
                    undefined=sum(column.reasons.values()),
                    truncated=column.truncated,
                ),
                higher_is_better=column.higher_is_better,
                overall=group_summary(OVERALL, np.ones(values.size, dtype=bool), values),
                groups=tuple(
                    group_summary(name, table.groups == code, values)
                    for code, name in enumerate(table.names)
                ),
                comparisons=tuple(compared(values)),
                reasons=dict(sorted(column.reasons.items(), key=lambda r: (-r[1], r[0]))),
            )
        )
    return adjusted(summaries)


def summarise_corpus(scores: Scores, groups: Mapping[str, str]) -> MetricSummary:
    """The summary of a corpus metric: means over its values, each as heavy as the others.

    There are no intervals and no tests: a corpus has one value, which says nothing of how another
    corpus of the same system would do.

    Args:
        scores: one value a corpus; ids are the corpora's names.
        groups: corpus -> the row that it belongs to; a corpus that is not named belongs to no row
            and counts in the overall mean only.
    """

    def row(name: str, ids: Sequence[str]) -> GroupSummary:
        of_row = set(ids)
        v = np.array([v for id, v in zip(scores.ids, scores.values, strict=True) if id in of_row])
        defined = v[~np.isnan(v)]
        mean = float(defined.mean()) if defined.size else math.nan
        return GroupSummary(
            group=name,
            n=v.size,
            undefined=v.size - defined.size,
            mean=estimate_of_mean(
                mean, math.nan, math.nan, n=defined.size, clusters=0, why_no_interval=CORPUS
            ),
            points=tuple(defined[:POINTS].tolist()),
        )

    members: dict[str, list[str]] = {}
    for id in scores.ids:
        if id in groups:
            members.setdefault(groups[id], []).append(id)
    reasons = Counter(scores.undefined.values())
    return MetricSummary(
        metric=scores.metric,
        signature=scores.run_signature,
        higher_is_better=scores.higher_is_better,
        overall=row(OVERALL, scores.ids),
        groups=tuple(row(name, members[name]) for name in sorted(members)),
        comparisons=(),
        reasons=dict(sorted(reasons.items(), key=lambda r: (-r[1], r[0]))),
    )


def verdict(comparison: Comparison, higher_is_better: bool, *, alpha: float = 0.05) -> str:
    """Who is better, in words, at `alpha` on the adjusted p.

    `"x > y"`: x is better than y, whichever direction the metric has. `"no difference shown"`:
    there may be one, these samples do not show it. `"not compared"`: there is no p.
    """
    c = comparison
    if np.isnan(c.p_adjusted):
        return "not compared"
    if c.p_adjusted > alpha or c.difference == 0:
        return "no difference shown"
    better, worse = (c.a, c.b) if (c.difference > 0) == higher_is_better else (c.b, c.a)
    return f"{better} > {worse}"


def _note(differences: Floats, clusters: Hashes) -> str:
    """What a reader must know of a comparison: why numbers are missing or can't be small."""
    notes = []
    if differences.size == 1:
        notes.append("one input: no interval, no effect size")
    else:
        if np.unique(clusters).size == 1:
            notes.append("one cluster: no interval")
        if np.isnan(cohen_dz(differences)):
            notes.append("all differences are equal: no effect size")
    least = smallest_p(differences, clusters)
    if least > 0.05 and np.any(differences):
        notes.append(f"too few independent inputs: p can't go below {least:.3g}")
    return "; ".join(notes)


def adjusted(summaries: Sequence[MetricSummary]) -> list[MetricSummary]:
    """The summaries with p adjusted over all their comparisons."""
    p_adjusted = iter(holm([c.p for s in summaries for c in s.comparisons]).tolist())
    return [
        replace(
            s, comparisons=tuple(replace(c, p_adjusted=next(p_adjusted)) for c in s.comparisons)
        )
        for s in summaries
    ]
