"""FUDGE: the base times what a discriminator expects of the complete text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch

from levelfield.core.options import option
from levelfield.generation.draws import possible
from levelfield.generation.future import future_model
from levelfield.models.guides import GuideKind
from levelfield.systems.guided import GuidedTechnique
from levelfield.systems.logits.future import FutureLabel
from levelfield.systems.logits.processor import Support
from levelfield.systems.logits.terms import BaseLM, Formula, Likeliest


@dataclass(frozen=True, kw_only=True)
class FUDGE(GuidedTechnique):
    """log p(x_t | x_<t) + λ Σ_a log B_a(c_a | x_<t, x_t) on the base's likeliest tokens.

    B_a(c | x_1 … x_t) is the probability that the complete text has the label c of attribute a, by
    a small model that was trained on beginnings of labelled texts. With λ = 1 and a perfect B this
    is Bayes' rule: the base given the label. Yang and Klein (2021), "FUDGE: Controlled Text
    Generation With Future Discriminators", section 3.

    Controls attributes that there is a guide of kind `future` for, several at once; sentiment by
    the guide that comes with the package.
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

    @property
    def choices(self) -> Mapping[str, str]:
        return {
            "strength": f"{self.strength:g}",
            **super().choices,
            "candidates": str(self.candidates),
            "keep": str(self.keep),
        }

    def _formula(self, attributes: frozenset[str]) -> Formula | None:
        if not attributes or not self.strength:
            return None
        formula = BaseLM() + self.strength * Formula(
            tuple((1.0, self._future(attribute)) for attribute in sorted(attributes))
        )
        return Formula(((1.0, Likeliest(formula, self.keep)),)) if self.keep else formula

    def _future(self, attribute: str) -> FutureLabel:
        guide = self._guide(attribute)
        learnt = future_model(guide, self.model, self.loading)
        return FutureLabel(
            learnt.rows, partial(self._wanted_label, attribute), guide.labels, learnt.bos_id
        )

    @property
    def _support(self) -> Support | None:
        return partial(_likeliest, self.candidates) if self.candidates else None


def _likeliest(n: int, log_p: torch.Tensor) -> torch.Tensor:
    return possible(log_p, n, 1.0)
