"""From scores to what a paper reports: means with intervals, and comparisons of systems."""

from __future__ import annotations

import hashlib
import itertools
import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Codes, Floats, Hashes
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.core.signature import with_run
from levelfield.stats.bootstrap import cluster_bootstrap_mean
from levelfield.stats.effect import cohen_dz
from levelfield.stats.estimate import Estimate, estimate_of_mean
from levelfield.stats.multiplicity import holm
from levelfield.stats.permutation import paired_permutation, smallest_p
from levelfield.stats.resampling import DEFAULT, Resampling

OVERALL = "all"
"""The name of the row over all groups."""

CORPUS = "values of corpora"
"""Why the mean of a corpus metric has no interval."""

POINTS = 500
"""How many single values of a group a summary carries, for figures."""

_EQUAL = 1e-12
"""Two means nearer than this share of their size differ by rounding only."""


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


class Tally:
    """What summaries need of the samples and scores of a run, and nothing more.

    Samples and scores may come in any order and in any partition; memory is 28 bytes a sample and
    16 bytes a value, texts are not kept. Ids, inputs and clusters are kept as 8-byte hashes: among
    a million of them the chance that any two collide is 3 in 100 million.

    >>> from levelfield.core.sample import Sample
    >>> tally = Tally()
    >>> tally.add(Sample(id="1", text="The court sat.", prompt="The court", system="x"), "x")
    """

    def __init__(self) -> None:
        self._ids = array("Q")
        self._clusters = array("Q")
        self._inputs = array("Q")
        self._groups = array("i")
        self._codes: dict[str, int] = {}
        self._columns: dict[str, _Column] = {}

    def __len__(self) -> int:
        """How many samples were added."""
        return len(self._ids)

    def add(self, sample: Sample, group: str) -> None:
        """Remember to what group, input and cluster a sample belongs."""
        self._ids.append(_hash(b"id", sample.id))
        self._clusters.append(_hash(b"cluster", sample.shared) if sample.shared else _NONE)
        self._inputs.append(_hash(b"input", sample.input) if sample.input else _NONE)
        self._groups.append(self._codes.setdefault(group, len(self._codes)))

    def add_scores(self, scores: Scores) -> None:
        """Remember the values of one metric for some of the samples."""
        column = self._columns.setdefault(scores.metric, _Column(scores))
        if column.signature != scores.signature:
            raise ValueError(
                f"{scores.metric}: one summary, two signatures: "
                f"{column.signature} and {scores.signature}"
            )
        column.ids.extend(_hash(b"id", id) for id in scores.ids)
        column.values.frombytes(scores.values.tobytes())
        column.reasons.update(scores.undefined.values())
        column.truncated += len(scores.truncated)

    def table(self) -> Table:
        """All that was added, as arrays with rows in the order of the ids' hashes.

        Raises:
            ValueError: two samples with one id, or a metric that lacks values for some samples or
                has values for others.
        """
        ids = np.array(self._ids, dtype=np.uint64)
        rows = np.argsort(ids)
        ids = ids[rows]
        if np.any(ids[1:] == ids[:-1]):
            raise ValueError("two samples have one id")
        names = sorted(self._codes)
        rank = np.empty(len(names), dtype=np.intp)
        rank[[self._codes[name] for name in names]] = np.arange(len(names))
        values = {}
        for metric, column in self._columns.items():
            scored = np.array(column.ids, dtype=np.uint64)
            order = np.argsort(scored)
            if not np.array_equal(scored[order], ids):
                raise ValueError(
                    f"{metric} must have one value for each of the {len(ids)} samples; "
                    f"it has {len(scored)}, or they are of other samples"
                )
            values[metric] = np.array(column.values)[order]
        return Table(
            ids=ids,
            clusters=np.array(self._clusters, dtype=np.uint64)[rows],
            inputs=np.array(self._inputs, dtype=np.uint64)[rows],
            groups=rank[np.array(self._groups, dtype=np.intp)[rows]],
            names=tuple(names),
            values=values,
        )

    def columns(self) -> Iterable[_Column]:
        """The metrics, in the order in which their scores first came."""
        return self._columns.values()


