"""Work that takes long: how far it is, and how long it may take.

The time limit is for code that is not ours: what takes longer is interrupted. An alarm raises an
exception where Python runs. Code that never comes back to Python (a loop in C) does not hear it, so
the process ends a while later, with the stack on stderr.
"""

from __future__ import annotations

import contextlib
import faulthandler
import signal
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

from levelfield.core.errors import UserError

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

Progress = Callable[[int], None]
"""Called with the number of samples just finished."""


def no_progress(_: int) -> None:
    """The default `Progress`: says nothing."""


Stages = Callable[[str, int | None], contextlib.AbstractContextManager[Progress]]
"""Opens a stage of the work: its name and how many samples it has, None where that is unknown."""


@contextlib.contextmanager
def no_stages(_: str, __: int | None) -> Iterator[Progress]:
    """The default `Stages`: says nothing."""
    yield no_progress


GRACE_S = 10.0
"""How long after its limit code that does not hear the alarm goes on before the process ends."""

_AGAIN_S = 1.0
"""The alarm comes again, for code that catches whatever is raised."""

_STDERR = 2

LIMIT: ContextVar[float | None] = ContextVar("limit", default=None)
"""Seconds that `time_limit` allows here; None without a limit."""

_armed: ContextVar[bool] = ContextVar("armed", default=False)


class TimeIsUp(BaseException):
    """The time limit is over; no `except Exception` catches it."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"it took longer than {seconds:g} s")
        self.seconds = seconds


@contextlib.contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Limits each `timed` piece of work that begins inside; None limits nothing.

    Raises:
        UserError: it is not a positive number, or alarms can't be set here.
    """
    if seconds is not None:
        if not 0 < seconds < threading.TIMEOUT_MAX:
            raise UserError(f"time_limit: expected seconds above 0, found {seconds}")
        is_main = threading.current_thread() is threading.main_thread()
        if not (is_main and hasattr(signal, "setitimer")):
            raise UserError(
                "time_limit: works only in the main thread, and not on Windows; leave it out here"
            )
    token = LIMIT.set(seconds)
    try:
        yield
    finally:
        LIMIT.reset(token)


@contextlib.contextmanager
def timed() -> Iterator[None]:
    """Interrupts what takes longer than the limit; work inside it has no limit of its own.

    Raises:
        TimeIsUp: it took longer.
    """
    seconds = LIMIT.get()
    if seconds is None or _armed.get():
        yield
        return

    def ring(_: int, __: FrameType | None) -> None:
        raise TimeIsUp(seconds)

    armed = _armed.set(True)
    before = signal.signal(signal.SIGALRM, ring)
    try:
        try:
            faulthandler.dump_traceback_later(seconds + GRACE_S, exit=True, file=_STDERR)
            signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_S)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:  # also when the alarm came on the way out
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)
        _armed.reset(armed)


def in_background(work: Callable[[], T]) -> Future[T]:
    """Starts a piece of work in a thread that ends with the process."""
    from concurrent import futures

    outcome: Future[T] = futures.Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome
