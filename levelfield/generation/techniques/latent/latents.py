"""Latent prefixes beside a base that writes: a guide's latents, its decoder and its flow.

Gu et al. 2022, "A Distributional Lens for Multi-Aspect Controllable Text Generation"; Gu et al.
2023, "Controllable Text Generation via Probability Density Estimation in the Latent Space".
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from levelfield.core.errors import ModelError
from levelfield.generation.guides import weights_on_base
from levelfield.generation.techniques.latent.intersection import intersection_centres
from levelfield.generation.techniques.latent.latent_flow import Flow as Flow
from levelfield.generation.techniques.latent.latent_flow import FlowShape
from levelfield.generation.techniques.latent.prefixes import (
    PrefixDecoder,
    PrefixShape,
    cache_shape,
)
from levelfield.models.guides import Guide
from levelfield.models.loading import Loading
from levelfield.models.resolve import OFFLINE_LM
from levelfield.models.torch.early_exit import with_lower_layers
from levelfield.models.torch.language_model import LanguageModel

KEPT = 8
"""How many of these a process keeps, those used last."""
COMBINATIONS = 256
"""So many combinations of labels have their intersections kept."""


@dataclass(frozen=True, eq=False)
class LatentModel:
    """A guide of kind `latent` with its weights.

    Attributes:
        guide: what was learnt.
        writer: the model that prefixes are for: the base, or its lower layers where the guide's
            `layers` says so. (The checkpoint that the authors of MultiCTG published was trained
            and run on 16 of GPT-2 medium's 24 layers.)
        decoder: latents -> prefixes.
        latents: label of an attribute -> those of its texts, (n, d).
        flow: between latents and Gaussians; None where the guide has none.
    """

    guide: Guide
    writer: LanguageModel
    decoder: PrefixDecoder
    latents: Mapping[tuple[str, str], torch.Tensor]
    flow: Flow | None

    def prefix(self, e: torch.Tensor) -> torch.Tensor:
        """Latents (rows, d) -> prefixes of the base, (rows, layers, 2, heads, P, width)."""
        with torch.inference_mode():
            prefix: torch.Tensor = self.decoder(e.float())
        return prefix.to(next(self.writer.model.parameters()))

    def column(self, attribute: str, label: str) -> int:
        """The place of a label among those of all attributes."""
        return list(self.latents).index((attribute, label))


@functools.lru_cache(maxsize=KEPT)
def latent_model(
    guide: Guide,
    model: str = OFFLINE_LM,
    loading: Loading = Loading(),  # noqa: B008
) -> LatentModel:
    """The latents, decoder and flow of a guide on its base, loaded once a process.

    Raises:
        ModelError: the guide is of another kind or base, or its files are damaged.
    """
    labels = [(one, label) for one, its in guide.attributes.items() for label in its]
    with weights_on_base(guide, "latent", model, loading) as (base, tensors):
        decoder = PrefixDecoder(PrefixShape(**guide.settings["prefix"]))
        decoder.load_state_dict(_part(tensors, "decoder."))
        latents = {label: tensors[f"latents.{i}"].float() for i, label in enumerate(labels)}
        flow = None
        if (shape := guide.settings.get("flow")) is not None:
            flow = Flow(FlowShape(**shape), len(labels)).double()
            flow.load_state_dict(_part(tensors, "flow."))
            flow.requires_grad_(False).eval()
    layers = int(guide.settings.get("layers", cache_shape(base.model)[0]))
    shorter = with_lower_layers(base.model, layers)
    writer = LanguageModel(shorter, base.tokenizer, base.label, base.tokens, base.ends)
    has, takes = decoder.shape, cache_shape(shorter)
    if (has.layers, has.heads, has.width) != takes:
        raise ModelError(
            f"guide '{guide.name}' has prefixes of {has.layers} layers, {has.heads} heads of "
            f"width {has.width}; the base takes {' · '.join(map(str, takes))}"
        )
    return LatentModel(guide, writer, decoder.requires_grad_(False).eval(), latents, flow)


def _part(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


Wanted = tuple[tuple[str, str, float], ...]
"""Attribute, label and weight of each attribute that is asked for."""


@functools.lru_cache(maxsize=COMBINATIONS)
def centres(
    guide: Guide, wanted: Wanted, neighbours: int, n: int, model: str, loading: Loading
) -> torch.Tensor:
    """The n best points in the intersection of these labels' latents, best first: (n, d), float64;
    searched once a process."""
    learnt = latent_model(guide, model, loading)
    clouds = [learnt.latents[attribute, label] for attribute, label, _ in wanted]
    return intersection_centres(clouds, [weight for *_, weight in wanted], neighbours, n)
