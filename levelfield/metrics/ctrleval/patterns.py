"""Coherence and consistency: how likely a span of a text is, given the rest of it.

Models that fill gaps and encoders score pattern evaluators. One pass of a causal model over a text
gives log P(Y_j | everything before it) of every span Y_j; what else its forms need is log P(Y_j) of
the span as a text of its own. All log P are sums over tokens, in nats; |Y_j| is the number of
tokens of Y_j in the text.
"""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal, NamedTuple, cast

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.continuation import continuation
from levelfield.core.options import option
from levelfield.core.sample import Sample
from levelfield.core.undefined import (
    CERTAIN_ALONE,
    EMPTY_TEXT,
    FIRST_SENTENCE_TOO_LONG,
    IMPOSSIBLE,
    NO_PROMPT,
    ONE_SENTENCE,
    PROBABILITIES_NOT_NUMBERS,
    PROMPT_TOO_LONG,
    Undefined,
    holds_gap_token,
    unreadable,
)
from levelfield.metrics import iwf as iwf_lists
from levelfield.metrics.ctrleval.base import CTRLEvalMetric, ScoredEvaluator, ensemble
from levelfield.metrics.likelihood import LikelihoodScorer, Span, SpanLikelihood
from levelfield.metrics.sample_metric import SampleValue, in_groups, map_defined
from levelfield.metrics.scorers import Evaluator, Scorer
from levelfield.models.contracts import Gapped
from levelfield.text import segmenter

Form = Literal["share", "nats", "log-p", "evidence"]

PROMPT_MATCH = option(
    "exact",
    "Require that the text begins with the prompt character by character (exact), or allow white "
    "space and case to differ (loose).",
)


class TextSpans(NamedTuple):
    """A text, and the spans of it that an aspect scores.

    Attributes:
        least: how many spans make a value.
        too_long: why there is none where the model reads fewer.
    """

    text: str
    spans: Sequence[Span]
    least: int
    too_long: str


