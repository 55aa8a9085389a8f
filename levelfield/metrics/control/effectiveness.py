"""Control effectiveness of each text."""

from __future__ import annotations

import abc
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
from levelfield.core.options import option
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.core.undefined import (
    JUDGE_CANT_READ,
    NO_MAJORITY,
    NO_SAMPLES,
    ONE_ATTRIBUTE,
    Undefined,
)
from levelfield.core.votes import UNDECIDED, part_name
from levelfield.metrics.control.judged import (
    AttributeVerdicts,
    JudgedMetric,
    Rule,
    leaders,
    probability,
)
from levelfield.metrics.sample_metric import SampleMetric, SampleValue, of_defined


@dataclass(frozen=True)
class JudgedSampleMetric(JudgedMetric, SampleMetric, abc.ABC):
    """A value for every sample."""

    @abc.abstractmethod
    def _sample_value(self, judged: Sequence[AttributeVerdicts]) -> SampleValue | Undefined:
        """Returns the value of a sample from the verdicts on its attributes."""

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        return of_defined(
            self._judge(samples), lambda of_samples: map(self._sample_value, of_samples)
        )


@dataclass(frozen=True)
class ControlAverage(JudgedSampleMetric):
    """Control effectiveness: the share of judges that find the wanted label.

    CE = mean over the J judges of [vote = wanted], with several attributes over all their judges;
    the mean over samples is the study's headline (LPF section 3.2). An undecided judge (two labels
    equally likely) has not found it. In [0, 1]; chance is 1 / labels. The parts are the votes:
    `attribute/judge: label`, 1 where that is the wanted one.

    An empty output (a text that is blank, with text=continuation also one that ends with its
    prompt) has not done what was asked: no judge reads it, and it counts as 0, with the label
    `(empty)`. The study's judges read a blank there and give it some label.

    Undefined: what the request lacks, `no judged attribute` (the control names none, or only
    keywords), no judge of an attribute, a wanted label that a judge does not know; what can't be
    decided, with text=continuation a prompt that is not a prefix; with empty=undefined also `empty
    text` and `nothing after the prompt`.
    """

    name: ClassVar[str] = "control.average"

    def _sample_value(self, judged: Sequence[AttributeVerdicts]) -> SampleValue | Undefined:
        right = [vote for one in judged for vote in one.right]
        names = [
            f"{one.attribute}/{verdict.judge}: {verdict.vote or UNDECIDED}"
            for one in judged
            for verdict in one.verdicts
        ]
        parts = [(n, float(r), 1 / len(right)) for n, r in zip(names, right, strict=True)]
        return SampleValue(sum(right) / len(right), parts, any(one.cut for one in judged))


@dataclass(frozen=True)
class ControlProbability(JudgedSampleMetric):
    """Style strength: how likely the judges find the wanted label.

    Mean over the J judges of P(wanted | text), with several attributes over all their judges: the
    confidence of a style classifier (Lai et al. 2021; Mao 2021, sections 2.2.2 and 3.2.2), which
    tells texts apart that get the same vote. In [0, 1]; the parts are each judge's. An empty output
    is 0, as for control.average.

    Undefined: as for control.average, and `a judge can't read the text`: there is no probability.
    """

    name: ClassVar[str] = "control.probability"

    def _sample_value(self, judged: Sequence[AttributeVerdicts]) -> SampleValue | Undefined:
        p = [probability(verdict, one.wanted) for one in judged for verdict in one.verdicts]
        if np.isnan(p).any():
            return Undefined(JUDGE_CANT_READ)
        names = [
            f"{one.attribute}/{v.judge}: P({one.wanted})" for one in judged for v in one.verdicts
        ]
        parts = [(name, value, 1 / len(p)) for name, value in zip(names, p, strict=True)]
        return SampleValue(sum(p) / len(p), parts, any(one.cut for one in judged))


@dataclass(frozen=True)
class _MajorityMetric(JudgedSampleMetric, abc.ABC):
    """A metric on the labels that stand for all judges' votes."""

    rule: Rule = option(
        "majority",
        "Rule for the label that stands for all votes: majority, the one with the most; "
        "probability, of those with the most votes the one of the highest mean probability; "
        "study, the alphabetically last label that any judge gave.",
    )

    def _own(self) -> Mapping[str, object]:
        return {"rule": self.rule} | ({} if self.rule == "study" else {"ties": "share"})

    def _sample_value(self, judged: Sequence[AttributeVerdicts]) -> SampleValue | Undefined:
        labels = [leaders(one.verdicts, self.rule) for one in judged]
        if self.rule == "study" and () in labels:
            return Undefined(NO_MAJORITY)
        pairs = [*zip(judged, labels, strict=True)]
        right = [1 / len(first) if one.wanted in first else 0.0 for one, first in pairs]
        parts = [
            (
                part_name(f"{one.attribute}/majority", first or [UNDECIDED]),
                share,
                1 / len(judged),
            )
            for (one, first), share in zip(pairs, right, strict=True)
        ]
        return SampleValue(self._value(right), parts, any(one.cut for one in judged))

    @abc.abstractmethod
    def _value(self, right: Sequence[float]) -> float:
        """Returns the value from the share of each attribute: 1 / k where the wanted label is one
        of the k that stand for its votes, else 0."""


@dataclass(frozen=True)
class ControlMajority(_MajorityMetric):
    """Control effectiveness by majority: whether the judges together find the wanted label.

    1 / k if the wanted label is one of the k labels with the most votes, else 0: 1 where it has
    more than any other, and half where two judges disagree and one of them finds it. With several
    attributes the mean over them (LPF section 6.2). With one judge, its vote. An undecided judge
    has no vote; where all are undecided, none has found the label. The parts name the labels:
    `sentiment/majority: tie of negative, positive`. Leaving ties out would turn ranks round: with
    an even number of judges they are texts of middling quality, and systems differ in how many
    they have.

    Empty outputs: 0, as for control.average.

    With rule=probability only labels that are equally likely share. The published majorities of LPF
    rest on rule=study, which favours late labels (positive, World) and hides early ones (negative,
    Business): it is here to reproduce those numbers only.

    Undefined: as for control.average; with rule=study `no majority of the judges` where all are
    undecided.
    """

    name: ClassVar[str] = "control.majority"

    def _value(self, right: Sequence[float]) -> float:
        return sum(right) / len(right)


@dataclass(frozen=True)
class ControlBoth(_MajorityMetric):
    """Control of several attributes at once: whether all of them are right, by majority.

    The product over the attributes of the control of what control.majority gives each alone: 1
    where all are right, 0 where one is wrong, and with a tie of two labels half (LPF section 3.2,
    Table 13's "Both").

    Empty outputs: 0, as for control.average.

    Undefined: as for control.majority, and `one attribute only`.
    """

    name: ClassVar[str] = "control.both"

    def _sample_value(self, judged: Sequence[AttributeVerdicts]) -> SampleValue | Undefined:
        return Undefined(ONE_ATTRIBUTE) if len(judged) == 1 else super()._sample_value(judged)

    def _value(self, right: Sequence[float]) -> float:
        return math.prod(right)


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
