"""CAA: vectors that are added to the states of layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from levelfield.core.options import option
from levelfield.generation.techniques._steering.intervention import Intervention, additions
from levelfield.generation.techniques._steering.steering import SteeringTechnique, Wishes
from levelfield.generation.techniques._steering.vectors import chosen_layers, layer_numbers


@dataclass(frozen=True, kw_only=True)
class CAA(SteeringTechnique):
    """h_l ← h_l + α v_l for the output states of some layers l, for the tokens of `scope`.

    v_l is the vector of the wanted label: for a guide, the difference between the mean state of
    texts with the label and that of texts with the others, at the same layer. Rimsky et al. (2024),
    "Steering Llama 2 via Contrastive Activation Addition", section 3; with the states of a pair of
    prompts, Turner et al. (2023), "Steering Language Models With Activation Engineering". With
    several attributes, their vectors add up.

    Controls attributes with one value, by a guide of kind `vector` each, or one attribute by
    `vectors`.

    Raises:
        UserError: `vectors` or `layers` can't be read, or, at the first text, there is no vector
            of a layer.
        ModelError: at the first text, vectors that don't fit the base.
    """

    name: ClassVar[str] = "caa"
    strength: float = option(5.0, "Strength α; 0 is the base, and a negative value reverses v_l.")
    layers: str = option(
        "",
        "Layers whose states are changed: numbers and ranges, counted from 0, as in 8-12,15.",
        otherwise="the one that the guide names, or all in a file",
        metavar="LAYERS",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layers:
            layer_numbers(self.layers)

    @property
    def choices(self) -> Mapping[str, str]:
        layers = ",".join(map(str, layer_numbers(self.layers))) if self.layers else "default"
        return {**super().choices, "layers": layers}

    def _intervention(self, wishes: Wishes) -> Intervention:
        total: dict[int, torch.Tensor] = {}
        for attribute, label in wishes:
            vectors, named, owner = self._vectors(attribute, label)
            if self.layers:
                vectors = chosen_layers(vectors, layer_numbers(self.layers), owner)
            elif named is not None:
                vectors = chosen_layers(vectors, [named], owner)
            for layer, vector in vectors.items():
                total[layer] = total.get(layer, 0) + self.strength * vector
        device = self.base.device
        return additions(self.base.model, {layer: v.to(device) for layer, v in total.items()})
