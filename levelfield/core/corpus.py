"""Corpus metrics: one value for a group of samples, from a state that partitions can share.

A partition can be scored anywhere: `state(samples)` there, `merge` wherever two states meet,
`value` at the end. Order does not matter.
"""

from __future__ import annotations

import abc
import functools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeGuard

import numpy as np

from levelfield.core.direction import direction_of
from levelfield.core.metric import Metric, blame, guarded, score_checked
from levelfield.core.partitions import partitions
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Sample, wanted_name
from levelfield.core.scores import Scores

BY = ("system", "dataset", "seed", "control")
"""What the samples of a group have in common, unless the user says otherwise."""

_STEPS = ("state", "merge", "value")


class CorpusValue(NamedTuple):
    """The value of a group; NaN with the reason where it is undefined."""

    value: float
    undefined: str = ""
    truncated: int = 0


class CorpusMetric(Metric, Protocol):
    """A `Metric` of level `corpus`. `score` gives one value a group; its ids are group names.

    Classes get `score` from `OfGroups` and write the three steps.
    """

    def state(self, samples: Sequence[Sample]) -> Any:
        """Returns what `value` needs of these samples of one group, as a picklable object.

        There may be no samples.
        """

    def merge(self, a: Any, b: Any) -> Any:
        """Returns the state of two partitions of a group together; changes neither."""

    def value(self, state: Any) -> CorpusValue: ...


class OfGroups:
    """`score` for corpus metrics: by system, dataset, seed and control value."""

    def score(
        self: CorpusMetric, samples: Sequence[Sample], *, progress: Progress = no_progress
    ) -> Scores:
        """Returns one value a group; ids are the groups' names, in order of first appearance."""
        groups = GroupStates(self)
        for partition in partitions(samples):
            groups.merge(groups.states(partition))
            progress(len(partition))
        return groups.scores()


class OfScores(OfGroups, abc.ABC):
    """Base of corpus metrics that read the scores of a sample metric and not the samples: what a
    model says of each sample is then cached as the scores of any metric are."""

    @property
    @abc.abstractmethod
    def of_samples(self) -> Metric:
        """The sample metric whose scores are read."""

    @abc.abstractmethod
    def state_of(self, scores: Scores) -> Any:
        """Returns the state of samples with these scores under `of_samples`."""

    def state(self, samples: Sequence[Sample]) -> Any:
        """Returns the state of these samples."""
        return self.state_of(self.of_samples.score(samples))


class GroupStates:
    """The states of a corpus metric's groups as samples come in.

    Args:
        by: what the samples of a group have in common; by default what the metric says (its
            class variable `by`), else `BY`.

    Raises:
        MetricError: the metric lacks a step.
    """

    def __init__(self, metric: CorpusMetric, by: Sequence[str] | None = None) -> None:
        if lacking := [step for step in _STEPS if not hasattr(metric, step)]:
            raise blame(metric, f"is a corpus metric and has no {', '.join(lacking)}")
        self.metric = metric
        self._by: Sequence[str] = getattr(metric, "by", BY) if by is None else by
        self._runs: dict[str, list[tuple[int, Any]]] = {}

    def names_of(self, samples: Sequence[Sample]) -> list[str]:
        """Returns the group that each sample belongs to."""
        return [group_name(sample, self._by) for sample in samples]

    def states(
        self,
        samples: Iterable[Sample],
        score: Callable[[Metric, Sequence[Sample]], Scores] = score_checked,
    ) -> dict[str, Any]:
        """Returns group -> the state of its samples in a partition, whatever came before.

        Args:
            score: how the scores that the metric reads are obtained, if it is one `OfScores`.

        Raises:
            MetricError: the metric failed on these samples.
        """
        states = {}
        for name, members in self._members(samples).items():
            with guarded(self.metric, f"failed on samples '{members[0].id}' and others"):
                states[name] = (
                    self.metric.state_of(score(self.metric.of_samples, members))
                    if isinstance(self.metric, OfScores)
                    else self.metric.state(members)
                )
        return states

    def wanted_scores(self, samples: Iterable[Sample]) -> list[tuple[Metric, list[Sample]]]:
        """Returns what `states` scores of a partition: nothing, unless the metric is `OfScores`."""
        if not isinstance(self.metric, OfScores):
            return []
        return [(self.metric.of_samples, members) for members in self._members(samples).values()]

    def _members(self, samples: Iterable[Sample]) -> dict[str, list[Sample]]:
        """Returns group -> its samples."""
        grouped: dict[str, list[Sample]] = {}
        for sample in samples:
            grouped.setdefault(group_name(sample, self._by), []).append(sample)
        return grouped

    def merge(self, states: Mapping[str, Any]) -> None:
        """Takes in the `states` of a partition.

        Raises:
            MetricError: the metric failed to merge them.
        """
        for name, state in states.items():
            with guarded(self.metric, f"failed on group '{name}'"):
                self._take(self._runs.setdefault(name, []), state)

    def _take(self, runs: list[tuple[int, Any]], state: Any) -> None:
        """Merges states of equal size only, as a binary counter carries: a state that grows with
        its corpus is then copied log(n) times, not n times."""
        size = 1
        while runs and runs[-1][0] == size:
            _, earlier = runs.pop()
            state, size = self.metric.merge(earlier, state), 2 * size
        runs.append((size, state))

    def scores(self) -> Scores:
        """Returns the values so far.

        Raises:
            MetricError: the metric failed on some group.
        """
        values: dict[str, CorpusValue] = {}
        for name, runs in self._runs.items():
            with guarded(self.metric, f"failed on group '{name}'"):
                states = [state for _, state in runs]
                value = self.metric.value(functools.reduce(self.metric.merge, states))
                values[name] = value = CorpusValue(*value)
                if math.isnan(value.value) != bool(value.undefined.strip()):
                    raise ValueError(f"NaN needs a reason and nothing else may have one: {value}")
        return Scores(
            metric=self.metric.name,
            ids=tuple(values),
            values=np.array([v.value for v in values.values()], np.float64),
            undefined={name: v.undefined for name, v in values.items() if v.undefined},
            signature=self.metric.signature,
            direction=direction_of(self.metric),
            truncated=frozenset(name for name, v in values.items() if v.truncated),
        )


def is_corpus_metric(metric: Metric) -> TypeGuard[CorpusMetric]:
    """Returns whether a metric gives one value a group."""
    return metric.level == "corpus"


def group_name(sample: Sample, by: Sequence[str] = BY) -> str:
    """Returns the group of a sample in words; what it has no value for is left out.

    >>> group_name(Sample("1", "So.", system="gedi", seed=3, control={"sentiment": "positive"}))
    'system=gedi seed=3 sentiment=positive'
    """
    words: list[str] = []
    for name in by:
        value: object = getattr(sample, name)
        if value in ("", None):
            continue
        if not isinstance(value, str | int) and isinstance(value, Mapping):  # the former is quick
            words += [f"{attribute}={wanted_name(label)}" for attribute, label in value.items()]
        else:
            words.append(f"{name}={value}")
    return " ".join(words) or _ALL


_ALL = "all texts"
_GROUP = re.compile(r"[^\s=]+=.", re.DOTALL)


def is_group_name(id: str) -> bool:
    """Returns whether an id has the form of those of groups, as `group_name` makes them.

    >>> is_group_name("system=gedi seed=3"), is_group_name("gedi/3")
    (True, False)
    """
    return id == _ALL or _GROUP.match(id) is not None
