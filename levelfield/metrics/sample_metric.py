"""Base of the metrics of samples: from the value of each sample to scores."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Literal, NamedTuple, TypeVar

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.direction import Direction, direction_of
from levelfield.core.metric import Level
from levelfield.core.options import option
from levelfield.core.partitions import partitions
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores, concatenate
from levelfield.core.signature import signature
from levelfield.core.undefined import (
    EMPTY_SOURCE,
    EMPTY_TEXT,
    NO_REFERENCES,
    Undefined,
    few_words,
)
from levelfield.text.words import words_seen

X = TypeVar("X")
Y = TypeVar("Y")


class SampleValue(NamedTuple):
    """The value of a sample, with its parts."""

    value: float
    parts: Sequence[tuple[str, float, float]]
    cut: bool


class ChoiceSignature(abc.ABC):
    """The signature of a metric: its choices, and how its models are computed."""

    name: ClassVar[str]

    @functools.cached_property
    def signature(self) -> str:
        """Every choice that could change a value."""
        return signature(self.name, {**self._choices(), **getattr(self, "computation", {})})

    @abc.abstractmethod
    def _choices(self) -> Mapping[str, object]:
        """Returns the options that could change a value, the models among them."""


class SampleMetric(abc.ABC):
    """A metric that gives every sample of a partition a value, or the reason why it has none."""

    level: ClassVar[Level] = "sample"
    direction: ClassVar[Direction] = "higher"
    name: ClassVar[str]

    @property
    @abc.abstractmethod
    def signature(self) -> str:
        """Every choice that could change a value."""

    @abc.abstractmethod
    def _sample_values(self, samples: Sequence[Sample]) -> Sequence[SampleValue | Undefined]:
        """Returns the value of each of these samples; there is at least one."""

    def score(self, samples: Sequence[Sample], *, progress: Progress = no_progress) -> Scores:
        """Returns the values of these samples, reasons for undefined ones, and all parts."""
        scored = []
        for partition in partitions(samples):
            scored.append(self._scores(partition))
            progress(len(partition))
        return concatenate(scored or [self._scores(())])

    def _scores(self, samples: Sequence[Sample]) -> Scores:
        values = list(self._sample_values(samples)) if samples else []
        defined = [
            (sample.id, value)
            for sample, value in zip(samples, values, strict=True)
            if isinstance(value, SampleValue)
        ]
        rows = [(id, *part) for id, value in defined for part in value.parts]
        return Scores(
            metric=self.name,
            ids=tuple(sample.id for sample in samples),
            values=np.array(
                [v.value if isinstance(v, SampleValue) else np.nan for v in values], np.float64
            ),
            undefined={
                sample.id: value.reason
                for sample, value in zip(samples, values, strict=True)
                if isinstance(value, Undefined)
            },
            signature=self.signature,
            direction=direction_of(self),
            parts=rows,
            truncated=frozenset(id for id, value in defined if value.cut),
        )


def map_defined(
    inputs: Iterable[X | Undefined], compute: Callable[[list[X]], Iterable[Y]]
) -> list[Y | Undefined]:
    """Computes the results of all defined inputs in one call; reasons keep their places.

    >>> map_defined([3, Undefined("empty text"), 4], lambda numbers: [n**2 for n in numbers])
    [9, Undefined(reason='empty text'), 16]
    """
    kept = list(inputs)
    defined = [value for value in kept if not isinstance(value, Undefined)]
    results = iter(compute(defined) if defined else ())
    return [value if isinstance(value, Undefined) else next(results) for value in kept]


def in_groups(
    groups: Sequence[Sequence[X]], compute: Callable[[list[X]], Iterable[Y]]
) -> list[list[Y]]:
    """Computes the results of the members of all groups in one call, and groups them alike.

    >>> in_groups([[1, 2], [3]], lambda numbers: [n**2 for n in numbers])
    [[1, 4], [9]]
    """
    results = iter(compute([member for group in groups for member in group]))
    return [[next(results) for _ in group] for group in groups]


def rule_weights(values: Floats, rule: Literal["max", "min", "mean"]) -> Floats:
    """Returns the weight of each value, in sum 1: all on the first that is best, or equal ones.

    >>> rule_weights(np.array([3.0, 1.0, 3.0]), "max").tolist()
    [1.0, 0.0, 0.0]
    """
    n = len(values)
    if rule == "mean":
        return np.full(n, 1 / n)
    weights = np.zeros(n)
    weights[values.argmax() if rule == "max" else values.argmin()] = 1.0
    return weights


def weighted_sum(
    parts: Sequence[str], values: Floats, weights: Floats, *, cut: bool
) -> SampleValue:
    """Returns Σ_i w_i x_i with its parts. One without weight may be infinite."""
    value = float(weights @ np.where(weights > 0, values, 0.0))
    rows = list(zip(parts, values.tolist(), weights.tolist(), strict=True))
    return SampleValue(value, rows, cut)


Against = Literal["source", "references"]
MISSING: dict[Against, str] = {"source": EMPTY_SOURCE, "references": NO_REFERENCES}
"""Reason why a sample is undefined that has nothing to compare its text with."""


def compared(sample: Sample, against: Against) -> dict[str, str]:
    """Returns what the text is compared with, its source or its references, by part name.

    Blank ones are left out; the others keep their numbers.
    """
    if against == "source":
        written = {"source": sample.source}
    else:
        written = {f"reference {n}": reference for n, reference in enumerate(sample.references, 1)}
    return {name: reference for name, reference in written.items() if reference.strip()}


def comparisons(sample: Sample, against: Against) -> dict[str, str] | Undefined:
    """Returns what `compared` does, at least one, or why there is nothing to compare."""
    if not sample.text.strip():
        return Undefined(EMPTY_TEXT)
    return compared(sample, against) or Undefined(MISSING[against])


class AgainstSource:
    """A metric of each text against its source."""

    against: ClassVar[Against] = "source"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "source"})


class AgainstReferences:
    """A metric of each text against its references."""

    against: ClassVar[Against] = "references"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "references"})


class TextComparison(ChoiceSignature, SampleMetric):
    """A metric of samples that compares strings.

    `AgainstSource` or `AgainstReferences` says with what.
    """

    against: ClassVar[Against]

    @abc.abstractmethod
    def _compare(self, text: str, references: Mapping[str, str]) -> SampleValue | Undefined:
        """Returns the value of a text against references by name: at least one, none blank."""

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        return [self._sample_value(sample) for sample in samples]

    def _sample_value(self, sample: Sample) -> SampleValue | Undefined:
        references = comparisons(sample, self.against)
        if isinstance(references, Undefined):
            return references
        return self._compare(sample.text, references)


Unread = Literal["undefined", "scored"]

UNREAD = option(
    "undefined",
    "Value where the tokenizer sees fewer than half of the words of the text, or of all it is "
    "compared with: undefined, or scored by the words that it sees.",
)


class WordComparison(TextComparison):
    """A metric of samples that compares the words that a tokenizer makes of strings.

    Undefined where these are a minority of the words (`words_seen`), unless `unread` is `scored`.
    """

    unread: Unread

    @abc.abstractmethod
    def _tokens(self, text: str) -> Sequence[str]:
        """Returns the tokens that are compared."""

    def _sees(self, text: str) -> bool:
        """Returns whether the tokens represent the words of the text; a text without tokens has its
        own reason."""
        if text.isascii():
            return True
        tokens = self._tokens(text)
        return not tokens or words_seen(text, tokens).most

    def _sample_value(self, sample: Sample) -> SampleValue | Undefined:
        references = comparisons(sample, self.against)
        if isinstance(references, Undefined):
            return references
        if self.unread == "undefined":
            if not self._sees(sample.text):
                return Undefined(few_words("the text"))
            references = {name: text for name, text in references.items() if self._sees(text)}
            if not references:
                return Undefined(few_words(f"the {self.against}"))
        return self._compare(sample.text, references)


def unread_choice(unread: Unread) -> dict[str, str]:
    """Returns the choice for signatures; that of `scored` is the one of before there was it."""
    return {} if unread == "scored" else {"unread": unread}


class ComparedTexts(NamedTuple):
    """A text and what it is compared with, under the name that it is reported by."""

    sample: Sample
    other: str
    part: str

    @property
    def text(self) -> str:
        return self.sample.text


class PairValue(NamedTuple):
    """The value of a pair, and whether either text was cut."""

    value: float
    cut: bool


class PairComparison(ChoiceSignature, SampleMetric):
    """A metric of samples whose value is made of one comparison, or of one a reference.

    `AgainstSource` or `AgainstReferences` says with what.
    """

    against: ClassVar[Against]

    @abc.abstractmethod
    def _compared(self, pairs: Sequence[ComparedTexts]) -> Sequence[PairValue | Undefined]:
        """Returns the value of each of these pairs."""

    @property
    def _rule(self) -> Literal["max", "min", "mean"]:
        """The value of several references: the best of theirs, unless a metric says otherwise."""
        return "min" if direction_of(self) == "lower" else "max"

    def _pairs(self, sample: Sample) -> list[ComparedTexts] | Undefined:
        others = comparisons(sample, self.against)
        if isinstance(others, Undefined):
            return others
        return [ComparedTexts(sample, other, part) for part, other in others.items()]

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        def scored(pairs: list[ComparedTexts]) -> Iterable[tuple[str, PairValue | Undefined]]:
            return zip((pair.part for pair in pairs), self._compared(pairs), strict=True)

        return map_defined(
            (self._pairs(sample) for sample in samples),
            lambda pairs_per_sample: map(self._combined, in_groups(pairs_per_sample, scored)),
        )

    def _combined(
        self, scored: Sequence[tuple[str, PairValue | Undefined]]
    ) -> SampleValue | Undefined:
        """Returns the value over several pairs; one without a value is left out like a blank."""
        defined = [(part, pair) for part, pair in scored if isinstance(pair, PairValue)]
        if not defined:
            return next(reason for _, reason in scored if isinstance(reason, Undefined))
        values = np.array([pair.value for _, pair in defined])
        return weighted_sum(
            [part for part, _ in defined],
            values,
            rule_weights(values, self._rule),
            cut=any(pair.cut for _, pair in defined),
        )
