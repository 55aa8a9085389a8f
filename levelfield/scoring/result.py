"""What a run of `score` comes to: summaries, and their forms for programs and papers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from levelfield.core.errors import UserError
from levelfield.core.sample import Sample, wanted_name
from levelfield.core.scores import Scores
from levelfield.io.frames import Framed, FrameRows, columns_of
from levelfield.io.samples import Census
from levelfield.io.scores import ScoreColumn
from levelfield.io.tables import Table
from levelfield.scoring.gallery import Gallery
from levelfield.scoring.options import TASKS
from levelfield.scoring.result_table import (
    MEAN_COLUMNS,
    ResultCell,
    ResultTable,
    label_table,
    result_table,
)
from levelfield.scoring.run_table import PartMean
from levelfield.scoring.summary import MOST_LABELS, GroupSummary, MetricSummary
from levelfield.stats.estimate import defined
from levelfield.stats.resampling import DEFAULT, Resampling

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Grouping:
    """What the rows of the table are.

    Attributes:
        by: `system`, `dataset`, `seed`, `control`, an attribute as `control.sentiment`, or
            `none`.
        by_label: whether the labels that texts were asked for split the groups in a table of
            their own.
    """

    by: str
    by_label: bool = False

    @classmethod
    def choose(cls, by: str | None, census: Census) -> Grouping:
        """Returns the grouping that the user names; else by system if there is any, else by label.

        Raises:
            UserError: the samples can't be grouped so.
        """
        if by is None:
            by = "system" if census.systems else "control" if census.control else "none"
        choices = ["system", "dataset", "seed", "control", "none"]
        choices += [f"control.{attribute}" for attribute in census.control]
        if by not in choices:
            raise UserError(f"--by {by}: these samples can be grouped by {', '.join(choices)}")
        few = all(len(labels) <= MOST_LABELS for labels in census.control.values())
        return cls(by, by_label=by == "system" and bool(census.control) and few)

    @property
    def name(self) -> str:
        """One word for a table's heading."""
        return {"control": "label", "none": "group"}.get(self.by, self.by.removeprefix("control."))

    @property
    def compares(self) -> bool:
        """Whether a difference between groups says who is better."""
        return self.by == "system"

    def labels(self, samples: Sequence[Sample]) -> list[str]:
        """What samples were asked for, if groups are split by that."""
        return _LABELS.groups(samples) if self.by_label else [""] * len(samples)

    def groups(self, samples: Iterable[Sample]) -> list[str]:
        """The groups of samples."""
        return [self._group(sample) for sample in samples]

    def _group(self, sample: Sample) -> str:
        if self.by == "none":
            return "all texts"
        if self.by == "control":
            labels = [wanted_name(label) for label in sample.control.values()]
            return " + ".join(labels) or "(none)"
        if self.by.startswith("control."):
            return wanted_name(sample.control.get(self.by.removeprefix("control."), "")) or "(none)"
        value = getattr(sample, self.by)
        return "(none)" if value in ("", None) else str(value)


_LABELS = Grouping("control")


