"""A causal model without its upper layers."""

from __future__ import annotations

import copy
from typing import Any

import torch

from levelfield.core.errors import ModelError


def with_lower_layers(model: Any, layers: int) -> Any:
    """The model with its lowest layers only; it shares its weights with the whole model.

    Raises:
        ModelError: the model has no list of layers, or fewer.
    """
    depth = int(model.config.get_text_config().num_hidden_layers)
    if layers == depth:
        return model
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    shorter = copy.deepcopy(model, shared)
    for path, module in list(shorter.named_modules()):
        if isinstance(module, torch.nn.ModuleList) and len(module) == depth > layers > 0:
            parent, _, name = path.rpartition(".")
            setattr(shorter.get_submodule(parent), name, module[:layers])
            config = shorter.config.get_text_config()
            config.num_hidden_layers = layers
            if getattr(config, "layer_types", None):
                config.layer_types = config.layer_types[:layers]
            return shorter
    raise ModelError(f"{type(model).__name__} has {depth} layers; {layers} of them were asked for")
