"""Attribute relevance: which label of an attribute a text has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from levelfield.core.continuation import EMPTY_OUTPUT, EmptyOutput
from levelfield.core.errors import UserError
from levelfield.core.options import option
from levelfield.core.sample import Sample, single_value
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
from levelfield.metrics.aspects import Aspect, load_aspect, shipped
from levelfield.metrics.ctrleval.base import Combine, CTRLEvalMetric, ScoredEvaluator, ensemble
from levelfield.metrics.likelihood import (
    LabelScores,
    LikelihoodScorer,
    label_contexts,
    label_prompts,
)
from levelfield.metrics.sample_metric import SampleValue, in_groups, map_defined
from levelfield.metrics.scorers import LabelEvaluator, Scorer, have_tokens, label_evaluators

ATTRIBUTE = option(
    "auto",
    "Attribute: sentiment (72 evaluators), topic (32), a TOML file of your own, or auto: "
    "whichever of the shipped ones the sample's control names.",
)


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

        after             s_j = P(v_j(a) | T, B_j) / Σ_a' P(v_j(a') | T, B_j)
        after-calibrated  the same with P(v_j(a) | T, B_j) / P(v_j(a) | B_j) in place of P
        channel           S = P(T | C(a)) / Σ_a' P(T | C(a'))

    with T the text and B_j what separates it from the gap. The first two have the prompts whose gap
    follows the text; what follows the gap is not read, and all evaluators have the same weight.
    `channel` (Min et al. 2022, the noisy channel) is one evaluator: C(a) is all prompts
    whose gap precedes the text, without the text, joined by one blank, prompt i filled with the
    word of verbalizer i mod (number of verbalizers); one blank separates C(a) and T. P of a
    word and of T is the exponential of the mean log-probability of its tokens. With normalize=none
    it is that of the sum, which for most texts makes S of `channel` 0 or 1.

    An empty text has no label, so it is 0.

    Undefined: the sample's control has no label for the attribute, or one that the aspect does not
    know; a text without tokens of the model, or with its gap token; a label's word without tokens;
    probabilities that are not numbers; with empty=undefined also `empty text`.

    The option `patterns` is not for causal models, and `weights` not for form=channel.
    """

    attribute: str = ATTRIBUTE
    weights: Literal["auto", "label-mass", "mean", "max", "min"] = option(
        "auto",
        "Weights β of evaluators: label-mass (for encoders the mean), mean, max or min; auto is "
        "label-mass for models that fill gaps and mean for others.",
    )
    empty: EmptyOutput = EMPTY_OUTPUT
    _: KW_ONLY
    form: Literal["auto", "after", "channel", "after-calibrated"] = option(
        "auto", "Form by which a causal model scores; auto is after."
    )

    name: ClassVar[str] = "ctrleval.attribute-relevance"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "control"})
    goes_first: ClassVar[bool] = True
    _forms: ClassVar[tuple[str, ...]] = ("after", "channel", "after-calibrated")

    def _own(self) -> Mapping[str, object]:
        if self.attribute == "auto":
            named = "auto@" + "+".join(a.digest for a in shipped().values())
        else:
            aspect = load_aspect(self.attribute)
            named = f"{aspect.attribute}@{aspect.digest}"
        form = self._chosen_form()
        return {
            "attribute": named,
            **({} if form == "channel" else {"weights": self._weighting}),
            "empty": self.empty,
            **({"normalize": self.normalize} if form else {}),
        }

    def _without_meaning(self, form: str) -> Sequence[str]:
        return "patterns", *(("weights",) if form == "channel" else ())

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        form = self._chosen_form()
        scorer = self._likelihood_scorer() if form else self._scorer()
        readable = have_tokens((sample.text for sample in samples), scorer.token_ids)
        questions = [
            self._question(sample, scorer.gap_token, readable=is_read)
            for sample, is_read in zip(samples, readable, strict=True)
        ]
        values = map_defined(questions, lambda defined: self._relevances(defined, scorer))
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
        for question, evaluators in zip(questions, scored, strict=True):
            parts, label_log_p, cut = zip(*evaluators, strict=True)
            log_p = np.stack(label_log_p)  # (evaluators, labels)
            if np.isnan(log_p).any():
                yield Undefined(self._no_number(question.aspect, scorer))
                continue
            log_mass = np.logaddexp.reduce(log_p, axis=1)
            with np.errstate(invalid="ignore"):
                s = np.exp(log_p[:, question.aspect.labels.index(question.label)] - log_mass)
            if np.isnan(s).any():  # an evaluator finds all labels impossible
                yield Undefined(PROBABILITIES_NOT_NUMBERS)
                continue
            mass = np.exp(log_mass - log_mass.max())
            how = None if self._weighting == "label-mass" else self._weighting
            yield ensemble(list(map(ScoredEvaluator, parts, s, mass, cut)), how)

    def _logits(
        self, questions: Sequence[LabelQuestion], scorer: Scorer
    ) -> Sequence[Sequence[LabelScores]]:
        def logits(evaluators: list[LabelEvaluator]) -> Iterable[LabelScores]:
            word_logits, cut = scorer.label_logits(evaluators)
            return map(LabelScores, [e.part for e in evaluators], word_logits, cut)

        evaluators = [label_evaluators(question.text, question.aspect) for question in questions]
        return in_groups(evaluators, logits)

    def _likelihoods(
        self, questions: Sequence[LabelQuestion], scorer: LikelihoodScorer
    ) -> Sequence[Sequence[LabelScores]]:
        form = self._chosen_form()
        texts = [question.text for question in questions]
        aspects = {question.aspect.digest: question.aspect for question in questions}
        if form == "channel":
            contexts = {digest: label_contexts(aspect) for digest, aspect in aspects.items()}
            for digest, aspect in aspects.items():
                self._check_read(aspect, "before", has_prompts=any(contexts[digest].contexts))
            text_contexts = [contexts[question.aspect.digest] for question in questions]
            return [[scores] for scores in scorer.text_after(texts, text_contexts, self.normalize)]
        prompts = {digest: label_prompts(aspect) for digest, aspect in aspects.items()}
        for digest, aspect in aspects.items():
            self._check_read(aspect, "after", has_prompts=bool(prompts[digest]))
        return scorer.words_after(
            texts,
            [prompts[question.aspect.digest] for question in questions],
            self.normalize,
            calibrated=form == "after-calibrated",
        )

    def _check_read(
        self, aspect: Aspect, gap: Literal["after", "before"], *, has_prompts: bool
    ) -> None:
        """Nothing, if an aspect has prompts that the form reads.

        Raises:
            UserError: it has none.
        """
        if not has_prompts:
            raise UserError(
                f"form={self._chosen_form()}: the aspect '{aspect.attribute}' has no prompt whose "
                f"<gap> stands {gap} its <text>; add one to its file, or choose another form"
            )

    def _no_number(self, aspect: Aspect, scorer: Scorer | LikelihoodScorer) -> str:
        """Returns why a word or a text has no log P."""
        words = [word for verbalizer in aspect.verbalizers for word in verbalizer.values()]
        if isinstance(scorer, LikelihoodScorer) and all(scorer.token_ids(words)):
            return PROBABILITIES_NOT_NUMBERS
        return LABEL_WITHOUT_TOKEN

    @property
    def _weighting(self) -> Combine | Literal["label-mass"]:
        """How evaluators are weighted."""
        if self.weights == "auto":
            return "label-mass" if self._infills else "mean"
        if self.weights == "label-mass" and not self._infills:
            form = self._chosen_form()
            if form == "after-calibrated":
                raise UserError(
                    f"weights=label-mass: form={form} has no label mass, since a calibrated "
                    "probability is a ratio; use weights=mean, max or min"
                )
            return "label-mass" if form else "mean"
        return self.weights

    def _question(
        self, sample: Sample, gap_token: str | None, *, readable: bool
    ) -> LabelQuestion | Undefined:
        target = wanted_label(sample, self.attribute)
        if isinstance(target, Undefined):
            return target
        if not sample.text.strip():
            return Undefined(EMPTY_TEXT)
        if not readable:
            return Undefined(UNREADABLE)
        if gap_token and gap_token in sample.text:
            return Undefined(holds_gap_token(gap_token))
        return LabelQuestion(sample.text, *target)


def wanted_label(sample: Sample, attribute: str) -> tuple[Aspect, str] | Undefined:
    """Returns the aspect and the label that a sample's control asks for, or why it has none.

    Args:
        attribute: as in the option of the metric.
    """
    if attribute == "auto":
        named = [attribute for attribute in shipped() if attribute in sample.control]
        if not named:
            return Undefined(no_control_among(shipped()))
        if len(named) > 1:
            return Undefined(several_controls(named))
        aspect = shipped()[named[0]]
    else:
        aspect = load_aspect(attribute)
    value = sample.control.get(aspect.attribute)
    if not value:
        return Undefined(no_control(aspect.attribute))
    label = aspect.label(value := single_value(value))
    return (aspect, label) if label else Undefined(unknown_wanted(aspect.attribute, value))
