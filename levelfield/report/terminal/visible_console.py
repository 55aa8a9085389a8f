"""A console of rich that shows control characters as their escapes."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from levelfield.core.strings import visible


class VisibleConsole(Console):
    """Prints strings, texts and tables of them; what a terminal would obey in them is escaped."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Prints as rich does."""
        super().print(*map(_visible, objects), **options)

    def on_broken_pipe(self) -> None:
        """Passes on that the reader has gone, for which rich would end the program."""
        raise BrokenPipeError


def _visible(shown: Any) -> Any:
    """What is printed, escaped before it is measured, so that no cell is cut."""
    match shown:
        case str():
            return visible(shown)
        case Text():
            if visible(shown.plain) != shown.plain:
                shown.plain = visible(shown.plain)
            return shown
        case Table():
            for column in shown.columns:
                column.header = _visible(column.header)
                column._cells = [_visible(cell) for cell in column._cells]
            return shown
        case _:
            return shown
