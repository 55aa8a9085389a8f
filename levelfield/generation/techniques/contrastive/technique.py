"""Contrastive decoding: the base minus a smaller model, on plausible tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from levelfield.core.options import option
from levelfield.generation.logits.processor import Support, plausible
from levelfield.generation.logits.terms import BaseLM, Formula, HelperLM
from levelfield.generation.technique import LocalTechnique


@dataclass(frozen=True, kw_only=True)
class ContrastiveDecoding(LocalTechnique):
    """The expert (the base) minus an amateur, on the tokens that the expert finds plausible.

    Plausible are the tokens v with p_E(v) ≥ α max p_E. On those the score is
    (1 + β) log p_E − β log p_A (form `beta`; O'Brien and Lewis 2023) or log p_E − λ log p_A (form
    `plain`; Li et al. 2022, section 3); log p_A is that of softmax(z_A / τ). Strength 0 is the base
    without any restriction to plausible tokens.

    Controls no attribute: takes any control and ignores it, as the base does.

    Raises:
        UserError: at the first text, an amateur with another vocabulary.
    """

    name: ClassVar[str] = "contrastive"
    strength: float = option(0.5, "Strength: β of the form beta, λ of plain; 0 is the base.")
    form: Literal["beta", "plain"] = option(
        "beta",
        "Form of the score: beta keeps the sum of the weights at 1, so that texts can be sampled; "
        "plain is flatter than the base and meant for beams or the likeliest token.",
    )
    amateur: str = option(
        "offline/smollm2-early", "Causal model with the vocabulary of the base.", metavar="NAME"
    )
    alpha: float = option(
        0.1,
        "Threshold α of plausible tokens; 1 leaves only the likeliest of the base.",
        above=0,
        most=1,
    )
    amateur_temperature: float = option(
        1.0, "Temperature τ of the amateur; the authors use 0.5 for GPT-2 and 1 for OPT.", above=0
    )
    sees_prompt: bool = option(
        True,
        "Let the amateur read the whole prompt; false: only its last token, as in the authors' "
        "repository.",
    )

    @property
    def choices(self) -> Mapping[str, str]:
        return {
            **self._shown("strength", "form"),
            "amateur": self._label(self.amateur),
            **self._shown("alpha", "amateur_temperature", "sees_prompt"),
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
