"""DExperts: the base plus the difference between an expert and an anti-expert."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.options import option
from levelfield.generation.logits.classes import ClassContrast
from levelfield.generation.logits.terms import Formula
from levelfield.generation.techniques._class_lm.experts import ExpertTechnique


@dataclass(frozen=True, kw_only=True)
class DExperts(ExpertTechnique):
    """log p(x_t | x_<t) + α (log p⁺(x_t | x_<t) − log p⁻(x_t | x_<t)) on the base's own tokens.

    The expert p⁺ is a model of texts with the wanted label. The anti-expert p⁻ is one of texts with
    the other label; for several others, it is the equal mixture of their models, as if one had
    learnt the same number of texts of each. Both are a guide's class-conditional language model
    after the codes of its labels, or your own models (`experts`). With several attributes, their
    differences add up. Liu et al. (2021), "DExperts: Decoding-Time Controlled Text Generation with
    Experts and Anti-Experts", section 2.

    Controls attributes with one value, by a guide of kind `class-lm` each, or one attribute by
    `experts`.

    Raises:
        UserError: `experts` can't be read, or, at the first text, a model has a different
            vocabulary from the base.
    """

    name: ClassVar[str] = "dexperts"
    strength: float = option(
        3.2, "Strength α; 0 is the base. The paper uses 3.2 for sentiment and 2 for toxicity."
    )

    def _formula(self, attributes: frozenset[str]) -> Formula | None:
        return self._steered(self.strength, self._contrast, attributes)

    def _contrast(self, attribute: str) -> ClassContrast:
        return ClassContrast(self._classes(attribute))
