"""Text and tables for LaTeX, Markdown and spreadsheets."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from levelfield.core.direction import Direction
from levelfield.core.strings import visible

_GREEK = ("alpha", "kappa", "rho", "tau")
_ESCAPES = {
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "|": "\\textbar{}",
    '"': "\\textquotedbl{}",
    "±": "$\\pm$",
    "−": "$-$",
    # after the end of a row, LaTeX would take these for options of the line break
    "[": "{[}",
    "*": "{*}",
    "≤": "$\\le$",
    "–": "--",
    "∞": "$\\infty$",
    "†": "\\dag{}",
    **{letter: f"$\\{name}$" for letter, name in zip("ακρτ", _GREEK, strict=True)},
}


def escape_latex(text: str) -> str:
    """Returns text that LaTeX sets as it is.

    >>> escape_latex("bleu_4 & 50 %")
    'bleu\\\\_4 \\\\& 50 \\\\%'
    """
    return " ".join("".join(_ESCAPES.get(c, c) for c in visible(text)).split())


def comment_lines(texts: Iterable[str]) -> list[str]:
    """Returns each text as a line that LaTeX leaves out, unchanged so that it can be copied."""
    return [f"% {visible(' '.join(text.splitlines()))}" for text in texts]


NONE = "–"
"""Stands where there is no value."""


@dataclass(frozen=True, slots=True)
class TableCell:
    """A value or a name in a table.

    Attributes:
        text: as it is read, not escaped.
        best: whether it is marked as `Table.best` says.
        beside: follows in smaller type: half an interval, a deviation, a rank.
        letters: follow it, raised.
        below: lines for pages only, which have the room.
        value: orders the rows of a page; NaN if nothing does.
        remark: what a page shows under the pointer.
    """

    text: str = NONE
    best: bool = False
    beside: str = ""
    letters: str = ""
    below: tuple[str, ...] = ()
    value: float = math.nan
    remark: str = ""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table.

    Attributes:
        name: its head.
        above: a second head, which it may share with its neighbours.
        title: its whole name, where a table has no second heads; `name` if empty.
        words: whether its cells are words, which are set left.
        sentences: whether its cells are sentences, whose lines LaTeX breaks.
        direction: which end of its values is better.
        repeated: whether each block of a table that is wider than the terminal has it.
        latex: its head for LaTeX, escaped; made of `name` if empty.
    """

    name: str
    above: str = ""
    title: str = ""
    words: bool = False
    sentences: bool = False
    direction: Direction = "none"
    repeated: bool = False
    latex: str = ""

    def headed(self, name: str, arrows: Sequence[str] = "↓↑") -> str:
        """Returns a head with the arrow that shows which values are better.

        Args:
            arrows: the one for lower, and the one for higher.
        """
        return name if self.direction == "none" else f"{name} {arrows[self.direction == 'higher']}"


