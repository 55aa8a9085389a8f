"""Results on a terminal: tables and sentences on stdout."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def console() -> Console:
    """Returns the console of stdout. Where that is not a terminal, it is as wide as any table, so
    that names stay whole in a file or a pipe."""
    from levelfield.show.terminal.blocks import VisibleConsole

    # a name may hold what rich would take for markup or the name of an emoji
    stdout = VisibleConsole(highlight=False, markup=False, emoji=False)
    if not stdout.is_terminal:
        stdout.width = 1_000
    return stdout


def listing(entries: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Returns a list for 80 columns: a line for the head of each entry, its sentences below."""
    indented = textwrap.TextWrapper(
        width=80,
        initial_indent="    ",
        subsequent_indent="      ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(
        "\n".join([head, *map(indented.fill, filter(None, sentences))])
        for head, sentences in entries
    )


def plain_table(*heads: str) -> Table:
    """Returns a table without lines; a head that begins with `>` has its column to the right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for head in heads:
        table.add_column(head.removeprefix(">"), justify="right" if head[:1] == ">" else "left")
    return table
