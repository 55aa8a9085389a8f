"""The page of a run: what was measured, what differs, and the parts of every value."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from levelfield.core.direction import in_words
from levelfield.core.strings import natural
from levelfield.io import atomic_writer
from levelfield.scoring.comparison import conclusion
from levelfield.scoring.gallery import ShownSample, ValuePart
from levelfield.scoring.result import ScoreSummary
from levelfield.scoring.result_table import ResultTable, result_table
from levelfield.scoring.run_table import PartMean
from levelfield.scoring.sensitivity import detectable
from levelfield.scoring.standing import p_value, scale_of
from levelfield.scoring.summary import MetricSummary
from levelfield.show import words
from levelfield.show.figures import means_figure
from levelfield.show.rows import rows, score_axes
from levelfield.show.texts import side_by_side
from levelfield.show.words import best_first
from levelfield.stats.multiplicity import adjustment
from levelfield.stats.resampling import DEFAULT, Resampling
from levelfield.version import __version__


@dataclass(frozen=True)
class PartRow:
    """One group: its mean, and the means of its parts by name."""

    group: str
    mean: float
    parts: Mapping[str, PartMean]


@dataclass(frozen=True)
class PartTable:
    """The parts of one metric.

    Attributes:
        metric: its name.
        columns: part -> its weights, the same in all groups or `a to b`.
        rows: the groups, the best first.
        farthest: the mean farthest from 0, its sign aside.
    """

    metric: str
    columns: Mapping[str, str]
    rows: tuple[PartRow, ...]
    farthest: float

    def reach(self, mean: float) -> float:
        """Returns the length of a bar from the middle, in percent of half the width."""
        return round(100 * abs(mean) / self.farthest, 1) if self.farthest else 0.0


def part_table(summary: MetricSummary, means: Sequence[PartMean]) -> PartTable:
    """Returns the table of one metric."""
    weights: dict[str, list[float]] = {}
    for mean in means:
        weights.setdefault(mean.part, []).append(mean.weight)
    rows = [
        PartRow(g.group, g.mean.value, {m.part: m for m in means if m.group == g.group})
        for g in best_first(summary)
        if g.mean.n
    ]
    return PartTable(
        metric=summary.metric,
        columns={part: _range(values) for part, values in weights.items()},
        rows=tuple(rows),
        farthest=max(
            (abs(v) for r in rows for v in (r.mean, *(m.mean for m in r.parts.values()))),
            default=0.0,
        ),
    )


def _range(weights: Sequence[float]) -> str:
    low, high = f"{min(weights):.2f}", f"{max(weights):.2f}"
    return low if low == high else f"{low} to {high}"


__all__ = ["ScorePage", "ShownSample", "ValuePart", "render", "score_page", "write_page"]

_TITLE_FILES = 3
"""The number of file names that still make a title."""

_PARTS = re.compile(r"[^./_-]*[./_-]+(?:\d(?=[./_-]|$))?|[^./_-]+")
"""The parts of a name, each with the characters that end it; `distinct-2` keeps its 2."""

_LETTER, _NARROWEST = 0.6, 6.6  # rem: a bold letter of a head, and a column of values
_OTHER_COLUMNS, _PAGE = 33.6, 69.0  # rem: id, group, control and some text; the page at 1,200 px
_MARGINS, _NARROW_PAGE = 6.0, 52.0  # rem

FEW_CLUSTERS = 20
"""Below this many clusters the page warns that intervals are too narrow."""


@dataclass(frozen=True)
class ScorePage:
    """The contents of a page.

    Attributes:
        title: the page's heading.
        created: when, as it should be read.
        n: how many samples were measured.
        summaries: one a metric, in the order to show them.
        samples: the samples to list; of a large run some hundreds at most.
        shown_how: how they were chosen if they are not all, e.g. `the first 300`.
        inputs: those of them that lie side by side, one group an input.
        grouped_by: what the groups are, in one word: system, dataset, sentiment.
        files: where the samples come from.
        command: how the page was made; empty if not from a command line.
        notes: what a reader must know of the values: on how many texts judges are divided, say.
        resampling: what the summaries were made with.
        parts: metric -> the mean of each part by group, of metrics whose values are all made of the
            same parts.
        table: of the summaries; None leaves its columns without criteria.
        labels: systems × metrics and wanted labels; None if there are none.
    """

    title: str
    created: str
    n: int
    summaries: Sequence[MetricSummary]
    samples: Sequence[ShownSample]
    shown_how: str = ""
    inputs: Sequence[Sequence[ShownSample]] = ()
    grouped_by: str = "system"
    files: Sequence[str] = ()
    command: str = ""
    notes: Sequence[str] = ()
    resampling: Resampling = field(default=DEFAULT)
    parts: Mapping[str, Sequence[PartMean]] = field(default_factory=dict)
    table: ResultTable | None = None
    labels: ResultTable | None = None


def score_page(result: ScoreSummary, *, command: str = "") -> ScorePage:
    """Returns the page of a run.

    Args:
        command: how the run was made; empty if not from a command line.
    """
    return ScorePage(
        title=_title(result),
        created=now_in_words(),
        n=result.n,
        summaries=result.summaries,
        samples=result.gallery.shown() if result.gallery else (),
        shown_how=result.gallery.how() if result.gallery else "",
        inputs=result.gallery.inputs() if result.gallery else (),
        grouped_by=result.grouping.name,
        files=result.files,
        command=command,
        notes=result.notes,
        resampling=result.resampling,
        parts=result.parts,
        table=result.table(),
        labels=result.label_table(),
    )


def now_in_words() -> str:
    """Returns the time, as pages say when they were made."""
    return datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")


def _title(result: ScoreSummary) -> str:
    """Returns the files and the task, or how much was measured where a heading can't hold them."""
    names = [os.path.basename(os.path.normpath(file)) for file in result.files if file != "-"]  # noqa: PTH119
    metrics = words.count(len(result.summaries), "metric")
    table = result.table()
    compared = words.count(len(table.groups), table.by) if len(table.groups) > 1 else ""
    subject = ", ".join(names) if 0 < len(names) <= _TITLE_FILES else ""
    parts = (
        [subject, result.task]
        if subject or result.task
        else [f"{metrics} of {compared}" if compared else metrics]
    )
    return f"levelfield: {', '.join(filter(None, parts))}"


