"""What commands say: notes and progress on stderr, tables and documents on stdout.

No control character of a name, a text or a plug-in's error gets to a terminal: it is shown as its
escape.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from levelfield.core.progress import Progress
from levelfield.core.strings import json_text, visible
from levelfield.show.terminal import console as console


def say(message: str) -> None:
    """Prints a line on stderr."""
    print(visible(message), file=sys.stderr, flush=True)


def say_note(message: str) -> None:
    """Prints a note on stderr: what the user should know, but not an error."""
    say(f"note: {message}")


def tell(message: str) -> None:
    """Prints a line on stdout."""
    click.echo(visible(message))


def tell_json(document: object, *, indent: int | None = None) -> None:
    """Prints one JSON document on stdout, safe for a terminal."""
    whole = json_text(document, indent=indent)
    # of what `visible` escapes, JSON leaves some as it is; there is none outside of strings
    if visible(whole) != whole:
        whole = "".join(c if visible(c) == c else f"\\u{ord(c):04x}" for c in whole)
    click.echo(whole)


@contextlib.contextmanager
def progress_bar(
    task_name: str, total: int | None, beside: Callable[[], str] | None = None
) -> Iterator[Progress]:
    """Shows a progress bar on stderr; if stderr is not a terminal, prints a line per minute.

    Args:
        beside: returns what to show next to the bar, such as a rate; called at each advance.
    """
    if not sys.stderr.isatty():
        yield _progress_lines(task_name, total, beside)
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
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[beside]}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(visible(task_name), total=total, beside="")
        yield lambda n: bar.update(task, advance=n, beside=beside() if beside else "")


LINE_EVERY_S = 60.0
"""The time between two lines of progress; shorter work shows none."""


def _progress_lines(
    task_name: str, total: int | None, beside: Callable[[], str] | None = None
) -> Progress:
    """Prints the progress of the work once a minute, for logs."""
    start = last = time.monotonic()
    done = 0

    def progress(n: int) -> None:
        nonlocal last, done
        done += n
        now = time.monotonic()
        if now - last < LINE_EVERY_S or not done:
            return
        last = now
        far = f"{done:,}"
        if total:
            left = (now - start) / done * max(total - done, 0)
            far = f"{done:,} of {total:,}, {_duration(left)} left"
        say(f"levelfield: {task_name} {far}{f', {beside()}' if beside else ''}")

    return progress


def _duration(seconds: float) -> str:
    """Returns a time to wait, in one unit."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


_ENDING = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)  # Windows has no SIGHUP


@contextmanager
def orderly_end() -> Iterator[list[int]]:
    """Makes `KeyboardInterrupt` of the signals that end a program; yields those that have come.

    A signal that is ignored, as under `nohup`, stays ignored.
    """
    arrived: list[int] = []

    def interrupt(number: int, _frame: object) -> None:
        arrived.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield arrived
        return
    before = {
        number: signal.signal(number, interrupt)
        for number in _ENDING
        if signal.getsignal(number) is signal.SIG_DFL
    }
    try:
        yield arrived
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
