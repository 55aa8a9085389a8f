"""Work on many items at once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_LISTEN_S = 0.2


def in_threads(
    work: Callable[[T, threading.Event], R], items: Sequence[T], threads: int
) -> list[R]:
    """`work` done on all items, so many at once: the results, in the order of the items."""
    return list(results_in_threads(work, items, threads))


def results_in_threads(
    work: Callable[[T, threading.Event], R], items: Sequence[T], threads: int
) -> Iterator[R]:
    """`work` done on all items, so many at once: each result, in the order of the items, as soon
    as those before it are there.

    The first exception, Ctrl-C among them, is raised at once: `work` is told by the event, and
    nobody waits for what is under way, since the threads are daemons.
    """
    todo: queue.SimpleQueue[tuple[int, T]] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, R | BaseException]] = queue.SimpleQueue()
    stop = threading.Event()
    for numbered in enumerate(items):
        todo.put(numbered)

    def run() -> None:
        while not stop.is_set():
            try:
                at, item = todo.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((at, work(item, stop)))
            except BaseException as error:
                done.put((at, error))
                return

    for _ in range(min(threads, len(items))):
        threading.Thread(target=run, daemon=True).start()
    waiting: dict[int, R] = {}
    next_one = 0
    try:
        while next_one < len(items):
            try:
                at, result = done.get(timeout=_LISTEN_S)  # a wait without end may not hear Ctrl-C
            except queue.Empty:
                continue
            if isinstance(result, BaseException):
                raise result
            waiting[at] = result
            while next_one in waiting:
                yield waiting.pop(next_one)
                next_one += 1
    finally:
        stop.set()
