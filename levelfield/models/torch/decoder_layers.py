"""The layers of a causal model, found in any architecture of `transformers`."""

from __future__ import annotations

from typing import Any

import torch

from levelfield.core.errors import ModelError


def decoder_layers(model: Any) -> tuple[str, torch.nn.ModuleList]:
    """Returns the layers of a causal model, lowest first, and the path of their list.

    They are the first list of as many modules as the configuration has layers: `model.layers` of
    Llama, `transformer.h` of GPT-2, `gpt_neox.layers`.

    Raises:
        ModelError: the model has no such list.
    """
    depth = int(model.config.get_text_config().num_hidden_layers)
    for path, module in model.named_modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == depth:
            return path, module
    raise ModelError(f"{type(model).__name__} has no list of its {depth} layers")
