"""FUDGE: the base times what a discriminator expects of the complete text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.options import option
from levelfield.generation.guides import GuidedTechnique
from levelfield.generation.logits.processor import Support, likeliest
from levelfield.generation.logits.terms import Formula, Likeliest
from levelfield.generation.technique import InChat
from levelfield.generation.techniques._future.guidance import Form, FutureLabel, future_label
from levelfield.models.guides import GuideKind


@dataclass(frozen=True, kw_only=True)
class FUDGE(InChat, GuidedTechnique):
    """log p(x_t | x_<t) + λ Σ_a log B_a(c_a | x_<t, x_t) on the base's likeliest tokens.

    B_a(c | x_1 … x_t) is the probability that the complete text has the label c of attribute a,
    given by a small model that was trained on beginnings of labelled texts. With λ = 1 and a
    perfect B this is Bayes' rule: the base given the label. Yang and Klein (2021), "FUDGE:
    Controlled Text Generation With Future Discriminators", section 3.

    With form=p it is log p + λ Σ_a B_a: B is then the value of a text so far, where the reward is 1
    for a complete text with the label and 0 for another. Mudgal et al. (2024), "Controlled decoding
    from language models", section 3.

    Controls attributes that have a guide of kind `future`, several at once; sentiment by the guide
    that comes with the package.
    """

    name: ClassVar[str] = "fudge"
    guide_kind: ClassVar[GuideKind] = "future"
    strength: float = option(15.0, "Strength λ; 0 is the base, with all of its tokens.")
    candidates: int = option(
        200, "Number of the base's most likely tokens that are considered; 0 for all.", least=0
    )
    keep: int = option(
        0,
        "Number of those tokens with the highest sums, among which one is chosen; 0 for all. The "
        "authors' programs use 10.",
        least=0,
    )

    form: Form = option(
        "log-p",
        "Term added to a token's logit: log-p adds λ log B; p adds λ B, as a value function does, "
        "so that a token that makes the label impossible loses at most λ nats.",
    )

    @property
    def choices(self) -> Mapping[str, str]:
        form = {} if self.form == "log-p" else self._shown("form")
        shown = self._shown("candidates", "keep")
        return {**self._shown("strength"), **super().choices, **shown, **form}

    def _formula(self, attributes: frozenset[str]) -> Formula | None:
        formula = self._steered(self.strength, self._future, attributes)
        if formula is None or not self.keep:
            return formula
        return Formula(((1.0, Likeliest(formula, self.keep)),))

    def _future(self, attribute: str) -> FutureLabel:
        return future_label(self, attribute, self.form)

    @property
    def _support(self) -> Support | None:
        return likeliest(self.candidates) if self.candidates else None
