"""Random small guides of kind `latent` on the models of `tiny`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from levelfield.generation.techniques._latent.network import (
    Flow,
    FlowShape,
    PrefixDecoder,
    PrefixShape,
    cache_shape,
)
from levelfield.models.resolve import resolve
from levelfield.models.torch.early_exit import with_lower_layers
from levelfield.models.torch.language_model import language_model

SIZE, POSITIONS, EACH = 4, 3, 12
"""d, P, and latents of a label."""
ATTRIBUTES = {"sentiment": ("negative", "positive"), "topic": ("World", "Sports", "Sci/Tech")}


def save(
    base: str,
    folder: Path,
    *,
    attributes: Mapping[str, tuple[str, ...]] = ATTRIBUTES,
    layers: int = 0,
    rank: int = 2,
    seed: int = 0,
) -> Path:
    """The folder of a guide for a base, or for so many of its lower layers; weights are so large
    that prefixes change texts."""
    model = language_model(base).model
    shape = PrefixShape(
        SIZE, POSITIONS, *cache_shape(with_lower_layers(model, layers) if layers else model), rank
    )
    labels = sum(map(len, attributes.values()))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        decoder, flow = PrefixDecoder(shape), Flow(FlowShape(SIZE, 2, 8), labels)
        for module in (decoder, flow):
            for parameter in module.parameters():
                parameter.data.normal_(std=0.7)
        clouds = [torch.randn(SIZE) + 0.3 * torch.randn(EACH, SIZE) for _ in range(labels)]
    tensors = {f"latents.{i}": cloud for i, cloud in enumerate(clouds)}
    tensors |= {f"decoder.{name}": p for name, p in decoder.state_dict().items()}
    tensors |= {f"flow.{name}": p.contiguous() for name, p in flow.state_dict().items()}
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file(tensors, folder / "guide.safetensors")
    about: dict[str, Any] = {
        "kind": "latent",
        "attributes": attributes,
        "base": base,
        "revision": resolve(base).revision,
        "prefix": asdict(shape),
        "flow": asdict(flow.shape),
        **({"layers": layers} if layers else {}),
    }
    (folder / "guide.json").write_text(json.dumps(about), encoding="utf-8")
    return folder
