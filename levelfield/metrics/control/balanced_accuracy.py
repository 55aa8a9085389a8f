"""Balanced accuracy of control over the texts of a group."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from levelfield.core.corpus import CorpusValue, OfGroups
from levelfield.core.metric import Level
from levelfield.core.sample import Sample
from levelfield.core.undefined import (
    NO_SAMPLES,
    Undefined,
)
from levelfield.metrics.control.judged import JudgedMetric


class VoteCounts(NamedTuple):
    """State of the balanced accuracy.

    Attributes:
        right: (attribute, judge, wanted label) -> how many texts were right, and how many judged.
        reasons: why texts could not be judged -> how many.
        truncated: how many texts a judge did not see all of.
    """

    right: Mapping[tuple[str, str, str], tuple[int, int]]
    reasons: Mapping[str, int]
    truncated: int


@dataclass(frozen=True)
class ControlBalancedAccuracy(JudgedMetric, OfGroups):
    """Balanced accuracy of control: every wanted label counts the same.

    The share of right texts of each wanted label, averaged over labels and then over judges (and
    attributes), in [0, 1]. A judge that leans to one label can't gain by it, and it does not
    matter how many texts were asked for each. One value for system, dataset and seed. An empty
    output is wrong for every judge. Texts that are undefined (see control.average) are left out.

    Undefined: where no text can be judged; the commonest reason is given.

    Options: as for control.average.
    """

    name: ClassVar[str] = "control.balanced-accuracy"
    level: ClassVar[Level] = "corpus"
    by: ClassVar[tuple[str, ...]] = ("system", "dataset", "seed")

    def state(self, samples: Sequence[Sample]) -> VoteCounts:
        """Returns counts of right texts."""
        right: dict[tuple[str, str, str], tuple[int, int]] = {}
        reasons: Counter[str] = Counter()
        truncated = 0
        for judged in self._judge(samples):
            if isinstance(judged, Undefined):
                reasons[judged.reason] += 1
                continue
            truncated += any(one.cut for one in judged)
            for one in judged:
                for verdict, is_right in zip(one.verdicts, one.right, strict=True):
                    key = (one.attribute, verdict.judge, one.wanted)
                    n_right, n = right.get(key, (0, 0))
                    right[key] = (n_right + is_right, n + 1)
        return VoteCounts(right, dict(reasons), truncated)

    def merge(self, a: VoteCounts, b: VoteCounts) -> VoteCounts:
        """Returns the sums of counts."""
        right = {
            key: tuple(np.add(a.right.get(key, (0, 0)), b.right.get(key, (0, 0))).tolist())
            for key in {**a.right, **b.right}
        }
        reasons = Counter(a.reasons) + Counter(b.reasons)
        return VoteCounts(right, dict(reasons), a.truncated + b.truncated)

    def value(self, state: VoteCounts) -> CorpusValue:
        """Returns the share that is right, averaged over wanted labels, then over judges."""
        if not state.right:
            common = max(state.reasons, key=lambda r: state.reasons[r], default=NO_SAMPLES)
            return CorpusValue(math.nan, common)
        shares: dict[tuple[str, str], list[float]] = {}
        for (attribute, judge, _), (n_right, n) in state.right.items():
            shares.setdefault((attribute, judge), []).append(n_right / n)
        of_judges = [math.fsum(of_labels) / len(of_labels) for of_labels in shares.values()]
        return CorpusValue(math.fsum(of_judges) / len(of_judges), truncated=state.truncated)
