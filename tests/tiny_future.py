"""Random small guides of kind `future` on the models of `tiny`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import safetensors.torch
import torch

from levelfield.generation.techniques._future.network import FutureDiscriminator, FutureShape
from levelfield.models.resolve import resolve
from levelfield.models.torch.language_model import language_model

SHAPE = FutureShape(width=16, layers=2, heads=2)
SENTIMENT = ("negative", "positive")


def discriminator(
    embeddings: torch.Tensor, labels: int = 2, *, seed: int = 0
) -> FutureDiscriminator:
    """Weights so large that labels differ from text to text."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = FutureDiscriminator(embeddings, labels, SHAPE)
        for name, parameter in made.named_parameters():
            if "norm" not in name:
                parameter.data.normal_(std=0.5)
    return made.eval()


def save(
    base: str,
    folder: Path,
    attribute: str = "sentiment",
    labels: tuple[str, ...] = SENTIMENT,
    *,
    seed: int = 0,
) -> Path:
    """The folder of a guide for a base."""
    embeddings = language_model(base).model.get_input_embeddings().weight
    tensors = discriminator(embeddings, len(labels), seed=seed).state_dict()
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file(tensors, folder / "guide.safetensors")
    about = {
        "kind": "future",
        "attribute": attribute,
        "labels": labels,
        "base": base,
        "revision": resolve(base).revision,
        "shape": asdict(SHAPE),
    }
    (folder / "guide.json").write_text(json.dumps(about), encoding="utf-8")
    return folder
