"""Contents of a set of samples, counted in one pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeVar

from levelfield.core.continuation import without_thought
from levelfield.core.sample import Sample, wanted_values
from levelfield.io.records import FIELDS

K = TypeVar("K")
Counts = defaultdict[K, int]

MOST_LABELS = 1_000
"""Labels of an attribute that are counted apart; `keywords`, say, may have any number."""
OTHER_LABELS = "…"

# those that are not counted anyway, by what is in them
_COUNTED = ("text", "prompt", "source", "references", "context", "control", "ratings", "extra")
_counted = attrgetter(*_COUNTED)


@dataclass(frozen=True)
class Census:
    """Counts of samples by their contents.

    Attributes:
        n: samples.
        filled: field of `Sample` -> how many have something in it; every field is named.
        files: file -> samples in it, in the order given.
        systems, datasets, seeds: value -> samples; those without one are not counted here.
        control: attribute -> label -> samples that want it. A sample that wants several labels of
            an attribute counts for each; labels beyond `MOST_LABELS` are counted together under
            `OTHER_LABELS`.
        ratings: aspect -> rater -> samples rated.
        extra: name of a field that `Sample` lacks -> samples that have it.
        thoughts: samples whose text begins with a block in which a model thinks.
    """

    n: int
    filled: Mapping[str, int]
    files: Mapping[str, int]
    systems: Mapping[str, int]
    datasets: Mapping[str, int]
    seeds: Mapping[int, int]
    control: Mapping[str, Mapping[str, int]]
    ratings: Mapping[str, Mapping[str, int]]
    extra: Mapping[str, int]
    thoughts: int = 0


class Tally:
    """Counts samples one by one."""

    def __init__(self) -> None:
        self.n = self._thoughts = 0
        self._filled = dict.fromkeys(_COUNTED, 0)
        self._files: Counts[str] = defaultdict(int)
        self._systems: Counts[str] = defaultdict(int)
        self._datasets: Counts[str] = defaultdict(int)
        self._seeds: Counts[int | None] = defaultdict(int)
        self._control: dict[str, Counts[str]] = {}
        self._ratings: dict[str, Counts[str]] = {}
        self._extra: Counts[str] = defaultdict(int)

    def add(self, sample: Sample, file: str) -> None:
        self.n += 1
        for field, value in zip(_COUNTED, _counted(sample), strict=True):
            if value:
                self._filled[field] += 1
        self._thoughts += without_thought(sample.text, sample.prompt) != sample.text
        self._files[file] += 1
        self._systems[sample.system] += 1
        self._datasets[sample.dataset] += 1
        self._seeds[sample.seed] += 1
        for attribute, values in sample.control.items():
            labels = self._control.setdefault(attribute, defaultdict(int))
            for label in dict.fromkeys(wanted_values(values)):
                is_counted = label in labels or len(labels) < MOST_LABELS
                labels[label if is_counted else OTHER_LABELS] += 1
        for aspect, ratings in sample.ratings.items():
            raters = self._ratings.setdefault(aspect, defaultdict(int))
            for rater in ratings:
                raters[rater] += 1
        for name in sample.extra:
            self._extra[name] += 1

    def census(self) -> Census:
        named = {
            "id": self.n,
            "system": self.n - self._systems.pop("", 0),
            "dataset": self.n - self._datasets.pop("", 0),
            "seed": self.n - self._seeds.pop(None, 0),
        }
        filled = self._filled | named
        return Census(
            n=self.n,
            filled={field: filled[field] for field in FIELDS},
            files=dict(self._files),
            systems=dict(self._systems),
            datasets=dict(self._datasets),
            seeds={seed: n for seed, n in self._seeds.items() if seed is not None},
            control={attribute: dict(labels) for attribute, labels in self._control.items()},
            ratings={aspect: dict(raters) for aspect, raters in self._ratings.items()},
            extra=dict(self._extra),
            thoughts=self._thoughts,
        )
