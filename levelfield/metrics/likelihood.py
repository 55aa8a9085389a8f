"""What causal models say of parts of texts."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from levelfield.core.arrays import Floats, Ints
from levelfield.core.errors import ModelError
from levelfield.metrics.aspects import GAP, TEXT, Aspect
from levelfield.metrics.scorers import Normalize, reduced
from levelfield.models.contracts import CausalLikelihood, CausalModel, Frame


class Span(NamedTuple):
    """A part of a text.

    Attributes:
        part: the name under which its score is reported.
        after: its tokens end after this place of the text, which is where the span before it
            ends; so a token belongs where it ends, and the blank before a word to the word.
        begin: where its own characters begin.
        end: where they end.
    """

    part: str
    after: int
    begin: int
    end: int


class SpanLikelihood(NamedTuple):
    """Log-probabilities of a span from a causal model.

    Attributes:
        in_context: (tokens,) log P(token | BOS, everything before it); empty where the model has no
            token for the span, or reads none.
        alone: the same of the span as a text of its own, whose tokens may differ.
        cut: whether the text exceeds the model's limit and the end of the span is not read. Then
            both arrays hold only what both passes read.
    """

    in_context: Floats
    alone: Floats
    cut: bool


class LabelScores(NamedTuple):
    """log P of the labels' words of one prompt and verbalizer, or of the text given each of them.

    Attributes:
        part: the name under which the evaluator is reported.
        log_p: (labels,) in the aspect's order; NaN where no token can be scored.
        cut: whether the model did not see all.
    """

    part: str
    log_p: Floats
    cut: bool


class LabelPrompt(NamedTuple):
    """A prompt whose gap follows the text, with the words of one verbalizer.

    What follows the gap is not read.

    Attributes:
        part: the name under which the evaluator is reported.
        prefix: what precedes the text.
        between: what separates the text from the gap.
        words: one per label, in the aspect's order.
    """

    part: str
    prefix: str
    between: str
    words: tuple[str, ...]

    @property
    def frame(self) -> Frame:
        """What follows the text, the blank before the gap with the words."""
        between, blank = _without_end(self.between)
        return Frame(between, tuple(blank + word for word in self.words))

    @property
    def frame_alone(self) -> Frame:
        """The frame without a text before it."""
        between, words = self.frame
        return Frame(between.lstrip(), words)


def label_prompts(aspect: Aspect) -> list[LabelPrompt]:
    """Returns every prompt × verbalizer of an aspect whose gap follows the text."""
    prompts = []
    for prompt in aspect.prompts:
        left, _ = prompt.split(GAP)
        if TEXT not in left:
            continue
        prefix, between = left.split(TEXT)
        for verbalizer in aspect.verbalizers:
            words = tuple(verbalizer[label] for label in aspect.labels)
            part = f"{prompt} ({'/'.join(words)})"
            prompts.append(LabelPrompt(part, prefix, between, words))
    return prompts


class LabelContexts(NamedTuple):
    """What a text is read after to say how well each label fits it.

    Attributes:
        part: the name under which the evaluator is reported.
        contexts: one per label, in the aspect's order; blank where the aspect has no prompt whose
            gap precedes the text.
    """

    part: str
    contexts: tuple[str, ...]


def label_contexts(aspect: Aspect) -> LabelContexts:
    """Returns all prompts whose gap precedes the text, filled and joined by one blank.

    Prompt i has the word of verbalizer i mod (number of verbalizers), so that every verbalizer
    has its turn.
    """
    before = [p for p in aspect.prompts if p.index(GAP) < p.index(TEXT)]
    alone = [prompt.replace(TEXT, "").strip() for prompt in before]
    verbalizers = itertools.cycle(aspect.verbalizers)
    turns = list(zip(alone, verbalizers, strict=False))

    def filled(word: Callable[[Mapping[str, str]], str]) -> str:
        return " ".join(prompt.replace(GAP, word(verbalizer)) for prompt, verbalizer in turns)

    part = filled(lambda verbalizer: "/".join(verbalizer[label] for label in aspect.labels))
    contexts = [filled(operator.itemgetter(label)) for label in aspect.labels]
    return LabelContexts(f"{part} {TEXT}", tuple(contexts))


class LikelihoodScorer:
    """log P of spans and of label words, from a causal model."""

    gap_token: None = None

    def __init__(self, model: CausalModel) -> None:
        self._model = model
        self.token_ids = model.token_ids

    def spans(
        self, texts: Sequence[str], spans_per_text: Sequence[Sequence[Span]], *, alone: bool
    ) -> list[list[SpanLikelihood]]:
        """Returns the likelihood of each span of each text, from one pass over the text.

        Args:
            alone: whether spans are also read alone, in separate passes. The beginning of a text
                needs none: nothing precedes it. Otherwise `alone` is `in_context`.

        Raises:
            ModelError: the tokenizer does not say where tokens are.
        """
        likelihoods = self._model.log_likelihood(texts)
        needed = [
            [text[s.begin : s.end] if alone and s.after else "" for s in spans]
            for text, spans in zip(texts, spans_per_text, strict=True)
        ]
        distinct = list(dict.fromkeys(span for span_texts in needed for span in span_texts if span))
        by_text = dict(zip(distinct, self._model.log_likelihood(distinct), strict=True))
        return [
            [
                _likelihood(likelihood, span, by_text.get(span_text))
                for span, span_text in zip(spans, span_texts, strict=True)
            ]
            for likelihood, spans, span_texts in zip(
                likelihoods, spans_per_text, needed, strict=True
            )
        ]

    def words_after(
        self,
        texts: Sequence[str],
        prompts_per_text: Sequence[Sequence[LabelPrompt]],
        normalize: Normalize,
        *,
        calibrated: bool,
    ) -> list[list[LabelScores]]:
        """Returns log P(word | text, what separates it from the gap), for every prompt's words.

        Args:
            calibrated: whether to subtract log P(word | what precedes the gap, without the text).
        """
        # one pass a text and prefix; most prompts begin with the text
        prefixes = [list(dict.fromkeys(p.prefix for p in prompts)) for prompts in prompts_per_text]
        frames = [
            [[p.frame for p in prompts if p.prefix == prefix] for prefix in text_prefixes]
            for prompts, text_prefixes in zip(prompts_per_text, prefixes, strict=True)
        ]
        likelihoods = iter(
            self._model.words_after(
                [prefix + t for t, ps in zip(texts, prefixes, strict=True) for prefix in ps],
                [prefix_frames for text_frames in frames for prefix_frames in text_frames],
            )
        )
        scores_per_text = []
        for prompts, text_prefixes in zip(prompts_per_text, prefixes, strict=True):
            by_prefix = {prefix: zip(*next(likelihoods), strict=True) for prefix in text_prefixes}
            label_scores = []
            for prompt in prompts:
                words, cut = next(by_prefix[prompt.prefix])
                log_p = np.array([reduced(word, normalize) for word in words])
                label_scores.append(LabelScores(prompt.part, log_p, cut))
            scores_per_text.append(label_scores)
        if not calibrated:
            return scores_per_text
        priors = self._priors(prompts_per_text, normalize)
        with np.errstate(invalid="ignore"):  # a word that is impossible with and without the text
            return [
                [
                    scores._replace(log_p=scores.log_p - priors[prompt.frame_alone])
                    for prompt, scores in zip(prompts, prompt_scores, strict=True)
                ]
                for prompts, prompt_scores in zip(prompts_per_text, scores_per_text, strict=True)
            ]

    def _priors(
        self, prompts_per_text: Sequence[Sequence[LabelPrompt]], normalize: Normalize
    ) -> dict[Frame, Floats]:
        """Returns log P of the words of each frame without a text before it: (words,)."""
        frames = list(dict.fromkeys(p.frame_alone for ps in prompts_per_text for p in ps))
        (likelihood,) = self._model.words_after([""], [frames])
        return {
            frame: np.array([reduced(word, normalize) for word in words])
            for frame, words in zip(frames, likelihood.log_p, strict=True)
        }

    def text_after(
        self,
        texts: Sequence[str],
        contexts_per_text: Sequence[LabelContexts],
        normalize: Normalize,
    ) -> list[LabelScores]:
        """Returns log P(text | context), for the context of every label; one blank separates them.

        If a text exceeds what the model takes after a context, only as many of its tokens are
        scored after each context as fit after the longest.
        """
        scores: dict[tuple[str, LabelContexts], LabelScores] = {}
        for contexts in dict.fromkeys(contexts_per_text):
            distinct = list(
                dict.fromkeys(
                    text
                    for text, label_contexts in zip(texts, contexts_per_text, strict=True)
                    if label_contexts == contexts
                )
            )
            likelihoods = self._model.log_likelihood_after(
                contexts.contexts, [f" {text}" for text in distinct]
            )
            for text, per_context in zip(distinct, zip(*likelihoods, strict=True), strict=True):
                tokens = min(likelihood.log_p.size for likelihood in per_context)
                log_p = np.array(
                    [reduced(likelihood.log_p[:tokens], normalize) for likelihood in per_context]
                )
                cut = any(likelihood.cut for likelihood in per_context)
                scores[text, contexts] = LabelScores(contexts.part, log_p, cut)
        return [scores[key] for key in zip(texts, contexts_per_text, strict=True)]


def _without_end(text: str) -> tuple[str, str]:
    """Returns a text without the white space at its end, and that white space."""
    kept = text.rstrip()
    return kept, text[len(kept) :]


def _likelihood(
    in_text: CausalLikelihood, span: Span, alone: CausalLikelihood | None
) -> SpanLikelihood:
    ends = _ends(in_text)
    within = (ends > span.after) & (ends <= span.end)
    cut = in_text.cut and span.end > ends.max(initial=0)
    if alone is None:
        log_p = in_text.log_p[within]
        return SpanLikelihood(log_p, log_p, cut)
    context_ends, alone_ends = ends[within] - span.begin, _ends(alone)
    # what is not scored alone is not compared
    compared = (context_ends > alone.unscored) | (alone.unscored == 0)
    if not (cut or alone.cut):
        return SpanLikelihood(in_text.log_p[within][compared], alone.log_p, cut=False)
    read = min(context_ends.max(initial=0), alone_ends.max(initial=0))
    compared &= context_ends <= read
    return SpanLikelihood(
        in_text.log_p[within][compared], alone.log_p[alone_ends <= read], cut=True
    )


def _ends(likelihood: CausalLikelihood) -> Ints:
    if likelihood.ids.size and not likelihood.ends.size:
        raise ModelError(
            "the model's tokenizer does not say where in a text its tokens are, which parts of "
            "texts require; use a model with a fast tokenizer"
        )
    return likelihood.ends
