"""Partitions: what is read, worked on and kept together."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

PARTITION = 64
"""Samples scored together: enough for batches without padding, few enough to lose to a crash."""


def partitions(items: Iterable[T], size: int = PARTITION) -> Iterator[list[T]]:
    """Yields samples, or whatever else, in lists of `size`, the last one shorter.

    What came before an error of `items` is yielded before the error is raised.
    """
    waiting = iter(items)
    while True:
        partition: list[T] = []
        try:
            partition.extend(itertools.islice(waiting, size))
        except Exception:
            if partition:
                yield partition
            raise
        if not partition:
            return
        yield partition
