"""Balanced accuracy of control over the texts of a group."""

from __future__ import annotations

import functools
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, NamedTuple

import numpy as np

from levelfield.core.corpus import CorpusValue, OfScores
from levelfield.core.metric import Level
from levelfield.core.scores import Scores
from levelfield.core.undefined import NO_SAMPLES
from levelfield.metrics.control.effectiveness import JudgedSampleMetric
from levelfield.metrics.control.judged import JudgedMetric
from levelfield.metrics.control.votes import AttributeVerdicts
from levelfield.metrics.sample_metric import SampleValue


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
class ControlVotes(JudgedSampleMetric):
    """Which votes on each text are right. The value is their share; the parts are the votes, named
    by attribute, judge and wanted label."""

    name: ClassVar[str] = "control.balanced-accuracy/votes"

    def _sample_value(self, judged: Sequence[AttributeVerdicts]) -> SampleValue:
        votes = [
            (json.dumps([one.attribute, verdict.judge, one.wanted]), float(is_right))
            for one in judged
            for verdict, is_right in zip(one.verdicts, one.right, strict=True)
        ]
        parts = [(name, right, 1 / len(votes)) for name, right in votes]
        value = math.fsum(right for _, right in votes) / len(votes)
        return SampleValue(value, parts, any(one.cut for one in judged))


@dataclass(frozen=True)
class ControlBalancedAccuracy(JudgedMetric, OfScores):
    """Balanced accuracy of control: every wanted label counts the same.

    The share of right texts of each wanted label, averaged over labels and then over judges (and
    attributes), in [0, 1]. A judge that leans to one label can't gain by it, and it does not
    matter how many texts were asked for each. One value for system, dataset and seed. An empty
    output is wrong for every judge. Texts that are undefined (see control.average) are left out.

    Undefined: where no text can be judged; the commonest reason is given.
    """

    name: ClassVar[str] = "control.balanced-accuracy"
    level: ClassVar[Level] = "corpus"
    by: ClassVar[tuple[str, ...]] = ("system", "dataset", "seed")

    @functools.cached_property
    def of_samples(self) -> ControlVotes:
        """The votes on each text."""
        return ControlVotes(**{field.name: getattr(self, field.name) for field in fields(self)})

    def state_of(self, scores: Scores) -> VoteCounts:
        """Returns counts of right texts."""
        right: dict[tuple[str, str, str], tuple[int, int]] = {}
        if scores.parts is not None:
            for name, is_right in scores.parts.select("part", "score").iter_rows():
                attribute, judge, wanted = json.loads(name)
                n_right, n = right.get((attribute, judge, wanted), (0, 0))
                right[attribute, judge, wanted] = (n_right + int(is_right), n + 1)
        reasons = Counter(scores.undefined.values())
        return VoteCounts(right, dict(reasons), len(scores.truncated))

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
