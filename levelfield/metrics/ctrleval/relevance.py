"""Attribute relevance: which label of an attribute a text has."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from levelfield.aspects import Aspect, load_aspect, shipped
from levelfield.core.arrays import Floats
from levelfield.core.continuation import EmptyOutput
from levelfield.core.sample import Sample
from levelfield.core.signature import signature
from levelfield.core.undefined import (
    EMPTY_TEXT,
    LABEL_WITHOUT_TOKEN,
    UNREADABLE,
    Undefined,
    holds_gap_token,
    no_control,
    no_control_among,
    several_controls,
    unknown_wanted,
)
from levelfield.core.wanted import single_value
from levelfield.metrics.ctrleval.base import CTRLEvalMetric
from levelfield.metrics.ctrleval.ensemble import Combine, ScoredEvaluator, ensemble
from levelfield.metrics.sample_metric import SampleValue, in_groups, of_defined
from levelfield.models.scorers import (
    LabelEvaluator,
    Scorer,
    label_evaluators,
)

_BEGINNING = 10_000
"""Characters of a text that tell whether a model has any tokens for it."""


class LabelQuestion(NamedTuple):
    """A text with the label that its control wants, and the aspect that has it."""

    text: str
    aspect: Aspect
    label: str


@dataclass(frozen=True)
class CTRLEvalAttributeRelevance(CTRLEvalMetric):
    """Attribute relevance: how clearly a text has the wanted label.

    For every prompt and verbalizer s_j = P(v_j(a) | f_j) / Σ_a' P(v_j(a') | f_j), with a the wanted
    label, a' all labels of the attribute, and f_j the prompt put around the text with a gap where
    the label's word goes; S = Σ_j β_j s_j with β_j ∝ Σ_a' P(v_j(a') | f_j) (section 3.2.3,
    equations 12 to 17). P of a word of several tokens is the exponential of their mean
    log-probability (the authors' code); no end-of-sequence token is scored. With an encoder
    s = softmax over labels of cosine(E(text), E(prompt filled with the word)) / 0.05, all
    evaluators weighted equally. In [0, 1]; 1 / labels is chance.

    An empty text has no label, so it is 0.

    Undefined: the sample's control has no label for the attribute, or one that the aspect does not
    know; a text without tokens of the model, or with its gap token; with empty=undefined also
    `empty text`.

    Options:
        attribute: `sentiment` (72 evaluators), `topic` (32), the TOML file of your own, or `auto`:
            whichever of the shipped ones the sample's control names.
        weights: `label-mass` (β as above; for encoders `mean`), or `mean`, `max`, `min`.
        empty: what an empty text is: `0`, or `undefined`.
        model, patterns, normalize: as for coherence.
    """

    attribute: str = "auto"
    weights: Literal["label-mass", "mean", "max", "min"] = "label-mass"
    empty: EmptyOutput = "0"

    name: ClassVar[str] = "ctrleval.attribute-relevance"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "control"})

    @functools.cached_property
    def signature(self) -> str:
        if self.attribute == "auto":
            named = "auto@" + "+".join(a.digest for a in shipped().values())
        else:
            aspect = load_aspect(self.attribute)
            named = f"{aspect.attribute}@{aspect.digest}"
        weights = self.weights if self._infills or self.weights != "label-mass" else "mean"
        own = {"attribute": named, "weights": weights, "empty": self.empty}
        return signature(self.name, self._choices(own))

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        scorer = self._scorer()
        readable = scorer.token_ids([sample.text[:_BEGINNING] for sample in samples])
        questions = [
            self._question(sample, scorer.gap_token, readable=bool(ids))
            for sample, ids in zip(samples, readable, strict=True)
        ]
        values = of_defined(questions, lambda defined: self._relevances(defined, scorer))
        if self.empty == "undefined":
            return values
        nothing = SampleValue(0.0, (), cut=False)
        return [nothing if value == Undefined(EMPTY_TEXT) else value for value in values]

    def _relevances(
        self, questions: Sequence[LabelQuestion], scorer: Scorer
    ) -> Iterator[SampleValue | Undefined]:
        def logits(evaluators: list[LabelEvaluator]) -> Iterable[tuple[str, Floats, bool]]:
            of_words, cut = scorer.label_logits(evaluators)
            return zip((e.part for e in evaluators), of_words, cut, strict=True)

        evaluators = [label_evaluators(question.text, question.aspect) for question in questions]
        for question, scored in zip(questions, in_groups(evaluators, logits), strict=True):
            parts, of_words, cut = zip(*scored, strict=True)
            log_p = np.stack(of_words)  # (evaluators, labels)
            if np.isnan(log_p).any():
                yield Undefined(LABEL_WITHOUT_TOKEN)
                continue
            log_mass = np.logaddexp.reduce(log_p, axis=1)
            s = np.exp(log_p[:, question.aspect.labels.index(question.label)] - log_mass)
            mass = np.exp(log_mass - log_mass.max()) if self._infills else np.ones_like(s)
            how: Combine | None = None if self.weights == "label-mass" else self.weights
            yield ensemble(list(map(ScoredEvaluator, parts, s, mass, cut)), how)

    def _question(
        self, sample: Sample, gap_token: str | None, *, readable: bool
    ) -> LabelQuestion | Undefined:
        if self.attribute == "auto":
            named = [attribute for attribute in shipped() if attribute in sample.control]
            if not named:
                return Undefined(no_control_among(shipped()))
            if len(named) > 1:
                return Undefined(several_controls(named))
            aspect = shipped()[named[0]]
        else:
            aspect = load_aspect(self.attribute)
        wanted = sample.control.get(aspect.attribute)
        if not wanted:
            return Undefined(no_control(aspect.attribute))
        label = aspect.label(wanted := single_value(wanted))
        if label is None:
            return Undefined(unknown_wanted(aspect.attribute, wanted))
        if not sample.text.strip():
            return Undefined(EMPTY_TEXT)
        if not readable:
            return Undefined(UNREADABLE)
        if gap_token and gap_token in sample.text:
            return Undefined(holds_gap_token(gap_token))
        return LabelQuestion(sample.text, aspect, label)
