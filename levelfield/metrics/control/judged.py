"""The way from samples to votes of judges."""

from __future__ import annotations

import abc
import functools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from levelfield.core.continuation import EMPTY_OUTPUT, READING, EmptyOutput, Reading, output
from levelfield.core.errors import ModelError
from levelfield.core.options import option
from levelfield.core.sample import Sample, single_value
from levelfield.core.signature import signature
from levelfield.core.undefined import (
    NO_ATTRIBUTE,
    Undefined,
    no_judge,
    several_wanted,
    unknown_to_judge,
)
from levelfield.core.votes import EMPTY
from levelfield.metrics.judges import (
    TIE,
    Judge,
    JudgeVerdict,
    LoadedJudge,
    choose,
    describe,
    kinds_of,
    lacking,
    load,
)
from levelfield.metrics.sample_metric import of_defined
from levelfield.models.loading import Kind, LoadingOptions
from levelfield.models.tokens import AS_TEXT

Rule = Literal["majority", "probability", "study"]


class AttributeVerdicts(NamedTuple):
    """The verdicts of the judges on one attribute of a sample."""

    attribute: str
    wanted: str
    verdicts: tuple[JudgeVerdict, ...]

    @property
    def right(self) -> list[bool]:
        """Whether each judge voted for the wanted label."""
        return [verdict.vote == self.wanted for verdict in self.verdicts]

    @property
    def cut(self) -> bool:
        return any(verdict.cut for verdict in self.verdicts)


def verdict_on_nothing(judge: str) -> JudgeVerdict:
    """Returns the verdict on an empty output, which no judge is asked about: it is of no label that
    could be wanted.

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
    known = label in verdict.labels
    return float(verdict.p[verdict.labels.index(label)]) if known else 0.0


KEYWORDS = "keywords"


class WantedLabel(NamedTuple):
    """The label that one attribute of a sample wants, as the judges spell it."""

    attribute: str
    wanted: str
    judges: tuple[LoadedJudge, ...]


@dataclass(frozen=True)
class JudgedMetric(LoadingOptions, abc.ABC):
    """Base of the metrics of control: options, and the way from samples to votes."""

    judges: str = option(
        "paper",
        "Judges, separated by commas: paper (two of the three judges a control of LPF; the third "
        "is not on the hub), offline, names of judges, models' names or folders, TOML files.",
    )
    text: Reading = READING
    empty: EmptyOutput = EMPTY_OUTPUT

    higher_is_better: ClassVar[bool] = True
    requires: ClassVar[frozenset[str]] = frozenset({"text", "control"})
    name: ClassVar[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.text == "continuation":
            object.__setattr__(self, "requires", frozenset({"text", "control", "prompt"}))

    def kinds(self) -> tuple[Kind, ...]:
        return tuple(kinds_of(self._chosen, self.loading))

    @functools.cached_property
    def signature(self) -> str:
        """Every choice that could change a value."""
        judges = describe(self._chosen, self.loading)
        read = {"text": self.text, "empty": self.empty, **AS_TEXT}
        return signature(self.name, {"judges": judges, **self._own(), **read, **self.computation})

    def lacking(self, attributes: Collection[str] | None) -> list[ModelError]:
        """Returns an error for each model that the judges of these attributes lack."""
        judged = None if attributes is None else {*attributes} - {KEYWORDS}
        asked = [
            judge
            for judge in self._chosen
            if judged is None or (judged and judge.attribute in ("", *judged))
        ]
        return lacking(asked, self._chosen, self.loading)

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
        return of_defined((self._question(sample) for sample in samples), verdicts_of)

    def _question(self, sample: Sample) -> tuple[str, list[WantedLabel]] | Undefined:
        """Returns the text to judge, which is `""` where an empty output counts, and the label that
        each attribute wants of it."""
        labels: list[WantedLabel] = []
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
            labels.append(WantedLabel(attribute, label, panel))
        if not labels:
            return Undefined(NO_ATTRIBUTE)
        text = output(sample, self.text, empty=self.empty, without_prompt="whole-if-empty")
        if isinstance(text, Undefined):
            return text
        return (text.lstrip() if self.text == "continuation" and sample.prompt else text), labels

    def _panel(self, attribute: str, wanted: str) -> tuple[LoadedJudge, ...] | Undefined:
        """Returns the judges of an attribute, each with the labels that hold the wanted one."""
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


def verdicts_of(
    questions: Sequence[tuple[str, Sequence[WantedLabel]]],
) -> list[list[AttributeVerdicts]]:
    """Returns the verdicts on texts; each judge reads all of its texts at once, none empty."""
    texts: dict[LoadedJudge, list[str]] = {}
    for text, wanted in questions:
        for label in wanted:
            for judge in label.judges:
                texts.setdefault(judge, []).extend([text] if text else [])
    verdicts = {judge: iter(judge.verdicts(read)) for judge, read in texts.items()}

    def verdict(judge: LoadedJudge, text: str) -> JudgeVerdict:
        return next(verdicts[judge]) if text else verdict_on_nothing(judge.judge.name)

    return [
        [
            AttributeVerdicts(w.attribute, w.wanted, tuple(verdict(j, text) for j in w.judges))
            for w in wanted
        ]
        for text, wanted in questions
    ]
