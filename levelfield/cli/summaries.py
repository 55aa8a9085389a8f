"""Prints the results of a run: its table, a ranking a metric, and every pair if it is wanted."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from levelfield.cli.terminal import console
from levelfield.meta.comparison import Comparison, verdict
from levelfield.meta.result_table import ResultCell, ResultTable
from levelfield.meta.scale import scale_of
from levelfield.meta.summary import MetricSummary

_WIDTH = 80
"""What a table fits into where stdout is no terminal, as far as it can."""

_HEAD = 12
"""A name longer than this is broken after its hyphens."""

BEST = "*"


def print_results(table: ResultTable, *, pairs: bool) -> None:
    """The table, what its marks mean, a ranking a metric and the signatures, on stdout.

    Args:
        pairs: whether every comparison of two systems follows.
    """
    out = console()
    width = out.width if out.is_terminal else _WIDTH
    for block in _blocks(table, width):
        for line in block:
            out.print(line, soft_wrap=True)
        out.print()
    for note in ("; ".join(table.legend(BEST)), *table.notes()):
        _print_wrapped(note, out, width)
    if any(column.ranking for column in table.columns):
        out.print()
        _print_rankings(table, out, width)
    if pairs:
        out.print()
        for column in table.columns:
            _print_pairs(column.summary, out)
    out.print()
    for signature in table.signatures():
        out.print(Text(signature, "dim"), soft_wrap=True)


def _print_wrapped(text: str, out: Console, width: int) -> None:
    for line in _wrapped(text, width):
        out.print(Text(line, "dim"), soft_wrap=True)


def _wrapped(text: str, width: int) -> list[str]:
    """Lines that are not broken at a no-break space."""
    lines = textwrap.wrap(
        text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return [line.replace("\u00a0", " ") for line in lines]


@dataclass(frozen=True)
class _PrintedColumn:
    """A column as lines: its head, and a list of lines a row.

    Attributes:
        above: the head that it may share with its neighbour.
        head: below that.
        cells: one a row.
    """

    above: str
    head: list[str]
    cells: list[list[Text]]

    @property
    def width(self) -> int:
        lines = [*self.head, *(line.plain for cell in self.cells for line in cell)]
        return max(map(cell_len, lines), default=0)


def _blocks(table: ResultTable, width: int) -> Iterator[list[Text]]:
    """The lines of the table; columns that do not fit beside the others follow below them.

    A cell is one line if the table then fits, else two: the mean, and under it half the interval.
    """
    rows = list(table.rows())
    names = [Text(name) for name, _ in rows]
    for separator in (" ", "\n"):
        columns = [
            _PrintedColumn(
                column.above,
                _head(f"{column.name} {column.arrow}"),
                [_cell(row[i], separator) for _, row in rows],
            )
            for i, column in enumerate(table.columns)
        ]
        count = [f"{table.texts(row):,}" for _, row in rows]
        n = _PrintedColumn("", ["n"], [[Text(number)] for number in count])
        left = max(map(cell_len, [table.by, *(name.plain for name in names)]))
        free = width - left - n.width - 2
        if sum(column.width + 2 for column in columns) <= free:
            break
    start = 0
    while start < len(columns):
        end, used = start + 1, columns[start].width + 2
        while end < len(columns) and used + columns[end].width + 2 <= free:
            used += columns[end].width + 2
            end += 1
        yield list(_lines(Text(table.by), names, left, [n, *columns[start:end]]))
        start = end


def _head(name: str) -> list[str]:
    """The head of a column: a line a part of its name, long parts broken after hyphens."""
    lines: list[str] = []
    for part in name.split("."):
        at = ""
        for word in part.replace("-", "-\0").split("\0"):
            if at and cell_len(at + word) > _HEAD:
                lines.append(at)
                at = ""
            at += word
        lines.append(at)
    return lines


def _cell(cell: ResultCell | None, separator: str) -> list[Text]:
    if cell is None or not cell.group.mean.n:
        return [Text("–")]
    mean = Text(f"{BEST}{cell.mean}" if cell.best else cell.mean, "bold" if cell.best else "")
    if not cell.half_width:
        return [mean]
    half = Text(f"±{cell.half_width}", "dim")
    return [mean, half] if separator == "\n" else [Text(separator).join([mean, half])]


def _lines(
    by: Text, names: Sequence[Text], left: int, columns: Sequence[_PrintedColumn]
) -> Iterator[Text]:
    """Lines of a block: heads down to the rows, then the rows."""
    depth = max(len(column.head) for column in columns)
    if any(column.above for column in columns):
        pairs = itertools.pairwise(["", *(column.above for column in columns)])
        shown = [Text(name if name != before else "") for before, name in pairs]
        widths = [column.width for column in columns]
        yield _line(Text(), left, list(zip(shown, widths, strict=True)))
    for i in range(depth):
        heads = [
            (Text(column.head[i - depth + len(column.head)]), column.width)
            if i >= depth - len(column.head)
            else (Text(), column.width)
            for column in columns
        ]
        yield _line(by if i == depth - 1 else Text(), left, heads)
    for row, name in enumerate(names):
        for i in range(max(len(column.cells[row]) for column in columns)):
            cells = [
                (column.cells[row][i] if i < len(column.cells[row]) else Text(), column.width)
                for column in columns
            ]
            yield _line(name if i == 0 else Text(), left, cells)


def _line(name: Text, left: int, cells: Sequence[tuple[Text, int]]) -> Text:
    line = name.copy()
    line.append(" " * (left - name.cell_len))
    for cell, width in cells:
        line.append(" " * max(1, width + 2 - cell.cell_len))
        line.append_text(cell)
    line.rstrip()
    return line


def _print_rankings(table: ResultTable, out: Console, width: int) -> None:
    """A line a metric: the systems with their ranks and letters, the best first."""
    legend = table.letters_legend()
    _print_wrapped("; ".join(filter(None, ["ranks", legend])), out, width)
    for column in table.columns:
        if not column.ranking:
            continue
        places = [
            f"{cell.standing.rank} {cell.group.group} {cell.letters}".rstrip()
            for cell in column.ranking
            if cell.standing
        ]
        title = f"{column.title} {column.arrow}"
        whole = ", ".join(place.replace(" ", "\u00a0") for place in places)
        for i, line in enumerate(_wrapped(f"{title}: {whole}", width)):
            shown = Text(line)
            if i == 0:
                shown.stylize("bold", 0, len(title))
            out.print(shown, soft_wrap=True)


def _print_pairs(s: MetricSummary, out: Console) -> None:
    """Every comparison under a metric, with its numbers and verdict."""
    if not s.comparisons:
        return
    out.print(Text(s.metric, "bold"))
    for c in s.comparisons:
        out.print(Text(_pair(c, s)), soft_wrap=True)
        if c.note:
            out.print(Text(f"    {c.note}", "dim"), soft_wrap=True)


def _pair(c: Comparison, s: MetricSummary) -> str:
    scale = scale_of(s)
    p = f"p = {c.p_adjusted:.3g} (Holm), d = {c.effect:.2f}, " if c.p == c.p else ""
    left = f", {c.left_out:,} left out" if c.left_out else ""
    return (
        f"  {c.a} − {c.b} = {scale(c.difference)} [{scale(c.low)}, {scale(c.high)}], "
        f"{p}n = {c.inputs:,} inputs{left}: {verdict(c, s.higher_is_better)}"
    )
