"""Coherence and consistency: how likely a stretch of a text is, given the rest of it."""

from __future__ import annotations

import abc
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.continuation import continuation
from levelfield.core.sample import Sample
from levelfield.core.signature import signature
from levelfield.core.undefined import (
    EMPTY_TEXT,
    NO_PROMPT,
    ONE_SENTENCE,
    Undefined,
    holds_gap_token,
    unreadable,
)
from levelfield.metrics.ctrleval.base import CTRLEvalMetric
from levelfield.metrics.ctrleval.ensemble import ScoredEvaluator, ensemble
from levelfield.metrics.sample_metric import SampleValue, in_groups, of_defined
from levelfield.metrics.text import iwf as iwf_lists
from levelfield.metrics.text import segmenter
from levelfield.models.contracts import Gapped
from levelfield.models.scorers import (
    Evaluator,
    Scorer,
)


@dataclass(frozen=True)
class _PatternMetric(CTRLEvalMetric, abc.ABC):
    """An aspect whose evaluators score a stretch of the text, weighted by NISF (equation 5)."""

    weights: Literal["nisf", "mean", "max", "min"] = "nisf"
    iwf: str = "auto"

    _end: ClassVar[bool]

    @abc.abstractmethod
    def _evaluators(self, sample: Sample, gap_token: str | None) -> list[Evaluator] | Undefined:
        """Returns the pattern evaluators of a sample."""

    def _pattern_choices(self, own: Mapping[str, object]) -> dict[str, object]:
        nisf = self.weights == "nisf"
        source = iwf_lists.source_of(self.iwf, self._resolved.model_type) if nisf else ""
        return self._choices({"weights": self.weights, **({"iwf": source} if nisf else {}), **own})

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        scorer = self._scorer()

        def scored(evaluators: list[Evaluator]) -> Iterable[ScoredEvaluator]:
            s, cut = scorer.fit(evaluators, end=self._end)
            parts = [evaluator.part for evaluator in evaluators]
            return map(ScoredEvaluator, parts, s, self._masses(evaluators, scorer), cut)

        return of_defined(
            [self._evaluators(sample, scorer.gap_token) for sample in samples],
            lambda of_samples: map(self._ensemble, in_groups(of_samples, scored)),
        )

    def _masses(self, evaluators: Sequence[Evaluator], scorer: Scorer) -> Floats:
        """Returns NISF of each evaluator's target before it is normalised: (evaluators,)."""
        if self.weights != "nisf":
            return np.ones(len(evaluators))
        source = iwf_lists.source_of(self.iwf, self._resolved.model_type)
        frequencies = _frequencies(self.iwf, source, scorer)
        return frequencies.isf([evaluator.g for evaluator in evaluators], scorer.token_ids)

    def _ensemble(self, scored: Sequence[ScoredEvaluator]) -> SampleValue | Undefined:
        for evaluator in scored:
            if np.isnan(evaluator.s):
                return Undefined(unreadable(evaluator.part))
        return ensemble(scored, None if self.weights == "nisf" else self.weights)


@dataclass(frozen=True)
class CTRLEvalCoherence(_PatternMetric):
    """Coherence: how well each sentence of a text fits the others.

    S = Σ_j NISF(Y_j) · s(Y_j | Y with a gap in place of Y_j), over the sentences Y_j of the text
    (section 3.2.1, equations 2 to 8). Sentences are joined by one blank; the target's
    end-of-sequence token is scored.

    Undefined: `empty text`; `one sentence only`, unless `single="score"`, which scores the
    sentence against a source that is only the gap, as the published numbers have it (encoders
    can't: they have nothing to compare with).

    Options:
        model: hub name, folder, or `offline/minilm`.
        weights: `nisf`, or the ablations of Table 5: `mean`, `max`, `min` over evaluators.
        iwf: what NISF is computed from: `published` (BookCorpus, for PEGASUS), `wordfreq`,
            `wordfreq:de`, or a file of `levelfield train iwf`; `auto` takes `published` for
            PEGASUS and `wordfreq` for others.
        patterns: `infilling`, or the ablations of Table 5: `ppl-gpt`, `bartscore`.
        normalize: `tokens` divides log-probabilities by the number of target tokens (the authors'
            code), `none` does not (the paper's formula).
        single: what to do with one sentence: `undefined` or `score`.
        language: of the sentence segmenter (Punkt).
    """

    single: Literal["undefined", "score"] = "undefined"
    language: str = "english"

    name: ClassVar[str] = "ctrleval.coherence"
    requires: ClassVar[frozenset[str]] = frozenset({"text"})
    _end: ClassVar[bool] = True

    @functools.cached_property
    def signature(self) -> str:
        own = {"single": self.single, "segmenter": f"punkt-{self.language}"}
        return signature(self.name, self._pattern_choices(own))

    def _evaluators(self, sample: Sample, gap_token: str | None) -> list[Evaluator] | Undefined:
        sentences = segmenter.sentences(sample.text, self.language)
        if not sentences:
            return Undefined(EMPTY_TEXT)
        if gap_token and gap_token in sample.text:
            return Undefined(holds_gap_token(gap_token))
        if len(sentences) == 1 and (self.single == "undefined" or not self._infills):
            return Undefined(ONE_SENTENCE)
        evaluators = []
        for j, sentence in enumerate(sentences):
            left, right = " ".join(sentences[:j]), " ".join(sentences[j + 1 :])
            f = Gapped(f"{left} " if left else "", f" {right}" if right else "")
            evaluators.append(Evaluator(f"{j + 1}: {sentence}", f, sentence))
        return evaluators


@dataclass(frozen=True)
class CTRLEvalConsistency(_PatternMetric):
    """Consistency: how well a text fits the prompt that it continues.

    S = NISF(Y∖X) · s(Y∖X | X, gap) + NISF(X) · s(X | gap, Y∖X), with X the prompt and Y∖X the
    text after it, as cut, its leading blank kept (section 3.2.2, equations 9 to 11). No
    end-of-sequence token is scored.

    Undefined: `empty text`; `no prompt`; `prompt is not a prefix of the text`; `nothing after the
    prompt`.

    Options: as for coherence, and
        match: `exact` demands that the text begin with the prompt character by character, `loose`
            lets white space and case differ.
    """

    match: Literal["exact", "loose"] = "exact"

    name: ClassVar[str] = "ctrleval.consistency"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "prompt"})
    _end: ClassVar[bool] = False

    @functools.cached_property
    def signature(self) -> str:
        return signature(self.name, self._pattern_choices({"match": self.match}))

    def _evaluators(self, sample: Sample, gap_token: str | None) -> list[Evaluator] | Undefined:
        prompt = sample.prompt
        rest = continuation(sample, match="words" if self.match == "loose" else "exact")
        blank = rest in (Undefined(EMPTY_TEXT), Undefined(NO_PROMPT))
        if gap_token and not blank and (gap_token in sample.text or gap_token in prompt):
            return Undefined(holds_gap_token(gap_token))
        if isinstance(rest, Undefined):
            return rest
        before = prompt if prompt[-1:].isspace() else f"{prompt} "
        after = rest if rest[:1].isspace() else f" {rest}"
        return [
            Evaluator("prompt → rest", Gapped(before, ""), rest),
            Evaluator("rest → prompt", Gapped("", after), prompt),
        ]


@functools.lru_cache(maxsize=4)
def _frequencies(choice: str, source: str, scorer: Scorer) -> iwf_lists.InverseWordFrequency:
    return iwf_lists.read(choice, source, scorer.vocabulary_size, scorer.token_ids)
