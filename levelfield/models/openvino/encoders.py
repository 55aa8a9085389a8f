"""Encoders and what is built on them, with the forward pass in OpenVINO."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from levelfield.models.loading import Loading
from levelfield.models.openvino.forward import Forward, Tensors, forward_of, on_cpu
from levelfield.models.resolve import Resolved, resolve
from levelfield.models.torch.classifier import TorchClassifier, TorchPairRegressor
from levelfield.models.torch.classifier import load_classifier as torch_classifier
from levelfield.models.torch.classifier import load_regressor as torch_regressor
from levelfield.models.torch.encoder import TorchSentenceEncoder
from levelfield.models.torch.encoder import load_encoder as torch_encoder
from levelfield.models.torch.states import TorchTokenEncoder
from levelfield.models.torch.states import load_states as torch_states

_READ = ("input_ids", "attention_mask")
_EMBEDDINGS = ("sentence_embedding", "token_embeddings")


class OpenVINOModule:
    """Stands for a module of `transformers` that takes tensors by name and gives one of them.

    Attributes:
        config: the module's.
    """

    def __init__(
        self,
        module: Any,
        resolved: Resolved,
        loading: Loading,
        *,
        kind: str,
        output: str,
        inputs: tuple[str, ...] = _READ,
    ) -> None:
        module.requires_grad_(False)  # tracing takes no other weights for constants
        self.config = module.config
        self._table = module.get_input_embeddings()
        self._forward = forward_of(
            lambda tensors: [getattr(module(**tensors), output)],
            resolved,
            loading,
            kind=kind,
            inputs=inputs,
            outputs=(output,),
        )

    def __call__(self, **tensors: torch.Tensor) -> SimpleNamespace:
        return SimpleNamespace(**self._forward(tensors))

    def get_input_embeddings(self) -> torch.nn.Module:
        """The module's table of input embeddings."""
        table: torch.nn.Module = self._table
        return table


def load_encoder(name: str, loading: Loading) -> TorchSentenceEncoder:
    """The encoder of this name.

    Raises:
        ModelError: there is no such model, it is not an encoder, or OpenVINO can't convert it.
    """
    resolved = _resolved(name, loading)

    def engine(module: Any) -> Forward:
        if isinstance(module, torch.nn.Module):
            module.requires_grad_(False)

        def call(features: Tensors) -> list[torch.Tensor]:
            embeddings = module(dict(features))
            return [embeddings[output] for output in _EMBEDDINGS]

        return forward_of(
            call, resolved, loading, kind="encoder", inputs=_READ, outputs=_EMBEDDINGS
        )

    return torch_encoder(name, on_cpu(loading)).computed_by(engine)


def load_states(name: str, loading: Loading, *, layer: int) -> TorchTokenEncoder:
    """The states of this model after a layer.

    Raises:
        ModelError: there is no such model, it has no encoder, or OpenVINO can't convert it.
        UserError: it has no such layer.
    """
    resolved, kind = _resolved(name, loading), f"states{layer}"
    return torch_states(name, on_cpu(loading), layer=layer).computed_by(
        lambda module: OpenVINOModule(
            module, resolved, loading, kind=kind, output="last_hidden_state"
        )
    )


def load_classifier(name: str, loading: Loading) -> TorchClassifier:
    """The classifier of this name.

    Raises:
        ModelError: there is no such model, it is not a classifier, or OpenVINO can't convert it.
    """
    resolved = _resolved(name, loading)
    return torch_classifier(name, on_cpu(loading)).computed_by(
        lambda module: OpenVINOModule(module, resolved, loading, kind="classifier", output="logits")
    )


def load_regressor(name: str, loading: Loading) -> TorchPairRegressor:
    """The regressor of this name.

    Raises:
        ModelError: there is no such model, it is no regressor, or OpenVINO can't convert it.
    """
    resolved = _resolved(name, loading)

    def engine(module: Any) -> OpenVINOModule:
        has_types = getattr(module.config, "type_vocab_size", 0) > 1
        return OpenVINOModule(
            module,
            resolved,
            loading,
            kind="regressor",
            output="logits",
            inputs=(*_READ, "token_type_ids") if has_types else _READ,
        )

    return torch_regressor(name, on_cpu(loading)).computed_by(engine)


def _resolved(name: str, loading: Loading) -> Resolved:
    return resolve(name, loading)
