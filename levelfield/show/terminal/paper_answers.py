"""Prints the answers to the questions of a paper."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from levelfield.papers import Grid, QuestionAnswer
from levelfield.show.terminal import console


def print_answers(answers: Sequence[QuestionAnswer]) -> None:
    """Every grid with what must be known of its numbers."""
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
    """A grid, both ends of an interval in one column."""
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
    """A p of a permutation test is never 0."""
    return "<0.001" if isinstance(value, float) and value < 0.0005 else _cell(value)


def _cell(value: str | float | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return (f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}").replace("-", "−")
    return str(value)
