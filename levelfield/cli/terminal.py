"""What commands say to a person: notes and progress on stderr, tables on stdout."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from levelfield.core.progress import Progress, no_progress

if TYPE_CHECKING:
    from rich.console import Console


def say(message: str) -> None:
    """A line on stderr."""
    print(message, file=sys.stderr, flush=True)


def console() -> Console:
    """Where tables go: stdout, as wide as they are where it is no terminal, so that names stay
    whole in a file or a pipe."""
    from rich.console import Console

    made = Console(highlight=False)
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
        task = bar.add_task(what, total=total)
        yield lambda n: bar.advance(task, n)