@dataclass(frozen=True)
class Table:
    """A table that a terminal, a page, LaTeX and Markdown show alike.

    Attributes:
        columns: the first holds the names of the rows.
        rows: a cell a column; a string is a cell without marks.
        caption: what the table shows.
        legend: what the numbers mean.
        best: what the mark of the best says; empty if no cell has it.
        letters: what the letters say; empty if no cell has any.
        notes: what a reader must know of the numbers, in sentences.
        signatures: of the metrics that the numbers come from.
        wide: whether it goes across both columns of a printed page.
    """

    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[TableCell | str]]
    caption: str = ""
    legend: Sequence[str] = ()
    best: str = ""
    letters: str = ""
    notes: Sequence[str] = ()
    signatures: Sequence[str] = ()
    wide: bool = False

    @property
    def cells(self) -> list[list[TableCell]]:
        """The rows, strings among them as cells."""
        return [
            [cell if isinstance(cell, TableCell) else TableCell(cell) for cell in row]
            for row in self.rows
        ]

    @property
    def heads(self) -> list[tuple[str, int]]:
        """The second heads from left to right, each with the number of its columns."""
        groups = itertools.groupby(column.above for column in self.columns)
        return [(name, len(list(group))) for name, group in groups]

    def key(self, mark: str, *, letters: bool = True) -> str:
        """Returns the caption and what the numbers, marks and letters mean, as one line.

        Args:
            mark: of the best.
            letters: whether letters are shown.
        """
        best = f"{mark} {self.best}" if self.best else ""
        parts = [self.caption, *self.legend, best, self.letters if letters else ""]
        line = "; ".join(filter(None, parts))
        return line[:1].upper() + line[1:]

    def to_latex(self) -> str:
        """Returns a booktabs table, without a line break at its end. The best is bold, letters are
        raised; signatures and notes are comments above it, as they are."""

        def head(column: TableColumn) -> str:
            name = column.name[:1].upper() + column.name[1:] if column.words else column.name
            return column.headed(column.latex or escape_latex(name), _LATEX_ARROWS)

        def letter(column: TableColumn) -> str:
            return "p{.5\\textwidth}" if column.sentences else "l" if column.words else "r"

        environment = "table*" if self.wide else "table"
        lines = [
            *comment_lines([*self.signatures, *self.notes]),
            f"\\begin{{{environment}}}",
            "\\centering",
            *(["\\footnotesize"] if self.wide else []),
            f"\\begin{{tabular}}{{{''.join(map(letter, self.columns))}}}",
            "\\toprule",
            *_spanning_heads(self.heads),
            " & ".join(map(head, self.columns)) + " \\\\",
            "\\midrule",
            *(" & ".join(map(_latex_cell, row)) + " \\\\" for row in self.cells),
            "\\bottomrule",
            "\\end{tabular}",
            f"\\caption{{{escape_latex(self.key('bold:'))}.}}",
            f"\\end{{{environment}}}",
        ]
        return "\n".join(lines)

    def to_markdown(self) -> str:
        """Returns a table with its caption and legend, its notes and its signatures. The best is
        bold; columns have their whole names."""
        heads = [c.headed(escape_markdown(c.title or c.name)) for c in self.columns]
        table = markdown_table(
            heads,
            (map(_markdown_cell, row) for row in self.cells),
            words=[column.words for column in self.columns],
        )
        notes = "\n".join(f"- {escape_markdown(note)}" for note in self.notes)
        signatures = code_block(self.signatures) if self.signatures else ""
        key = escape_markdown(self.key("@bold@")).replace("@bold@", "**bold**")
        return "\n\n".join(filter(None, [table, key, notes, signatures]))

    def to_html(self) -> str:
        """Returns an HTML table, as notebooks show it. The best is bold."""
        heads = "".join(
            f"<th>{escape(column.headed(column.title or column.name))}</th>"
            for column in self.columns
        )
        rows = "".join(f"<tr>{''.join(map(_html_cell, row))}</tr>" for row in self.cells)
        key = escape(self.key("bold:"))
        return f"<table><caption>{key}.</caption><tr>{heads}</tr>{rows}</table>"


_LATEX_ARROWS = ("$\\downarrow$", "$\\uparrow$")


def _latex_cell(cell: TableCell) -> str:
    text = escape_latex(cell.text)
    text = f"\\textbf{{{text}}}" if cell.best else text
    beside = f" {escape_latex(cell.beside)}" if cell.beside else ""
    letters = f"\\textsuperscript{{{escape_latex(cell.letters)}}}" if cell.letters else ""
    return text + beside + letters


def _html_cell(cell: TableCell) -> str:
    text = f"<b>{escape(cell.text)}</b>" if cell.best else escape(cell.text)
    beside = f" <small>{escape(cell.beside)}</small>" if cell.beside else ""
    letters = f"<sup>{escape(cell.letters)}</sup>" if cell.letters else ""
    return f"<td>{text}{beside}{letters}</td>"


