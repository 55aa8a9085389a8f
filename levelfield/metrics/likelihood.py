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
    """What a causal model says of a span.

    Attributes:
        given: (tokens,) log P(token | BOS, everything before it); empty where the model has no
            token for the span, or reads none.
        alone: the same of the span as a text of its own, whose tokens may be others.
        cut: whether the text was longer than the model takes and the span is not read to its
            end. Then both hold only what both passes read.
    """

    given: Floats
    alone: Floats
    cut: bool


class LabelScores(NamedTuple):
    """log P of the labels' words of one prompt and verbalizer, or of the text given each of them.

    Attributes:
        part: the name under which the evaluator is reported.
        log_p: (labels,) in the aspect's order; NaN where there is no token to score.
        cut: whether the model did not see all.
    """

    part: str
    log_p: Floats
    cut: bool


class LabelPrompt(NamedTuple):
    """A prompt whose gap follows the text, with the words of one verbalizer.

    What stands behind the gap is not read.

    Attributes:
        part: the name under which the evaluator is reported.
        prefix: what stands before the text.
        between: what stands between text and gap.
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
    """Every prompt × verbalizer of an aspect whose gap follows the text."""
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
    """All prompts whose gap precedes the text, filled and joined by one blank.

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
        """What the model says of each span of each text, from one pass over the text.

        Args:
            alone: whether spans are also read alone, in passes of their own. The beginning of a
                text needs none: nothing stands before it. Without, `alone` is `given`.

        Raises:
            ModelError: the tokenizer does not say where tokens are.
        """
        of_texts = self._model.log_likelihood(texts)
        needed = [
            [text[s.begin : s.end] if alone and s.after else "" for s in spans]
            for text, spans in zip(texts, spans_per_text, strict=True)
        ]
        distinct = list(
            dict.fromkeys(span_text for of_text in needed for span_text in of_text if span_text)
        )
        by_text = dict(zip(distinct, self._model.log_likelihood(distinct), strict=True))
        return [
            [
                _likelihood(of_text, span, by_text.get(span_text))
                for span, span_text in zip(spans, of_spans, strict=True)
            ]
            for of_text, spans, of_spans in zip(of_texts, spans_per_text, needed, strict=True)
        ]

    def words_after(
        self,
        texts: Sequence[str],
        prompts_per_text: Sequence[Sequence[LabelPrompt]],
        normalize: Normalize,
        *,
        calibrated: bool,
    ) -> list[list[LabelScores]]:
        """log P(word | text, what stands between it and the gap), for every prompt's words.

        Args:
            calibrated: whether log P(word | what stands between) without the text is subtracted.
        """
        # one pass a text and prefix; most prompts begin with the text
        prefixes = [list(dict.fromkeys(p.prefix for p in prompts)) for prompts in prompts_per_text]
        frames = [
            [[p.frame for p in prompts if p.prefix == prefix] for prefix in of_text]
            for prompts, of_text in zip(prompts_per_text, prefixes, strict=True)
        ]
        likelihoods = iter(
            self._model.words_after(
                [prefix + t for t, ps in zip(texts, prefixes, strict=True) for prefix in ps],
                [of_prefix for of_text in frames for of_prefix in of_text],
            )
        )
        scores_per_text = []
        for prompts, of_text in zip(prompts_per_text, prefixes, strict=True):
            by_prefix = {prefix: zip(*next(likelihoods), strict=True) for prefix in of_text}
            of_prompts = []
            for prompt in prompts:
                words, cut = next(by_prefix[prompt.prefix])
                log_p = np.array([reduced(word, normalize) for word in words])
                of_prompts.append(LabelScores(prompt.part, log_p, cut))
            scores_per_text.append(of_prompts)
        if not calibrated:
            return scores_per_text
        priors = self._priors(prompts_per_text, normalize)
        with np.errstate(invalid="ignore"):  # a word that is impossible with and without the text
            return [
                [
                    scores._replace(log_p=scores.log_p - priors[prompt.frame_alone])
                    for prompt, scores in zip(prompts, of_text, strict=True)
                ]
                for prompts, of_text in zip(prompts_per_text, scores_per_text, strict=True)
            ]

    def _priors(
        self, prompts_per_text: Sequence[Sequence[LabelPrompt]], normalize: Normalize
    ) -> dict[Frame, Floats]:
        """log P of the words of each frame without a text before it: (words,)."""
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
        """log P(text | context), for the context of every label; one blank stands between them.

        Where a text is longer than the model takes behind a context, as many tokens of it are
        scored after each of them as after the one that leaves least room.
        """
        scores: dict[tuple[str, LabelContexts], LabelScores] = {}
        for contexts in dict.fromkeys(contexts_per_text):
            distinct = list(
                dict.fromkeys(
                    text
                    for text, of_text in zip(texts, contexts_per_text, strict=True)
                    if of_text == contexts
                )
            )
            of_contexts = self._model.log_likelihood_after(
                contexts.contexts, [f" {text}" for text in distinct]
            )
            for text, of_text in zip(distinct, zip(*of_contexts, strict=True), strict=True):
                tokens = min(likelihood.log_p.size for likelihood in of_text)
                log_p = np.array(
                    [reduced(likelihood.log_p[:tokens], normalize) for likelihood in of_text]
                )
                cut = any(likelihood.cut for likelihood in of_text)
                scores[text, contexts] = LabelScores(contexts.part, log_p, cut)
        return [scores[key] for key in zip(texts, contexts_per_text, strict=True)]


def _without_end(text: str) -> tuple[str, str]:
    """A text without the white space at its end, and that white space."""
    kept = text.rstrip()
    return kept, text[len(kept) :]


def _likelihood(
    of_text: CausalLikelihood, span: Span, alone: CausalLikelihood | None
) -> SpanLikelihood:
    ends = _ends(of_text)
    within = (ends > span.after) & (ends <= span.end)
    cut = of_text.cut and span.end > ends.max(initial=0)
    if alone is None:
        log_p = of_text.log_p[within]
        return SpanLikelihood(log_p, log_p, cut)
    given_ends, alone_ends = ends[within] - span.begin, _ends(alone)
    # what is not scored alone is not compared
    both = (given_ends > alone.unscored) | (alone.unscored == 0)
    if not (cut or alone.cut):
        return SpanLikelihood(of_text.log_p[within][both], alone.log_p, cut=False)
    read = min(given_ends.max(initial=0), alone_ends.max(initial=0))
    both &= given_ends <= read
    return SpanLikelihood(of_text.log_p[within][both], alone.log_p[alone_ends <= read], cut=True)


def _ends(likelihood: CausalLikelihood) -> Ints:
    if likelihood.ids.size and not likelihood.ends.size:
        raise ModelError(
            "the model's tokenizer does not say where in a text its tokens are, which parts of "
            "texts require; use a model with a fast tokenizer"
        )
    return likelihood.ends
