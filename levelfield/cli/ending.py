"""Signals that end a program: each takes the same orderly way out as Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

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