def _markdown_cell(cell: TableCell) -> str:
    text = escape_markdown(cell.text)
    text = f"**{text}**" if cell.best else text
    beside = f" {escape_markdown(cell.beside)}" if cell.beside else ""
    letters = f" <sup>{cell.letters}</sup>" if cell.letters else ""
    return text + beside + letters


def _spanning_heads(heads: Sequence[tuple[str, int]]) -> list[str]:
    """Returns the line of second heads for LaTeX and the rules below them; nothing without one.

    >>> print(*_spanning_heads([("", 1), ("content", 2), ("", 1), ("style", 1)]), sep="\\n")
     & \\multicolumn{2}{c}{content} &  & \\multicolumn{1}{c}{style} \\\\
    \\cmidrule(lr){2-3} \\cmidrule(lr){5-5}
    """
    cells, rules, column = [], [], 1
    for name, width in heads:
        if name:
            cells.append(f"\\multicolumn{{{width}}}{{c}}{{{escape_latex(name)}}}")
            rules.append(f"\\cmidrule(lr){{{column}-{column + width - 1}}}")
        else:
            cells += [""] * width
        column += width
    return [" & ".join(cells) + " \\\\", " ".join(rules)] if rules else []


_SPECIAL = re.compile(r"([\\`*_\[\]|~<>&$])")


def escape_markdown(text: str) -> str:
    """Returns text that Markdown shows as it is, on one line.

    >>> escape_markdown("a|b *c*")
    'a\\\\|b \\\\*c\\\\*'
    """
    return _SPECIAL.sub(r"\\\1", " ".join(visible(text).split()))


def markdown_table(
    head: Sequence[str], rows: Iterable[Iterable[str]], *, words: Sequence[bool] = ()
) -> str:
    """Returns a table of escaped cells.

    Args:
        words: whether a column holds words and is set left; if empty, only the first does.
    """
    left = words or [True] + [False] * (len(head) - 1)
    lines = [head, [":--" if is_left else "--:" for is_left in left], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code_block(lines: Iterable[str]) -> str:
    """Returns lines that Markdown shows as they are, with a fence that none of them ends."""
    text = "\n".join(" ".join(line.splitlines()) for line in lines)
    longest = max((len(ticks) for ticks in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_CELL_START = re.compile(r"""(?:^|[;\t\r\n])[\s"]*""")
"""Where a spreadsheet might begin a cell: at its start, and after what some take for the end of
one; with what they pass over before a formula."""
_CELL_END = re.compile(r"[;\t\r\n]")
_FORMULA = tuple("=+-@＝＋－＠")


def csv_text(rows: Iterable[Sequence[object]], *, end: str = "\r\n") -> str:
    """Returns rows as CSV that no spreadsheet takes for formulas: see `safe_cell`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=end)
    for row in rows:
        writer.writerow([safe_cell(cell) for cell in row])
    return text.getvalue()


def safe_cell(cell: object) -> object:
    """Returns the cell, with an apostrophe wherever a spreadsheet would begin to calculate.

    Numbers stay numbers, also those that are written as text.

    >>> safe_cell("=1+1"), safe_cell(-1), safe_cell("-0.5"), safe_cell("a;=1+1"), safe_cell("1+1")
    ("'=1+1", -1, '-0.5', "a;'=1+1", '1+1')
    """
    if not isinstance(cell, str) or _NUMBER.fullmatch(cell):
        return cell

    def quoted(match: re.Match[str]) -> str:
        calculates = cell.startswith(_FORMULA, match.end())
        is_start = match.start() == 0 and match[0][:1] != ";"  # which is a match of its own
        mark = "'" if is_start and (calculates or match[0][:1] in ("\t", "\r", "\n")) else ""
        return mark + (_CELL_END.sub(r"\g<0>'", match[0]) if calculates else match[0])

    return _CELL_START.sub(quoted, cell)
