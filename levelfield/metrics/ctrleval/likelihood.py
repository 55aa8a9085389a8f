"""Coherence and consistency of a causal model: the log P of spans of a text.

One pass over a text gives log P(Y_j | everything before it) of every span Y_j. What else the
forms need is log P(Y_j) of the span as a text of its own. All log P are sums over tokens, in
nats; |Y_j| is the number of tokens of Y_j in the text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from levelfield.core.undefined import (
    CERTAIN_ALONE,
    INFINITE,
    PROBABILITIES_NOT_NUMBERS,
    Undefined,
    unreadable,
)
from levelfield.metrics.ctrleval.base import ScoredEvaluator, ensemble
from levelfield.metrics.likelihood import LikelihoodScorer, Span, SpanLikelihood
from levelfield.metrics.sample_metric import SampleValue

Form = Literal["share", "nats", "log-p"]


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


def values(
    texts: Sequence[TextSpans], form: Form, scorer: LikelihoodScorer
) -> list[SampleValue | Undefined]:
    """The value of each text.

    Of a text longer than the model takes, the spans that it reads make the value: the last of
    them may be the beginning of one, which is then compared with the same beginning alone.
    """
    likelihoods = scorer.spans(
        [text.text for text in texts], [text.spans for text in texts], alone=form != "log-p"
    )
    return [_value(text, form, of_text) for text, of_text in zip(texts, likelihoods, strict=True)]


def _value(
    text: TextSpans, form: Form, likelihoods: Sequence[SpanLikelihood]
) -> SampleValue | Undefined:
    unread = [span.cut and not (span.given.size and span.alone.size) for span in likelihoods]
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
    """S = Σ_j β_j s_j over spans of a text; β_j is proportional to a mass.

        form   s_j                                             mass
        share  (log P(Y_j | Y_<j) − log P(Y_j)) / −log P(Y_j)  −log P(Y_j)
        nats   (log P(Y_j | Y_<j) − log P(Y_j)) / |Y_j|        |Y_j|
        log-p  log P(Y_j | Y_<j) / |Y_j|                       |Y_j|

    So S is the sum of what stands above the fraction line, divided by the sum of what stands below.
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
            return Undefined(INFINITE)
        if form == "share":
            if not by_itself:
                return Undefined(CERTAIN_ALONE)
            s, mass = (in_context - by_itself) / -by_itself, -by_itself
        elif form == "nats":
            s, mass = (in_context - by_itself) / tokens, tokens
        else:
            s, mass = in_context / tokens, tokens
        scored.append(ScoredEvaluator(span.part, s, mass, cut))
    return ensemble(scored, None)
