"""From what comes out for each sample to scores: what metrics with parts have in common."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import polars as pl

from levelfield.core.metric import Level, partitions
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Sample
from levelfield.core.scores import PARTS_SCHEMA, Scores, concatenate
from levelfield.core.undefined import Undefined


class SampleValue(NamedTuple):
    """The value of one sample and what it is made of."""

    value: float
    parts: Sequence[tuple[str, float, float]]
    cut: bool


class SampleMetric(abc.ABC):
    """A metric of samples that gives an outcome for each of a partition."""

    level: ClassVar[Level] = "sample"
    higher_is_better: ClassVar[bool] = True
    name: ClassVar[str]

    @property
    @abc.abstractmethod
    def signature(self) -> str:
        """Every choice that could change a value."""

    @abc.abstractmethod
    def _sample_values(self, samples: Sequence[Sample]) -> Sequence[SampleValue | Undefined]:
        """What comes out for each of these samples, of which there is at least one."""

    def score(self, samples: Sequence[Sample], *, progress: Progress = no_progress) -> Scores:
        """The values of these samples, undefined ones with their reasons, and their parts."""
        scored = [self._scores(())]
        for partition in partitions(samples):
            scored.append(self._scores(partition))
            progress(len(partition))
        return concatenate(scored)

    def _scores(self, samples: Sequence[Sample]) -> Scores:
        found = list(zip(samples, self._sample_values(samples) if samples else (), strict=True))
        defined = [(sample.id, o) for sample, o in found if isinstance(o, SampleValue)]
        rows = [(id, *part) for id, outcome in defined for part in outcome.parts]
        return Scores(
            metric=self.name,
            ids=tuple(sample.id for sample in samples),
            values=np.array(
                [o.value if isinstance(o, SampleValue) else np.nan for _, o in found], np.float64
            ),
            undefined={sample.id: o.reason for sample, o in found if isinstance(o, Undefined)},
            signature=self.signature,
            higher_is_better=self.higher_is_better,
            parts=pl.DataFrame(rows, schema=PARTS_SCHEMA, orient="row"),
            truncated=frozenset(id for id, outcome in defined if outcome.cut),
        )
