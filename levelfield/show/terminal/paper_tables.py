"""Prints published numbers beside derived ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from rich.text import Text

from levelfield.papers import (
    PAPERS,
    QUESTIONS,
    RATED_SETS,
    Derived,
    Fact,
    Gap,
    Outcome,
    PaperReport,
    Reproduction,
    Verdict,
    read_paper,
    tally,
)
from levelfield.show.terminal import console, plain_table
from levelfield.show.terminal.paper_answers import print_answers

_MODEL = "a model"


def print_report(report: PaperReport, *, is_list: bool) -> None:
    """The answers to questions, or a line a table, or every number of tables.

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
    """One line a table."""
    out = console()
    grid = plain_table("id", "table", "state")
    for name in PAPERS:
        paper = read_paper(name)
        grid.add_row(name, f"{paper.authors} {paper.year}", "", style="bold")
        for r in (r for r in done if r.table.paper == name):
            grid.add_row(r.table.id, r.table.title, _state(r))
        for question in (q for q in QUESTIONS if q.paper == name):
            grid.add_row(question.id, question.title, "answered anew")
    grid.add_row("defaults", "Every metric as it is by default, against people", "", style="bold")
    for rated in RATED_SETS:
        here = "not here" if rated.gap() else "here"
        grid.add_row(f"defaults.{rated.id}", rated.title, f"{here} ({', '.join(rated.roles)})")
    out.print(grid)
    needs = Counter(_need(o.derived.gap) for r in done for o in r.outcomes if o.derived.gap)
    lacking = ", ".join(f"{n:,} for {need}" for need, n in needs.most_common())
    for line in (
        _summary(tally(done)),
        *([f"can't be derived: {lacking}"] if lacking else []),
        "what each of them lacks, and the command that fills it: "
        f"levelfield reproduce {done[0].table.id}",
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
    """`4 same, 1 differs, 10 can't be derived`."""
    return ", ".join(f"{n:,} {verdict.value}" for verdict, n in counts.items() if n)


def print_tables(done: Sequence[Reproduction], facts: Sequence[Fact]) -> None:
    """Every number of one table; of several, those that need a look."""
    out = console()
    whole = len({(r.table.paper, r.table.number) for r in done}) == 1
    quiet = () if whole else (Verdict.SAME, Verdict.CANNOT)
    for r in done:
        out.print(Text(f"{r.table.id}  {r.table.title}", "bold"))
        whys = [why for o in r.outcomes if (why := _why(o.derived))]
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
        line = "Every number, and the command that fills each gap: the id of one table, or --json."
        out.print(line, style="dim")
    if facts:
        out.print(Text("known discrepancies", "bold"))
    for fact in facts:
        out.print(Text(f"  {fact.paper} {', '.join(fact.tables)}: {fact.what}"), soft_wrap=True)
        line = f"    {fact.evidence} ({fact.where})"
        out.print(Text(line), style="dim", soft_wrap=True)


def _why(derived: Derived) -> str:
    """What is missing, or what to know of the value."""
    return str(derived.gap) if derived.gap else derived.why


def _reasons(whys: Sequence[str]) -> list[str]:
    """Each reason with its mark, and how many numbers have it."""
    return [f"[{mark}] {why} ({n:,})" for mark, (why, n) in enumerate(Counter(whys).items(), 1)]


def _causes(outcomes: Sequence[Outcome]) -> list[str]:
    """The reasons without their marks and commands; all files that are not here in one line."""
    counted: Counter[str] = Counter()
    files: set[str] = set()
    waiting = 0
    for gap, why in ((o.derived.gap, o.derived.why) for o in outcomes):
        if gap and gap.files:
            files |= set(gap.files)
            waiting += 1
        elif gap or why:
            counted[f"missing: {gap.what}" if gap else why] += 1
    lines = [f"{why} ({n:,})" for why, n in counted.items()]
    if files:
        first = PurePosixPath(min(files)).name
        lines.append(f"missing: {len(files):,} files, such as {first} ({waiting:,})")
    return lines


def _cells(outcome: Outcome, reasons: Sequence[str]) -> list[str]:
    number, derived = outcome.number, outcome.derived
    why = _why(derived)
    mark = f" [{reasons.index(why) + 1}]" if why in reasons else ""
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
