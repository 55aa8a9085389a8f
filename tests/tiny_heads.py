"""Random guides of kind `head` on the models of `tiny`."""

from __future__ import annotations

import json
from pathlib import Path

import safetensors.torch
import torch

from levelfield.models.resolve import resolve
from levelfield.models.torch.language_model import language_model

SENTIMENT = ("negative", "positive")


def save(
    base: str,
    folder: Path,
    attribute: str = "sentiment",
    labels: tuple[str, ...] = SENTIMENT,
    *,
    seed: int = 0,
) -> Path:
    """The folder of a guide for a base."""
    width = language_model(base).model.get_input_embeddings().weight.shape[1]
    random = torch.Generator().manual_seed(seed)
    tensors = {
        "weight": torch.randn(width, len(labels), generator=random),
        "bias": torch.randn(len(labels), generator=random),
    }
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file(tensors, folder / "guide.safetensors")
    about = {
        "kind": "head",
        "attribute": attribute,
        "labels": labels,
        "base": base,
        "revision": resolve(base).revision,
    }
    (folder / "guide.json").write_text(json.dumps(about), encoding="utf-8")
    return folder
