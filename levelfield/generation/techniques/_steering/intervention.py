"""Interventions: changes of the states of a causal model while it reads.

The state of a token is a vector that each layer adds to (the residual stream): its attention first,
then its feed-forward network. The state of layer l is what the layer leaves; layers count from 0.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from levelfield.core.errors import ModelError
from levelfield.generation.guides import GuidedModel
from levelfield.models.torch.decoder_layers import decoder_layers
from levelfield.models.torch.language_model import LanguageModel

Change = Callable[[torch.Tensor], torch.Tensor]
"""States (…, width) -> states (…, width)."""

_ACTIVE: ContextVar[tuple[int, int] | None] = ContextVar("active intervention", default=None)
"""Which intervention is on in this thread, and from which token on; hooks of others leave states
alone."""


class Intervention:
    """Changes of what modules of a model give and take, wherever it is on.

    That is so per thread and call, so the base and several interventions run beside each other.

    Args:
        outputs: module -> change of its output, or of the first part of that.
        inputs: module -> change of its first argument.
    """

    def __init__(
        self,
        outputs: Mapping[torch.nn.Module, Change],
        inputs: Mapping[torch.nn.Module, Change] | None = None,
    ) -> None:
        handles = []
        for module, change in outputs.items():
            hook = functools.partial(_change_output, weakref.ref(self), change)
            handles.append(module.register_forward_hook(hook))
        for module, change in (inputs or {}).items():
            before = functools.partial(_change_input, weakref.ref(self), change)
            handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        for handle in handles:
            weakref.finalize(self, handle.remove)

    @contextlib.contextmanager
    def on(self, begin: int = 0) -> Iterator[None]:
        """In this context and thread, the model computes with the changes.

        Args:
            begin: the first token of a call whose states are changed.
        """
        token = _ACTIVE.set((id(self), begin))
        try:
            yield
        finally:
            _ACTIVE.reset(token)


def _changed(
    intervention: weakref.ref[Intervention], change: Change, states: torch.Tensor
) -> torch.Tensor:
    """Returns states (rows, tokens, width) as the intervention leaves them where it is on."""
    on, begin = _ACTIVE.get() or (0, 0)
    if (active := intervention()) is None or on != id(active):
        return states
    if begin == 0:
        return change(states)
    return torch.cat([states[:, :begin], change(states[:, begin:])], dim=1)


def _change_output(
    intervention: weakref.ref[Intervention], change: Change, _: Any, __: Any, output: Any
) -> Any:
    if isinstance(output, tuple):
        return (_changed(intervention, change, output[0]), *output[1:])
    return _changed(intervention, change, output)


def _change_input(
    intervention: weakref.ref[Intervention],
    change: Change,
    _: Any,
    arguments: tuple[Any, ...],
    options: dict[str, Any],
) -> Any:
    if arguments:
        return (_changed(intervention, change, arguments[0]), *arguments[1:]), options
    states = _changed(intervention, change, options["hidden_states"])
    return arguments, {**options, "hidden_states": states}


class SteeredModel(GuidedModel):
    """A model with an intervention on, called like the model itself.

    Args:
        begin: the first token whose states are changed, counted from the first of a row, padding
            and what is in the cache included.
    """

    def __init__(self, base: Any, intervention: Intervention, begin: int = 0) -> None:
        super().__init__(base)
        self._intervention, self._begin = intervention, begin

    def from_token(self, begin: int) -> SteeredModel:
        """Returns the model with the states of earlier tokens left alone."""
        return SteeredModel(self._base, self._intervention, begin)

    def __call__(self, *args: Any, **options: Any) -> Any:
        begin = 0
        if self._begin:
            tokens = options["input_ids"].shape[1]
            begin = max(0, self._begin - (options["attention_mask"].shape[1] - tokens))
            if begin >= tokens:
                return self._base(*args, **options)
        with self._intervention.on(begin):
            return self._base(*args, **options)


def added(vector: torch.Tensor) -> Change:
    """h + v.

    Args:
        vector: v, (width,).
    """
    return lambda states: states + vector.to(states)


def ablated(basis: torch.Tensor, strength: float) -> Change:
    """h − α Q Qᵀ h, computed in float32: at α = 1 nothing is left of h along the columns of Q.

    Args:
        basis: Q, (width, directions), with orthonormal columns.
        strength: α.
    """

    def change(states: torch.Tensor) -> torch.Tensor:
        h = states.to(torch.promote_types(states.dtype, torch.float32))
        Q = basis.to(h)
        return (h - strength * (h @ Q) @ Q.T).to(states.dtype)

    return change


@dataclass(frozen=True)
class LowRankEdit:
    """h ← h + Rᵀ (W h + b − R h).

    Attributes:
        R: (rank, width).
        W: (rank, width).
        b: (rank,).
    """

    R: torch.Tensor
    W: torch.Tensor
    b: torch.Tensor

    def __add__(self, other: LowRankEdit) -> LowRankEdit:
        """Returns the edit that adds what both add to one state."""
        pairs = ((self.R, other.R), (self.W, other.W), (self.b, other.b))
        return LowRankEdit(*map(torch.cat, pairs))

    def to(self, device: torch.device) -> LowRankEdit:
        """Returns the edit on a device."""
        return LowRankEdit(self.R.to(device), self.W.to(device), self.b.to(device))


def edited(edit: LowRankEdit, strength: float) -> Change:
    """h + α Rᵀ (W h + b − R h).

    Args:
        strength: α.
    """

    def change(states: torch.Tensor) -> torch.Tensor:
        R, W, b = (tensor.to(states) for tensor in (edit.R, edit.W, edit.b))
        return states + strength * torch.nn.functional.linear(states, W - R, b) @ R

    return change


def additions(model: Any, vectors: Mapping[int, torch.Tensor]) -> Intervention:
    """Returns the intervention that adds a vector to the state of each of these layers, of every
    token.

    Args:
        vectors: layer -> (width,).
    """
    _, layers = decoder_layers(model)
    return Intervention({layers[layer]: added(vector) for layer, vector in vectors.items()})


def ablation(model: Any, basis: torch.Tensor, strength: float) -> Intervention:
    """Returns the intervention that takes directions out of every state of every token: before the
    first layer, after the attention of each layer, and after each layer.

    Args:
        basis, strength: as of `ablated`.
    """
    _, layers = decoder_layers(model)
    change = ablated(basis, strength)
    modules = [module for layer in layers for module in (_attention(layer), layer) if module]
    return Intervention(dict.fromkeys(modules, change), {layers[0]: change})


def low_rank_edits(model: Any, edits: Mapping[int, LowRankEdit], strength: float) -> Intervention:
    """Returns the intervention that edits the state of each of these layers, of every token.

    Args:
        edits: layer -> edit.
        strength: α.
    """
    _, layers = decoder_layers(model)
    return Intervention({layers[layer]: edited(edit, strength) for layer, edit in edits.items()})


def head_additions(model: Any, vectors: Mapping[int, torch.Tensor]) -> Intervention:
    """Returns the intervention that adds a vector to what the heads of these layers leave, of every
    token, before the layer's output projection.

    Args:
        vectors: layer -> (heads · width of a head,).
    """
    projections = output_projections(model)
    return Intervention({}, {projections[layer]: added(v) for layer, v in vectors.items()})


def taken_heads(
    base: LanguageModel, receive: Callable[[int, torch.Tensor], None]
) -> list[RemovableHandle]:
    """What the heads of each layer leave, one after the other: (texts, tokens, heads · width)."""

    def record(layer: int, _: Any, arguments: tuple[Any, ...]) -> None:
        receive(layer, arguments[0])

    return [
        module.register_forward_pre_hook(functools.partial(record, n))
        for n, module in enumerate(output_projections(base.model))
    ]


def output_projections(model: Any) -> list[torch.nn.Module]:
    """Returns, for each layer of a causal model, the module that reads what its heads leave.

    Raises:
        ModelError: a layer has none by a known name.
    """
    _, layers = decoder_layers(model)
    projections = []
    for number, layer in enumerate(layers):
        blocks = [dict(layer.named_children()).get(name) for name in _ATTENTION]
        named = [dict(block.named_children()) for block in blocks if block is not None]
        modules = [children[name] for children in named for name in _PROJECTION if name in children]
        if not modules:
            raise ModelError(
                f"{type(model).__name__}: layer {number} has no output projection of attention "
                f"({', '.join(_PROJECTION)})"
            )
        projections.append(modules[0])
    return projections


_ATTENTION = ("self_attn", "attn", "attention", "self_attention")
_PROJECTION = ("o_proj", "c_proj", "dense", "out_proj")


def _attention(layer: torch.nn.Module) -> torch.nn.Module | None:
    """Returns the module whose output is added to the state first: a layer's attention, or the norm
    after it; None where the layer has no attention."""
    children = dict(layer.named_children())
    if "post_feedforward_layernorm" in children:  # Gemma 2, OLMo 2
        return children["post_attention_layernorm"]
    return next((children[name] for name in _ATTENTION if name in children), None)