def summarise(
    tally: Tally,
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
        ValueError: as `Tally.table`.
    """
    table = tally.table()
    clusters = table.own_clusters
    pairing = Pairing(table) if compare and len(table.names) > 1 else None

    def mean_of(v: Floats, of: Hashes) -> Estimate:
        return cluster_bootstrap_mean(
            v,
            of,
            resamples=resampling.resamples,
            level=resampling.level,
            seed=resampling.seed,
        )

    def group_summary(name: str, rows: npt.NDArray[np.bool_], values: Floats) -> GroupSummary:
        v = values[rows]
        defined = v[~np.isnan(v)]
        return GroupSummary(
            group=name,
            n=v.size,
            undefined=v.size - defined.size,
            mean=mean_of(v, clusters[rows]),
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
            d = x - y
            d[np.abs(d) <= _EQUAL * np.maximum(np.abs(x), np.abs(y))] = 0.0
            mean = mean_of(d, of)
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
        kept = set(ids)
        v = np.array([v for id, v in zip(scores.ids, scores.values, strict=True) if id in kept])
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


@dataclass
class _Column:
    """The scores of one metric as they come in."""

    metric: str
    signature: str
    higher_is_better: bool

    def __init__(self, first: Scores) -> None:
        self.metric, self.signature = first.metric, first.signature
        self.higher_is_better = first.higher_is_better
        self.ids = array("Q")
        self.values = array("d")
        self.reasons: Counter[str] = Counter()
        self.truncated = 0


@dataclass(frozen=True)
class Table:
    """A run as columns of equal length: (n,) each, `groups` as positions in `names`."""

    ids: Hashes
    clusters: Hashes
    inputs: Hashes
    groups: Codes
    names: tuple[str, ...]
    values: Mapping[str, Floats]

    @property
    def own_clusters(self) -> Hashes:
        """The clusters; what was generated from nothing shared is one of its own."""
        return np.where(self.clusters == _NONE, self.ids, self.clusters)


class Pairing:
    """Which rows of a table answer the same input."""

    def __init__(self, table: Table) -> None:
        self._rows = np.flatnonzero(table.inputs != _NONE)
        inputs = table.inputs[self._rows]
        of_input, first, code = np.unique(inputs, return_index=True, return_inverse=True)
        shared = table.clusters[self._rows][first]
        self.clusters: Hashes = np.where(shared == _NONE, of_input, shared)  # (inputs,)
        self._shape = (of_input.size, len(table.names))
        self._cell = code * len(table.names) + table.groups[self._rows]
        answered = np.bincount(self._cell, minlength=math.prod(self._shape)).reshape(self._shape)
        self.why_empty = (
            "no input has a value from every system"
            if np.any(answered.all(axis=1))
            else "no shared inputs"
        )

    def means(self, values: Floats) -> Floats:
        """(inputs, systems): mean of the defined values of a system on an input; NaN if none."""
        v = values[self._rows]
        defined = ~np.isnan(v)
        cells = math.prod(self._shape)
        sums = np.bincount(self._cell[defined], weights=v[defined], minlength=cells)
        counts = np.bincount(self._cell[defined], minlength=cells)
        means = np.full(cells, np.nan)
        np.divide(sums, counts, out=means, where=counts > 0)
        return means.reshape(self._shape)


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


_NONE = 0
"""The hash of nothing: no input, no cluster."""


def _hash(kind: bytes, key: object) -> int:
    """8 bytes that stand for a key, the same in every process; never `_NONE`.

    Keys are strings or nested tuples of strings, for which `repr` is unambiguous.
    """
    digest = hashlib.blake2b(
        repr(key).encode("utf-8", "backslashreplace"), digest_size=8, person=kind
    )
    return int.from_bytes(digest.digest(), "little") or 1
