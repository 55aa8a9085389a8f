"""Tables of `levelfield study` for people on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from levelfield.core.strings import one_line
from levelfield.scoring.standing import Scale
from levelfield.show.terminal import console
from levelfield.show.terminal.blocks import print_table
from levelfield.show.terminal.score_tables import print_pairs
from levelfield.study.audit.findings import counted_findings
from levelfield.study.report import results_table

if TYPE_CHECKING:
    from levelfield.study.aggregate.results import StudySummary
    from levelfield.study.audit.findings import AuditReport, Finding
    from levelfield.study.status import StudyStatus

_MOST_LINES = 20
_STYLES = {"serious": "bold red", "warning": "yellow", "note": "dim"}


def print_status(status: StudyStatus) -> None:
    """Prints a row a system: its cells by state, its texts, and what they cost."""
    print_table(console(), status.table())


def problem_lines(status: StudyStatus) -> list[str]:
    """Returns what was wrong with answers, one line each."""
    lines = [f"{cell.key}: {problem}" for cell in status.cells for problem in cell.problems]
    more = len(lines) - _MOST_LINES
    return [f"problem: {line}" for line in lines[:_MOST_LINES]] + [
        f"… and {more:,} more problems; --json has all"
    ] * (more > 0)


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
        Text(f"          {example.id}: {one_line(example.text) or '(nothing)'}", "dim")
        for example in finding.examples
    ]
    return [head, Text(f"        {finding.what}"), *examples]


def print_summary(summary: StudySummary, *, pairs: bool = False) -> None:
    """Prints a table a kind of control: mean, deviation and rank, as the paper prints them.

    Args:
        pairs: whether every comparison of two systems is printed.
    """
    out = console()
    for control in summary.controls:
        out.print(Text(control.control, "bold"))
        print_table(out, results_table(control, summary))
        for measure, comparisons in control.comparisons.items() if pairs else ():
            print_pairs(
                out,
                measure,
                comparisons,
                direction=control.measure(measure).direction,
                scale=Scale(control.places(measure), scientific=False),
                family=summary.resampling.family,
            )
        out.print()
