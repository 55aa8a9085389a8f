"""Chooses the samples that the page of a run shows, while the samples go by."""

from __future__ import annotations

import hashlib
import heapq
import itertools
from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Generic, NamedTuple, TypeVar

from levelfield.core.direction import SIGNS
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores

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


LOWEST = 25
UNDEFINED = 50


class ValuePart(NamedTuple):
    """One evaluator of a value; the weights of a sample's parts sum to 1."""

    part: str
    score: float
    weight: float


@dataclass(frozen=True)
class ShownSample:
    """A sample of the page.

    Attributes:
        sample: the sample.
        group: the group it is summarised in.
        values: metric -> value; NaN or missing where undefined.
        undefined: metric -> reason.
        parts: metric -> what its value is made of, in the order of the text.
    """

    sample: Sample
    group: str
    values: Mapping[str, float]
    undefined: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, Sequence[ValuePart]] = field(default_factory=dict)


class Gallery:
    """Some hundreds of the samples of a run, whatever its size.

    It keeps the texts of all systems for inputs that are drawn by their hashes, the `LOWEST` values
    of every metric, and the first `UNDEFINED` of every metric.
    """

    def __init__(self) -> None:
        self._seen = 0
        self._drawn: InputDraw[tuple[int, ShownSample]] = InputDraw()
        self._lowest: dict[str, _Smallest] = {}
        self._undefined: dict[str, _Smallest] = {}

    def add(
        self, samples: Sequence[Sample], groups: Sequence[str], scored: Sequence[Scores]
    ) -> None:
        """Takes in samples with their groups and the scores of all metrics."""
        parts: dict[tuple[str, str], list[ValuePart]] = {}
        for scores in scored:
            for id, part, score, weight in scores.part_rows or ():
                value_part = ValuePart(part, score, weight)
                parts.setdefault((id, scores.metric), []).append(value_part)
        for i, (sample, group) in enumerate(zip(samples, groups, strict=True)):
            values = {s.metric: float(s.values[i]) for s in scored}
            undefined = {
                s.metric: s.undefined[sample.id] for s in scored if sample.id in s.undefined
            }
            made_of = {
                metric: parts[sample.id, metric]
                for metric in values
                if (sample.id, metric) in parts
            }
            shown = (self._seen, ShownSample(sample, group, values, undefined, made_of))
            self._seen += 1
            self._drawn.offer(sample, shown)
            for s in scored:
                if s.metric in undefined:
                    chosen = self._undefined.setdefault(s.metric, _Smallest(UNDEFINED))
                    chosen.offer(self._seen, shown)
                elif sign := SIGNS[s.direction]:
                    chosen = self._lowest.setdefault(s.metric, _Smallest(LOWEST))
                    chosen.offer(sign * values[s.metric], shown)

    def shown(self) -> list[ShownSample]:
        """The chosen samples, in the order of the run."""
        every = itertools.chain(*self._drawn, *self._lowest.values(), *self._undefined.values())
        return [sample for _, sample in sorted(dict(every).items())]

    def inputs(self) -> list[list[ShownSample]]:
        """The drawn inputs, each with the texts of all systems."""
        return [[shown for _, shown in texts] for texts in self._drawn]

    def how(self) -> str:
        """How they were chosen; empty if all are shown."""
        if len(self.shown()) == self._seen:
            return ""
        return (
            f"what every system wrote for {len(self.inputs()):,} inputs drawn by their hashes, "
            f"the {LOWEST} worst values of each metric, and the first {UNDEFINED} undefined ones "
            "of each"
        )


class _Smallest:
    """The items with the smallest keys of all that were offered."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._heap: list[tuple[float, int, tuple[int, ShownSample]]] = []

    def offer(self, key: float, item: tuple[int, ShownSample]) -> None:
        entry = (-key, -item[0], item)
        if len(self._heap) < self._size:
            heapq.heappush(self._heap, entry)
        elif entry[:2] > self._heap[0][:2]:
            heapq.heapreplace(self._heap, entry)

    def __iter__(self) -> itertools.chain[tuple[int, ShownSample]]:
        return itertools.chain(item for _, _, item in self._heap)
