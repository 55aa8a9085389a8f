"""Directional ablation: a direction that is removed from all states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from levelfield.core.errors import ModelError, UserError
from levelfield.core.options import option
from levelfield.generation.techniques._steering.intervention import Intervention, ablation
from levelfield.generation.techniques._steering.steering import SteeringTechnique, Wishes
from levelfield.generation.techniques._steering.vectors import chosen_layers


@dataclass(frozen=True, kw_only=True)
class Ablation(SteeringTechnique):
    """h ← h − α r̂ r̂ᵀ h for the states of the tokens of `scope`, in every layer.

    r̂ is the vector of one layer at length 1. At α = 1 nothing of it is left in any state: neither
    in the input of the first layer, nor in the output of a layer's attention, nor in the output of
    a layer. Arditi et al. (2024), "Refusal in Language Models Is Mediated by a Single Direction",
    section 2.4. With several attributes, the plane or space of their directions is removed.

    What is removed is what tells the labels apart, so both labels of a pair give the same texts:
    ablation makes a base indifferent, and does not choose a label.

    Controls attributes with one value, by a guide of kind `vector` each, or one attribute by
    `vectors`.

    Raises:
        UserError: `vectors` can't be read, or, at the first text, there is no vector of the layer,
            or several and none is named.
        ModelError: at the first text, a vector that doesn't fit the base or is 0.
    """

    name: ClassVar[str] = "ablation"
    strength: float = option(1.0, "Share α of the component that is removed; 0 is the base.")
    layer: int | None = option(
        None,
        "Layer whose vector is the direction, counted from 0.",
        least=0,
        otherwise="the one that the guide names, or the only one in a file",
        metavar="N",
    )

    @property
    def choices(self) -> Mapping[str, str]:
        layer = "default" if self.layer is None else str(self.layer)
        return {**super().choices, "layer": layer}

    def _intervention(self, wishes: Wishes) -> Intervention:
        directions = torch.stack([self._direction(*wish) for wish in wishes], dim=1)
        basis, sizes, _ = torch.linalg.svd(directions.double(), full_matrices=False)
        basis = basis[:, sizes > 1e-6]  # equal directions count once
        return ablation(self.base.model, basis.float().to(self.base.device), self.strength)

    def _direction(self, attribute: str, label: str) -> torch.Tensor:
        """Returns r̂ of a label: (width,)."""
        vectors, named, owner = self._vectors(attribute, label)
        layer = named if self.layer is None else self.layer
        if layer is None and len(vectors) > 1:
            raise UserError(f"{owner} has {len(vectors)} vectors; choose one with layer=N")
        ((number, vector),) = (
            vectors if layer is None else chosen_layers(vectors, [layer], owner)
        ).items()
        if not vector.any():
            raise ModelError(f"{owner}: the vector of layer {number} is 0 and has no direction")
        direction: torch.Tensor = vector / vector.norm()
        return direction
