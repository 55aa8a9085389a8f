"""Contrastive decoding: the base without what a smaller model would say, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from levelfield.core.errors import UserError
from levelfield.systems.logits.processor import Support, plausible
from levelfield.systems.logits.terms import BaseLM, Formula, HelperLM
from levelfield.systems.technique import LocalTechnique


@dataclass(frozen=True, kw_only=True)
class ContrastiveDecoding(LocalTechnique):
    """The expert (the base) minus an amateur, on the tokens that the expert finds plausible.

    Plausible are the tokens v with p_E(v) ≥ α max p_E. On those the score is
    (1 + β) log p_E − β log p_A (form `beta`; O'Brien and Lewis 2023) or log p_E − λ log p_A (form
    `plain`; Li et al. 2022, section 3); log p_A is that of softmax(z_A / τ). Strength 0 is the base
    without any restriction to plausible tokens.

    Controls no attribute: takes any control and ignores it, as the base does.

    Args:
        strength: β or λ.
        form: `beta` keeps the weights' sum at 1, so that texts can be sampled; `plain` is flatter
            than the base and made for beams or the likeliest token.
        amateur: a causal model with the base's vocabulary.
        alpha: α, above 0 and at most 1; 1 leaves the base's likeliest token.
        amateur_temperature: τ.
        sees_prompt: whether the amateur reads the whole prompt, or its last token only, as in the
            authors' repository.
        model, batch, loading: as of every technique
            (`LocalTechnique`).

    Raises:
        UserError: α or τ out of range, or, at the first text, an amateur with another vocabulary.
    """

    name: ClassVar[str] = "contrastive"
    strength: float = 0.5
    form: Literal["beta", "plain"] = "beta"
    amateur: str = "offline/smollm2-early"
    alpha: float = 0.1
    amateur_temperature: float = 1.0
    sees_prompt: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.alpha <= 1:
            raise UserError(f"alpha is {self.alpha}; expected a number above 0, at most 1")
        if not self.amateur_temperature > 0:
            raise UserError(
                f"amateur_temperature is {self.amateur_temperature}; expected a number above 0"
            )

    @property
    def choices(self) -> Mapping[str, str]:
        return {
            "strength": f"{self.strength:g}",
            "form": self.form,
            "amateur": self._label(self.amateur),
            "alpha": f"{self.alpha:g}",
            "amateur-temperature": f"{self.amateur_temperature:g}",
            "sees-prompt": str(self.sees_prompt).lower(),
        }

    def _formula(self, _: frozenset[str]) -> Formula | None:
        if not self.strength:
            return None
        amateur = HelperLM(
            self._helper(self.amateur),
            temperature=self.amateur_temperature,
            sees_prompt=self.sees_prompt,
        )
        if self.form == "plain":
            return BaseLM() - self.strength * amateur
        return BaseLM() + self.strength * (BaseLM(penalised=False) - amateur)

    @property
    def _support(self) -> Support | None:
        return plausible(self.alpha)
