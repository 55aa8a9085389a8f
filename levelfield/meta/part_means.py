"""Means of the parts that every value of a metric is made of, group by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from levelfield.core.scores import Scores
from levelfield.core.strings import natural


@dataclass(frozen=True)
class PartMean:
    """The mean of one part over the defined values of a group.

    Attributes:
        group: its name, e.g. the system.
        part: the part's name.
        mean: of its scores.
        weight: the mean weight of the part in the values that have it.
        n: how many values have it.
    """

    group: str
    part: str
    mean: float
    weight: float
    n: int

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {name: getattr(self, name) for name in ("group", "part", "mean", "weight", "n")}


class PartTally:
    """Takes in the parts of scores, in any order and partition.

    Args:
        names: metric -> the names of the parts that its values are made of, in the order to show
            them; other metrics are passed over.
    """

    def __init__(self, names: Mapping[str, Sequence[str]]) -> None:
        self._names = names
        self._sums: dict[tuple[str, str, str], np.ndarray] = {}

    def add(self, groups: Sequence[str], scores: Scores) -> None:
        """Takes in the scores of samples with the groups that they belong to."""
        if scores.metric not in self._names or scores.parts is None:
            return
        group_of = dict(zip(scores.ids, groups, strict=True))
        for id, part, score, weight in scores.parts.iter_rows():
            sums = self._sums.setdefault((scores.metric, group_of[id], part), np.zeros(3))
            sums += (score, weight, 1)

    def means(self) -> dict[str, tuple[PartMean, ...]]:
        """Metric -> the means, groups by name."""
        return {
            metric: means
            for metric, names in self._names.items()
            if (means := tuple(self._of_metric(metric, names)))
        }

    def _of_metric(self, metric: str, names: Sequence[str]) -> list[PartMean]:
        groups = sorted({group for of, group, _ in self._sums if of == metric}, key=natural)
        means = []
        for group in groups:
            for part in names:
                if (sums := self._sums.get((metric, group, part))) is not None:
                    score, weight, n = sums.tolist()
                    means.append(PartMean(group, part, score / n, weight / n, int(n)))
        return means
