"""Which inputs go through a model together, so that little of the work is padding, and as what."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence, Sized
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Ints

T = TypeVar("T", bound=Hashable)
Row = Sequence[int] | npt.NDArray[np.integer]


def unique(items: Iterable[T]) -> tuple[list[T], list[int]]:
    """The distinct items in order of first appearance, and for each item its place among them.

    >>> unique("abca")
    (['a', 'b', 'c'], [0, 1, 2, 0])
    """
    places: dict[T, int] = {}
    inverse = [places.setdefault(item, len(places)) for item in items]
    return list(places), inverse


def buckets(
    lengths: Sequence[int], budget: int, *, waste: float = 0.1
) -> Iterator[npt.NDArray[np.intp]]:
    """Indices of items to be batched, items of like length together, longest first.

    A bucket of m items holds at most `budget` tokens, padding included (one item always goes in,
    however long), and no item is shorter than (1 − waste) of the longest, once the bucket holds
    an eighth of the budget: tiny batches would waste more than padding does.

    >>> [bucket.tolist() for bucket in buckets([3, 10, 3, 9], budget=20)]
    [[1, 3], [0, 2]]
    """
    order = np.argsort(-np.asarray(lengths, dtype=np.intp), kind="stable")
    start = 0
    while start < len(order):
        longest = max(1, lengths[order[start]])
        end = start + 1
        while end < len(order) and (end - start + 1) * longest <= budget:
            full_enough = (end - start) * longest * 8 >= budget
            if full_enough and lengths[order[end]] < (1 - waste) * longest:
                break
            end += 1
        yield order[start:end]
        start = end


def padded(rows: Sequence[Row], pad: int, *, left: bool = False) -> Ints:
    """Rows of ids, filled up to the longest on the right, or on the left: (rows, longest).

    >>> padded([[5, 6, 7], [8]], 0).tolist(), padded([[5, 6, 7], [8]], 0, left=True).tolist()
    ([[5, 6, 7], [8, 0, 0]], [[5, 6, 7], [0, 0, 8]])
    """
    longest = max(map(len, rows))
    filled = np.full((len(rows), longest), pad, np.int64)
    for place, row in zip(filled, rows, strict=True):
        begin = longest - len(row) if left else 0
        place[begin : begin + len(row)] = row
    return filled


def token_mask(rows: Sequence[Sized], *, left: bool = False) -> Ints:
    """1 where `padded` has a token of a row, 0 where it has padding: (rows, longest).

    >>> token_mask([[5, 6, 7], [8]]).tolist()
    [[1, 1, 1], [1, 0, 0]]
    """
    lengths = np.array([len(row) for row in rows])
    mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int64)
    return mask[:, ::-1].copy() if left else mask


def window(left: int, right: int, room: int) -> tuple[int, int]:
    """How many tokens to keep on each side of a place when only `room` fit: those nearest to it.

    What one side leaves free goes to the other.

    >>> window(10, 100, 30), window(100, 100, 31), window(3, 4, 30)
    ((10, 20), (15, 16), (3, 4))
    """
    keep_left = min(left, max(room // 2, room - right))
    return keep_left, min(right, room - keep_left)
