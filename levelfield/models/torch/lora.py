"""Low-rank adapters: adds them to a model's weights, W + scale · B A, and writes their files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save

from levelfield.core.errors import ModelError
from levelfield.io.writing import folder_replacement
from levelfield.models.lora import ABOUT, WEIGHTS
from levelfield.models.resolve import LoraAdapter

_KEY = re.compile(r"base_model\.model\.(.+)\.lora_([AB])\.weight")


def merge_lora(model: Any, adapter: LoraAdapter, name: str) -> None:
    """Adds an adapter to the weights of a model (Hu et al. 2022, "LoRA: Low-Rank Adaptation of
    Large Language Models", section 4.1).

    W is (out, in), A is (rank, in) and B is (out, rank); the product is computed in float32.

    Args:
        name: of the adapted model, for errors.

    Raises:
        ModelError: the adapter has other tensors than pairs of A and B, or some that don't fit the
            model.
    """
    from transformers.pytorch_utils import Conv1D  # only who merges waits for it

    owner, rank = f"model '{name}': {WEIGHTS}", adapter.config.rank
    pairs: dict[str, dict[str, torch.Tensor]] = {}
    for key, tensor in load_file(adapter.folder / WEIGHTS).items():
        match = _KEY.fullmatch(key)
        if match is None:
            raise ModelError(f"{owner}: tensor {key}; expected pairs of lora_A and lora_B")
        pairs.setdefault(match[1], {})[match[2]] = tensor.float()
    if not pairs:
        raise ModelError(f"{owner} has no tensors")
    modules = dict(model.named_modules())
    embeddings = model.get_input_embeddings().weight
    with torch.no_grad():
        for path, pair in pairs.items():
            module = modules.get(path)
            if not isinstance(module, torch.nn.Linear | Conv1D):
                raise ModelError(f"{owner}: {type(model).__name__} has no linear layer {path}")
            if module.weight is embeddings:
                raise ModelError(
                    f"{owner}: {path} shares its weights with the embeddings, which would change"
                )
            W = module.weight.T if isinstance(module, Conv1D) else module.weight
            outputs, inputs = W.shape
            shapes = {letter: tuple(tensor.shape) for letter, tensor in pair.items()}
            if shapes != {"A": (rank, inputs), "B": (outputs, rank)}:
                sizes = ", ".join(f"lora_{n} {shape}" for n, shape in sorted(shapes.items()))
                raise ModelError(
                    f"{owner}: {path} has {sizes}; expected lora_A {(rank, inputs)}, "
                    f"lora_B {(outputs, rank)}"
                )
            W.copy_(W.float() + adapter.config.scale * pair["B"] @ pair["A"])


def write_lora(
    folder: Path,
    pairs: Mapping[str, tuple[torch.Tensor, torch.Tensor]],
    *,
    base: str,
    revision: str | None,
    alpha: float,
    is_transposed: bool,
) -> None:
    """Writes an adapter in the layout of PEFT; values stay as they are, bit for bit.

    Args:
        folder: absent or empty.
        pairs: path of a linear layer -> A, (rank, in), and B, (out, rank); of one rank, at least
            one.
        base, revision: of the model whose weights change.
        alpha: α; W + α / rank · B A is what counts.
        is_transposed: whether layers keep their weights as (in, out), as GPT-2's do.

    Raises:
        OSError: it can't be written, or the folder holds something.
    """
    about = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "revision": revision,
        "r": len(next(iter(pairs.values()))[0]),
        "lora_alpha": alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": is_transposed,
        "target_modules": sorted(pairs),
        "init_lora_weights": True,
        "inference_mode": True,
    }
    tensors = {
        f"base_model.model.{path}.lora_{letter}.weight": tensor.contiguous()
        for path, pair in pairs.items()
        for letter, tensor in zip("AB", pair, strict=True)
    }
    with folder_replacement(folder) as new_folder:
        (new_folder / WEIGHTS).write_bytes(save(tensors, {"format": "pt"}))
        (new_folder / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
