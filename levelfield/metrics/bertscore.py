"""BERTScore: how much of one text is found again in another, token by token.

Zhang et al. 2020, "BERTScore: Evaluating Text Generation with BERT", section 3; the thesis takes it
against sources and against references. With x the tokens of the source or reference, y those of the
text, their states of unit length, and weights w:

    P = Σ_j w(y_j) max_i x_i·y_j / Σ_j w(y_j),   R = Σ_i w(x_i) max_j x_i·y_j / Σ_i w(x_i),
    F = 2 P R / (P + R).

As in the authors' package the tokens [CLS] and [SEP] may be what another token is matched with, but
weigh nothing themselves. Unlike there, padding is never matched: the package takes 0 for it, so
that a token whose best cosine is negative gets 0 there in a batch with longer texts.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from levelfield.core.options import option
from levelfield.core.undefined import NO_WEIGHT, Undefined
from levelfield.metrics.embedding import StateComparison, Weighted
from levelfield.metrics.sample_metric import AgainstReferences, AgainstSource


class PRF(NamedTuple):
    """Precision, recall and F of a pair."""

    precision: float
    recall: float
    f: float


def greedy(text: Weighted, other: Weighted) -> PRF:
    """Returns P, R and F from matching each token with the nearest of the other text's."""
    cosine = text.states @ other.states.T  # (tokens of the text, tokens of the other)
    precision = float(np.average(cosine.max(axis=1), weights=text.weights))
    recall = float(np.average(cosine.max(axis=0), weights=other.weights))
    total = precision + recall
    return PRF(precision, recall, 2 * precision * recall / total if total else 0.0)


@dataclass(frozen=True)
class _BERTScore(StateComparison, abc.ABC):
    """Base of both metrics."""

    value: Literal["f", "precision", "recall"] = option(
        "f", "Value to report: F, precision or recall."
    )
    baseline: float | None = option(
        None,
        "Baseline b of the rescaling (value − b) / (1 − b) of section 5; the files of the authors' "
        "package have one each for P, R and F.",
        below=1,
        otherwise="values as they are",
    )

    def _choices(self) -> dict[str, object]:
        baseline = "none" if self.baseline is None else self.baseline
        return {**super()._choices(), "value": self.value, "baseline": baseline}

    def _value(self, text: Weighted, other: Weighted) -> float | Undefined:
        if not text.weights.any() or not other.weights.any():
            return Undefined(NO_WEIGHT)
        value: float = getattr(greedy(text, other), self.value)
        b = self.baseline
        return value if b is None else (value - b) / (1 - b)


@dataclass(frozen=True)
class BERTScoreSource(_BERTScore, AgainstSource):
    """BERTScore of each text against its source.

    F = 2 P R / (P + R), with P the mean over the text's tokens of the best cosine with a token of
    the source, and R the other way round (Zhang et al. 2020, section 3). At most 1, higher is
    better; 1 for a copy. Values of other models or layers can't be compared.

    Undefined: `empty text`; `empty source`; a text or a source that the model has no token for, or
    in which every token has idf 0. If a text is longer than the model's limit, its beginning is
    read, and it counts as truncated. Cosines are computed in float32. For idf the authors' package
    takes the references that it is given; here a file says it, and a value depends on its sample
    alone.
    """

    name: ClassVar[str] = "bertscore.source"


@dataclass(frozen=True)
class BERTScoreReferences(_BERTScore, AgainstReferences):
    """BERTScore of each text against the best of its references.

    The maximum over references of F, P or R, whichever is asked for (Zhang et al. 2020, section 3,
    and the authors' package for several references). At most 1, higher is better.

    Undefined: `empty text`; `no references` (blank ones are left out, and so are those that have no
    value); otherwise as for `bertscore.source`.
    """

    name: ClassVar[str] = "bertscore.references"