@dataclass(frozen=True)
class _PatternMetric(CTRLEvalMetric, abc.ABC):
    """An aspect whose evaluators score a span of the text, weighted by NISF (equation 5)."""

    weights: Literal["nisf", "mean", "max", "min"] = option(
        "nisf",
        "Weights of evaluators: nisf, or an ablation of Table 5: their mean, largest or smallest "
        "value. A causal model has none.",
    )
    iwf: str = option(
        "auto",
        "Word frequencies of NISF: published (BookCorpus, for PEGASUS), wordfreq, "
        "wordfreq:LANGUAGE (de, …), or a file of `levelfield train iwf`; auto takes published for"
        " PEGASUS and wordfreq for others.",
    )

    _end: ClassVar[bool]

    @abc.abstractmethod
    def _evaluators(self, sample: Sample, gap_token: str | None) -> list[Evaluator] | Undefined:
        """Returns the pattern evaluators of a sample."""

    @abc.abstractmethod
    def _text_spans(self, sample: Sample, form: str) -> TextSpans | Undefined:
        """Returns what a causal model scores of a sample."""

    def _without_meaning(self, form: str) -> Sequence[str]:  # noqa: ARG002
        return "weights", "iwf", "patterns", "normalize"

    def _own(self) -> Mapping[str, object]:
        if self._chosen_form():
            return {}
        if self.weights != "nisf":
            return {"weights": self.weights}
        source = iwf_lists.source_of(self.iwf, self._resolved.model_type)
        return {"weights": self.weights, "iwf": source}

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        if form := self._chosen_form():
            return self._likelihood_values(samples, cast(Form, form))
        scorer = self._scorer()

        def scored(evaluators: list[Evaluator]) -> Iterable[ScoredEvaluator]:
            s, cut = scorer.fit(evaluators, end=self._end)
            parts = [evaluator.part for evaluator in evaluators]
            return map(ScoredEvaluator, parts, s, self._masses(evaluators, scorer), cut)

        return map_defined(
            [self._evaluators(sample, scorer.gap_token) for sample in samples],
            lambda evaluators_per_sample: map(
                self._ensemble, in_groups(evaluators_per_sample, scored)
            ),
        )

    def _likelihood_values(
        self, samples: Sequence[Sample], form: Form
    ) -> list[SampleValue | Undefined]:
        texts = [self._text_spans(sample, form) for sample in samples]
        scorer = self._likelihood_scorer()
        values = map_defined(texts, lambda defined: span_values(defined, form, scorer))
        return [*values]

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

    A causal model reads the whole text once, without the white space around it; a token belongs to
    the sentence in which it ends. With log P(Y_j | Y_<j) of a
    sentence after those before it, log P(Y_j) of the sentence alone, and |Y_j| its tokens, S is

        share     1 − Σ_j log P(Y_j | Y_<j) / Σ_j log P(Y_j)
        nats      Σ_j (log P(Y_j | Y_<j) − log P(Y_j)) / Σ_j |Y_j|
        log-p     Σ_j log P(Y_j | Y_<j) / Σ_j |Y_j|
        evidence  min_{j>1} (log P(Y_j | Y_<j) − log P(Y_j)) / √|Y_j|

    `share` is the part of the sentences' surprisal that goes when they are read together; at most
    1, and below 0 where they surprise more in their order than alone. Parts are sentences: s_j is
    the same quotient of one sentence, and β_j its part of the sum below the fraction line. The
    first sentence has nothing before it, so its s_1 of `share` and `nats` is 0 and both grow with
    the number of sentences: compare texts of like length. `evidence` is the pointwise mutual
    information of the sentence that fits worst and what precedes it; like any sum of |Y_j|
    terms it varies by chance in proportion to √|Y_j|, so the quotient is as reliable for a short
    sentence as for a long one. If a text is longer than the model's limit, the sentences that it
    reads are scored, the last as far as it is read.

    Undefined with a causal model besides: a sentence without tokens; a probability that is not a
    number; an impossible token; a first sentence that is as long as what the model takes and, with
    `share`, a sentence whose log P alone is 0.

    The options `weights`, `iwf`, `patterns` and `normalize` are not for causal models, and `single`
    only for form=log-p.
    """

    single: Literal["undefined", "score"] = option(
        "undefined", "Value of a text of one sentence: undefined, or score it."
    )
    language: str = segmenter.LANGUAGE
    _: KW_ONLY
    form: Literal["auto", "share", "nats", "log-p", "evidence"] = option(
        "auto", "Form by which a causal model scores; auto is share."
    )

    name: ClassVar[str] = "ctrleval.coherence"
    requires: ClassVar[frozenset[str]] = frozenset({"text"})
    _end: ClassVar[bool] = True
    _forms: ClassVar[tuple[str, ...]] = ("share", "nats", "log-p", "evidence")

    def _own(self) -> Mapping[str, object]:
        choices = {"single": self.single, "segmenter": segmenter.label(self.language)}
        return {**super()._own(), **choices}

    @property
    def languages(self) -> Mapping[str, frozenset[str]]:
        """What its segmenter reads."""
        return segmenter.languages_read(self.language)

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

    def _without_meaning(self, form: str) -> Sequence[str]:
        # a sentence alone has a log P, and nothing that it could rise by
        return *super()._without_meaning(form), *(("single",) if form != "log-p" else ())

    def _text_spans(self, sample: Sample, form: str) -> TextSpans | Undefined:
        text = sample.text.strip()
        sentences = segmenter.spans(text, self.language)
        if not sentences:
            return Undefined(EMPTY_TEXT)
        if len(sentences) == 1 and self.single == "undefined":
            return Undefined(ONE_SENTENCE)
        after = [0, *(end for _, end in sentences)]
        spans = [
            Span(f"{j + 1}: {text[begin:end]}", after[j], begin, end)
            for j, (begin, end) in enumerate(sentences)
        ]
        least = 1 if form == "log-p" else 2
        return TextSpans(text, spans, least, FIRST_SENTENCE_TOO_LONG)


@dataclass(frozen=True)
class CTRLEvalConsistency(_PatternMetric):
    """Consistency: how well a text fits the prompt that it continues.

    S = NISF(Y∖X) · s(Y∖X | X, gap) + NISF(X) · s(X | gap, Y∖X), with X the prompt and Y∖X the
    text after it, as cut, its leading blank kept (section 3.2.2, equations 9 to 11). No
    end-of-sequence token is scored.

    Undefined: `empty text`; `no prompt`; `prompt is not a prefix of the text`; `nothing after the
    prompt`.

    A causal model reads the text once; the tokens that end after the prompt are those of Y∖X,
    and |Y∖X| is their number. S is, with a single part,

        log-p     log P(Y∖X | X) / |Y∖X|
        share     (log P(Y∖X | X) − log P(Y∖X)) / −log P(Y∖X)
        evidence  (log P(Y∖X | X) − log P(Y∖X)) / √|Y∖X|

    where log P(Y∖X) is that of Y∖X alone, its leading blank kept; `evidence` is as for coherence.
    If a text is longer than the model's limit, Y∖X is scored as far as it is read. Undefined
    besides: as for coherence, and a prompt longer than the model takes. The options `weights`,
    `iwf`, `patterns` and `normalize` are not for causal models.
    """

    match: Literal["exact", "loose"] = PROMPT_MATCH
    _: KW_ONLY
    form: Literal["auto", "log-p", "share", "evidence"] = option(
        "auto", "Form by which a causal model scores; auto is log-p."
    )

    name: ClassVar[str] = "ctrleval.consistency"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "prompt"})
    _end: ClassVar[bool] = False
    _forms: ClassVar[tuple[str, ...]] = ("log-p", "share", "evidence")

    def _own(self) -> Mapping[str, object]:
        return {**super()._own(), "match": self.match}

    def _evaluators(self, sample: Sample, gap_token: str | None) -> list[Evaluator] | Undefined:
        prompt = sample.prompt
        rest = self._rest(sample)
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

    def _text_spans(self, sample: Sample, form: str) -> TextSpans | Undefined:  # noqa: ARG002
        rest = self._rest(sample)
        if isinstance(rest, Undefined):
            return rest
        begin, end = len(sample.text) - len(rest), len(sample.text)
        span = Span("prompt → rest", begin, begin, end)
        return TextSpans(sample.text, [span], 1, PROMPT_TOO_LONG)

    def _rest(self, sample: Sample) -> str | Undefined:
        return continuation(sample, match="words" if self.match == "loose" else "exact")


@functools.lru_cache(maxsize=4)
def _frequencies(choice: str, source: str, scorer: Scorer) -> iwf_lists.InverseWordFrequency:
    return iwf_lists.read(choice, source, scorer.vocabulary_size, scorer.token_ids)


def span_values(
    texts: Sequence[TextSpans], form: Form, scorer: LikelihoodScorer
) -> list[SampleValue | Undefined]:
    """Returns the value of each text.

    Of a text longer than the model takes, the spans that it reads make the value: the last of
    them may be the beginning of one, which is then compared with the same beginning alone.
    """
    likelihoods = scorer.spans(
        [text.text for text in texts], [text.spans for text in texts], alone=form != "log-p"
    )
    return [_value(text, form, spans) for text, spans in zip(texts, likelihoods, strict=True)]


def _value(
    text: TextSpans, form: Form, likelihoods: Sequence[SpanLikelihood]
) -> SampleValue | Undefined:
    unread = [span.cut and not (span.in_context.size and span.alone.size) for span in likelihoods]
    if any(unread) and unread.count(False) < text.least:
        return Undefined(text.too_long)
    value = combined(
        form,
        [span for span, no in zip(text.spans, unread, strict=True) if not no],
        [span for span, no in zip(likelihoods, unread, strict=True) if not no],
    )
    return value if isinstance(value, Undefined) else value._replace(cut=value.cut or any(unread))


def combined(
    form: Form, spans: Sequence[Span], likelihoods: Sequence[SpanLikelihood]
) -> SampleValue | Undefined:
    """Returns S = Σ_j β_j s_j over spans of a text; β_j is proportional to a mass.

        form      s_j                                             mass
        share     (log P(Y_j | Y_<j) − log P(Y_j)) / −log P(Y_j)  −log P(Y_j)
        nats      (log P(Y_j | Y_<j) − log P(Y_j)) / |Y_j|        |Y_j|
        log-p     log P(Y_j | Y_<j) / |Y_j|                       |Y_j|

    So S is the sum of the numerators divided by the sum of the denominators. For `evidence`,
    s_j = (log P(Y_j | Y_<j) − log P(Y_j)) / √|Y_j|, and S is the least s_j of the spans that
    something precedes.
    """
    scored = []
    for span, (in_text, alone, cut) in zip(spans, likelihoods, strict=True):
        if not (in_text.size and alone.size):
            return Undefined(unreadable(span.part))
        in_context, by_itself, tokens = (
            float(in_text.sum()),
            float(alone.sum()),
            float(in_text.size),
        )
        if np.isnan(in_text).any() or np.isnan(alone).any():
            return Undefined(PROBABILITIES_NOT_NUMBERS)
        if math.isinf(in_context) or math.isinf(by_itself):
            return Undefined(IMPOSSIBLE)
        if form == "share":
            if not by_itself:
                return Undefined(CERTAIN_ALONE)
            s, mass = (in_context - by_itself) / -by_itself, -by_itself
        elif form == "nats":
            s, mass = (in_context - by_itself) / tokens, tokens
        elif form == "evidence":
            if not span.after:
                continue
            s, mass = (in_context - by_itself) / math.sqrt(tokens), 1.0
        else:
            s, mass = in_context / tokens, tokens
        scored.append(ScoredEvaluator(span.part, s, mass, cut))
    return ensemble(scored, "min" if form == "evidence" else None)
