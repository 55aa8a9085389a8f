"""Reproductions on a terminal: tables, questions and defaults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from rich.table import Table
from rich.text import Text

from levelfield.show.terminal import console, plain_table
from levelfield.show.terminal.blocks import print_table, print_wrapped
from levelfield_reproductions import (
    PAPERS,
    QUESTIONS,
    RATED_SETS,
    DefaultsReport,
    Derived,
    Fact,
    Gap,
    Grid,
    Outcome,
    PaperReport,
    QuestionAnswer,
    Reproduction,
    Verdict,
    read_paper,
    tally,
)
from levelfield_reproductions.agreement import (
    in_no_table,
    left_out,
    left_out_here,
    notes,
    role,
    size,
    table_of,
)


def print_answers(answers: Sequence[QuestionAnswer]) -> None:
    """Prints every grid with the notes on its numbers."""
    out = console()
    for a in answers:
        out.print(Text(f"{a.question.id}  {a.question.title}", "bold"))
        if a.why:
            out.print(Text(f"  can't be answered: {a.why}"), soft_wrap=True)
        for grid in a.grids:
            out.print()
            out.print(Text(grid.title, "bold"))
            out.print(_lines(grid))
            for note in grid.notes:
                out.print(Text(f"  {note}", "dim"), soft_wrap=True)
        for signature in a.signatures.values():
            out.print(Text(f"  {signature}", "dim"), soft_wrap=True)
        out.print()


def _lines(grid: Grid) -> Table:
    """Returns a grid, both ends of an interval in one column."""
    lines = Table(box=None, pad_edge=False)
    is_end = [name.split(" ")[-1] in ("low", "high") for name in grid.columns]
    for i, name in enumerate(grid.columns):
        if not is_end[i]:
            words = any(isinstance(row[i], str) for row in grid.rows)
            lines.add_column(name, justify="left" if words else "right", no_wrap=True)
        elif name.endswith("low"):
            lines.add_column("95 % interval", justify="right", no_wrap=True)
    for row in grid.rows:
        cells = []
        for i, value in enumerate(row):
            if not is_end[i]:
                is_p = grid.columns[i].split(" ")[0] == "p"
                cells.append(_p(value) if is_p else _cell(value))
            elif grid.columns[i].endswith("low"):
                ends = (value, row[i + 1])
                cells.append("–" if None in ends else " … ".join(map(_cell, ends)))
        lines.add_row(*map(Text, cells))
    return lines


def _p(value: str | float | None) -> str:
    """Returns p for a table; that of a permutation test is never 0."""
    return "<0.001" if isinstance(value, float) and value < 0.0005 else _cell(value)


def _cell(value: str | float | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return (f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}").replace("-", "−")
    return str(value)


_MODEL = "a model"


def print_report(report: PaperReport, *, is_list: bool) -> None:
    """Prints the answers to questions, or one line per table, or every number of tables.

    Args:
        is_list: whether tables are only listed with their states.
    """
    if report.answers:
        print_answers(report.answers)
    elif is_list:
        print_list(report.reproductions)
    else:
        print_tables(report.reproductions, report.facts)


def print_list(done: Sequence[Reproduction]) -> None:
    """Prints a line per table."""
    out = console()
    grid = plain_table("id", "table", "state")
    for name in PAPERS:
        paper = read_paper(name)
        grid.add_row(name, f"{paper.authors} {paper.year}", "", style="bold")
        for r in (r for r in done if r.table.paper == name):
            grid.add_row(r.table.id, r.table.title, _state(r))
        for question in (q for q in QUESTIONS if q.paper == name):
            grid.add_row(question.id, question.title, "answered again")
    grid.add_row("defaults", "Every metric with its defaults, against people", "", style="bold")
    for rated in RATED_SETS:
        here = "not here" if rated.gap() else "here"
        grid.add_row(f"defaults.{rated.id}", rated.title, f"{here} ({', '.join(rated.roles)})")
    out.print(grid)
    needs = Counter(_need(o.derived.gap) for r in done for o in r.outcomes if o.derived.gap)
    lacking = ", ".join(f"{n:,} for {need}" for need, n in needs.most_common())
    for line in (
        _summary(tally(done)),
        *([f"can't be derived: {lacking}"] if lacking else []),
        "what each of them lacks, and the command that provides it: levelfield reproduce "
        f"{done[0].table.id}",
    ):
        out.print(line, style="dim", soft_wrap=True)


def _need(gap: Gap) -> str:
    if gap.files:
        return "files that are not here"
    if " --model " in gap.command:
        return _MODEL
    return "what was not released"


def _state(r: Reproduction) -> str:
    needy = sum(o.derived.gap is not None and _need(o.derived.gap) == _MODEL for o in r.outcomes)
    return _summary(r.counts) + (f" ({needy:,} without a model)" if needy else "")


def _summary(counts: Mapping[Verdict, int]) -> str:
    """Returns `4 same, 1 differs, 10 can't be derived`."""
    return ", ".join(f"{n:,} {verdict.value}" for verdict, n in counts.items() if n)


def print_tables(done: Sequence[Reproduction], facts: Sequence[Fact]) -> None:
    """Prints every number of one table; of several, those that need a look."""
    out = console()
    whole = len({(r.table.paper, r.table.number) for r in done}) == 1
    quiet = () if whole else (Verdict.SAME, Verdict.CANNOT)
    for r in done:
        out.print(Text(f"{r.table.id}  {r.table.title}", "bold"))
        whys = [reason for o in r.outcomes if (reason := _why(o.derived))]
        reasons = list(dict.fromkeys(whys)) if whole else []
        grid = plain_table("row", "column", ">published", ">derived", ">difference", "verdict")
        for column in grid.columns[2:]:
            column.no_wrap = True
        shown = [o for o in r.outcomes if o.verdict not in quiet or o.number.doubt]
        for before, o in zip([None, *shown], shown, strict=False):
            same_row = before is not None and before.number.row == o.number.row
            cells = ["" if same_row else o.number.row, *_cells(o, reasons)]
            grid.add_row(*(Text(cell) for cell in cells))
        if shown:
            out.print(grid)
        for line in _reasons(whys) if whole else _causes(r.outcomes):
            out.print(Text(f"  {line}"), style="dim", soft_wrap=True)
        for o in (o for o in r.outcomes if o.number.doubt):
            line = f"  in doubt: {o.number.row}, {o.number.column}: {o.number.doubt}"
            out.print(Text(line), style="dim", soft_wrap=True)
        out.print(Text(f"  {_summary(r.counts)}"))
        out.print()
    if len(done) > 1:
        out.print(Text(f"all: {_summary(tally(done))}", "bold"))
    if not whole:
        line = (
            "Every number, and the command that fills each gap: give the id of one table, or "
            "--json."
        )
        out.print(line, style="dim")
    if facts:
        out.print(Text("known discrepancies", "bold"))
    for fact in facts:
        out.print(Text(f"  {fact.paper} {', '.join(fact.tables)}: {fact.what}"), soft_wrap=True)
        line = f"    {fact.evidence} ({fact.where})"
        out.print(Text(line), style="dim", soft_wrap=True)


def _why(derived: Derived) -> str:
    """Returns what is missing, or what to know of the value."""
    return str(derived.gap) if derived.gap else derived.why


def _reasons(whys: Sequence[str]) -> list[str]:
    """Returns each reason with its mark, and the count of its numbers."""
    return [
        f"[{mark}] {reason} ({n:,})" for mark, (reason, n) in enumerate(Counter(whys).items(), 1)
    ]


def _causes(outcomes: Sequence[Outcome]) -> list[str]:
    """Returns the reasons without their marks and commands; all files that are not here in one
    line."""
    counted: Counter[str] = Counter()
    files: set[str] = set()
    waiting = 0
    for gap, reason in ((o.derived.gap, o.derived.why) for o in outcomes):
        if gap and gap.files:
            files |= set(gap.files)
            waiting += 1
        elif gap or reason:
            counted[f"missing: {gap.what}" if gap else reason] += 1
    lines = [f"{reason} ({n:,})" for reason, n in counted.items()]
    if files:
        first = PurePosixPath(min(files)).name
        lines.append(f"missing: {len(files):,} files, such as {first} ({waiting:,})")
    return lines


def _cells(outcome: Outcome, reasons: Sequence[str]) -> list[str]:
    number, derived = outcome.number, outcome.derived
    reason = _why(derived)
    mark = f" [{reasons.index(reason) + 1}]" if reason in reasons else ""
    shown, difference = "–", "–"
    if derived.value is not None and outcome.difference is not None:
        whole = 0 if derived.value.is_integer() else 1
        places = number.places + 2 if number.places else whole
        shown, difference = f"{derived.value:.{places}f}", f"{outcome.difference:+.{places}f}"
    return [
        number.column,
        number.printed + (" ?" if number.doubt else ""),
        shown,
        difference,
        f"{outcome.verdict.value}{mark}",
    ]


def print_defaults(report: DefaultsReport) -> None:
    """Prints a table for each set that is here, a line for each other set, and what is left out."""
    out = console()
    here = [agreement for agreement in report.sets if agreement.gap is None]
    for agreement in report.sets:
        if agreement.gap:
            print_wrapped(
                out,
                f"{agreement.rated.id}  not here: {agreement.gap.command}",
                bold=len(agreement.rated.id),
            )
            print_wrapped(out, f"  {role(agreement)}")
            out.print()
            continue
        print_wrapped(
            out, f"{agreement.rated.id}  {agreement.rated.title}", bold=len(agreement.rated.id)
        )
        print_wrapped(out, f"  {size(agreement)}; {role(agreement)}")
        if agreement.metrics:
            print_table(out, table_of(agreement))
        for line in notes(agreement):
            print_wrapped(out, f"  {line}")
        for line in left_out(left_out_here(agreement, here)):
            print_wrapped(out, f"  no row, {line}")
        out.print()
    for line in left_out(in_no_table(here)):
        print_wrapped(out, f"in no table, {line}")
    level = f"{report.resampling.level * 100:g} %"
    print_wrapped(out, f"r with its {level} interval, and ρ; --json has reasons and signatures")
