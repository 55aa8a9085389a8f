"""Control effectiveness: how often judges find what a text was asked to have.

Lorandi and Belz, "Evaluating Controlled Text Generation on a Level Playing Field" (LPF), sections
3.2 and 6.2. A judge (levelfield.metrics.judges) votes for one label of an attribute; a text is
right when the vote is the label that its control asks for. `keywords` are not a label and not
judged here.
"""

from __future__ import annotations

import abc
import functools
import json
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from levelfield.core.continuation import EMPTY_OUTPUT, READING, EmptyOutput, Reading, output
from levelfield.core.corpus import CorpusValue, OfScores
from levelfield.core.direction import Direction
from levelfield.core.errors import ModelError
from levelfield.core.metric import Level
from levelfield.core.options import option
from levelfield.core.sample import Control, Sample, single_value
from levelfield.core.scores import EMPTY, UNDECIDED, Scores, part_name
from levelfield.core.undefined import (
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
from levelfield.metrics.judges import (
    TIE,
    Judge,
    JudgeVerdict,
    LoadedJudge,
    choose,
    describe,
    lacking,
    load,
    models_of,
)
from levelfield.metrics.sample_metric import (
    ChoiceSignature,
    SampleMetric,
    SampleValue,
    map_defined,
)
from levelfield.models.languages import ENGLISH
from levelfield.models.loading import LoadingOptions
from levelfield.models.tokens import AS_TEXT

Rule = Literal["majority", "probability", "study"]


class AttributeVerdicts(NamedTuple):
    """The verdicts of the judges on one attribute of a sample."""

    attribute: str
    label: str
    verdicts: tuple[JudgeVerdict, ...]

    @property
    def right(self) -> list[bool]:
        """Whether each judge voted for the wanted label."""
        return [verdict.vote == self.label for verdict in self.verdicts]

    @property
    def cut(self) -> bool:
        return any(verdict.cut for verdict in self.verdicts)


def verdict_on_nothing(judge: str) -> JudgeVerdict:
    """Returns the verdict on an empty output, which no judge reads: a vote for no label of an
    attribute.

    >>> verdict_on_nothing("vader").vote
    '(empty)'
    """
    return JudgeVerdict(judge, EMPTY, (EMPTY,), np.ones(1), False)


def leaders(verdicts: Sequence[JudgeVerdict], rule: Rule) -> tuple[str, ...]:
    """Returns the labels that stand for the votes of several judges, sorted: one, several in a tie,
    or none where no judge is decided.

    Args:
        rule: `majority`: the labels with the most votes. `probability`: of these the one with the
            highest mean probability. `study`: the alphabetically last label that any judge gave.
    """
    votes = Counter(verdict.vote for verdict in verdicts if verdict.vote is not None)
    if rule == "study":
        return tuple(sorted(votes)[-1:])
    most = max(votes.values(), default=0)
    if rule == "majority":
        return tuple(sorted(label for label, n in votes.items() if n == most))
    labels = sorted({label for verdict in verdicts for label in verdict.labels})
    readable = [verdict for verdict in verdicts if not np.isnan(verdict.p).any()]
    p = {
        label: sum(probability(verdict, label) for verdict in readable)
        for label in labels
        if votes[label] == most
    }
    likeliest = max(p.values())
    first = tuple(label for label in p if p[label] >= likeliest - TIE * len(readable))
    return first if votes or len(first) == 1 else ()


def probability(verdict: JudgeVerdict, label: str) -> float:
    """Returns how likely a judge finds a label; 0 for one that it does not know."""
    if label not in verdict.labels:
        return 0.0
    return float(verdict.p[verdict.labels.index(label)])


KEYWORDS = "keywords"


class WantedLabel(NamedTuple):
    """The label that a control asks for in one attribute, as the judges spell it."""

    attribute: str
    label: str
    judges: tuple[LoadedJudge, ...]


@dataclass(frozen=True)
class JudgedMetric(LoadingOptions, ChoiceSignature, abc.ABC):
    """Base of the metrics of control: options, and the way from samples to votes."""

    judges: str = option(
        "paper",
        "Comma-separated judges: paper (two of LPF's three judges per control; the third is not on "
        "the hub), offline, names of judges, models' names or folders, TOML files.",
    )
    text: Reading = READING
    empty: EmptyOutput = EMPTY_OUTPUT

    direction: ClassVar[Direction] = "higher"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "control"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.text == "continuation":
            object.__setattr__(self, "requires", frozenset({"text", "control", "prompt"}))

    @property
    def model_names(self) -> tuple[str, ...]:
        """The names of the judges' models."""
        return models_of(self._chosen)

    @property
    def languages(self) -> Mapping[str, frozenset[str]]:
        """What lexicons among the judges read."""
        return {judge.lexicon: ENGLISH for judge in self._chosen if judge.lexicon}

    def _choices(self) -> Mapping[str, object]:
        judges = describe(self._chosen, self.loading)
        read = {"text": self.text, "empty": self.empty, **AS_TEXT}
        return {"judges": judges, **self._own(), **read}

    def lacking(self, attributes: Collection[str] | None) -> list[ModelError]:
        """Returns an error for each model that the judges of these attributes lack."""
        judged = None if attributes is None else {*attributes} - {KEYWORDS}
        judges = [
            judge
            for judge in self._chosen
            if judged is None or (judged and judge.attribute in ("", *judged))
        ]
        return lacking(judges, self._chosen, self.loading)

    def unjudged(self, control: Control) -> list[str]:
        """Returns the attributes of a control that none of the judges judges. Loads no model: one
        whose labels tell what it judges may judge any."""
        return [
            attribute
            for attribute, values in control.items()
            if attribute == KEYWORDS
            or not isinstance(single_value(values), str)
            or not any(judge.attribute in ("", attribute) for judge in self._chosen)
        ]

    def load_judges(self) -> None:
        """Loads the models of all judges: a head on a causal model has it keep what it reads, so
        the judge does not read a text that the model scores afterwards."""
        for judge in self._chosen:
            self._load(judge)

    def _own(self) -> Mapping[str, object]:
        """Returns the choices of this metric alone."""
        return {}

    @functools.cached_property
    def _chosen(self) -> tuple[Judge, ...]:
        return choose(self.judges, self.loading)

    def _load(self, judge: Judge) -> LoadedJudge:
        return load(judge, self._chosen, self.loading)

    def _judge(self, samples: Sequence[Sample]) -> list[list[AttributeVerdicts] | Undefined]:
        """Returns the verdicts on each sample, attribute by attribute."""
        return map_defined((self._question(sample) for sample in samples), verdicts_of)

    def _question(self, sample: Sample) -> tuple[str, list[WantedLabel]] | Undefined:
        """Returns the text to judge, which is `""` where an empty output counts, and the label that
        each attribute wants of it."""
        labels: list[WantedLabel] = []
        for attribute, values in sample.control.items():
            if attribute == KEYWORDS or not values:
                continue
            value = single_value(values)
            if not isinstance(value, str):
                return Undefined(several_wanted(attribute))
            panel = self._panel(attribute, value)
            if isinstance(panel, Undefined):
                return panel
            label = panel[0].judge.label(value, attribute)
            labels.append(WantedLabel(attribute, label, panel))
        if not labels:
            return Undefined(NO_ATTRIBUTE)
        text = output(sample, self.text, empty=self.empty, without_prompt="whole-if-empty")
        if isinstance(text, Undefined):
            return text
        return (text.lstrip() if self.text == "continuation" and sample.prompt else text), labels

    def _panel(self, attribute: str, label: str) -> tuple[LoadedJudge, ...] | Undefined:
        """Returns the judges of an attribute, each with the labels that hold the wanted one."""
        by_name: dict[str, list[Judge]] = {}
        for judge in self._chosen:
            if judge.attribute in ("", attribute):
                by_name.setdefault(judge.name, []).append(judge)
        panel: list[LoadedJudge] = []
        for name, judges in by_name.items():
            labels: list[str] = []
            for judge in judges:
                loaded = self._load(judge)
                if not self._speaks_of(loaded, attribute):
                    continue
                if judge.label(label, attribute) in loaded.labels:
                    panel.append(loaded)
                    break
                labels += loaded.labels
            else:
                if labels:
                    return Undefined(unknown_to_judge(name, attribute, label, labels))
        return tuple(panel) if panel else Undefined(no_judge(attribute))

    @staticmethod
    def _speaks_of(loaded: LoadedJudge, attribute: str) -> bool:
        """Returns whether a judge votes on an attribute. A judge whose labels don't tell may be
        meant for any attribute whose labels are unknown."""
        if loaded.attribute:
            return loaded.attribute == attribute
        return attribute not in {s.attribute for s in loaded.judge.spellings}


def verdicts_of(
    questions: Sequence[tuple[str, Sequence[WantedLabel]]],
) -> list[list[AttributeVerdicts]]:
    """Returns the verdicts on texts; each judge reads all of its texts at once, none empty."""
    texts: dict[LoadedJudge, list[str]] = {}
    for text, labels in questions:
        for label in labels:
            for judge in label.judges:
                texts.setdefault(judge, []).extend([text] if text else [])
    verdicts = {judge: iter(judge.verdicts(read)) for judge, read in texts.items()}

    def verdict(judge: LoadedJudge, text: str) -> JudgeVerdict:
        return next(verdicts[judge]) if text else verdict_on_nothing(judge.judge.name)

    return [
        [
            AttributeVerdicts(w.attribute, w.label, tuple(verdict(j, text) for j in w.judges))
            for w in labels
        ]
        for text, labels in questions
    ]


@dataclass(frozen=True)
class JudgedSampleMetric(JudgedMetric, SampleMetric, abc.ABC):
    """A value for every sample."""

    @abc.abstractmethod
    def _sample_value(self, judged: Sequence[AttributeVerdicts]) -> SampleValue | Undefined:
        """Returns the value of a sample from the verdicts on its attributes."""

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        return map_defined(self._judge(samples), lambda panels: map(self._sample_value, panels))


def mean_of(
    scored: Sequence[tuple[str, float]], judged: Sequence[AttributeVerdicts]
) -> SampleValue:
    """Returns the mean of named scores, which are its parts, each of the same weight."""
    parts = [(name, score, 1 / len(scored)) for name, score in scored]
    value = sum(score for _, score in scored) / len(scored)
    return SampleValue(value, parts, any(panel.cut for panel in judged))


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
        votes = [
            (f"{panel.attribute}/{verdict.judge}: {verdict.vote or UNDECIDED}", float(is_right))
            for panel in judged
            for verdict, is_right in zip(panel.verdicts, panel.right, strict=True)
        ]
        return mean_of(votes, judged)


@dataclass(frozen=True)
class ControlProbability(JudgedSampleMetric):
    """Style strength: how likely the judges find the wanted label.

    Mean over the J judges of P(wanted | text), with several attributes over all their judges: the
    confidence of a style classifier (Lai et al. 2021; Mao 2021, sections 2.2.2 and 3.2.2), which
    distinguishes texts that get the same vote. In [0, 1]; each judge is a part. An empty output
    is 0, as for control.average.

    Undefined: as for control.average, and `a judge can't read the text`: it gives no probability.
    """

    name: ClassVar[str] = "control.probability"

    def _sample_value(self, judged: Sequence[AttributeVerdicts]) -> SampleValue | Undefined:
        p = [
            (f"{panel.attribute}/{v.judge}: P({panel.label})", probability(v, panel.label))
            for panel in judged
            for v in panel.verdicts
        ]
        if any(math.isnan(p_wanted) for _, p_wanted in p):
            return Undefined(JUDGE_CANT_READ)
        return mean_of(p, judged)


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
        labels = [leaders(panel.verdicts, self.rule) for panel in judged]
        if self.rule == "study" and () in labels:
            return Undefined(NO_MAJORITY)
        pairs = [*zip(judged, labels, strict=True)]
        right = [1 / len(first) if panel.label in first else 0.0 for panel, first in pairs]
        parts = [
            (
                part_name(f"{panel.attribute}/majority", first or [UNDECIDED]),
                share,
                1 / len(judged),
            )
            for (panel, first), share in zip(pairs, right, strict=True)
        ]
        return SampleValue(self._value(right), parts, any(panel.cut for panel in judged))

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
            (json.dumps([panel.attribute, verdict.judge, panel.label]), float(is_right))
            for panel in judged
            for verdict, is_right in zip(panel.verdicts, panel.right, strict=True)
        ]
        return mean_of(votes, judged)


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
        for _, name, is_right, _ in scores.part_rows or ():
            attribute, judge, label = json.loads(name)
            n_right, n = right.get((attribute, judge, label), (0, 0))
            right[attribute, judge, label] = (n_right + int(is_right), n + 1)
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
        judge_shares = [
            math.fsum(label_shares) / len(label_shares) for label_shares in shares.values()
        ]
        return CorpusValue(math.fsum(judge_shares) / len(judge_shares), truncated=state.truncated)
