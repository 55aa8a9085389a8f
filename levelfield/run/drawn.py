"""Draws inputs while samples go by, each with the texts of all systems."""

from __future__ import annotations

import hashlib
import heapq
from bisect import insort
from collections.abc import Iterator
from operator import itemgetter
from typing import Generic, TypeVar

from levelfield.core.sample import Sample

DRAWN = 200
EACH = 3

Item = TypeVar("Item")


class InputDraw(Generic[Item]):
    """Some inputs with what every system wrote for them; at most `size` texts, whatever comes.

    Inputs have the smallest hashes of what was asked (dataset, source, prompt, context and
    control), which is as good as at random and the same for any order of the samples. A sample that
    was generated from nothing is an input of its own. Of a system's texts for one input the `EACH`
    with the lowest seeds are kept.
    """

    def __init__(self, size: int = DRAWN) -> None:
        self._size = size
        self._n = 0
        self._bound = 1 << 64
        self._largest: list[int] = []  # hashes, negative
        self._inputs: dict[int, dict[str, list[tuple[tuple[object, ...], Item]]]] = {}

    def offer(self, sample: Sample, item: Item) -> None:
        """Keeps what stands for a sample if its input is among those drawn so far."""
        drawn = _hash(sample.input or sample.id)
        if drawn >= self._bound:
            return
        if drawn not in self._inputs:
            heapq.heappush(self._largest, -drawn)
        texts = self._inputs.setdefault(drawn, {}).setdefault(sample.system, [])
        place = (sample.seed is None, sample.seed or 0, _hash(sample.id))
        insort(texts, (place, item), key=itemgetter(0))
        self._n += 1
        if len(texts) > EACH or (self._n > self._size and len(self._inputs) == 1):
            texts.pop()
            self._n -= 1
        while self._n > self._size:
            self._bound = -heapq.heappop(self._largest)
            self._n -= sum(map(len, self._inputs.pop(self._bound).values()))

    def __iter__(self) -> Iterator[list[Item]]:
        """The texts of every input, in the order in which inputs first came."""
        for systems in self._inputs.values():
            yield [item for texts in systems.values() for _, item in texts]


def _hash(key: object) -> int:
    # keys are strings or nested tuples of strings, for which `repr` is unambiguous
    written = repr(key).encode("utf-8", "backslashreplace")
    return int.from_bytes(hashlib.blake2b(written, digest_size=8).digest(), "little")
