"""The page of metrics against ratings: how far they agree, which agree best, what shakes them."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from jinja2 import Template
from markupsafe import Markup

from levelfield.agree.compare import MetricComparison, Ranking, test_notes
from levelfield.agree.correlate import NAMES, Correlation, numbers_table
from levelfield.agree.evaluation import PARTED, MetaEvaluation
from levelfield.io import atomic_writer
from levelfield.scoring.standing import three_decimals
from levelfield.show.correlate_figures import (
    evaluator_figure,
    quality_figure,
    scatter,
    series,
    series_marks,
    system_figure,
)
from levelfield.show.figures import series_mark
from levelfield.show.page import environment
from levelfield.stats.estimands import Statistic
from levelfield.stats.estimate import Estimate
from levelfield.version import __version__

MOST_SCATTERS = 8
"""The most scatter plots of an aspect; those of the highest correlations are drawn."""


@dataclass(frozen=True)
class CorrelateReport:
    """The contents of the page.

    Attributes:
        title: its heading.
        created: when, as it should be read.
        evaluation: what it shows.
        notes: what a reader must know of the join.
        files: where scores and ratings come from.
        command: how the page was made; empty if not from a command line.
    """

    title: str
    created: str
    evaluation: MetaEvaluation
    notes: Sequence[str] = ()
    files: Sequence[str] = ()
    command: str = ""


class Scatter(NamedTuple):
    """One plot and its caption."""

    metric: str
    figure: Markup
    caption: str


class Difference(NamedTuple):
    """A cell of the matrix of metrics: the row's agreement minus the column's.

    Attributes:
        value: NaN where they are not compared.
        p: adjusted.
        shown: `more` or `less` if the row is shown to agree so, else empty.
        r: correlation of the two metrics with each other.
    """

    value: float
    p: float
    shown: str
    r: float


class Matrix(NamedTuple):
    """The metrics of an aspect against each other; the best agreeing first, None on the diagonal.

    Attributes:
        metrics: of rows and columns.
        cells: (metrics, metrics).
    """

    metrics: tuple[str, ...]
    cells: tuple[tuple[Difference | None, ...], ...]


def matrix(evaluation: MetaEvaluation, ranking: Ranking) -> Matrix:
    """Returns the comparisons on an aspect as a matrix."""
    metrics = tuple(m for cluster in ranking.clusters for m in cluster)
    differences: dict[tuple[str, str], Difference] = {}
    for c in evaluation.comparisons.comparisons:
        if c.aspect == ranking.aspect:
            better = c.better(evaluation.alpha)
            for row, column, sign in ((c.a, c.b, 1), (c.b, c.a, -1)):
                shown = "" if better is None else "more" if better[0] == row else "less"
                differences[row, column] = Difference(
                    sign * difference_of(c), c.p_adjusted, shown, c.r_ab
                )
    return Matrix(metrics, tuple(tuple(differences.get((a, b)) for b in metrics) for a in metrics))


def difference_of(c: MetricComparison) -> float:
    """Returns how much more the first metric of a comparison agrees, in the terms of its test."""
    return c.swapped.difference if c.test == "true means" else c.r_a - c.r_b


def render_correlate_page(report: CorrelateReport) -> str:
    """Returns the page as HTML. It loads nothing; every text of the report is escaped."""
    evaluation = report.evaluation
    rows = {(c.aspect, c.metric): c for c in evaluation.rows()}
    table = evaluation.table
    stats: list[Statistic] = list(next(iter(rows.values())).estimates) if rows else []
    marks = series_marks(series(evaluation).tolist()) if evaluation.level == "segment" else {}
    html = _template().render(
        report=report,
        evaluation=evaluation,
        version=__version__,
        aspects=list(table.aspects),
        metrics=list(table.metrics),
        rows=rows,
        numbers=numbers_table(
            evaluation.correlations,
            level=evaluation.resampling.level,
            group=evaluation.group if evaluation.has_row_per_group else "",
            system_means=evaluation.level == "system",
            within=evaluation.within,
        ),
        names=NAMES,
        heat=[s for s in stats if s in ("pearson", "spearman", "kendall", "tau-like")],
        scatters={a: _scatters(evaluation, a, rows, stats) for a in table.aspects},
        most_scatters=MOST_SCATTERS,
        marks={name: mark.svg() for name, mark in marks.items()} if len(marks) > 1 else {},
        drift_marks={m: series_mark(i).svg() for i, m in enumerate(table.metrics)},
        drift_figures={
            a: [
                (title, figure)
                for title, figure in (
                    ("by system", system_figure(evaluation.drifts, a)),
                    ("by quality", quality_figure(evaluation.drifts, a)),
                    ("by number of evaluators", evaluator_figure(evaluation.drifts, a)),
                )
                if figure
            ]
            for a in (table.aspects if evaluation.drifts else ())
        },
        tested=[a for a in table.aspects if evaluation.comparisons.tested(a)],
        rankings={r.aspect: r for r in evaluation.comparisons.rankings},
        matrices={r.aspect: matrix(evaluation, r) for r in evaluation.comparisons.rankings},
        clusters=len(set(table.clusters.tolist())),
    )
    return html + "\n"


def write_correlate_page(path: str | os.PathLike[str], report: CorrelateReport) -> None:
    """Writes the page to a file, whole or not at all."""
    html = render_correlate_page(report)
    with atomic_writer(path) as file:
        file.write(html)


def _scatters(
    evaluation: MetaEvaluation,
    aspect: str,
    rows: dict[tuple[str, str], Correlation],
    stats: Sequence[Statistic],
) -> list[Scatter]:
    """Returns the plots of an aspect, in the order of the metrics."""

    def strength(metric: str) -> float:
        value = rows[aspect, metric].estimates[stats[0]].value
        return -1.0 if math.isnan(value) else abs(value)

    metrics = list(evaluation.table.metrics)
    shown = set(sorted(metrics, key=strength, reverse=True)[:MOST_SCATTERS])
    plots = []
    for metric in (m for m in metrics if m in shown):
        c = rows[aspect, metric]
        e = c.estimates[stats[0]]
        if e.why_undefined:
            continue
        caption = f"{NAMES[stats[0]]} {three_decimals(e.value)} {ends(e)}, {_size(c)}"
        figure = scatter(evaluation, metric, aspect, label=f"{metric} against {aspect}: {caption}")
        if figure:
            plots.append(Scatter(metric, figure, caption))
    return plots


def _size(c: Correlation) -> str:
    return f"{c.systems:,} systems" if c.systems else f"n = {c.n:,}"


def ends(e: Estimate) -> str:
    """Returns the interval, or why there is none."""
    if e.why_undefined:
        return f"({e.why_undefined})"
    if e.why_no_interval:
        return f"(no interval: {e.why_no_interval})"
    return f"[{three_decimals(e.low)}, {three_decimals(e.high)}]"


def shade(value: float) -> str:
    """Returns the share of colour in a correlation's background, in percent, for `color-mix`."""
    return "0" if math.isnan(value) else f"{round(100 * min(1.0, abs(value)))}"


