"""The page of a study: who is best under what, how sure that is, and what the audit found."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from jinja2 import Template
from markupsafe import Markup

from levelfield.core.errors import UserError
from levelfield.io import atomic_writer
from levelfield.io.tables import csv_text
from levelfield.scoring.comparison import (
    NOT_SHOWN,
    WITHHELD,
    Comparison,
    conclusion,
    grounds,
    verdict,
)
from levelfield.scoring.gallery import ShownSample
from levelfield.scoring.sensitivity import detectable
from levelfield.scoring.standing import Scale
from levelfield.show import words
from levelfield.show.page import environment, now_in_words
from levelfield.show.study_figures import (
    error_of,
    frontier,
    quality_and_cost,
    rank_lines,
    value_bars,
    value_colours,
)
from levelfield.show.texts import SideTable, side_by_side
from levelfield.study.aggregate.results import (
    ControlSummary,
    SpreadBetween,
    StudySummary,
    TableEntry,
    grouped_columns,
)
from levelfield.study.audit.findings import SEVERITIES, Finding, counted_findings
from levelfield.study.observations import ALL, AVERAGE, BOTH, MAJORITY, Measure
from levelfield.study.report import (
    StudyReport,
    cost_table,
    number_rows,
    number_schema,
    results_table,
    study_latex,
)
from levelfield.version import __version__

_HEADLINE_KINDS = (BOTH, AVERAGE, MAJORITY)
_EXAMPLE = 300


@dataclass(frozen=True)
class StudyPage:
    """The contents of the page.

    Attributes:
        title: its heading.
        created: when, as it should be read.
        summary: the aggregated study.
        findings: of the audit; None if it was not run.
        texts: kind of control -> drawn requests, each with the texts of all systems.
        notes: what else a reader must know.
        files: where texts and results come from.
        command: how the page was made; empty if not from a command line.
    """

    title: str
    created: str
    summary: StudySummary
    findings: Sequence[Finding] | None = None
    texts: Mapping[str, Sequence[Sequence[ShownSample]]] = field(default_factory=dict)
    notes: Sequence[str] = ()
    files: Sequence[str] = ()
    command: str = ""


def render_study_page(report: StudyPage) -> str:
    """Returns the page as HTML. It loads nothing; every text of the report is escaped."""
    summary = report.summary
    findings = list(report.findings or ())
    html = _template().render(
        report=report,
        summary=summary,
        version=__version__,
        ALL=ALL,
        systems=list(dict.fromkeys(s for c in summary.controls for s in c.systems)),
        datasets=list(dict.fromkeys(d for c in summary.controls for d in c.datasets)),
        seeds=sorted({s for c in summary.controls for s in c.seeds}),
        findings=[
            (severity, [f for f in findings if f.severity == severity]) for severity in SEVERITIES
        ],
        level=f"{100 * summary.resampling.level:g}",
        intervals=any(
            not e.interval.why_no_interval for c in summary.controls for e in c.entries.values()
        ),
        example=_EXAMPLE,
    )
    return html + "\n"


def write_study_page(path: str | os.PathLike[str], report: StudyPage) -> None:
    """Writes the page to a file, whole or not at all."""
    html = render_study_page(report)
    with atomic_writer(path) as file:
        file.write(html)


def main_measure(control: ControlSummary) -> Measure | None:
    """Returns the measure of the figures: all attributes at once, else the average of the judges,
    else the first keyword coverage, else the first measure."""
    by_name = {m.name: m for m in control.measures}
    keywords = [m for m in control.measures if m.name.startswith("keywords.")]
    first = [by_name[n] for n in (BOTH, AVERAGE) if n in by_name]
    return next(iter([*first, *keywords, *control.measures]), None)


def headline_measures(control: ControlSummary) -> list[Measure]:
    """Returns the measures with a headline, those of control first; single judges have none."""
    measures = [m for m in control.measures if m.kind != "judge"]
    return sorted(
        measures,
        key=lambda m: _HEADLINE_KINDS.index(m.kind) if m.of_control else len(_HEADLINE_KINDS),
    )


def scale(control: ControlSummary, measure: str) -> Scale:
    """Returns a scale with the decimals that the ranks of a measure rest on."""
    return Scale(control.places(measure), False)


def headline(control: ControlSummary, measure: Measure) -> Markup:
    """Says who is best under a measure, and whether the difference to the next is shown."""
    write, unit = scale(control, measure.name), " %" if measure.percent else ""
    entries = [e for s in control.systems if (e := control.entry(s, measure.name))]
    ranked = sorted((e for e in entries if e.rank), key=lambda e: e.rank or 0)
    defined = sorted((e for e in entries if not math.isnan(e.mean)), key=lambda e: -e.mean)
    if defined and measure.direction == "none":
        return words.span_of_means(
            [
                Markup("{} for {}").format(write(e.mean) + unit, words.bold_name(e.system))
                for e in (defined[0], defined[-1])[: len(defined)]
            ]
        )
    if not ranked:
        return Markup("No value is defined.")
    best = ranked[0]
    value = Markup('{}{} <span class="aside">({})</span>').format(
        write(best.mean), unit, around(best, write)
    )
    if len(ranked) == 1:
        sentences = [Markup("{}: {}.").format(words.bold_name(best.system), value)]
    elif ranked[1].rank == 1:
        names = Markup(", ").join(words.bold_name(e.system) for e in ranked if e.rank == 1)
        sentences = [Markup("{} share the best mean: {}.").format(names, value)]
    else:
        following = [e for e in ranked if e.rank == ranked[1].rank]
        sentences = [Markup("{} is best: {}.").format(words.bold_name(best.system), value)]
        for e in following[:2]:
            sentences.append(_against(control, measure, best, e, write))
    lacking = [e.system for e in ranked[:2] if e.system in control.incomplete]
    sentences += [
        Markup("{} has nothing for {}.").format(words.bold_name(s), control.incomplete[s])
        for s in lacking
    ]
    return Markup(" ").join(sentences)


def _against(
    control: ControlSummary, measure: Measure, best: TableEntry, other: TableEntry, write: Scale
) -> Markup:
    pair = {best.system, other.system}
    comparisons = control.comparisons.get(measure.name, ())
    c = next((c for c in comparisons if {c.a, c.b} == pair), None)
    next_ = Markup("Next is {} with {}").format(
        words.bold_name(other.system), write(other.mean) + (" %" if measure.percent else "")
    )
    if c is None or math.isnan(c.p_adjusted):
        reason = c.note if c and c.note else best.interval.why_no_interval or "it was not compared"
        return Markup('{}; no test of the difference <span class="aside">({})</span>.').format(
            next_, reason
        )
    outcome = verdict(c, measure.direction)
    shown = (
        "the difference is not shown"
        if outcome == NOT_SHOWN
        else "undefined values could reverse the difference"
        if outcome == WITHHELD
        else "the difference is shown"
        if outcome.startswith(f"{best.system} > ")
        else f"but on {grounds([c])} it is the better one"
    )
    return Markup('{}; {} <span class="aside">({}, n = {}; {})</span>.').format(
        next_,
        shown,
        words.difference_with_p(c, best.system, write),
        f"{c.inputs:,}",
        c.note,
    )


def around(e: TableEntry, write: Scale) -> str:
    """Returns the interval around a mean, else the deviation of its runs."""
    ends = error_of(e)
    if ends is None:
        return e.interval.why_no_interval
    if e.interval.why_no_interval:
        return f"deviation {write(e.deviation)}"
    return f"{write(ends[0])} to {write(ends[1])}"


def spread(s: SpreadBetween, write: Scale) -> str:
    """Returns a deviation, or why there is none."""
    return s.why or write(s.deviation)


def split_by(control: ControlSummary, measure: Measure) -> list[tuple[str, Markup]]:
    """Returns each data set that has bars, with them."""
    figures = [(d, value_bars(control, measure, d)) for d in control.datasets]
    return [(d, figure) for d, figure in figures if figure]


def frontiers(levels: Sequence[ControlSummary]) -> list[tuple[str, Markup]]:
    """Returns each measure of fluency with the figure of control against it, over budgets."""
    main = main_measure(levels[0])
    fluency = [m for m in levels[0].measures if m.name.startswith("fluency.")]
    figures = [(m.name, frontier(levels, main, m)) for m in fluency if main and m != main]
    return [(name, figure) for name, figure in figures if figure]


def sides(c: Comparison, control: ControlSummary, measure: str) -> str:
    """Returns who is better in a comparison, in words."""
    return conclusion(c, control.measure(measure).direction)


def texts_of(report: StudyPage, control: ControlSummary) -> SideTable | None:
    """Returns the drawn texts of a kind of control side by side, with their values."""
    inputs = report.texts.get(control.control, ())
    metrics = dict.fromkeys(metric for texts in inputs for s in texts for metric in s.values)
    places = Scale(3, False)
    return side_by_side(inputs, control.systems, dict.fromkeys(metrics, places))


@cache
def _template() -> Template:
    pages = environment()
    pages.globals |= {
        "counted_findings": counted_findings,
        "grouped_columns": grouped_columns,
        "main_measure": main_measure,
        "headline_measures": headline_measures,
        "scale": scale,
        "results_table": results_table,
        "headline": headline,
        "around": around,
        "spread": spread,
        "split_by": split_by,
        "value_colours": value_colours,
        "rank_lines": rank_lines,
        "quality_and_cost": quality_and_cost,
        "cost_table": cost_table,
        "frontiers": frontiers,
        "sides": sides,
        "detectable": detectable,
        "texts_of": texts_of,
    }
    return pages.get_template("study.html.j2")


FILES = ("page.html", "numbers.csv", "tables.tex", "tables.md")


def write_study_report(folder: Path, report: StudyReport, *, command: str = "") -> None:
    """Writes `FILES` to a folder, each whole or not at all.

    Args:
        command: how the report was made; empty if not from a command line.

    Raises:
        UserError: the folder or a file can't be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: can't be made: {error.strerror}") from error
    page = StudyPage(
        title=report.study,
        created=now_in_words(),
        summary=report.summary,
        findings=report.findings,
        texts=report.texts,
        files=[report.path],
        command=command,
    )
    write_study_page(folder / "page.html", page)
    write_study_csv(folder / "numbers.csv", report.summary)
    write_study_latex(folder / "tables.tex", report.summary)
    with atomic_writer(folder / "tables.md") as file:
        file.write(report.to_markdown())


def write_study_csv(path: str | os.PathLike[str], summary: StudySummary) -> None:
    """Writes the numbers as `number_rows` has them for spreadsheets, undefined ones empty."""
    rows = (["" if v is None else v for v in row.values()] for row in number_rows(summary))
    with atomic_writer(path) as file:
        file.write(csv_text([list(number_schema(summary)), *rows], end="\n"))


def write_study_latex(path: str | os.PathLike[str], summary: StudySummary) -> None:
    """Writes the tables for documents that load booktabs."""
    with atomic_writer(path) as file:
        file.write(study_latex(summary))
