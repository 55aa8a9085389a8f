"""Tables of `levelfield study` for people on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from levelfield.cli.terminal import console, say
from levelfield.study.aggregate.columns import grouped_columns
from levelfield.study.audit.report import counted_findings
from levelfield.study.status import STATES

if TYPE_CHECKING:
    from levelfield.study.aggregate.results import ControlSummary, StudySummary
    from levelfield.study.audit.findings import Finding
    from levelfield.study.audit.report import AuditReport
    from levelfield.study.status import StudyStatus

_MOST_LINES = 20
_STYLES = {"serious": "bold red", "warning": "yellow", "note": "dim"}


def print_status(status: StudyStatus) -> None:
    """Prints a row a system: its cells by state, its texts, and what they cost."""
    states = [state for state in STATES if status.counts[state]]
    table = Table(box=None, pad_edge=False)
    table.add_column("system")
    for heading in (*states, "texts", "s a text", "peak MiB"):
        table.add_column(heading, justify="right")
    for system in status.systems:
        table.add_row(
            Text(system.system),
            *(f"{system.states[s]:,}" if system.states[s] else "–" for s in states),
            f"{system.answered:,} of {system.asked:,}",
            "–" if system.seconds is None else f"{system.seconds:.3g}",
            "–" if system.peak_bytes is None else f"{system.peak_bytes / 2**20:,.0f}",
        )
    console().print(table)


def say_problems(status: StudyStatus) -> None:
    """Says what was wrong with answers, one line each."""
    lines = [f"{cell.key}: {problem}" for cell in status.cells for problem in cell.problems]
    for line in lines[:_MOST_LINES]:
        say(f"problem: {line}")
    if len(lines) > _MOST_LINES:
        say(f"… and {len(lines) - _MOST_LINES:,} more problems; --json has all")


def print_findings(audit: AuditReport) -> None:
    """Prints each finding with its examples, and their number."""
    out = console()
    for finding in audit.findings:
        for line in _finding(finding):
            out.print(line, soft_wrap=True)
    out.print(counted_findings(audit.findings))


def _finding(finding: Finding) -> list[Text]:
    places = [place for place in (finding.system, finding.dataset, finding.control) if place]
    where = ", ".join(places + ([f"seed {finding.seed}"] if finding.seed is not None else []))
    head = Text.assemble(
        (f"{finding.severity:8}", _STYLES[finding.severity]),
        (f"{finding.check}", "bold"),
        f"  {where}" if where else "",
    )
    examples = [
        Text(f"          {example.id}: {' '.join(example.text.split()) or '(nothing)'}", "dim")
        for example in finding.examples
    ]
    return [head, Text(f"        {finding.what}"), *examples]


def print_summary(summary: StudySummary) -> None:
    """Prints a table a kind of control: mean, deviation and rank, as the paper prints them."""
    out = console()
    for control in summary.controls:
        out.print(Text(control.control, "bold"))
        out.print(_results(control))
        for note in control.notes:
            out.print(Text(f"  {note}", "dim"), soft_wrap=True)
        out.print()


def _results(control: ControlSummary) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("system")
    columns = [column for _, group in grouped_columns(control) for column in group]
    for column in columns:
        table.add_column(Text(column.name.rpartition("/")[2]), justify="right")
    for system in control.systems:
        cells = [_entry(control, system, column.measure.name) for column in columns]
        table.add_row(Text(system), *cells)
    return table


def _entry(control: ControlSummary, system: str, measure: str) -> Text:
    entry = control.entry(system, measure)
    if entry is None or entry.mean != entry.mean:
        return Text("–")
    places = control.places(measure)
    rank = f" [{entry.rank}]" if entry.rank is not None else ""
    return Text(f"{entry.mean:.{places}f} ({entry.deviation:.{places}f}){rank}")
