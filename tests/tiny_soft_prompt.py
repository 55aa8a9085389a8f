"""Soft prompts for the models of `tiny`, as folders of guides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch

from levelfield.models.resolve import resolve
from levelfield.models.torch.language_model import language_model


def save(
    base: str,
    folder: Path,
    attribute: str = "sentiment",
    labels: tuple[str, ...] = ("negative", "positive"),
    *,
    seed: int = 0,
) -> Path:
    """The folder of a guide with random prompts, of 3 embeddings, 4 and so on."""
    generator = torch.Generator().manual_seed(seed)
    width = language_model(base).model.get_input_embeddings().weight.shape[1]
    matrices = {
        label: torch.randn(3 + n, width, generator=generator) for n, label in enumerate(labels)
    }
    return save_matrices(base, folder, matrices, attribute)


def save_matrices(
    base: str, folder: Path, matrices: Mapping[str, torch.Tensor], attribute: str = "sentiment"
) -> Path:
    """The folder of a guide with these prompts."""
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file(dict(matrices), folder / "guide.safetensors")
    about = {
        "kind": "soft-prompt",
        "attribute": attribute,
        "labels": list(matrices),
        "base": base,
        "revision": resolve(base).revision,
    }
    (folder / "guide.json").write_text(json.dumps(about), encoding="utf-8")
    return folder
