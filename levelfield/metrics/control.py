"""Control effectiveness: how often judges find what a text was asked to have.

Lorandi and Belz, "Evaluating Controlled Text Generation on a Level Playing Field" (LPF), sections
3.2 and 6.2. A judge (levelfield.judges) votes for one label of an attribute; a text is
right when the vote is the label that its control wants. `keywords` are no label and not judged
here.
"""

from __future__ import annotations

import abc
import functools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from levelfield.core.continuation import continuation
from levelfield.core.corpus import CorpusValue, OfGroups
from levelfield.core.metric import Level
from levelfield.core.sample import Sample
from levelfield.core.signature import signature
from levelfield.core.undefined import (
    EMPTY_TEXT,
    JUDGE_CANT_READ,
    NO_ATTRIBUTE,
    NO_MAJORITY,
    NO_SAMPLES,
    ONE_ATTRIBUTE,
    Undefined,
    no_judge,
    several_wanted,
    unknown_to_judge,
)
from levelfield.core.wanted import single_value
from levelfield.judges import (
    TIE,
    Judge,
    JudgeVerdict,
    LoadedJudge,
    choose,
    describe,
    load,
)
from levelfield.metrics.sample_metric import SampleMetric, SampleValue, of_defined
from levelfield.models.loading import LoadingOptions

Rule = Literal["majority", "probability", "study"]

KEYWORDS = "keywords"
UNDECIDED = "(undecided)"


class WantedLabel(NamedTuple):
    """What is asked of one attribute of a sample: `wanted` as the judges spell it."""

    attribute: str
    wanted: str
    judges: tuple[LoadedJudge, ...]


class AttributeVerdicts(NamedTuple):
    """What the judges say of one attribute of a sample."""

    attribute: str
    wanted: str
    verdicts: tuple[JudgeVerdict, ...]

    @property
    def right(self) -> list[bool]:
        """For each judge whether it voted for what was wanted."""
        return [verdict.vote == self.wanted for verdict in self.verdicts]

    @property
    def cut(self) -> bool:
        return any(verdict.cut for verdict in self.verdicts)


def majority(verdicts: Sequence[JudgeVerdict], rule: Rule) -> str | None:
    """The label that stands for the votes of several judges; None if there is none.

    Args:
        rule: `majority`: the label of more than half of all judges, undecided ones counted among
            them. `probability`: the label with the most votes, of equals the one with the higher
            mean probability. `study`: the alphabetically last label that any judge gave.
    """
    votes = Counter(verdict.vote for verdict in verdicts if verdict.vote is not None)
    if rule == "study":
        return max(votes, default=None)
    if rule == "majority":
        return next((label for label, n in votes.items() if 2 * n > len(verdicts)), None)
    most = max(votes.values(), default=0)
    labels = dict.fromkeys(label for verdict in verdicts for label in verdict.labels)
    equal = [label for label in labels if votes[label] == most]
    readable = [verdict for verdict in verdicts if not np.isnan(verdict.p).any()]
    p = {label: sum(_probability(v, label) for v in readable) for label in equal}
    first, *others = sorted(equal, key=lambda label: p[label], reverse=True)
    return None if others and p[first] - p[others[0]] <= TIE * len(readable) else first


def _probability(verdict: JudgeVerdict, label: str) -> float:
    known = label in verdict.labels
    return float(verdict.p[verdict.labels.index(label)]) if known else 0.0


@dataclass(frozen=True)
class _JudgedMetric(LoadingOptions, abc.ABC):
    """What all metrics of control have in common: options, and the way from samples to votes."""

    judges: str = "paper"
    text: Literal["whole", "continuation"] = "whole"

    higher_is_better: ClassVar[bool] = True
    requires: ClassVar[frozenset[str]] = frozenset({"text", "control"})
    name: ClassVar[str]

    def __post_init__(self) -> None:
        if self.text == "continuation":
            object.__setattr__(self, "requires", frozenset({"text", "control", "prompt"}))

    @functools.cached_property
    def signature(self) -> str:
        """Every choice that could change a value."""
        judges = describe(self._chosen, allow_pickle=self.allow_pickle)
        named = {"judges": judges, **self._own(), "text": self.text, "dtype": self.dtype}
        return signature(self.name, named)

    def _own(self) -> Mapping[str, object]:
        """The choices of this metric alone."""
        return {}

    @functools.cached_property
    def _chosen(self) -> tuple[Judge, ...]:
        return choose(self.judges, allow_pickle=self.allow_pickle)

    def _load(self, judge: Judge) -> LoadedJudge:
        return load(judge, self._chosen, self.loading)

    def _judge(self, samples: Sequence[Sample]) -> list[list[AttributeVerdicts] | Undefined]:
        """What the judges say of each sample, attribute by attribute."""
        return of_defined((self._asked(sample) for sample in samples), _verdicts)

    def _asked(self, sample: Sample) -> tuple[str, list[WantedLabel]] | Undefined:
        """The text that is judged, and what is asked of it."""
        text = sample.text
        if not text.strip():
            return Undefined(EMPTY_TEXT)
        if self.text == "continuation":
            rest = continuation(sample, without_prompt="whole-if-empty")
            if isinstance(rest, Undefined):
                return rest
            text = rest.lstrip() if sample.prompt else rest
        asked: list[WantedLabel] = []
        for attribute, wanted in sample.control.items():
            if attribute == KEYWORDS or not wanted:
                continue
            wanted = single_value(wanted)
            if not isinstance(wanted, str):
                return Undefined(several_wanted(attribute))
            panel = self._panel(attribute, wanted)
            if isinstance(panel, Undefined):
                return panel
            label = panel[0].judge.label(wanted, attribute)
            asked.append(WantedLabel(attribute, label, panel))
        return (text, asked) if asked else Undefined(NO_ATTRIBUTE)

    def _panel(self, attribute: str, wanted: str) -> tuple[LoadedJudge, ...] | Undefined:
        """The judges of an attribute, each with the set of labels that has the wanted one."""
        by_name: dict[str, list[Judge]] = {}
        for judge in self._chosen:
            if judge.attribute in ("", attribute):
                by_name.setdefault(judge.name, []).append(judge)
        panel: list[LoadedJudge] = []
        for name, judges in by_name.items():
            known: list[str] = []
            for judge in judges:
                loaded = self._load(judge)
                if not self._speaks_of(loaded, attribute):
                    continue
                if judge.label(wanted, attribute) in loaded.labels:
                    panel.append(loaded)
                    break
                known += loaded.labels
            else:
                if known:
                    return Undefined(unknown_to_judge(name, attribute, wanted, known))
        return tuple(panel) if panel else Undefined(no_judge(attribute))

    @staticmethod
    def _speaks_of(loaded: LoadedJudge, attribute: str) -> bool:
        """Whether a judge judges an attribute. One whose labels don't tell which it judges may be
        meant for any that we know no labels of."""
        if loaded.attribute:
            return loaded.attribute == attribute
        return attribute not in {s.attribute for s in loaded.judge.spellings}


