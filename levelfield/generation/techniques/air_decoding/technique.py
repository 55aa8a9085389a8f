"""Air-Decoding: the base times a posterior of classes that no single token dominates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.options import option
from levelfield.generation.logits.classes import ReconstructedPosterior
from levelfield.generation.logits.terms import Formula
from levelfield.generation.technique import InChat
from levelfield.generation.techniques._class_lm.guidance import ClassGuidedTechnique


@dataclass(frozen=True, kw_only=True)
class AirDecoding(InChat, ClassGuidedTechnique):
    """log p(x_t | x_<t) + ω log (d_c / Σ_c' d_c'), d_c = Π_i≤t −1 / log P(x_i | x_<i, c).

    P(· | c) is the guide's class-conditional language model. The product is over the tokens of the
    continuation, the candidate x_t among them; the prompt's do not count. −1 / log p replaces the
    probability p itself, which differs so much between classes that a text collapses into words of
    the attribute. Zhong et al. (2023), "Air-Decoding: Attribute distribution reconstruction for
    decoding-time controllable text generation". The product over earlier tokens is that of the
    authors' program.

    Controls attributes with one value, by a guide of kind `class-lm` each; several at once.
    """

    name: ClassVar[str] = "air-decoding"
    strength: float = option(
        20.0, "Strength ω, by default as in the authors' program; 0 is the base."
    )

    @property
    def choices(self) -> Mapping[str, str]:
        return {**self._shown("strength"), **super().choices}

    def _formula(self, attributes: frozenset[str]) -> Formula | None:
        return self._steered(self.strength, self._posterior, attributes)

    def _posterior(self, attribute: str) -> ReconstructedPosterior:
        return ReconstructedPosterior(self._classes(attribute))
