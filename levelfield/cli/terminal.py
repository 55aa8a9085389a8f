"""What commands say: notes and progress on stderr, tables and documents on stdout.

No control character of a name, a text or a plug-in's error gets to a terminal: it is shown as its
escape.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from levelfield.core.progress import Progress, no_progress
from levelfield.core.visible import visible

if TYPE_CHECKING:
    from rich.console import Console


def say(message: str) -> None:
    """A line on stderr."""
    print(visible(message), file=sys.stderr, flush=True)


def tell(message: str) -> None:
    """A line on stdout."""
    click.echo(visible(message))


def tell_json(document: object, *, indent: int | None = None) -> None:
    """One JSON document on stdout, which a terminal may have as well.

    Raises:
        ValueError: the document holds NaN or infinity.
    """
    whole = json.dumps(document, ensure_ascii=False, indent=indent, allow_nan=False)
    # of what `visible` escapes, JSON leaves some as it is; there is none outside of strings
    if visible(whole) != whole:
        whole = "".join(c if visible(c) == c else f"\\u{ord(c):04x}" for c in whole)
    click.echo(whole)


def console() -> Console:
    """Where tables go: stdout, as wide as they are where it is no terminal, so that names stay
    whole in a file or a pipe."""
    from levelfield.cli.visible_console import VisibleConsole

    made = VisibleConsole(highlight=False)
    if not made.is_terminal:
        made.width = 1_000
    return made


@contextlib.contextmanager
def progress_bar(what: str, total: int | None) -> Iterator[Progress]:
    """A bar on stderr while work goes on; nothing where stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield no_progress
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(visible(what), total=total)
        yield lambda n: bar.advance(task, n)
