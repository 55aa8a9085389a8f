"""Tables and sentences on a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from levelfield.core.strings import visible
from levelfield.io.problems import printable
from levelfield.io.tables import Table
from levelfield.io.text_table import BEST, WIDTH, table_lines


def width_of(out: Console) -> int:
    """Returns the width that tables and sentences fit into."""
    return out.width if out.is_terminal else WIDTH


def print_wrapped(out: Console, *sentences: str, bold: int = 0) -> None:
    """Prints sentences, each from a line of its own. No line is broken at a no-break space.

    Args:
        bold: the number of bold characters at the beginning of each; if 0, the text is dim.
    """
    width = width_of(out)
    texts = [_wrapped(sentence, width, bold) for sentence in sentences if sentence.strip()]
    if texts:
        out.print(Text("\n").join(texts), soft_wrap=True)


def _wrapped(sentence: str, width: int, bold: int) -> Text:
    lines = textwrap.wrap(
        "\u00a0".join(map(printable, sentence.split("\u00a0"))),
        width,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    shown = Text("\n".join(lines).replace("\u00a0", " "), "" if bold else "dim")
    shown.stylize("bold", 0, min(bold, len(lines[0])))
    return shown


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
    print_wrapped(out, table.key(BEST, letters=letters), *table.notes)


def _print_cells(out: Console, table: Table, *, letters: bool = True) -> None:
    """Prints the lines of a table. On a terminal, a name wider than half of it goes on below."""
    lines = table_lines(table, width_of(out), name_width=out.width // 2, letters=letters)
    texts = [Text.assemble(*line) for line in lines]
    for text in texts:
        text.rstrip()
    out.print(Text("\n").join(texts), soft_wrap=True)


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