@dataclass(frozen=True, repr=False)
class ScoreSummary(Framed):
    """What a run measured.

    Attributes:
        n: samples.
        files: where they come from; empty for samples in memory.
        grouping: what the rows of the summaries are.
        notes: what a reader must know of the values, such as what they cost.
        summaries: one a metric, the joint means of a task among them.
        corpora: the scores of corpus metrics, one value a corpus.
        parts: metric -> the mean of each part by group, of metrics whose values are all made of the
            same parts.
        task: the task that was scored, or empty.
        gallery: the samples that a page shows; None where none were chosen.
        resampling: how intervals and tests are drawn.
        languages: ISO 639-1 code -> texts, of languages that a metric does not read; empty where
            all texts that were judged are in languages that all metrics read.
    """

    n: int
    files: tuple[str, ...]
    grouping: Grouping
    notes: tuple[str, ...]
    summaries: tuple[MetricSummary, ...]
    corpora: tuple[Scores, ...] = field(default=(), repr=False)
    parts: Mapping[str, tuple[PartMean, ...]] = field(default_factory=dict, repr=False)
    task: str = ""
    gallery: Gallery | None = field(default=None, repr=False)
    resampling: Resampling = DEFAULT
    languages: Mapping[str, int] = field(default_factory=dict, repr=False)

    def __getitem__(self, metric: str) -> MetricSummary:
        """The summary of a metric."""
        return {summary.metric: summary for summary in self.summaries}[metric]

    def to_dict(self) -> dict[str, Any]:
        """The document that `levelfield score --json` prints; a number that is not finite is
        None."""
        table, labels = self.table(), self.label_table()
        rankings = {column.summary.metric: column.ranking for column in table.columns}
        return {
            "n": self.n,
            "files": list(self.files),
            "by": self.grouping.by,
            "notes": list(self.notes),
            "family": self.resampling.family,
            "metrics": [
                s.to_dict()
                | {"ranking": [_place(cell) for cell in rankings[s.metric]]}
                | self._parts_document(s.metric)
                for s in self.summaries
            ],
            "table": table.to_dict(),
            "labels": labels.to_dict() if labels else None,
            **({"languages": dict(self.languages)} if self.languages else {}),
        }

    def _parts_document(self, metric: str) -> dict[str, Any]:
        means = self.parts.get(metric, ())
        return {"parts": [mean.to_dict() for mean in means]} if means else {}

    def _drawn(self) -> Sequence[Table]:
        return [table.drawn() for table in self.tables()]

    def _frame(self) -> FrameRows:
        """One row a metric and group; a group named `all` is all samples together."""
        rows = [
            {"metric": s.metric, **group.to_dict(), "mean": defined(group.mean.value)}
            for s in self.summaries
            for group in _rows(s)
        ]
        return _COLUMNS, rows

    def table(self) -> ResultTable:
        """Groups × metrics, with what is shown best and who can't be told apart."""
        criteria = {}
        if self.task:
            task_columns = TASKS[self.task].columns(self.summaries)
            criteria = {summary.metric: criterion for criterion, summary in task_columns}
        return result_table(
            self.summaries,
            by=self.grouping.name,
            n=self.n,
            compares=self.grouping.compares,
            criteria=criteria,
            resampling=self.resampling,
        )

    def label_table(self) -> ResultTable | None:
        """Systems × metrics and wanted labels; None where there is one label or too many."""
        if not any(s.by_label for s in self.summaries):
            return None
        return label_table(
            self.summaries, by=self.grouping.name, n=self.n, resampling=self.resampling
        )

    def tables(self) -> list[ResultTable]:
        """`table`, and `label_table` where there is one."""
        return [table for table in (self.table(), self.label_table()) if table]


@dataclass(frozen=True, repr=False)
class ScoreResult(ScoreSummary):
    """A run with the value of every sample.

    Attributes:
        scores: metric -> its scores, one a sample, or one a corpus for a corpus metric.
    """

    scores: Mapping[str, Scores] = field(default_factory=dict)


def scores_within(value: object) -> object:
    """Returns the list of scores that a result of `score`, or its `scores`, holds; else the value.

    Raises:
        UserError: a summary lacks the values of the texts.
    """
    if isinstance(value, ScoreSummary):
        if not isinstance(value, ScoreResult):
            raise UserError("scores: a summary without the values of texts; pass those as well")
        value = value.scores
    if isinstance(value, Mapping):
        several = [*value.values()]
        if several and all(isinstance(item, Scores | ScoreColumn) for item in several):
            return several
    return value


_COLUMNS = columns_of(f"metric group {MEAN_COLUMNS} clusters:int")


def _rows(summary: MetricSummary) -> Iterator[GroupSummary]:
    yield summary.overall
    yield from summary.groups


def _place(cell: ResultCell) -> dict[str, Any]:
    document = cell.to_dict()
    return {key: document[key] for key in ("group", "rank", "letters", "best")}
