"""Tables with many columns on a terminal: columns that do not fit follow below the others."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from levelfield.core.strings import visible
from levelfield.io.problems import printable
from levelfield.io.tables import Table, TableCell, TableColumn

_WIDTH = 80
"""The width of a table where stdout is not a terminal, as far as its columns allow."""

BEST = "*"
"""Marks what is shown best, without colour."""

_HEAD = 12
"""A part of a name that is longer, and wider than its column, is broken after hyphens, spaces."""

_BETWEEN_PARTS = re.compile(r"\.(?=\S)")
_BETWEEN_WORDS = re.compile(r"(?<=[- ])(?=[^ ])")


@dataclass(frozen=True)
class BlockColumn:
    """A column of a printed table.

    Attributes:
        above: a head that it may share with its neighbours.
        name: its own head, below that; a line a part of it.
        cells: one a row, in parts that stand beside each other or below each other.
    """

    above: str
    name: str
    cells: Sequence[Sequence[Text]]

    def lines(self, *, tall: bool) -> _Lines:
        """Returns its lines, with the parts of a cell below each other if it is tall."""
        cells = [list(cell) if tall else [Text(" ").join(cell)] for cell in self.cells]
        width = max((cell_len(line.plain) for cell in cells for line in cell), default=0)
        return _Lines(self.above, _head(self.name, max(width, _HEAD)), cells)


@dataclass(frozen=True)
class _Lines:
    above: str
    head: Sequence[str]
    cells: Sequence[Sequence[Text]]

    @property
    def width(self) -> int:
        lines = [*self.head, *(line.plain for cell in self.cells for line in cell)]
        return max(map(cell_len, lines), default=0)


def width_of(out: Console) -> int:
    """Returns the width that tables and sentences fit into."""
    return out.width if out.is_terminal else _WIDTH


def print_wrapped(out: Console, text: str, *, bold: int = 0) -> None:
    """Prints a sentence in lines that are not broken at a no-break space.

    Args:
        bold: so many characters of its beginning are bold; the rest is dim if none is.
    """
    lines = textwrap.wrap(
        "\u00a0".join(map(printable, text.split("\u00a0"))),
        width_of(out),
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    for i, line in enumerate(lines):
        shown = Text(line.replace("\u00a0", " "), "" if bold else "dim")
        if i == 0:
            shown.stylize("bold", 0, bold)
        out.print(shown, soft_wrap=True)


def print_blocks(
    out: Console,
    by: str,
    names: Sequence[str],
    columns: Sequence[BlockColumn],
    *,
    fixed: Sequence[BlockColumn] = (),
) -> None:
    """Prints a table whose first column is names, in blocks as wide as the terminal.

    The parts of a cell stand beside each other if the whole table then fits. On a terminal, a name
    that is wider than half of it goes on below.

    Args:
        by: the head of the names.
        fixed: columns that every block begins with.
    """
    widest = max(_HEAD, out.width // 2)
    lines = [chop_cells(printable(name), widest) or [""] for name in names]
    left = max(map(cell_len, [by, *itertools.chain(*lines)]))
    for tall in (False, True):
        first = [column.lines(tall=tall) for column in fixed]
        rest = [column.lines(tall=tall) for column in columns]
        free = width_of(out) - left - sum(2 + column.width for column in first)
        if sum(2 + column.width for column in rest) <= free:
            break
    start = 0
    while start < len(rest):
        end, used = start + 1, 2 + rest[start].width
        while end < len(rest) and used + 2 + rest[end].width <= free:
            used += 2 + rest[end].width
            end += 1
        for line in _block(by, lines, left, [*first, *rest[start:end]]):
            out.print(line, soft_wrap=True)
        out.print()
        start = end


def print_tables(out: Console, tables: Iterable[Table], signature: str) -> None:
    """Prints tables, each below its caption, and the signature of what they show."""
    for table in tables:
        out.print(Text(table.key(BEST), "bold"), soft_wrap=True)
        _print_cells(out, table)
    out.print(Text(signature, "dim"), soft_wrap=True)


def print_table(out: Console, table: Table, *, letters: bool = True) -> None:
    """Prints a table in blocks as wide as the terminal, its caption and legend, and its notes.

    Args:
        letters: whether the cells show their letters.
    """
    _print_cells(out, table, letters=letters)
    for line in filter(None, (table.key(BEST, letters=letters), *table.notes)):
        print_wrapped(out, line)


def _print_cells(out: Console, table: Table, *, letters: bool = True) -> None:
    cells = [[row[i] for row in table.cells] for i in range(len(table.columns))]
    blocks = [
        _table_column(column, values, letters=letters)
        for column, values in zip(table.columns, cells, strict=True)
    ]
    print_blocks(
        out,
        table.columns[0].name,
        [f"{cell.text} {cell.letters}".rstrip() for cell in cells[0]],
        [b for b, c in zip(blocks[1:], table.columns[1:], strict=True) if not c.repeated],
        fixed=[b for b, c in zip(blocks[1:], table.columns[1:], strict=True) if c.repeated],
    )


def marked(text: str, *, best: bool) -> Text:
    """Returns a number, with the mark if it is shown best."""
    return Text(f"{BEST}{text}", "bold") if best else Text(text)


def _table_column(column: TableColumn, cells: Sequence[TableCell], *, letters: bool) -> BlockColumn:
    """Returns a column; words and their head are filled up with spaces, which sets them left."""
    head = column.headed(column.name)
    width = max(map(cell_len, (head, *(cell.text for cell in cells)))) if column.words else 0
    rows = []
    for cell in cells:
        beside = f"{cell.beside} {cell.letters if letters else ''}".strip()
        text = marked(_filled(cell.text, width), best=cell.best)
        rows.append([text, *([Text(beside, "dim")] if beside else [])])
    return BlockColumn(column.above, _filled(head, width), rows)


def _filled(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


def _head(name: str, width: int) -> list[str]:
    lines: list[str] = []
    for part in _BETWEEN_PARTS.split(name):
        line = ""
        for word in _BETWEEN_WORDS.split(part):
            if line and cell_len(line + word.rstrip()) > width:
                lines.append(line.rstrip())
                line = ""
            line += word
        lines.append(line)
    return lines


def _block(
    by: str, names: Sequence[Sequence[str]], left: int, columns: Sequence[_Lines]
) -> Iterator[Text]:
    widths = [column.width for column in columns]
    if any(column.above for column in columns):
        above = " " * left
        for name, run in itertools.groupby(range(len(columns)), lambda i: columns[i].above):
            indices = list(run)
            widths[indices[0]] += max(0, cell_len(name) - sum(2 + widths[i] for i in indices) + 2)
            above += f"  {name}" + " " * (sum(2 + widths[i] for i in indices) - 2 - cell_len(name))
        yield Text(above.rstrip())
    depth = max(len(column.head) for column in columns)
    for i in range(depth):
        heads = ([""] * (depth - len(column.head)) + [*column.head] for column in columns)
        yield _line(by if i == depth - 1 else "", left, [Text(h[i]) for h in heads], widths)
    for row, name in enumerate(names):
        cells = [column.cells[row] for column in columns]
        for i in range(max(map(len, [name, *cells]))):
            line = [cell[i] if i < len(cell) else Text() for cell in cells]
            yield _line(name[i] if i < len(name) else "", left, line, widths)


def _line(name: str, left: int, cells: Sequence[Text], widths: Sequence[int]) -> Text:
    line = Text(name + " " * (left - cell_len(name)))
    for cell, width in zip(cells, widths, strict=True):
        line.append(" " * max(1, width + 2 - cell.cell_len))
        line.append_text(cell)
    line.rstrip()
    return line


class VisibleConsole(Console):
    """Prints strings, texts and tables of them; what a terminal would obey in them is escaped."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Prints as rich does."""
        super().print(*map(_visible, objects), **options)

    def on_broken_pipe(self) -> None:
        """Raises an error of a broken pipe, for which rich would end the program."""
        raise BrokenPipeError


def _visible(shown: Any) -> Any:
    """Returns what is printed, escaped before it is measured, so that no cell is cut."""
    match shown:
        case str():
            return visible(shown)
        case Text():
            if visible(shown.plain) != shown.plain:
                shown.plain = visible(shown.plain)
            return shown
        case RichTable():
            for column in shown.columns:
                column.header = _visible(column.header)
                column._cells = [_visible(cell) for cell in column._cells]
            return shown
        case _:
            return shown
