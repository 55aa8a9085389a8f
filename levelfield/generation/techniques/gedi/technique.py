"""GeDi: the base times the probability of the label given the text so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.options import option
from levelfield.generation.logits.classes import ClassPosterior, Length, PosteriorFilter
from levelfield.generation.logits.terms import Formula, ScaledPenalty
from levelfield.generation.technique import InChat
from levelfield.generation.techniques._class_lm.guidance import ClassGuidedTechnique


@dataclass(frozen=True, kw_only=True)
class GeDi(InChat, ClassGuidedTechnique):
    """log p(x_t | x_<t) + ω log P(c | x_1..t) for every candidate x_t.

    P(c | x_1..t) = softmax_c(s_c) over all labels of the guide, with
    s_c = (α / T) Σ_i≤t log P(x_i | x_<i, c) + b_c over the T tokens of the text, the prompt's and
    the candidate among them. P(· | c) is the guide's class-conditional language model, which also
    has α and b_c. Krause et al. (2021), "GeDi: Generative Discriminator Guided Sequence
    Generation", section 3.

    Controls attributes with one value, by a guide of kind `class-lm` each; several at once.
    """

    name: ClassVar[str] = "gedi"
    strength: float = option(30.0, "Strength ω, by default as published; 0 is the base.")
    length: Length = option(
        "mean",
        "Share of a token in s_c: mean, α / T of its log-probability; sum, all of it, without α "
        "and b_c, which is Bayes' rule with equal priors and grows more certain with every token.",
    )
    filter_p: float = option(
        0.0,
        "Leave out the tokens with the smallest posteriors, as long as their new probabilities "
        "sum to less than this (section 3.3); 0 leaves none out. The authors' program uses 0.8.",
        least=0,
        below=1,
    )
    target_p: float = option(
        0.8,
        "Posterior at or above which the filter keeps a token. The authors' program uses 0.8.",
        above=0,
        most=1,
    )

    class_bias: float = option(
        0.0,
        "Number added to s_c of the wanted label; the authors' program uses 2 against toxicity and "
        "0 otherwise.",
    )
    scaled_penalty: float = option(
        1.0,
        "Repetition penalty θ of the authors' program, 1.2 there: the sum is shifted so that its "
        "largest value is 10, and the values of tokens of the continuation are divided by θ as "
        "often as they occur; those of the prompt do not count. 1 means no penalty.",
        above=0,
    )

    @property
    def choices(self) -> Mapping[str, str]:
        rest = self._shown("length", "filter_p", "target_p")
        rest |= self._shown("class_bias") if self.class_bias else {}
        rest |= self._shown("scaled_penalty") if self.scaled_penalty != 1 else {}
        return {**self._shown("strength"), **super().choices, **rest}

    def _formula(self, attributes: frozenset[str]) -> Formula | None:
        formula = self._steered(self.strength, self._posterior, attributes)
        if formula is None or self.scaled_penalty == 1:
            return formula
        return Formula(((1.0, ScaledPenalty(formula, self.scaled_penalty)),))

    def _posterior(self, attribute: str) -> ClassPosterior:
        learnt = self._class_lm(attribute)
        classes = self._classes(attribute)
        return ClassPosterior(
            classes,
            self.length,
            learnt.scale,
            tuple(learnt.bias[model.label] for model in classes.models),
            PosteriorFilter(self.strength, self.filter_p, self.target_p) if self.filter_p else None,
            self.class_bias,
        )
