"""Scores of pattern evaluators: from models that fill gaps, or from embeddings.

A pattern evaluator E = (f, g) builds a source f with one gap from a sample, and a target g that
should fit it (CTRLEval, Ke et al. 2022, section 3.1).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np

from levelfield.core.arrays import Bools, Floats
from levelfield.metrics.aspects import GAP, TEXT, Aspect
from levelfield.models.contracts import Gapped, InfillingModel, SentenceEncoder, Target

Patterns = Literal["infilling", "ppl-gpt", "bartscore"]
Normalize = Literal["tokens", "none"]

TEMPERATURE = 0.05
"""Temperature of the embedding scorer's softmax over labels."""


class Evaluator(NamedTuple):
    """E = (f, g), and the name under which its score is reported."""

    part: str
    f: Gapped
    g: str


class LabelEvaluator(NamedTuple):
    """A prompt with one word per label.

    Attributes:
        f: the prompt around the text, with a gap where a word goes.
        text: the text alone.
        prompt: the prompt alone.
        words: one per label, in the aspect's order.
    """

    part: str
    f: Gapped
    text: str
    prompt: Gapped
    words: tuple[str, ...]


class Scorer(Protocol):
    """A scorer of pattern evaluators."""

    def __hash__(self) -> int: ...

    @property
    def gap_token(self) -> str | None: ...
    @property
    def vocabulary_size(self) -> int: ...
    def token_ids(self, texts: Sequence[str]) -> list[list[int]]: ...
    def fit(self, evaluators: Sequence[Evaluator], *, end: bool) -> tuple[Floats, Bools]: ...
    def label_logits(self, evaluators: Sequence[LabelEvaluator]) -> tuple[list[Floats], Bools]: ...


class InfillingScorer:
    """s = log P(g | f), divided by the number of target tokens unless `normalize` is `none`.

    The paper's equation 4 has the sum; the authors' code, which produced the published numbers,
    divides. The ablations of Table 5 replace the patterns: `bartscore` leaves the gap token out of
    the source, `ppl-gpt` also puts the source in front of the target (all of that is scored).
    """

    def __init__(self, model: InfillingModel, patterns: Patterns, normalize: Normalize) -> None:
        self._model = model
        self._patterns = patterns
        self._normalize = normalize
        self.token_ids = model.token_ids

    @property
    def gap_token(self) -> str | None:
        return self._model.gap_token

    @property
    def vocabulary_size(self) -> int:
        return self._model.vocabulary_size

    def fit(self, evaluators: Sequence[Evaluator], *, end: bool) -> tuple[Floats, Bools]:
        """Returns the score of every evaluator, and whether the model saw less than all of it.

        Both are (evaluators,). The score of a target without tokens is NaN.

        Args:
            end: whether the end-of-sequence token after the target is scored as well.
        """
        likelihood = self._model.log_likelihood(
            [self._source(e.f) for e in evaluators],
            [[self._target(e.f, e.g, end)] for e in evaluators],
        )
        s = np.array([reduced(log_p, self._normalize) for (log_p,) in likelihood.log_p], np.float64)
        cut = np.logical_or(likelihood.source_cut, [any(flags) for flags in likelihood.target_cut])
        return s, cut

    def label_logits(self, evaluators: Sequence[LabelEvaluator]) -> tuple[list[Floats], Bools]:
        """Returns log P(word | f) of each evaluator's words, (labels,); and whether f was cut."""
        likelihood = self._model.log_likelihood(
            [self._source(e.f) for e in evaluators],
            [[self._target(e.f, word, False) for word in e.words] for e in evaluators],
        )
        logits = [
            np.array([reduced(p, self._normalize) for p in words]) for words in likelihood.log_p
        ]
        return logits, np.array(likelihood.source_cut, np.bool_)

    def _source(self, f: Gapped) -> Gapped:
        return f if self._patterns == "infilling" else f._replace(gap=False)

    def _target(self, f: Gapped, g: str, end: bool) -> Target:
        if self._patterns != "ppl-gpt" or not f.without_gap:
            return Target(g, end)
        blank = "" if f.without_gap[-1:].isspace() or g[:1].isspace() else " "
        return Target(f.without_gap + blank + g, end)


_BEGINNING = 10_000
"""Characters of a text that tell whether a model has any tokens for it."""


def have_tokens(
    texts: Iterable[str], token_ids: Callable[[Sequence[str]], list[list[int]]]
) -> list[bool]:
    """Returns whether a model has any tokens for each text."""
    return [bool(ids) for ids in token_ids([text[:_BEGINNING] for text in texts])]


def reduced(log_p: Floats, normalize: Normalize) -> float:
    """Returns the mean of log P of tokens, or their sum; NaN where there are none."""
    if not log_p.size:
        return float("nan")
    return float(log_p.mean() if normalize == "tokens" else log_p.sum())


class EmbeddingScorer:
    """s = cosine(E(f without the gap), E(g)); ours, for models that only embed.

    Labels are compared with the text instead: the logit of a label is
    cosine(E(text), E(prompt filled with its word)) / T with T = 0.05.
    """

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder = encoder
        self.token_ids = encoder.token_ids
        # the same few prompts come with every text
        self._filled = functools.lru_cache(maxsize=1024)(self._embed_filled)

    @property
    def gap_token(self) -> str | None:
        return None

    @property
    def vocabulary_size(self) -> int:
        return self._encoder.vocabulary_size

    def fit(self, evaluators: Sequence[Evaluator], *, end: bool) -> tuple[Floats, Bools]:  # noqa: ARG002
        """As `InfillingScorer.fit`, without an end token; NaN where a side has no tokens."""
        n = len(evaluators)
        texts: list[str | Gapped] = [e.f for e in evaluators]
        texts += [e.g.strip() for e in evaluators]
        embeddings, cut = self._encoder.sentences(texts)
        left, right = embeddings[:n].astype(np.float64), embeddings[n:].astype(np.float64)
        return (left * right).sum(axis=1), np.logical_or(cut[:n], cut[n:])

    def label_logits(self, evaluators: Sequence[LabelEvaluator]) -> tuple[list[Floats], Bools]:
        """Returns cosine / T of each evaluator's words, (labels,); and whether the text was cut."""
        texts, cut = self._encoder.sentences([e.text for e in evaluators])
        logits = [
            self._filled(e.prompt, e.words) @ text / TEMPERATURE
            for e, text in zip(evaluators, texts.astype(np.float64), strict=True)
        ]
        return logits, np.array(cut, np.bool_)

    def _embed_filled(self, prompt: Gapped, words: tuple[str, ...]) -> Floats:
        """Returns the embeddings of a prompt with each of the words in its gap: (words, d)."""
        filled = [(prompt.left + word + prompt.right).strip() for word in words]
        return self._encoder.sentences(filled)[0].astype(np.float64)


def label_evaluators(text: str, aspect: Aspect) -> list[LabelEvaluator]:
    """Returns every prompt × verbalizer of an aspect around a text."""
    evaluators = []
    for prompt in aspect.prompts:
        left, right = prompt.split(GAP)
        f = Gapped(left.replace(TEXT, text), right.replace(TEXT, text))
        alone = Gapped(left.replace(TEXT, "").lstrip(), right.replace(TEXT, "").rstrip())
        for verbalizer in aspect.verbalizers:
            words = tuple(verbalizer[label] for label in aspect.labels)
            part = f"{prompt} ({'/'.join(words)})"
            evaluators.append(LabelEvaluator(part, f, text, alone, words))
    return evaluators
