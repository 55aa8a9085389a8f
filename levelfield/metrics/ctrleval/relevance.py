"""Attribute relevance: which label of an attribute a text has."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from levelfield.aspects import Aspect, load_aspect, shipped
from levelfield.core.continuation import EmptyOutput
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.core.signature import signature
from levelfield.core.undefined import (
    EMPTY_TEXT,
    LABEL_WITHOUT_TOKEN,
    PROBABILITIES_NOT_NUMBERS,
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
from levelfield.models.likelihood import (
    LabelPrompt,
    LabelScores,
    LikelihoodScorer,
    label_prompts,
)
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

    A causal model reads from left to right, so each form takes the prompts that it can read:

        after             s_j = P(w_j(a) | T, B_j) / Σ_a' P(w_j(a') | T, B_j)
        after-calibrated  the same with P(w_j(a) | T, B_j) / P(w_j(a) | B_j) in place of P
        channel           s_j = P(T | w_j(a), B_j) / Σ_a' P(T | w_j(a'), B_j)

    with T the text, B_j the prompt up to the gap (in `channel`, all of the prompt around the
    word), and w_j(a) the label's word. `after` and `after-calibrated` have the prompts whose gap
    follows the text, `channel` the first of those whose gap precedes it: it reads the text once
    for every prompt, verbalizer and label. What follows both is not read. log P of words and
    texts is the mean over their tokens; with normalize=none it is the sum, which for texts of some
    length makes P(T | w) of one label all there is. Only `after` has label mass; the others
    weight all evaluators equally.

    An empty text has no label, so it is 0.

    Undefined: the sample's control has no label for the attribute, or one that the aspect does not
    know; a text without tokens of the model, or with its gap token; with empty=undefined also
    `empty text`.

    Options:
        attribute: `sentiment` (72 evaluators), `topic` (32), the TOML file of your own, or `auto`:
            whichever of the shipped ones the sample's control names.
        weights: `label-mass` (β as above; for encoders `mean`), or `mean`, `max`, `min`.
        empty: what an empty text is: `0`, or `undefined`.
        form: how a causal model scores: `after` (which `auto` is), `channel` or
            `after-calibrated`. The option `patterns` is not for causal models.
        channel_prompts: how many prompts `channel` takes.
        model, patterns, normalize: as for coherence.
    """

    attribute: str = "auto"
    weights: Literal["label-mass", "mean", "max", "min"] = "label-mass"
    empty: EmptyOutput = "0"
    form: Literal["auto", "after", "channel", "after-calibrated"] = field(
        default="auto", kw_only=True
    )
    channel_prompts: int = field(default=1, kw_only=True)

    name: ClassVar[str] = "ctrleval.attribute-relevance"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "control"})
    _forms: ClassVar[tuple[str, ...]] = ("after", "channel", "after-calibrated")
    _of_causal: ClassVar[tuple[str, ...]] = ("channel_prompts",)

    def __post_init__(self) -> None:
        if self.channel_prompts < 1:
            raise UserError(f"channel_prompts={self.channel_prompts}: expected 1 or more")

    @functools.cached_property
    def signature(self) -> str:
        if self.attribute == "auto":
            named = "auto@" + "+".join(a.digest for a in shipped().values())
        else:
            aspect = load_aspect(self.attribute)
            named = f"{aspect.attribute}@{aspect.digest}"
        massless = self.weights == "label-mass" and not self._has_label_mass
        own: dict[str, object] = {
            "attribute": named,
            "weights": "mean" if massless else self.weights,
            "empty": self.empty,
        }
        form = self._chosen_form()
        if form:
            own["normalize"] = self.normalize
        if form == "channel":
            own["channel-prompts"] = self.channel_prompts
        return signature(self.name, self._choices(own))

    def _without_meaning(self, form: str) -> Sequence[str]:
        return "patterns", *(("channel_prompts",) if form != "channel" else ())

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        form = self._chosen_form()
        scorer = self._likelihood_scorer() if form else self._scorer()
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
        self, questions: Sequence[LabelQuestion], scorer: Scorer | LikelihoodScorer
    ) -> Iterator[SampleValue | Undefined]:
        if isinstance(scorer, LikelihoodScorer):
            scored = self._likelihoods(questions, scorer)
        else:
            scored = self._logits(questions, scorer)
        for question, of_question in zip(questions, scored, strict=True):
            parts, of_words, cut = zip(*of_question, strict=True)
            log_p = np.stack(of_words)  # (evaluators, labels)
            if np.isnan(log_p).any():
                yield Undefined(self._no_number(question.aspect, scorer))
                continue
            log_mass = np.logaddexp.reduce(log_p, axis=1)
            s = np.exp(log_p[:, question.aspect.labels.index(question.label)] - log_mass)
            if np.isnan(s).any():  # all labels of an evaluator are impossible
                yield Undefined(PROBABILITIES_NOT_NUMBERS)
                continue
            mass = np.exp(log_mass - log_mass.max()) if self._has_label_mass else np.ones_like(s)
            how: Combine | None = None if self.weights == "label-mass" else self.weights
            yield ensemble(list(map(ScoredEvaluator, parts, s, mass, cut)), how)

    def _logits(
        self, questions: Sequence[LabelQuestion], scorer: Scorer
    ) -> Sequence[Sequence[LabelScores]]:
        def logits(evaluators: list[LabelEvaluator]) -> Iterable[LabelScores]:
            of_words, cut = scorer.label_logits(evaluators)
            return map(LabelScores, [e.part for e in evaluators], of_words, cut)

        evaluators = [label_evaluators(question.text, question.aspect) for question in questions]
        return in_groups(evaluators, logits)

    def _likelihoods(
        self, questions: Sequence[LabelQuestion], scorer: LikelihoodScorer
    ) -> Sequence[Sequence[LabelScores]]:
        form = self._chosen_form()
        texts = [question.text for question in questions]
        prompts = [self._prompts(question.aspect, form) for question in questions]
        if form == "channel":
            return scorer.text_after(texts, prompts, self.normalize)
        calibrated = form == "after-calibrated"
        return scorer.words_after(texts, prompts, self.normalize, calibrated=calibrated)

    def _prompts(self, aspect: Aspect, form: str) -> list[LabelPrompt]:
        """The evaluators of a form.

        Raises:
            UserError: the aspect has none.
        """
        gap: Literal["after", "before"] = "before" if form == "channel" else "after"
        prompts = label_prompts(aspect, gap=gap)
        if not prompts:
            raise UserError(
                f"form={form}: the aspect '{aspect.attribute}' has no prompt whose <gap> stands "
                f"{gap} its <text>; add one to its file, or choose another form"
            )
        if form != "channel":
            return prompts
        return prompts[: self.channel_prompts * len(aspect.verbalizers)]

    def _no_number(self, aspect: Aspect, scorer: Scorer | LikelihoodScorer) -> str:
        """Why a word or a text has no log P."""
        words = [word for verbalizer in aspect.verbalizers for word in verbalizer.values()]
        if isinstance(scorer, LikelihoodScorer) and all(scorer.token_ids(words)):
            return PROBABILITIES_NOT_NUMBERS
        return LABEL_WITHOUT_TOKEN

    @property
    def _has_label_mass(self) -> bool:
        """Whether Σ_a' P(v_j(a') | f_j) is the probability that the gap holds a label's word."""
        return self._infills or self._chosen_form() == "after"

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
