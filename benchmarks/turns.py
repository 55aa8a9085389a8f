"""Ways to do one thing, timed by turns: medians with what they lie between.

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
        """This as a multiple of another way's time, with the smallest and largest of a turn."""
        ratios = [a / b for a, b in zip(self.values, quick.values, strict=True)]
        of_turns = f"{min(ratios):.2f} to {max(ratios):.2f}"
        return f"{self} / {quick} = {self.median / quick.median:.2f} times ({of_turns} of a turn)"


def by_turns(
    ways: Mapping[str, Callable[[], T]],
    repeat: int,
    *,
    warm_up: Callable[[], object] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[dict[str, Seconds], dict[str, T]]:
    """Runs all ways so many times, every other turn in reverse; returns their times and what the
    last run of each came to.

    Args:
        warm_up: runs before; every way once if there is none.
        clock: in seconds; `time.process_time` is the process's own.
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
