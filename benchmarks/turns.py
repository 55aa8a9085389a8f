"""Ways to do one thing, timed by turns: medians with their ranges.

A machine that slows down slows all ways, so their ratio stays; a single cold run says nothing.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Seconds(NamedTuple):
    """How long the repeats of one way took.

    >>> print(Seconds([1.0, 4.0, 2.0]))
    2 s (1 to 4)
    """

    values: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def __str__(self) -> str:
        return f"{self.median:.3g} s ({min(self.values):.3g} to {max(self.values):.3g})"

    def times(self, quick: Seconds) -> str:
        """Returns the ratio to another way's time, with the smallest and largest of a turn."""
        ratios = [a / b for a, b in zip(self.values, quick.values, strict=True)]
        span = f"{min(ratios):.2f} to {max(ratios):.2f}"
        return f"{self} / {quick} = {self.median / quick.median:.2f} times ({span} of a turn)"


def by_turns(
    ways: Mapping[str, Callable[[], T]],
    repeat: int,
    *,
    warm_up: Callable[[], object] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[dict[str, Seconds], dict[str, T]]:
    """Runs all ways `repeat` times, every other turn in reverse order.

    Args:
        warm_up: runs first; by default every way runs once.
        clock: a clock in seconds; `time.process_time` counts the process's own.

    Returns:
        The times of each way, and the result of its last run.
    """
    if warm_up is None:
        for way in ways.values():
            way()
    else:
        warm_up()
    seconds: dict[str, Seconds] = {name: Seconds([]) for name in ways}
    results: dict[str, T] = {}
    for turn in range(repeat):
        for name in list(ways)[:: -1 if turn % 2 else 1]:
            begin = clock()
            results[name] = ways[name]()
            seconds[name].values.append(clock() - begin)
    return seconds, results
