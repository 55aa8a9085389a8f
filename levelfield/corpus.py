"""Corpus metrics: one value for a group of samples, from a state that partitions can share.

A partition can be scored anywhere: `state(samples)` there, `merge` wherever two states meet,
`value` at the end. Order does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeGuard

import numpy as np

from levelfield.metric import Level, Metric, Progress, no_progress, partitions
from levelfield.sample import Sample
from levelfield.scores import Scores

BY = ("system", "dataset", "seed", "control")
"""What the samples of a group have in common, unless the user says otherwise."""

NO_INTERVAL = "one value a group, not one a sample"


class CorpusValue(NamedTuple):
    """The value of a group; NaN with the reason where it is undefined."""

    value: float
    undefined: str = ""
    truncated: int = 0


class CorpusMetric(Protocol):
    """A `Metric` of level `corpus`. `score` gives one value a group; its ids are group names.

    Classes get `score` from `OfGroups` and write the three steps.
    """

    @property
    def name(self) -> str: ...
    @property
    def level(self) -> Level: ...
    @property
    def requires(self) -> frozenset[str]: ...
    @property
    def higher_is_better(self) -> bool: ...
    @property
    def signature(self) -> str: ...
    def score(self, samples: Sequence[Sample], *, progress: Progress = no_progress) -> Scores: ...
    def state(self, samples: Sequence[Sample]) -> Any:
        """What `value` needs of these samples (of one group); picklable. There may be none."""

    def merge(self, a: Any, b: Any) -> Any:
        """The state of two partitions of a group together; may change neither."""

    def value(self, state: Any) -> CorpusValue: ...


class OfGroups:
    """`score` for corpus metrics: by system, dataset, seed and control value."""

    def score(
        self: CorpusMetric, samples: Sequence[Sample], *, progress: Progress = no_progress
    ) -> Scores:
        """One value a group; ids are the groups' names, in order of first appearance."""
        groups = GroupStates(self)
        for partition in partitions(samples):
            groups.add(partition)
            progress(len(partition))
        return groups.scores()


class GroupStates:
    """The states of a corpus metric's groups as samples come in."""

    def __init__(self, metric: CorpusMetric, by: Sequence[str] = BY) -> None:
        self.metric = metric
        self._by = by
        self._states: dict[str, Any] = {}

    def add(self, samples: Iterable[Sample]) -> None:
        """Take in a partition."""
        grouped: dict[str, list[Sample]] = {}
        for sample in samples:
            grouped.setdefault(group_name(sample, self._by), []).append(sample)
        for name, members in grouped.items():
            state = self.metric.state(members)
            known = self._states.get(name)
            self._states[name] = state if known is None else self.metric.merge(known, state)

    def scores(self) -> Scores:
        """The values so far."""
        found = {name: self.metric.value(state) for name, state in self._states.items()}
        return Scores(
            metric=self.metric.name,
            ids=tuple(found),
            values=np.array([v.value for v in found.values()], np.float64),
            undefined={name: v.undefined for name, v in found.items() if v.undefined},
            signature=self.metric.signature,
            higher_is_better=self.metric.higher_is_better,
            truncated=frozenset(name for name, v in found.items() if v.truncated),
        )


def is_corpus_metric(metric: Metric) -> TypeGuard[CorpusMetric]:
    """Whether a metric gives one value a group."""
    return metric.level == "corpus"


def group_name(sample: Sample, by: Sequence[str] = BY) -> str:
    """The group of a sample in words; what it has no value for is left out.

    >>> group_name(Sample("1", "So.", system="gedi", seed=3, control={"sentiment": "positive"}))
    'system=gedi seed=3 sentiment=positive'
    """
    words: list[str] = []
    for name in by:
        value: object = getattr(sample, name)
        if isinstance(value, Mapping):
            for attribute, wanted in value.items():
                words.append(
                    f"{attribute}={wanted if isinstance(wanted, str) else ', '.join(wanted)}"
                )
        elif value not in ("", None):
            words.append(f"{name}={value}")
    return " ".join(words) or "all texts"
