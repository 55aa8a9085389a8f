"""Base of the techniques with a model that was tuned to the wanted label alone."""

from __future__ import annotations

import abc
from dataclasses import dataclass

from levelfield.generation.logits.classes import ClassLikelihood
from levelfield.generation.techniques._class_lm.experts import ExpertTechnique


@dataclass(frozen=True, kw_only=True)
class TunedTechnique(ExpertTechnique, abc.ABC):
    """A technique that reads one model: the expert of the wanted label."""

    def _tuned(self, attribute: str) -> ClassLikelihood:
        """Returns log P(x_t | x_<t, c) of the wanted label's model; those of other labels are read
        only where they are whole models."""
        several = self._classes if self.experts else self._wanted_class
        return ClassLikelihood(several(attribute))
