"""FUDGE: the base times what a discriminator expects of the complete text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch

from levelfield.core.errors import UserError
from levelfield.core.sample import Control
from levelfield.generation.draws import possible
from levelfield.generation.future import future_model
from levelfield.models.guides import guide_for, guide_refusal, guides_for
from levelfield.systems.logits.future import FutureLabel
from levelfield.systems.logits.processor import Support
from levelfield.systems.logits.terms import BaseLM, Formula, Likeliest
from levelfield.systems.technique import LocalTechnique


@dataclass(frozen=True, kw_only=True)
class FUDGE(LocalTechnique):
    """log p(x_t | x_<t) + λ Σ_a log B_a(c_a | x_<t, x_t) on the base's likeliest tokens.

    B_a(c | x_1 … x_t) is the probability that the complete text has the label c of attribute a, by
    a small model that was trained on beginnings of labelled texts. With λ = 1 and a perfect B this
    is Bayes' rule: the base given the label. Yang and Klein (2021), "FUDGE: Controlled Text
    Generation With Future Discriminators", section 3.

    Controls attributes that there is a guide of kind `future` for, several at once; sentiment by
    the guide that comes with the package.

    Args:
        strength: λ; 0 is the base without any restriction of tokens.
        guide: names or folders of guides with commas between them, one an attribute; empty for
            those that come with the package.
        candidates: so many of the base's likeliest tokens have a chance; 0 for all.
        keep: then so many of the best of them, by the sum; 0 for all. The authors' programs have
            10.
        model, batch, device, dtype, batch_tokens, allow_pickle: as of every technique
            (`LocalTechnique`).

    Raises:
        UserError: fewer than 0 candidates.
    """

    name: ClassVar[str] = "fudge"
    strength: float = 5.0
    guide: str = ""
    candidates: int = 200
    keep: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for option in ("candidates", "keep"):
            if (n := getattr(self, option)) < 0:
                raise UserError(
                    f"{option} is {n}; expected a whole number of at least 0 (0 is all)"
                )

    @property
    def choices(self) -> Mapping[str, str]:
        guides = guides_for("future", self.guide)
        return {
            "strength": f"{self.strength:g}",
            "guide": ",".join(guide.label for guide in guides) or "none",
            "candidates": str(self.candidates),
            "keep": str(self.keep),
        }

    def refusal(self, control: Control) -> str:
        why = guide_refusal(
            control, "future", self.guide, self.model, allow_pickle=self.allow_pickle
        )
        return f"{self.name}: {why}" if why else ""

    def _formula(self, attributes: frozenset[str]) -> Formula | None:
        if not attributes or not self.strength:
            return None
        formula = BaseLM() + self.strength * Formula(
            tuple((1.0, self._future(attribute)) for attribute in sorted(attributes))
        )
        return Formula(((1.0, Likeliest(formula, self.keep)),)) if self.keep else formula

    def _future(self, attribute: str) -> FutureLabel:
        guide = guide_for(
            attribute, "future", self.guide, self.model, allow_pickle=self.allow_pickle
        )
        learnt = future_model(guide, self.model, self.loading)
        return FutureLabel(learnt.rows, attribute, guide.labels, learnt.bos_id)

    @property
    def _support(self) -> Support | None:
        return partial(_likeliest, self.candidates) if self.candidates else None


def _likeliest(n: int, log_p: torch.Tensor) -> torch.Tensor:
    return possible(log_p, n, 1.0)