def render(report: ScorePage) -> str:
    """Returns the page as HTML. It loads nothing; every text of the report is escaped."""
    summaries = report.summaries
    comparisons = [(s, c) for s in summaries for c in s.comparisons]
    order = [g.group for g in words.best_first(summaries[0])] if summaries else []
    scales = {s.metric: scale_of(s) for s in summaries}
    systems = sorted(
        {shown.sample.system for texts in report.inputs for shown in texts}, key=natural
    )
    table = report.table or result_table(
        summaries,
        by=report.grouped_by,
        n=report.n,
        compares=bool(comparisons),
        resampling=report.resampling,
    )
    intervals = [g.mean for s in summaries for g in s.groups if not g.mean.why_no_interval]
    fewest = min((i.clusters for i in intervals), default=FEW_CLUSTERS)
    sample_metrics = [
        s.metric
        for s in summaries
        if any(s.metric in shown.values or s.metric in shown.undefined for shown in report.samples)
    ]
    widths = column_widths(sample_metrics)
    html = _template().render(
        report=report,
        version=__version__,
        order=order,
        figures={s.metric: means_figure(s) for s in summaries},
        scales=scales,
        texts=side_by_side(report.inputs, order if set(systems) <= set(order) else systems, scales),
        numbers={shown.sample.id: i for i, shown in enumerate(report.samples)},
        table=table,
        best={
            (column.summary.metric, group)
            for column in table.columns
            for group, cell in column.cells.items()
            if cell.best
        },
        widths=widths,
        cards_below=max(_NARROW_PAGE, _MARGINS + _OTHER_COLUMNS + sum(widths.values())),
        sample_metrics=sample_metrics,
        comparisons=comparisons,
        compared=sum(c.p == c.p for _, c in comparisons),
        rows=rows(report.samples),
        axes=score_axes(report.samples),
        undefined=_undefined(report),
        part_tables=[
            part_table(s, report.parts[s.metric]) for s in summaries if s.metric in report.parts
        ],
        fewest_clusters=fewest if fewest < FEW_CLUSTERS else None,
    )
    return html + "\n"


def write_page(path: str | os.PathLike[str], report: ScorePage) -> None:
    """Writes the page to a file, whole or not at all."""
    html = render(report)
    with atomic_writer(path) as file:
        file.write(html)


def _undefined(report: ScorePage) -> list[tuple[str, str, int, list[tuple[int, str]]]]:
    """Returns metric, reason, count, and the shown samples concerned: row number, id."""
    places: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for number, shown in enumerate(report.samples):
        for metric, reason in shown.undefined.items():
            places.setdefault((metric, reason), []).append((number, shown.sample.id))
    return [
        (s.metric, reason, n, places.get((s.metric, reason), []))
        for s in report.summaries
        for reason, n in s.reasons.items()
    ]


def _breakable(name: str) -> Markup:
    """A metric's name that may be broken between its parts."""
    return Markup("<wbr>").join(_PARTS.findall(name))


def column_widths(metrics: Sequence[str]) -> dict[str, float]:
    """Returns metric -> width of its column in rem, so that no word of its head is broken.

    Empty if the columns do not fit on a page: values then appear below their texts.
    """
    longest = {m: max(map(len, _PARTS.findall(m)), default=0) for m in metrics}
    widths = {m: max(_NARROWEST, _LETTER * n + 2) for m, n in longest.items()}
    return widths if _OTHER_COLUMNS + sum(widths.values()) <= _PAGE else {}


def environment() -> Environment:
    """Returns the environment of all templates: escaping, and filters that word numbers."""
    templates = Environment(
        loader=PackageLoader("levelfield.show"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "breakable": _breakable,
        "name": words.shown_name,
        "count": words.count,
        "p": p_value,
        "best_first": words.best_first,
        "direction": in_words,
        "upper_first": lambda text: text[:1].upper() + text[1:],
    }
    templates.globals |= {"nan": float("nan")}
    return templates


@cache
def _template() -> Template:
    pages = environment()
    pages.globals |= {
        "headline": words.headline,
        "ends": words.ends,
        "conclusion": conclusion,
        "detectable": detectable,
        "adjustment": adjustment,
    }
    return pages.get_template("page.html.j2")
