"""Low-rank adapters: a model and what was learnt on it, in one process, with one set of weights.

y = W x + (α / r) B A x on the linear layers of a model's upper layers (Hu et al. 2022, "LoRA:
Low-Rank Adaptation of Large Language Models", section 4.1). The base's weights stay as they are,
and it computes what it did unless it is called through an adapter.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

import torch
from transformers.pytorch_utils import Conv1D

from levelfield.core.errors import ModelError

_ACTIVE: ContextVar[int | None] = ContextVar("active adapter", default=None)
"""Which adapter is on in this thread; hooks of others leave outputs alone."""


class Adapter(torch.nn.Module):
    """Matrices A: (r, in) and B: (out, r) for linear layers of a model; B begins at 0.

    A layer's output gets (α / r) B A x where the adapter is on. That is so per thread and call, so
    the base and several adapters run beside each other.

    Args:
        base: a causal model of `transformers`.
        layers: of so many upper layers, all linear layers get a pair; at most all of them.
        rank: r.
        alpha: α.
        seed: of A, which is normal with variance 1 / in.

    Raises:
        ModelError: the model has no list of layers, or no linear layers in them.
    """

    def __init__(self, base: Any, *, layers: int, rank: int, alpha: float, seed: int = 0) -> None:
        super().__init__()
        self._scale = alpha / rank
        self.down, self.up = torch.nn.ParameterDict(), torch.nn.ParameterDict()
        generator = torch.Generator().manual_seed(seed)
        for path, module in linear_layers(base, layers).items():
            name = path.replace(".", "/")  # no name of a parameter has a dot
            inputs, outputs = _shape(module)
            A = torch.randn(rank, inputs, generator=generator) / inputs**0.5
            weight = module.weight
            self.down[name] = torch.nn.Parameter(A.to(weight))
            self.up[name] = torch.nn.Parameter(weight.new_zeros(outputs, rank))
            hook = functools.partial(_add, weakref.ref(self), name)
            weakref.finalize(self, module.register_forward_hook(hook).remove)

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """In this context and thread, the base computes with the adapter."""
        token = _ACTIVE.set(id(self))
        try:
            yield
        finally:
            _ACTIVE.reset(token)

    def update(self, name: str, x: torch.Tensor) -> torch.Tensor:
        """(α / r) B A x of a layer: (…, in) -> (…, out)."""
        linear = torch.nn.functional.linear
        return linear(linear(x, self.down[name]), self.up[name]) * self._scale


def _add(
    adapter: weakref.ref[Adapter], name: str, _: Any, x: tuple[torch.Tensor], y: torch.Tensor
) -> torch.Tensor | None:
    active = adapter()
    if active is None or _ACTIVE.get() != id(active):
        return None
    return y + active.update(name, x[0])


class AdaptedModel:
    """A model with an adapter on, called like the model itself."""

    def __init__(self, base: Any, adapter: Adapter) -> None:
        self._base, self._adapter = base, adapter
        self.config = base.config

    @property
    def forward(self) -> Any:
        """The base's, with the same parameters, under the adapter."""

        @functools.wraps(self._base.forward)
        def forward(*args: Any, **options: Any) -> Any:
            return self(*args, **options)

        return forward

    @property
    def base_model(self) -> Any:
        """The body of the model, under the adapter: ids -> states."""
        return functools.partial(self._on, self._base.base_model)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._on(self._base, *args, **options)

    def _on(self, module: Any, *args: Any, **options: Any) -> Any:
        with self._adapter.on():
            return module(*args, **options)

    def get_output_embeddings(self) -> Any:
        """The layer that makes logits of states, which no adapter changes."""
        return self._base.get_output_embeddings()

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """Those of the base."""
        parameters: Iterator[torch.nn.Parameter] = self._base.parameters()
        return parameters


def linear_layers(base: Any, upper: int) -> Mapping[str, Any]:
    """The linear layers in the upper layers of a causal model, by their paths.

    Raises:
        ModelError: there are none.
    """
    depth = int(base.config.get_text_config().num_hidden_layers)
    for path, module in base.named_modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == depth:
            linear = {
                f"{path}.{i}.{name}": inner
                for i in range(max(0, depth - upper), depth)
                for name, inner in module[i].named_modules()
                if isinstance(inner, (torch.nn.Linear, Conv1D))
            }
            if linear:
                return linear
    raise ModelError(f"{type(base).__name__} has no linear layers that an adapter could change")


def _shape(module: Any) -> tuple[int, int]:
    """Inputs and outputs of a linear layer; GPT-2's keep their weight transposed."""
    if isinstance(module, Conv1D):
        return int(module.weight.shape[0]), int(module.weight.shape[1])
    return int(module.in_features), int(module.out_features)
