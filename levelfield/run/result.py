"""What a run of `score` comes to: summaries, and their forms for programs and papers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from levelfield.core.scores import Scores
from levelfield.io.latex import booktabs, escape_latex
from levelfield.meta.comparison import Comparison
from levelfield.meta.summary import GroupSummary, MetricSummary
from levelfield.run.gallery import Gallery
from levelfield.run.grouping import Grouping
from levelfield.stats.estimate import finite
from levelfield.stats.resampling import DEFAULT, Resampling


@dataclass(frozen=True)
class ScoreSummary:
    """What a run measured.

    Attributes:
        n: samples.
        files: where they come from; empty for samples in memory.
        grouping: what the rows of the summaries are.
        notes: what a reader must know of the values, such as what they cost.
        summaries: one a metric, the joint means of a task among them.
        corpora: the scores of corpus metrics, one value a corpus.
        task: the task that was scored, or empty.
        gallery: the samples that a page shows; None where none were chosen.
        resampling: how intervals and tests are drawn.
    """

    n: int
    files: tuple[str, ...]
    grouping: Grouping
    notes: tuple[str, ...]
    summaries: tuple[MetricSummary, ...]
    corpora: tuple[Scores, ...] = field(default=(), repr=False)
    task: str = ""
    gallery: Gallery | None = field(default=None, repr=False)
    resampling: Resampling = DEFAULT

    def __getitem__(self, metric: str) -> MetricSummary:
        """The summary of a metric."""
        return {summary.metric: summary for summary in self.summaries}[metric]

    def to_dict(self) -> dict[str, Any]:
        """The document that `levelfield score --json` prints; a number that is not finite is
        None."""
        return {
            "n": self.n,
            "files": list(self.files),
            "by": self.grouping.by,
            "notes": list(self.notes),
            "family": self.resampling.family,
            "metrics": [summary_document(summary) for summary in self.summaries],
        }

    def to_polars(self) -> pl.DataFrame:
        """One row a metric and group; a group named `all` is all samples together."""
        rows = [
            {"metric": s.metric, **_group_document(group)}
            for s in self.summaries
            for group in _rows(s)
        ]
        return pl.DataFrame(rows, schema=_GROUP_SCHEMA)

    def to_latex(self) -> str:
        """A booktabs table: a row a group, a column a metric, means with half the interval."""
        groups = dict.fromkeys(group.group for s in self.summaries for group in s.groups)
        by_group = [{group.group: group for group in s.groups} for s in self.summaries]
        arrows = ["$\\uparrow$" if s.higher_is_better else "$\\downarrow$" for s in self.summaries]
        head = [escape_latex(self.grouping.name)]
        head += [
            f"{escape_latex(s.metric)} {a}" for s, a in zip(self.summaries, arrows, strict=True)
        ]
        rows = ([escape_latex(g), *(_mean(of.get(g)) for of in by_group)] for g in groups)
        return booktabs(
            "l" + "r" * len(self.summaries),
            [" & ".join(head) + " \\\\"],
            rows,
            f"Means and half the width of their {100 * self.resampling.level:g} % intervals; "
            f"{self.n:,} texts.",
            comment="; ".join(s.signature for s in self.summaries),
        )


@dataclass(frozen=True)
class ScoreResult(ScoreSummary):
    """A run with the value of every sample.

    Attributes:
        scores: metric -> its scores, one a sample, or one a corpus for a corpus metric.
    """

    scores: Mapping[str, Scores] = field(default_factory=dict)


_GROUP_SCHEMA = {
    "metric": pl.String,
    "group": pl.String,
    "n": pl.Int64,
    "defined": pl.Int64,
    "undefined": pl.Int64,
    "mean": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "clusters": pl.Int64,
}


def _rows(summary: MetricSummary) -> Iterator[GroupSummary]:
    yield summary.overall
    yield from summary.groups


def _mean(group: GroupSummary | None) -> str:
    if group is None or not math.isfinite(group.mean.value):
        return "--"
    mean = group.mean
    text = f"{mean.value:.3f}".replace("-", "$-$")
    if not math.isfinite(mean.low):
        return text
    return f"{text} $\\pm$ {(mean.high - mean.low) / 2:.3f}"


def summary_document(summary: MetricSummary) -> dict[str, Any]:
    """One metric's summary as JSON has it; a number that is not finite is None."""
    return {
        "metric": summary.metric,
        "signature": summary.signature,
        "higher_is_better": summary.higher_is_better,
        "overall": _group_document(summary.overall),
        "groups": [_group_document(group) for group in summary.groups],
        "comparisons": comparison_documents(summary.comparisons),
        "undefined": dict(summary.reasons),
    }


def comparison_documents(comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Comparisons as JSON has them."""
    return [
        {
            "a": c.a,
            "b": c.b,
            "inputs": c.inputs,
            "left_out": c.left_out,
            "clusters": c.clusters,
            "difference": finite(c.difference),
            "low": finite(c.low),
            "high": finite(c.high),
            "effect": finite(c.effect),
            "p": finite(c.p),
            "p_adjusted": finite(c.p_adjusted),
            "lowest": finite(c.bounds.lowest) if c.bounds else None,
            "highest": finite(c.bounds.highest) if c.bounds else None,
            "note": c.note,
        }
        for c in comparisons
    ]


def _group_document(group: GroupSummary) -> dict[str, Any]:
    mean = group.mean
    return {
        "group": group.group,
        "n": group.n,
        "defined": mean.n,
        "undefined": group.undefined,
        "mean": finite(mean.value),
        "low": finite(mean.low),
        "high": finite(mean.high),
        "clusters": mean.clusters,
    }
