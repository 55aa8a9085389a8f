"""Random small guides of kind `class-lm` on the models of `tiny`."""

from __future__ import annotations

import json
from pathlib import Path

import safetensors.torch
import torch

from levelfield.generation.techniques._class_lm.network import Adapter
from levelfield.models.resolve import resolve
from levelfield.models.torch.language_model import language_model

ADAPTER = {"layers": 2, "rank": 2, "alpha": 2.0}


def save(
    base: str,
    folder: Path,
    attribute: str = "sentiment",
    labels: tuple[str, ...] = ("negative", "positive"),
    *,
    seed: int = 0,
) -> Path:
    """The folder of a guide for a base; its matrices are so large that the adapter is felt."""
    adapter = Adapter(language_model(base).model, **ADAPTER, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    for matrix in adapter.up.values():
        matrix.data.normal_(std=0.3, generator=generator)
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file(adapter.state_dict(), folder / "guide.safetensors")
    about = {
        "kind": "class-lm",
        "attribute": attribute,
        "labels": labels,
        "base": base,
        "revision": resolve(base).revision,
        "adapter": ADAPTER,
        "scale": 1.5,
        "bias": {label: 0.1 * n for n, label in enumerate(labels)},
    }
    (folder / "guide.json").write_text(json.dumps(about), encoding="utf-8")
    return folder
