"""DExperts: the base plus what an expert and an anti-expert disagree about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from levelfield.core.errors import UserError
from levelfield.core.options import option
from levelfield.core.sample import Control
from levelfield.generation.guided import ClassGuidedTechnique
from levelfield.generation.logits.classes import ClassContrast, Classes, ClassModel
from levelfield.generation.logits.terms import BaseLM, Formula


@dataclass(frozen=True, kw_only=True)
class DExperts(ClassGuidedTechnique):
    """log p(x_t | x_<t) + α (log p⁺(x_t | x_<t) − log p⁻(x_t | x_<t)) on the base's own tokens.

    The expert p⁺ is a model of texts with the wanted label. The anti-expert p⁻ is one of texts with
    the other label; of several others, it is the equal mixture of their models, as of one that
    learnt as many texts of each. Both are a guide's class-conditional language model behind the
    codes of its labels, or models of their own (`experts`). Several attributes at once: their
    differences add up. Liu et al. (2021), "DExperts: Decoding-Time Controlled Text Generation with
    Experts and Anti-Experts", section 2.

    Controls attributes with one value, by a guide of kind `class-lm` each, or one attribute by
    `experts`.

    Raises:
        UserError: `experts` can't be read, or, at the first text, a model of another vocabulary
            than the base's.
    """

    name: ClassVar[str] = "dexperts"
    strength: float = option(
        3.2, "Strength α; 0 is the base. The paper uses 3.2 for sentiment and 2 for toxicity."
    )
    experts: str = option(
        "",
        "Whole models instead of guides, a label each: positive=MODEL,negative=MODEL; without a "
        "name (negative=) the base itself is that of the label.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.experts and self.guide:
            raise UserError("dexperts: give a guide or experts, not both")
        pairs = [part.partition("=") for part in self.experts.split(",")]
        labels = {label.strip() for label, is_said, _ in pairs if is_said} - {""}
        if self.experts and len(labels) < max(2, len(pairs)):
            raise UserError(
                f"experts is '{self.experts}'; expected labels, each with a model, e.g. "
                "positive=MODEL,negative=MODEL; no name is the base"
            )

    @property
    def _expert_names(self) -> Mapping[str, str]:
        """Label -> model, empty for the base; nothing where guides are used."""
        pairs = [part.partition("=") for part in self.experts.split(",") if part]
        return {label.strip(): model.strip() for label, _, model in pairs}

    @property
    def choices(self) -> Mapping[str, str]:
        experts = ",".join(
            f"{label}={self._label(model) if model else 'base'}"
            for label, model in self._expert_names.items()
        )
        which = {"experts": experts} if experts else super().choices
        return {"strength": f"{self.strength:g}", **which}

    def refusal(self, control: Control) -> str:
        if self._expert_names and len(control) > 1:
            return (
                f"{self.name}: experts serve one attribute at a time; there are "
                f"{', '.join(control)}"
            )
        return super().refusal(control)

    def _labels(self, attribute: str) -> tuple[str, tuple[str, ...]]:
        if self.experts:
            return "the experts", tuple(self._expert_names)
        return super()._labels(attribute)

    def _formula(self, attributes: frozenset[str]) -> Formula | None:
        if not attributes or not self.strength:
            return None
        contrasts = (ClassContrast(self._classes(attribute)) for attribute in sorted(attributes))
        return BaseLM() + self.strength * Formula(tuple((1.0, contrast) for contrast in contrasts))

    def _classes(self, attribute: str) -> Classes:
        if not self.experts:
            return super()._classes(attribute)
        models = [
            ClassModel(label, self._helper(model) if model else self.base)
            for label, model in self._expert_names.items()
        ]
        return Classes(tuple(models), partial(self._wanted_label, attribute))
