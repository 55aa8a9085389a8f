"""BARTScore: how likely an encoder-decoder model finds one text given another.

Yuan et al. 2021, "BARTScore: Evaluating Generated Text as Text Generation", section 3:

    BARTScore(x → y) = (1/m) Σ_t log p(y_t | y_1 … y_{t−1}, x),

y_1 … y_m the tokens of the target y and x the source; in nats per token, at most 0, higher is
better.
The direction is what the metrics differ in.

The authors' average (average=authors, the default) is over everything that the tokenizer makes of
the target: BART's `<s>` and `</s>` are among the m tokens, so p(<s> | </s>) and p(</s> | y) count.
A model whose tokenizer puts nothing in front of a text (T5, PEGASUS) has the end token only.
average=tokens leaves both out, of the sum and of m.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.options import option
from levelfield.core.sample import Sample
from levelfield.core.undefined import (
    EMPTY_SOURCE,
    EMPTY_TEXT,
    NO_CONTEXT,
    NO_PROMPT,
    NO_REFERENCES,
    Undefined,
)
from levelfield.metrics.sample_metric import (
    AgainstReferences,
    SampleValue,
    in_groups,
    map_defined,
    rule_weights,
    weighted_sum,
)
from levelfield.metrics.seq2seq import Seq2SeqMetric, unfit
from levelfield.models.contracts import Gapped, Target


class Direction(NamedTuple):
    """A target and what it is scored given, under the name that it is reported by."""

    part: str
    source: str
    target: str


class ScoredDirection(NamedTuple):
    """The log-probabilities of a target's tokens, and whether the model saw less than all."""

    part: str
    log_p: Floats
    cut: bool


@dataclass(frozen=True)
class _BARTScore(Seq2SeqMetric, abc.ABC):
    """Base of the directions."""

    model: str = option("facebook/bart-large-cnn", "Encoder-decoder model: a hub name or a folder.")
    average: Literal["authors", "tokens"] = option(
        "authors",
        "Tokens to average over: authors includes begin and end tokens, if the tokenizer adds "
        "them; tokens excludes them.",
    )

    @abc.abstractmethod
    def _directions(self, sample: Sample) -> list[list[Direction]] | Undefined:
        """Returns the directions that are scored of a sample, in groups that are averaged."""

    @property
    def _rule(self) -> Literal["mean", "max"]:
        """The value of several groups."""
        return "mean"

    def _choices(self) -> Mapping[str, object]:
        return {"model": self._resolved.label, "average": self.average}

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        authors = self.average == "authors"

        def scored(flat: list[Direction]) -> Iterable[ScoredDirection]:
            likelihood = self._seq2seq().log_likelihood(
                # of a source that is too long the beginning is kept
                [Gapped("", direction.source, gap=False) for direction in flat],
                [[Target(direction.target, end=authors, begin=authors)] for direction in flat],
            )
            parts = [direction.part for direction in flat]
            log_p = [log_p for (log_p,) in likelihood.log_p]
            cuts = zip(likelihood.source_cut, likelihood.target_cut, strict=True)
            cut = [source_cut or any(target_cuts) for source_cut, target_cuts in cuts]
            return map(ScoredDirection, parts, log_p, cut)

        def averages(
            groups_per_sample: list[list[list[Direction]]],
        ) -> Iterable[SampleValue | Undefined]:
            flat = [
                [direction for group in groups for direction in group]
                for groups in groups_per_sample
            ]
            return map(self._average, in_groups(flat, scored), map(len, groups_per_sample))

        return map_defined(
            (
                self._directions(sample) if sample.text.strip() else Undefined(EMPTY_TEXT)
                for sample in samples
            ),
            averages,
        )

    def _average(self, scored: Sequence[ScoredDirection], groups: int) -> SampleValue | Undefined:
        """Returns the mean over groups of equal size of the mean within each."""
        if reason := next(filter(None, (unfit(direction.log_p) for direction in scored)), ""):
            return Undefined(reason)
        s = np.array([direction.log_p.mean() for direction in scored]).reshape(groups, -1)
        group_weights = rule_weights(s.mean(axis=1), self._rule)
        weights = np.repeat(group_weights / s.shape[1], s.shape[1])
        parts = [direction.part for direction in scored]
        cut = any(direction.cut for direction in scored)
        return weighted_sum(parts, s.ravel(), weights, cut=cut)


