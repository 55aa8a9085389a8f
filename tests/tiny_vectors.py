"""Random steering vectors for the models of `tiny`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import safetensors.torch
import torch

from levelfield.models.control_vectors import ControlVector, write_control_vector
from levelfield.models.resolve import resolve
from levelfield.models.torch.language_model import language_model

SENTIMENT = ("negative", "positive")


def shape(base: str) -> tuple[int, int]:
    """Layers and width of a base."""
    config = language_model(base).model.config
    return config.num_hidden_layers, config.hidden_size


def save(
    base: str,
    folder: Path,
    attribute: str = "sentiment",
    labels: tuple[str, ...] = SENTIMENT,
    *,
    seed: int = 0,
) -> Path:
    """The folder of a guide for a base, with a vector for each layer."""
    depth, width = shape(base)
    random = torch.Generator().manual_seed(seed)
    tensors = {label: torch.randn(depth, width, generator=random) for label in labels}
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file(tensors, folder / "guide.safetensors")
    about = {
        "kind": "vector",
        "attribute": attribute,
        "labels": labels,
        "base": base,
        "revision": resolve(base).revision,
        "layers": [*range(depth)],
        "layer": depth - 1,
    }
    (folder / "guide.json").write_text(json.dumps(about), encoding="utf-8")
    return folder


def save_heads(base: str, folder: Path, labels: tuple[str, ...], *, seed: int = 0) -> Path:
    """The folder of a guide for a base, with a vector for each attention head."""
    depth, width = shape(base)
    heads = language_model(base).model.config.num_attention_heads
    random = torch.Generator().manual_seed(seed)
    size = (depth * heads, width // heads)
    tensors = {label: torch.randn(size, generator=random) for label in labels}
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file(tensors, folder / "guide.safetensors")
    about = {
        "kind": "heads",
        "attribute": "sentiment",
        "labels": labels,
        "base": base,
        "revision": resolve(base).revision,
        "heads": heads,
        "accuracies": torch.rand(depth * heads, generator=random).tolist(),
    }
    (folder / "guide.json").write_text(json.dumps(about), encoding="utf-8")
    return folder


def save_edits(
    base: str, folder: Path, attribute: str, labels: tuple[str, ...], *, seed: int = 0
) -> Path:
    """The folder of a guide for a base, with an edit of rank 2 for each layer."""
    depth, width = shape(base)
    random = torch.Generator().manual_seed(seed)
    tensors = {}
    for label in labels:
        R = torch.linalg.qr(torch.randn(depth, width, 2, generator=random)).Q.mT
        tensors[f"{label}.R"] = R.contiguous()
        tensors[f"{label}.W"] = R + torch.randn(depth, 2, width, generator=random)
        tensors[f"{label}.b"] = torch.randn(depth, 2, generator=random)
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file(tensors, folder / "guide.safetensors")
    about = {
        "kind": "reft",
        "attribute": attribute,
        "labels": labels,
        "base": base,
        "revision": resolve(base).revision,
        "layers": [*range(depth)],
    }
    (folder / "guide.json").write_text(json.dumps(about), encoding="utf-8")
    return folder


def save_file(base: str, path: Path, *, layers: tuple[int, ...] = (1,), seed: int = 0) -> Path:
    """A control vector of some layers."""
    random = np.random.default_rng(seed)
    width = shape(base)[1]
    vectors = {layer: random.normal(size=width).astype(np.float32) for layer in layers}
    write_control_vector(ControlVector(vectors, "gpt2"), path)
    return path