def _verdicts(
    questions: Sequence[tuple[str, Sequence[WantedLabel]]],
) -> list[list[AttributeVerdicts]]:
    """What the judges say of texts; each judge reads all of its texts at once."""
    texts: dict[LoadedJudge, list[str]] = {}
    for text, wanted in questions:
        for label in wanted:
            for judge in label.judges:
                texts.setdefault(judge, []).append(text)
    verdicts = {judge: iter(judge.verdicts(read)) for judge, read in texts.items()}
    return [
        [
            AttributeVerdicts(w.attribute, w.wanted, tuple(next(verdicts[j]) for j in w.judges))
            for w in wanted
        ]
        for _, wanted in questions
    ]


@dataclass(frozen=True)
class _JudgedSampleMetric(_JudgedMetric, SampleMetric, abc.ABC):
    """A value for every sample."""

    @abc.abstractmethod
    def _sample_value(self, judged: Sequence[AttributeVerdicts]) -> SampleValue | Undefined:
        """The value of a sample from what the judges say of its attributes."""

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
        right = [found for one in judged for found in one.right]
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
        p = [_probability(verdict, one.wanted) for one in judged for verdict in one.verdicts]
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
            (f"{one.attribute}/majority: {label}", float(found), 1 / len(judged))
            for one, label, found in zip(judged, labels, right, strict=True)
        ]
        return SampleValue(self._value(right), parts, any(one.cut for one in judged))

    @abc.abstractmethod
    def _value(self, right: Sequence[bool]) -> float:
        """From whether each attribute's majority is the wanted label."""


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
class ControlBalancedAccuracy(_JudgedMetric, OfGroups):
    """Balanced accuracy of control: every wanted label counts the same.

    The share of right texts of each wanted label, averaged over labels and then over judges (and
    attributes), in [0, 1]. A judge that leans to one label can't gain by it, and it does not
    matter how many texts were asked for each. One value for system, dataset and seed. Texts that
    can't be judged (see control.average) are left out.

    Undefined: where no text can be judged; the commonest reason is given.

    Options: as for control.average.
    """

    name: ClassVar[str] = "control.balanced-accuracy"
    level: ClassVar[Level] = "corpus"
    by: ClassVar[tuple[str, ...]] = ("system", "dataset", "seed")

    def state(self, samples: Sequence[Sample]) -> VoteCounts:
        """Counts of right texts."""
        right: dict[tuple[str, str, str], tuple[int, int]] = {}
        reasons: Counter[str] = Counter()
        truncated = 0
        for found in self._judge(samples):
            if isinstance(found, Undefined):
                reasons[found.reason] += 1
                continue
            truncated += any(one.cut for one in found)
            for one in found:
                for verdict, is_right in zip(one.verdicts, one.right, strict=True):
                    key = (one.attribute, verdict.judge, one.wanted)
                    n_right, n = right.get(key, (0, 0))
                    right[key] = (n_right + is_right, n + 1)
        return VoteCounts(right, dict(reasons), truncated)

    def merge(self, a: VoteCounts, b: VoteCounts) -> VoteCounts:
        """Sums of counts."""
        right = {
            key: tuple(np.add(a.right.get(key, (0, 0)), b.right.get(key, (0, 0))).tolist())
            for key in {**a.right, **b.right}
        }
        reasons = Counter(a.reasons) + Counter(b.reasons)
        return VoteCounts(right, dict(reasons), a.truncated + b.truncated)

    def value(self, state: VoteCounts) -> CorpusValue:
        """Mean over judges of the mean over wanted labels of the share that is right."""
        if not state.right:
            common = max(state.reasons, key=lambda r: state.reasons[r], default=NO_SAMPLES)
            return CorpusValue(math.nan, common)
        shares: dict[tuple[str, str], list[float]] = {}
        for (attribute, judge, _), (n_right, n) in state.right.items():
            shares.setdefault((attribute, judge), []).append(n_right / n)
        of_judges = [math.fsum(of_labels) / len(of_labels) for of_labels in shares.values()]
        return CorpusValue(math.fsum(of_judges) / len(of_judges), truncated=state.truncated)
