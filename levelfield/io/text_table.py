"""Tables as lines of text: columns that do not fit follow below the others."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from levelfield.core.strings import visible
from levelfield.io.problems import printable
from levelfield.io.tables import Table, TableCell, TableColumn

WIDTH = 80
"""The width of a table that is not on a terminal, as far as its columns allow."""

BEST = "*"
"""Marks what is shown best, without colour."""

_HEAD = 12
"""A part of a name that is longer, and wider than its column, is broken after hyphens, spaces."""

_BETWEEN_PARTS = re.compile(r"\.(?=\S)")
_BETWEEN_WORDS = re.compile(r"(?<=[- ])(?=[^ ])")

Span = tuple[str, str]
"""Text and its style: `bold`, `dim`, or empty."""

Line = list[Span]


def table_text(table: Table) -> str:
    """Returns a table with its caption and legend as a terminal shows it, without styles."""
    lines = ("".join(text for text, _ in line).rstrip() for line in table_lines(table, WIDTH))
    return "\n".join([*lines, table.key(BEST)])


def table_lines(
    table: Table, width: int, *, name_width: int = 0, letters: bool = True
) -> Iterator[Line]:
    """Yields the lines of a table, in blocks of a width; each ends with an empty line.

    The parts of a cell are side by side if the whole table then fits.

    Args:
        name_width: a name of a row that is wider goes on below; none does if it is 0.
        letters: whether the cells show their letters.
    """
    from rich.cells import chop_cells

    cells = [list(column) for column in zip(*table.cells, strict=True)] or [[]] * len(table.columns)
    by = table.columns[0].name
    names = [printable(f"{cell.text} {cell.letters}".rstrip()) for cell in cells[0]]
    rows = [chop_cells(name, max(_HEAD, name_width)) if name_width else [name] for name in names]
    rows = [lines or [""] for lines in rows]
    left = _widest([by, *itertools.chain(*rows)])
    heads = [column.headed(column.name) for column in table.columns]
    parts = [_parts(column, letters=letters) for column in cells]
    for tall in (False, True):
        columns = [
            _Column.of(*column, tall=tall)
            for column in zip(table.columns[1:], heads[1:], parts[1:], strict=True)
        ]
        fixed = [c for c, column in zip(columns, table.columns[1:], strict=True) if column.repeated]
        rest = [c for c in columns if c not in fixed]
        free = width - left - sum(2 + column.width for column in fixed)
        if sum(2 + column.width for column in rest) <= free:
            break
    for block in _blocks(rest, free):
        yield from _block_lines(by, rows, left, [*fixed, *block])
        yield []


@dataclass(frozen=True, eq=False)
class _Column:
    """A column as it is laid out.

    Attributes:
        above: a head that it may share with its neighbours.
        head: its own head, a line a part of it.
        cells: one a row, with its parts below each other.
        width: of the widest.
    """

    above: str
    head: Sequence[str]
    cells: Sequence[Sequence[Line]]
    width: int

    @classmethod
    def of(
        cls, column: TableColumn, name: str, cells: Sequence[Sequence[Span]], *, tall: bool
    ) -> _Column:
        """Lays a column out; words and their head are filled up with spaces, which sets them
        left."""
        filled = _widest([name, *(text for (text, _), *_ in cells)]) if column.words else 0
        rows = []
        for (text, style), *rest in cells:
            spans = [(_filled(text, filled), style), *rest]
            joined = [part for span in spans for part in ((" ", ""), span)][1:]
            rows.append([[span] for span in spans] if tall else [joined])
        texts = ["".join(text for text, _ in line) for lines in rows for line in lines]
        head = _head(_filled(name, filled), max(_widest(texts), _HEAD))
        return cls(column.above, head, rows, _widest([*head, *texts]))


def _parts(cells: Sequence[TableCell], *, letters: bool) -> list[list[Span]]:
    """Returns the value of each cell, marked if it is best, and the text beside it."""
    texts = [visible(f"{BEST if cell.best else ''}{cell.text}") for cell in cells]
    others = [visible(f"{c.beside} {c.letters if letters else ''}".strip()) for c in cells]
    styles = ["bold" if cell.best else "" for cell in cells]
    return [
        [(text, style), *([(other, "dim")] if other else [])]
        for text, style, other in zip(texts, styles, others, strict=True)
    ]


def _blocks(columns: Sequence[_Column], free: int) -> Iterator[Sequence[_Column]]:
    """Yields as many columns at a time as have room, at least one."""
    start = 0
    while start < len(columns):
        end, used = start + 1, 2 + columns[start].width
        while end < len(columns) and used + 2 + columns[end].width <= free:
            used += 2 + columns[end].width
            end += 1
        yield columns[start:end]
        start = end


def _block_lines(
    by: str, names: Sequence[Sequence[str]], left: int, columns: Sequence[_Column]
) -> Iterator[Line]:
    widths = [column.width for column in columns]
    if any(column.above for column in columns):
        above = " " * left
        for name, run in itertools.groupby(range(len(columns)), lambda i: columns[i].above):
            indices = list(run)
            widths[indices[0]] += max(0, _widest([name]) - sum(2 + widths[i] for i in indices) + 2)
            above += "  " + _filled(name, sum(2 + widths[i] for i in indices) - 2)
        yield [(above.rstrip(), "")]
    depth = max(len(column.head) for column in columns)
    for i in range(depth):
        heads = ([""] * (depth - len(column.head)) + [*column.head] for column in columns)
        yield _line(by if i == depth - 1 else "", left, [[(h[i], "")] for h in heads], widths)
    for row, name in enumerate(names):
        cells = [column.cells[row] for column in columns]
        for i in range(max(map(len, [name, *cells]))):
            line = [cell[i] if i < len(cell) else [] for cell in cells]
            yield _line(name[i] if i < len(name) else "", left, line, widths)


def _line(name: str, left: int, cells: Sequence[Line], widths: Sequence[int]) -> Line:
    line = [(_filled(name, left), "")]
    for cell, width in zip(cells, widths, strict=True):
        used = _widest(["".join(text for text, _ in cell)])
        line += [(" " * max(1, width + 2 - used), ""), *cell]
    return line


def _head(name: str, width: int) -> list[str]:
    lines: list[str] = []
    for part in _BETWEEN_PARTS.split(name):
        line = ""
        for word in _BETWEEN_WORDS.split(part):
            if line and _widest([line + word.rstrip()]) > width:
                lines.append(line.rstrip())
                line = ""
            line += word
        lines.append(line)
    return lines


def _widest(texts: Sequence[str]) -> int:
    """Returns the places on a line that the widest text takes."""
    from rich.cells import cell_len

    return max(map(cell_len, texts), default=0)


def _filled(text: str, width: int) -> str:
    return text + " " * (width - _widest([text]))
