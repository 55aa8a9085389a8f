"""Early exits: the first layers of a causal model, read through an affine map and its own head.

An early exit is a causal model of the same vocabulary that knows less. With h the state after the
layer, the head reads y = A h / RMS(h) + b in place of what the last layer and the final norm make
(Din et al. 2024, "Jump to Conclusions: Short-Cutting Transformers with Linear Transformations";
Belrose et al. 2023, "Eliciting Latent Predictions from Transformers with the Tuned Lens").
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from safetensors.torch import load_file

from levelfield.core.errors import ModelError
from levelfield.models.resolve import EarlyExit

EPSILON = 1e-5
"""Added to the mean square."""


class ExitMap(torch.nn.Module):
    """y = A h / RMS(h) + b.

    Args:
        A: (width, width).
        b: (width,).
    """

    def __init__(self, A: torch.Tensor, b: torch.Tensor) -> None:
        super().__init__()
        self.A = torch.nn.Parameter(A, requires_grad=False)
        self.b = torch.nn.Parameter(b, requires_grad=False)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        """Returns y: (…, width) -> (…, width)."""
        return torch.nn.functional.linear(unit_rms(h), self.A, self.b)


def unit_rms(h: torch.Tensor) -> torch.Tensor:
    """Returns h / RMS(h): (…, width)."""
    return torch.nn.functional.rms_norm(h, h.shape[-1:], eps=EPSILON)


def first_layers(config: Any, exit: EarlyExit) -> Any:
    """Returns the configuration of a model that ends with the layer of an exit.

    Raises:
        ModelError: the model has no layers after it.
    """
    if exit.layer >= config.num_hidden_layers:
        raise ModelError(
            f"an early exit after layer {exit.layer} of {config.num_hidden_layers}: expected "
            f"1 to {config.num_hidden_layers - 1}"
        )
    config.num_hidden_layers = exit.layer
    return config


def leave_early(model: Any, exit: EarlyExit) -> None:
    """Puts the map of an exit in the place of the final norm.

    Raises:
        ModelError: the model's final norm is not where Llama and its kin have it, or the map is of
            another width.
    """
    body = model.base_model
    if not isinstance(getattr(body, "norm", None), torch.nn.Module):
        raise ModelError(
            f"{type(model).__name__} has no early exits; Llama and similar models have"
        )
    tensors = load_file(exit.map)
    A, b = tensors["weight"], tensors["bias"]
    width = model.config.hidden_size
    if A.shape != (width, width) or b.shape != (width,):
        raise ModelError(
            f"the map of an early exit is {' × '.join(map(str, A.shape))}; the model's width is "
            f"{width}"
        )
    body.norm = ExitMap(A, b).to(model.dtype)


def with_lower_layers(model: Any, layers: int) -> Any:
    """Returns the model with its lowest layers only; it shares its weights with the whole model.

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