def in_short(evaluation: MetaEvaluation, ranking: Ranking) -> Markup:
    """Returns the results on an aspect in a sentence or two."""
    sentences: list[Markup] = []
    if not ranking.r:
        whys = "; ".join(f"{m}: {reason}" for m, reason in ranking.not_ranked.items())
        return Markup("No metric can be compared ({}).").format(whys)
    best = next(iter(ranking.r))
    estimates = {
        c.metric: c.estimates.get(evaluation.by)
        for c in evaluation.rows()
        if c.aspect == ranking.aspect
    }
    e = estimates.get(best)
    interval = f" {ends(e)}" if e is not None else ""
    value = ranking.r[best] if e is None else e.value
    sentences.append(
        Markup('<b>{}</b> agrees best: {} <span class="aside">{}{}</span>.').format(
            best, three_decimals(value), NAMES[evaluation.by], interval
        )
        if len(ranking.r) > 1
        else Markup('{} <span class="aside">{}{}</span>.').format(
            three_decimals(value), NAMES[evaluation.by], interval
        )
    )
    inside = evaluation.within_of(best, ranking.aspect)
    if inside is not None:
        sentences.append(
            Markup('Within systems it is {} <span class="aside">{}</span>.').format(
                three_decimals(inside.value), ends(inside)
            )
        )
    if parted := evaluation.parted(ranking.aspect):
        sentences.append(Markup("<b>{}</b>: {}.").format(", ".join(parted), PARTED))
    if len(ranking.r) > 1:
        open_ = [
            c
            for c in evaluation.comparisons.comparisons
            if c.aspect == ranking.aspect
            and c.a == best
            and c.better(evaluation.alpha) != (best, c.b)
        ]
        if not open_:
            sentences.append(Markup("It is shown to agree better than every other metric."))
        untested: dict[str, list[str]] = {}
        for c in open_:
            untested.setdefault(c.swapped.why_undefined, []).append(c.b)
        for reason, metrics in untested.items():
            names = Markup(", ").join(Markup("<b>{}</b>").format(m) for m in metrics[:3])
            more = f" and {len(metrics) - 3} more" if len(metrics) > 3 else ""
            sentences.append(
                Markup("It is not compared with {}{} ({}).").format(names, more, reason)
                if reason
                else Markup("No difference from {}{} is shown.").format(names, more)
            )
    if ranking.not_ranked:
        whys = "; ".join(f"{m} ({reason})" for m, reason in ranking.not_ranked.items())
        sentences.append(Markup("Not compared: {}.").format(whys))
    return Markup(" ").join(sentences)


@cache
def _template() -> Template:
    pages = environment()
    pages.filters |= {"number": three_decimals, "ends": ends, "shade": shade}
    pages.globals |= {
        "in_short": in_short,
        "test_notes": test_notes,
        "difference_of": difference_of,
    }
    return pages.get_template("correlate.html.j2")
