"""Results on a terminal: tables and sentences on stdout."""

from __future__ import annotations

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


def plain_table(*heads: str) -> Table:
    """Returns a table without lines; a head that begins with `>` has its column to the right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for head in heads:
        table.add_column(head.removeprefix(">"), justify="right" if head[:1] == ">" else "left")
    return table