@dataclass(frozen=True)
class BARTScoreFromSource(_BARTScore):
    """BARTScore of each text given what it was made from; its paper calls it faithfulness.

    BARTScore(source → text) = (1/m) Σ_t log p(y_t | y_<t, x) (Yuan et al. 2021, section 3.2). In
    nats per token, at most 0, higher is better. It needs no reference: this is the BARTScore among
    CTRLEval's baselines (Ke et al. 2022, section 4.3), which does not say what x was.

    Undefined: `empty text`; `empty source`, `no prompt` or `no context`; a text without tokens. If
    a source or a text is longer than the model's limit, its beginning is read, and it counts as
    truncated; the end token of such a text is not scored. Probabilities are computed in float32 at
    least.
    """

    given: Literal["source", "prompt", "context"] = option(
        "source",
        "Field used as x: the source of the sample, its prompt (the whole text is scored, the "
        "prompt in it included), or its context, one turn per line.",
    )

    name: ClassVar[str] = "bartscore.source"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "source"})

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "requires", frozenset({"text", self.given}))

    def _choices(self) -> Mapping[str, object]:
        return {**super()._choices(), "given": self.given}

    def _directions(self, sample: Sample) -> list[list[Direction]] | Undefined:
        x, missing = {
            "source": (sample.source, EMPTY_SOURCE),
            "prompt": (sample.prompt, NO_PROMPT),
            "context": ("\n".join(sample.context), NO_CONTEXT),
        }[self.given]
        if not x.strip():
            return Undefined(missing)
        return [[Direction(f"{self.given} → text", x, sample.text)]]


@dataclass(frozen=True)
class _BARTScoreReferences(_BARTScore, AgainstReferences, abc.ABC):
    """A direction between a text and its references."""

    references: Literal["mean", "max"] = option(
        "mean", "Value of several references: the mean of their values, or the largest."
    )

    _precision: ClassVar[bool]
    _recall: ClassVar[bool]

    @property
    def _rule(self) -> Literal["mean", "max"]:
        return self.references

    def _choices(self) -> Mapping[str, object]:
        return {**super()._choices(), "references": self.references}

    def _directions(self, sample: Sample) -> list[list[Direction]] | Undefined:
        references = [reference for reference in sample.references if reference.strip()]
        groups = []
        for n, reference in enumerate(references, 1):
            precision = Direction(f"reference {n} → text", reference, sample.text)
            recall = Direction(f"text → reference {n}", sample.text, reference)
            groups.append([precision] * self._precision + [recall] * self._recall)
        return groups or Undefined(NO_REFERENCES)


@dataclass(frozen=True)
class BARTScorePrecision(_BARTScoreReferences):
    """BARTScore of each text given its reference.

    BARTScore(reference → text) = (1/m) Σ_t log p(y_t | y_<t, r) (Yuan et al. 2021, section 3.2). In
    nats per token, at most 0, higher is better.

    Undefined: `empty text`; `no references` (a blank one is none); a text without tokens. Long
    texts are treated as by `bartscore.source`.
    """

    name: ClassVar[str] = "bartscore.precision"
    _precision: ClassVar[bool] = True
    _recall: ClassVar[bool] = False


@dataclass(frozen=True)
class BARTScoreRecall(_BARTScoreReferences):
    """BARTScore of the reference given each text.

    BARTScore(text → reference) = (1/m) Σ_t log p(r_t | r_<t, y), m the tokens of the reference
    (Yuan et al. 2021, section 3.2). In nats per token, at most 0, higher is better.

    Undefined: as for `bartscore.precision`; also a reference without tokens.
    """

    name: ClassVar[str] = "bartscore.recall"
    _precision: ClassVar[bool] = False
    _recall: ClassVar[bool] = True


@dataclass(frozen=True)
class BARTScoreF(_BARTScoreReferences):
    """BARTScore in both directions between each text and its reference, averaged.

    F = (BARTScore(reference → text) + BARTScore(text → reference)) / 2: the arithmetic mean, since
    both are logarithms (Yuan et al. 2021, section 3.2). In nats per token, at most 0, higher is
    better. With references=max it is the reference of the highest F that counts.

    Undefined: as for `bartscore.precision`; also a reference without tokens.
    """

    name: ClassVar[str] = "bartscore.f"
    _precision: ClassVar[bool] = True
    _recall: ClassVar[bool] = True
