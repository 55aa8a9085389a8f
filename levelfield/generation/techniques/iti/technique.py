"""ITI: vectors that are added to the outputs of attention heads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from levelfield.core.options import option
from levelfield.generation.techniques._steering.intervention import Intervention, head_additions
from levelfield.generation.techniques._steering.steering import StateTechnique, Wishes
from levelfield.generation.techniques._steering.vectors import head_vectors
from levelfield.models.guides import GuideKind


@dataclass(frozen=True, kw_only=True)
class ITI(StateTechnique):
    """x_h ← x_h + α σ_h θ̂_h for the outputs of some attention heads h, for the tokens
    of `scope`.

    x_h is the output of a head before its layer's output projection. θ_h is the difference between
    its mean over texts with the wanted label and that over texts with the others, θ̂_h is θ_h at
    length 1, and σ_h the standard deviation of texts along it. The heads are the K that tell the
    labels of held-out texts apart best, by the nearer mean. Li et al. (2023), "Inference-Time
    Intervention: Eliciting Truthful Answers from a Language Model", section 4. With several
    attributes, their additions add up.

    Controls attributes with one value, by a guide of kind `heads` each.

    Raises:
        ModelError: at the first text, a guide of another base, or a base whose attention has no
            output projection by a known name.
    """

    name: ClassVar[str] = "iti"
    guide_kind: ClassVar[GuideKind] = "heads"
    strength: float = option(
        5.0, "Strength α, in standard deviations; 0 is the base. The authors use 15."
    )
    heads: int = option(48, "Number K of the heads that are changed.", least=1)

    @property
    def choices(self) -> Mapping[str, str]:
        return {**super().choices, **self._shown("heads")}

    def _intervention(self, wishes: Wishes) -> Intervention:
        total: dict[int, torch.Tensor] = {}
        for attribute, label in wishes:
            guide = self._guide(attribute)
            chosen = head_vectors(guide, label, self.heads, self.model, self.loading)
            for layer, vector in chosen.items():
                total[layer] = total.get(layer, 0) + self.strength * vector
        device = self.base.device
        return head_additions(self.base.model, {layer: v.to(device) for layer, v in total.items()})
