"""Base of the techniques that read experts: guides, or whole models in their place."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from levelfield.core.errors import UserError
from levelfield.core.options import option
from levelfield.core.sample import Control
from levelfield.generation.logits.classes import Classes, ClassModel
from levelfield.generation.technique import InChat
from levelfield.generation.techniques._class_lm.guidance import ClassGuidedTechnique


@dataclass(frozen=True, kw_only=True)
class ExpertTechnique(InChat, ClassGuidedTechnique, abc.ABC):
    """A technique whose experts are guides, or whole models in their place.

    Raises:
        UserError: `experts` can't be read.
    """

    strength: float
    experts: str = option(
        "",
        "Whole models instead of guides, one per label: positive=MODEL,negative=MODEL; without a "
        "name (negative=) the label has the base itself.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.experts and self.guide:
            raise UserError(f"{self.name}: give a guide or experts, not both")
        pairs = [part.partition("=") for part in self.experts.split(",")]
        labels = {label.strip() for label, is_said, _ in pairs if is_said} - {""}
        if self.experts and len(labels) < max(2, len(pairs)):
            raise UserError(
                f"experts is '{self.experts}'; expected labels, each with a model, e.g. "
                "positive=MODEL,negative=MODEL; an empty name is the base"
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

    def _classes(self, attribute: str) -> Classes:
        if not self.experts:
            return super()._classes(attribute)
        models = [
            ClassModel(label, self._helper(model) if model else self.base)
            for label, model in self._expert_names.items()
        ]
        return Classes(tuple(models), partial(self._wanted_label, attribute))
