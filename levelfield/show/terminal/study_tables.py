"""Tables of `levelfield study` for people on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from levelfield.scoring.standing import Scale
from levelfield.show.terminal import console, plain_table
from levelfield.show.terminal.blocks import BlockColumn, print_blocks, print_wrapped
from levelfield.show.terminal.score_tables import BEST, marked, print_pairs
from levelfield.study.aggregate.results import Column, grouped_columns
from levelfield.study.audit.findings import counted_findings
from levelfield.study.cells import bytes_in_words
from levelfield.study.status import STATES

if TYPE_CHECKING:
    from levelfield.study.aggregate.results import ControlSummary, StudySummary
    from levelfield.study.audit.findings import AuditReport, Finding
    from levelfield.study.status import StudyStatus

_MOST_LINES = 20
_STYLES = {"serious": "bold red", "warning": "yellow", "note": "dim"}


def print_status(status: StudyStatus) -> None:
    """Prints a row a system: its cells by state, its texts, and what they cost."""
    states = [state for state in STATES if status.counts[state]]
    names = ["technique", "base"] if status.techniques else []
    costs = ["s a text", *(["passes a token"] if status.techniques else []), "peak memory"]
    table = plain_table("system", *names, *(f">{head}" for head in (*states, "texts", *costs)))
    for system in status.systems:
        passes = "–" if system.passes is None else f"{system.passes:.3g}"
        table.add_row(
            Text(system.system),
            *(Text(name) for name in (system.technique or ("–", "–")) if names),
            *(f"{system.states[s]:,}" if system.states[s] else "–" for s in states),
            f"{system.answered:,} of {system.asked:,}",
            "–" if system.seconds is None else f"{system.seconds:.3g}",
            *([passes] if status.techniques else []),
            bytes_in_words(system.peak_bytes),
        )
    console().print(table)


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
        Text(f"          {example.id}: {' '.join(example.text.split()) or '(nothing)'}", "dim")
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
        columns = [
            _column(control, column, above)
            for above, group in grouped_columns(control)
            for column in group
        ]
        print_blocks(out, "system", control.systems, columns, fixed=_techniques(control, summary))
        legend = ["mean (deviation) [rank]", *summary.legend(control, BEST)]
        for note in ("; ".join(legend), *control.notes):
            print_wrapped(out, note)
        for measure, comparisons in control.comparisons.items() if pairs else ():
            print_pairs(
                out,
                measure,
                comparisons,
                higher_is_better=control.measure(measure).higher_is_better,
                scale=Scale(control.places(measure), scientific=False),
            )
        out.print()


def _techniques(control: ControlSummary, summary: StudySummary) -> list[BlockColumn]:
    """The columns of techniques and bases; none if no system has one."""
    columns = []
    for name, cells in summary.technique_columns(control):
        width = max(map(cell_len, cells))
        texts = [Text(cell + " " * (width - cell_len(cell))) for cell in cells]
        columns.append(BlockColumn("", name, [[text] for text in texts]))
    return columns


def _column(control: ControlSummary, column: Column, above: str) -> BlockColumn:
    measure = column.measure
    standings = control.standings(measure.name)
    scale = Scale(control.places(measure.name), scientific=False)

    def cell(system: str) -> list[Text]:
        entry, standing = control.entry(system, measure.name), standings.get(system)
        if entry is None or standing is None:
            return [Text("–")]
        place = f"({scale(entry.deviation)}) [{standing.rank}] {standing.letters_name}".rstrip()
        return [marked(scale(entry.mean), best=standing.best), Text(place)]

    arrow = "↑" if measure.higher_is_better else "↓"
    return BlockColumn(above, f"{column.name} {arrow}", [cell(s) for s in control.systems])
