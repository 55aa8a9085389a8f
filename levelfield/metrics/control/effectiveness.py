"""Control effectiveness of each text."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from levelfield.core.sample import Sample
from levelfield.core.undefined import (
    JUDGE_CANT_READ,
    NO_MAJORITY,
    ONE_ATTRIBUTE,
    Undefined,
)
from levelfield.metrics.control.judged import JudgedMetric
from levelfield.metrics.control.votes import AttributeVerdicts, Rule, majority, probability
from levelfield.metrics.sample_metric import SampleMetric, SampleValue, of_defined

UNDECIDED = "(undecided)"


@dataclass(frozen=True)
class _JudgedSampleMetric(JudgedMetric, SampleMetric, abc.ABC):
    """A value for every sample."""

    @abc.abstractmethod
    def _sample_value(self, judged: Sequence[AttributeVerdicts]) -> SampleValue | Undefined:
        """Returns the value of a sample from the verdicts on its attributes."""

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        return of_defined(
            self._judge(samples), lambda of_samples: map(self._sample_value, of_samples)
        )


@dataclass(frozen=True)
class ControlAverage(_JudgedSampleMetric):
    """Control effectiveness: the share of judges that find the wanted label.

    CE = mean over the J judges of [vote = wanted], with several attributes over all their judges;
    the mean over samples is the study's headline (LPF section 3.2). An undecided judge (two labels
    equally likely) has not found it. In [0, 1]; chance is 1 / labels. The parts are the votes:
    `attribute/judge: label`, 1 where that is the wanted one.

    Undefined: `empty text`; `no judged attribute` (the control names none, or only keywords); no
    judge of an attribute; a wanted label that a judge does not know; with text=continuation a
    prompt that is not a prefix, or nothing after it.

    Options:
        judges: `paper` (two of the three judges a control of LPF; the third is not on the hub),
            `offline`, or names of judges, models' names or folders, TOML files, with commas.
        text: what the judges read: `whole` (as in LPF), or the `continuation` without the prompt.
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
class ControlProbability(_JudgedSampleMetric):
    """Style strength: how likely the judges find the wanted label.

    Mean over the J judges of P(wanted | text), with several attributes over all their judges: the
    confidence of a style classifier (Lai et al. 2021; Mao 2021, sections 2.2.2 and 3.2.2), which
    tells texts apart that get the same vote. In [0, 1]; the parts are each judge's.

    Undefined: as for control.average, and `a judge can't read the text`.

    Options: as for control.average.
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
class _MajorityMetric(_JudgedSampleMetric, abc.ABC):
    """A metric on the label that stands for all judges' votes."""

    rule: Rule = "majority"

    def _own(self) -> Mapping[str, object]:
        return {"rule": self.rule}

    def _sample_value(self, judged: Sequence[AttributeVerdicts]) -> SampleValue | Undefined:
        labels = [majority(one.verdicts, self.rule) for one in judged]
        if None in labels:
            return Undefined(NO_MAJORITY)
        right = [label == one.wanted for label, one in zip(labels, judged, strict=True)]
        parts = [
            (f"{one.attribute}/majority: {label}", float(hit), 1 / len(judged))
            for one, label, hit in zip(judged, labels, right, strict=True)
        ]
        return SampleValue(self._value(right), parts, any(one.cut for one in judged))

    @abc.abstractmethod
    def _value(self, right: Sequence[bool]) -> float:
        """Returns the value, given whether each attribute's majority is the wanted label."""


@dataclass(frozen=True)
class ControlMajority(_MajorityMetric):
    """Control effectiveness by majority: whether the judges together find the wanted label.

    1 if the label of the majority is the wanted one, else 0; with several attributes the mean over
    them (LPF section 6.2). With one judge, its vote.

    Undefined: as for control.average, and `no majority of the judges`.

    Options: as for control.average, and
        rule: `majority` needs more than half of all judges; `probability` takes the label with the
            most votes, and of equals the likelier one; `study` is what the published majorities of
            LPF rest on: the alphabetically last label that any judge gave. That favours late
            labels (positive, World) and hides early ones (negative, Business), so it is here to
            reproduce those numbers only.
    """

    name: ClassVar[str] = "control.majority"

    def _value(self, right: Sequence[bool]) -> float:
        return sum(right) / len(right)


@dataclass(frozen=True)
class ControlBoth(_MajorityMetric):
    """Control of several attributes at once: whether all of them are right, by majority.

    1 if for every attribute of the control the label of the majority is the wanted one, else 0
    (LPF section 3.2, Table 13's "Both").

    Undefined: as for control.majority, and `one attribute only`.

    Options: as for control.majority.
    """

    name: ClassVar[str] = "control.both"

    def _sample_value(self, judged: Sequence[AttributeVerdicts]) -> SampleValue | Undefined:
        return Undefined(ONE_ATTRIBUTE) if len(judged) == 1 else super()._sample_value(judged)

    def _value(self, right: Sequence[bool]) -> float:
        return float(all(right))
