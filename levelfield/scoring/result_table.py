"""The table that a paper prints: systems × metrics, with what is shown best and what is alike."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from levelfield.core.direction import SIGNS
from levelfield.core.documents import Document
from levelfield.core.strings import natural
from levelfield.io.frames import Framed, FrameRows, columns_of
from levelfield.io.tables import NONE, Table, TableCell, TableColumn
from levelfield.scoring.comparison import WITHHELD, Comparison, verdict
from levelfield.scoring.sensitivity import sensitivity_notes
from levelfield.scoring.standing import (
    BEST,
    Scale,
    Standing,
    letters_in_words,
    scale_of,
    standings,
)
from levelfield.scoring.summary import CORPUS, OVERALL, GroupSummary, MetricSummary
from levelfield.stats.estimate import Estimate, defined
from levelfield.stats.multiplicity import adjustment
from levelfield.stats.resampling import DEFAULT, Resampling

if TYPE_CHECKING:
    pass


_OFF_CENTRE = 0.05
"""A mean no farther from the centre of its interval than this share of the width is in it."""

_NARROW = 4
"""So many columns of means fit into one column of a page that has two."""


@dataclass(frozen=True)
class ResultCell(Document):
    """One group under one metric.

    Attributes:
        group: with its mean, interval, and number of undefined values.
        standing: among the groups; None where they are not compared, or without a mean.
        scale: how its numbers are written.
    """

    group: GroupSummary
    standing: Standing | None
    scale: Scale

    _entries = (
        "group=group.group n=group.n defined=group.mean.n undefined=group.undefined "
        "mean=group.mean.value|inf low=group.mean.low high=group.mean.high rank=standing.rank "
        "letters=_letters best"
    )

    @property
    def _letters(self) -> Sequence[str]:
        return self.standing.letters if self.standing else ()

    @property
    def best(self) -> bool:
        """Whether it is shown to be better than every other one."""
        return self.standing is not None and self.standing.best

    @cached_property
    def letters(self) -> str:
        """Its letters; empty if it was not compared."""
        return self.standing.letters_name if self.standing else ""

    @cached_property
    def mean(self) -> str:
        """The mean as it is written; a dash without one."""
        return self.scale(self.group.mean.value)

    @cached_property
    def interval(self) -> str:
        """The interval as it is written beside the mean: half its width after ±, or both ends where
        the mean is off its centre by more than 5 % of its width; empty without one."""
        i = self.group.mean
        if not math.isfinite(i.low + i.high):
            return ""
        width = i.high - i.low
        if abs((i.low + i.high) / 2 - i.value) <= _OFF_CENTRE * width:
            return f"± {self.scale(width / 2)}"
        return f"[{self.scale(i.low)}, {self.scale(i.high)}]"


@dataclass(frozen=True)
class ResultColumn(Document):
    """One metric, or one metric for one wanted label.

    Attributes:
        summary: of the metric.
        above: the head that it shares with its neighbours: a criterion or a family; may be empty.
        name: below that.
        label: what the texts were asked for; empty for all of them.
        cells: group -> cell; one whose values are in no group is in none.
        overall: all groups together.
    """

    summary: MetricSummary
    above: str
    name: str
    label: str
    cells: Mapping[str, ResultCell]
    overall: ResultCell

    _entries = (
        "metric=summary.metric label|null above higher_is_better=summary.higher_is_better "
        "cells=_cells overall=_overall"
    )

    @property
    def _cells(self) -> list[ResultCell]:
        return [*self.cells.values()]

    @property
    def _overall(self) -> ResultCell | None:
        return None if self.label else self.overall

    @property
    def arrow(self) -> str:
        """Up where higher is better, down where lower is, none where no end is."""
        return ("", "↑", "↓")[SIGNS[self.summary.direction]]

    @property
    def title(self) -> str:
        """The metric, and the label if it is of one."""
        return self.summary.metric + (f", {self.label}" if self.label else "")

    @cached_property
    def ranking(self) -> list[ResultCell]:
        """The cells that have a standing, the best first, else the highest."""
        sign = 1 if self.summary.direction == "lower" else -1
        ranked = [cell for cell in self.cells.values() if cell.standing]
        return sorted(
            ranked, key=lambda cell: (sign * cell.group.mean.value, natural(cell.group.group))
        )


@dataclass(frozen=True, repr=False)
class ResultTable(Framed):
    """Groups × metrics: means with their intervals, what is shown best, and who is alike.

    Attributes:
        by: what the groups are, in one word: system, dataset, sentiment.
        groups: its rows, `x-2` before `x-10`.
        columns: one a metric, or one a metric and label.
        n: texts.
        compares: whether the groups are systems that are compared.
        resampling: the level of intervals, and the family of the comparisons.
    """

    by: str
    groups: tuple[str, ...]
    columns: tuple[ResultColumn, ...]
    n: int
    compares: bool = True
    resampling: Resampling = DEFAULT

    _entries = "by groups columns"

    def rows(self) -> Iterator[tuple[str, list[ResultCell | None]]]:
        """Each group with its cells. All texts together come last, under the name `all`, where
        groups are not systems or a corpus has the texts of several."""
        for group in self.groups:
            yield group, [column.cells.get(group) for column in self.columns]
        beyond = any(
            column.overall.group.mean.n and not any(c.group.n for c in column.cells.values())
            for column in self.columns
        )
        if beyond or (not self.compares and len(self.groups) > 1):
            yield OVERALL, [column.overall for column in self.columns]

    @property
    def has_labels(self) -> bool:
        """Whether its columns are labels, each with texts of its own."""
        return any(column.label for column in self.columns)

    @property
    def counted(self) -> str:
        """What `count` counts: texts, `n`, or corpora where no metric has values of texts."""
        whys = {column.overall.group.mean.why_no_interval for column in self.columns}
        return "corpora" if whys == {CORPUS} else "n"

    def count(self, row: Sequence[ResultCell | None]) -> str:
        """How many values the means of a row rest on, from the fewest to the most where metrics
        differ; corpora only where there is nothing else."""
        means = [cell.group.mean for cell in row if cell]
        return _span_of_counts(_counts_of_values(means) or {mean.n for mean in means} or {0}, "–")

    @property
    def caption(self) -> str:
        """What the means are over: texts that have a value, of how many."""
        means = [column.overall.group.mean for column in self.columns]
        none = {0 if any(mean.why_no_interval != CORPUS for mean in means) else self.n}
        counts = _counts_of_values(means) or none
        total = "" if counts == {self.n} else f" of {self.n:,}"
        return f"means over {_span_of_counts(counts, ' to ')}{total} texts"

    @property
    def has_best(self) -> bool:
        """Whether some group is shown to be better than every other one."""
        return any(cell and cell.best for _, row in self.rows() for cell in row)

    def legend(self) -> list[str]:
        """What the numbers mean, in words."""
        cells = [cell for _, row in self.rows() for cell in row]
        level = f"{100 * self.resampling.level:g} % interval"
        intervals = [cell.interval for cell in cells if cell]
        halves, ends = (any(i.startswith(mark) for i in intervals) for mark in "±[")
        words = f"± half the {level}{', or its [ends]' if ends else ''}" if halves else ""
        lines = [words or f"[ends] of the {level}"] if halves or ends else []
        if any(cell is None or not cell.group.mean.n for cell in cells):
            lines.append(f"{NONE} no value")
        return lines

    def letters_legend(self) -> str:
        """What letters mean; empty if there are none."""
        if not any(cell.letters for column in self.columns for cell in column.cells.values()):
            return ""
        return letters_in_words(self.by, adjustment(self.resampling.family))

    def notes(self) -> list[str]:
        """What a reader must know of the numbers: undefined values, why there are no intervals or
        comparisons, and what comparisons rest on."""
        if self.has_labels:
            counts = sorted({cell.group.mean.n for c in self.columns for cell in c.cells.values()})
            several = f" to {counts[-1]:,}" if counts[1:] else ""
            n = [f"n = {counts[0]:,}{several} values a cell"] if counts else []
            return ["means by label are not compared", *n]
        lines = [line for column in self.columns for line in _undefined(column)]
        lines += [line for column in self.columns for line in _infinite(column)]
        lines += _shared(self.columns, _why_no_interval)
        if self.compares and len(self.groups) > 1:
            lines += _shared(self.columns, _why_not_compared)
            lines += _shared(self.columns, _rests_on)
            lines += _shared(self.columns, _own_values)
            lines += _shared(self.columns, _withheld)
            lines += sensitivity_notes(
                {c.title: (c.summary.comparisons, c.overall.scale) for c in self.columns}
            )
        elif len(self.groups) > 1:
            lines.append(f"{self.by}s are not compared with each other: their inputs differ")
        return lines

    def _drawn(self) -> Sequence[Table]:
        return [self.drawn()]

    def _frame(self) -> FrameRows:
        """One row a column and group."""
        rows = [
            {"metric": column.summary.metric, "label": column.label}
            | cell.to_dict()
            | {"mean": defined(cell.group.mean.value)}
            | {"letters": cell.letters}
            for column in self.columns
            for cell in column.cells.values()
        ]
        return _COLUMNS, rows

    def drawn(self) -> Table:
        """Returns the table as terminals, pages, LaTeX and Markdown show it."""
        count = TableColumn(self.counted, repeated=True)
        columns = [
            TableColumn(self.by, words=True),
            *([] if self.has_labels else [count]),
            *(
                TableColumn(c.name, c.above, c.title, direction=c.summary.direction)
                for c in self.columns
            ),
        ]
        rows: list[list[TableCell | str]] = [
            [name, *([] if self.has_labels else [self.count(row)]), *map(_drawn_cell, row)]
            for name, row in self.rows()
        ]
        return Table(
            columns,
            rows,
            caption=self.caption,
            legend=self.legend(),
            best=BEST if self.has_best else "",
            letters=self.letters_legend(),
            notes=self.notes(),
            signatures=self.signatures(),
            wide=len(self.columns) > _NARROW,
        )

    def signatures(self) -> list[str]:
        """One a metric."""
        return list(dict.fromkeys(column.summary.signature for column in self.columns))


MEAN_COLUMNS = "n:int defined:int undefined:int mean:float low:float high:float"
"""Columns of a mean, as all frames of results have them."""

_COLUMNS = columns_of(f"metric label group {MEAN_COLUMNS} rank:int letters best:bool")


def result_table(
    summaries: Sequence[MetricSummary],
    *,
    by: str,
    n: int,
    compares: bool = True,
    criteria: Mapping[str, str] = {},
    resampling: Resampling = DEFAULT,
) -> ResultTable:
    """The table of a run.

    Args:
        summaries: one a metric.
        by: what their groups are, in one word.
        n: texts.
        compares: whether the groups are systems that are compared.
        criteria: metric -> what it measures, the head above it, in the order of columns; if
            empty, heads are the families that have several metrics.
        resampling: what the summaries were made with.
    """
    families = Counter(s.metric.partition(".")[0] for s in summaries)
    order = [*criteria] or [*families]
    place = {name: i for i, name in enumerate(order)}
    summaries = sorted(
        summaries,
        key=lambda s: place.get(s.metric if criteria else s.metric.partition(".")[0], len(order)),
    )

    def column(s: MetricSummary) -> ResultColumn:
        family, _, member = s.metric.partition(".")
        shared = not criteria and member and families[family] > 1
        above, name = (family, member) if shared else (criteria.get(s.metric, ""), s.metric)
        scale = scale_of(s)
        group_standings: Mapping[str, Standing] = {}
        if compares and len(s.groups) > 1:
            means = {g.group: g.mean.value for g in s.groups}
            group_standings = standings(
                means, s.comparisons, direction=s.direction, rounded=scale.rounded
            )
        return ResultColumn(
            summary=s,
            above=above,
            name=name,
            label="",
            cells={g.group: ResultCell(g, group_standings.get(g.group), scale) for g in s.groups},
            overall=ResultCell(s.overall, None, scale),
        )

    columns = tuple(column(s) for s in summaries)
    groups = sorted({group for c in columns for group in c.cells}, key=natural)
    return ResultTable(by, tuple(groups), columns, n, compares, resampling)


def label_table(
    summaries: Sequence[MetricSummary],
    *,
    by: str,
    n: int,
    resampling: Resampling = DEFAULT,
) -> ResultTable:
    """The table of systems × metrics and wanted labels; as `result_table`.

    Systems are compared over all labels together, so it has no marks and no letters.
    """
    columns = []
    for s in summaries:
        scale = scale_of(s)
        for label, groups in s.by_label.items():
            cells = {g.group: ResultCell(g, None, scale) for g in groups}
            overall = ResultCell(s.overall, None, scale)
            columns.append(ResultColumn(s, s.metric, label, label, cells, overall))
    names = sorted({group for c in columns for group in c.cells}, key=natural)
    return ResultTable(by, tuple(names), tuple(columns), n, resampling=resampling)


def _counts_of_values(means: Sequence[Estimate]) -> set[int]:
    """On how many values of texts those means rest that there are."""
    return {mean.n for mean in means if mean.n and mean.why_no_interval != CORPUS}


def _span_of_counts(counts: Collection[int], to: str) -> str:
    """The fewest and the most, or the only one."""
    return to.join(dict.fromkeys(f"{n:,}" for n in (min(counts), max(counts))))


def _drawn_cell(cell: ResultCell | None) -> TableCell:
    if cell is None or not cell.group.mean.n:
        return TableCell()
    mean = cell.group.mean.value
    return TableCell(cell.mean, cell.best, cell.interval, cell.letters, value=mean)


def _undefined(column: ResultColumn) -> Iterator[str]:
    s = column.summary
    if s.overall.undefined:
        reasons = ", ".join(f"{reason}: {count:,}" for reason, count in s.reasons.items())
        lacking = [
            f"{g.group} {g.undefined:,}".replace(" ", "\u00a0")
            for g in sorted(s.groups, key=lambda g: natural(g.group))
            if g.undefined
        ]
        counts_groups = len(s.groups) > 1 and lacking and s.overall.mean.n
        group_counts = f" ({', '.join(lacking)})" if counts_groups else ""
        yield f"{s.metric}: undefined: {reasons}{group_counts}"


def _infinite(column: ResultColumn) -> Iterator[str]:
    groups = sorted(column.summary.groups, key=lambda g: natural(g.group))
    counts = [f"{g.group} {g.infinite:,}".replace(" ", "\u00a0") for g in groups if g.infinite]
    if counts:
        yield (
            f"{column.summary.metric}: infinite values ({', '.join(counts)}): a mean over these is "
            "infinite, and undefined where they lie at both ends"
        )


def _shared(columns: Sequence[ResultColumn], words: Callable[[ResultColumn], str]) -> Iterator[str]:
    """What holds for columns, each once, after the metrics that it holds for if not all."""
    titles: dict[str, list[str]] = {}
    for column in columns:
        if sentence := words(column):
            titles.setdefault(sentence, []).append(column.title)
    for sentence, names in titles.items():
        yield sentence if len(names) == len(columns) else f"{', '.join(names)}: {sentence}"


def _why_no_interval(column: ResultColumn) -> str:
    means = [cell.group.mean for cell in column.cells.values() if cell.group.mean.n]
    reasons = {mean.why_no_interval for mean in means}
    if not means or "" in reasons:
        return ""
    if not any(mean.clusters for mean in means):
        text = "no interval, not compared" if len(means) > 1 else "no interval"
        return f"{text}: {CORPUS}"
    return f"no interval: {', '.join(sorted(reasons))}"


def _why_not_compared(column: ResultColumn) -> str:
    """Why there is no test at all."""
    comparisons = column.summary.comparisons
    if any(not math.isnan(c.p_adjusted) for c in comparisons):
        return ""
    return next((f"not compared: {c.note}" for c in comparisons if c.note), "")


def _rests_on(column: ResultColumn) -> str:
    """On how many inputs, and what holds for every comparison."""
    compared = [c for c in column.summary.comparisons if not math.isnan(c.p_adjusted)]
    if not compared:
        return ""
    return "; ".join([f"compared on {_inputs(compared)}", *_common_notes(compared)])


def _own_values(column: ResultColumn) -> str:
    """That means and comparisons rest on different inputs, where systems lack different ones."""
    cells = column.cells.values()
    counts = {cell.group.mean.n for cell in cells} | {cell.group.n for cell in cells}
    if len(counts) < 2 or all(c.unpaired for c in column.summary.comparisons):
        return ""
    return (
        "each mean rests on the values of its own system, each comparison on the inputs that two "
        "systems share"
    )


def _withheld(column: ResultColumn) -> str:
    """How many verdicts undefined values could turn, and where they would."""
    comparisons = column.summary.comparisons
    withheld = [c for c in comparisons if verdict(c, column.summary.direction) == WITHHELD]
    if not withheld:
        return ""
    share = f"{len(withheld):,} of {len(comparisons):,} verdicts"
    text = f"{share} withheld: values undefined for one system alone could turn them"
    conditions = [
        f"{c.a} − {c.b}: {c.tipping.words(c.a, c.b)}" for c in withheld if c.tipping is not None
    ]
    more = ["; …"] if len(conditions) > _CONDITIONS else []
    shown = "; ".join([*conditions[:_CONDITIONS]]) + "".join(more)
    return f"{text} ({shown})" if conditions else text


_CONDITIONS = 3
"""So many tipping points are named below a table; `--pairs` has all."""


def _inputs(comparisons: Sequence[Comparison]) -> str:
    parts = [
        _counted([c for c in comparisons if c.unpaired == unpaired], unit)
        for unpaired, unit in ((False, "input"), (True, "independent text"))
    ]
    return " or ".join(filter(None, parts))


def _counted(comparisons: Sequence[Comparison], unit: str) -> str:
    if not comparisons:
        return ""
    counts = sorted({c.inputs for c in comparisons})
    totals = sorted({c.inputs + c.left_out for c in comparisons})
    shown = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    total = f" of {totals[-1]:,}" if counts[0] < totals[-1] else ""
    return f"{shown}{total} {unit}{'' if totals[-1] == 1 else 's'}"


def _common_notes(comparisons: Sequence[Comparison]) -> list[str]:
    notes = [c.note.split("; ") if c.note else [] for c in comparisons]
    return [note for note in notes[0] if all(note in column_notes for column_notes in notes[1:])]
