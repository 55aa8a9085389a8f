"""Adds low-rank adapters to the weights of a model: W + scale · B A."""

from __future__ import annotations

import re
from typing import Any

import torch
from safetensors.torch import load_file

from levelfield.core.errors import ModelError
from levelfield.models.lora import WEIGHTS
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
