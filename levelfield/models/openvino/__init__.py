"""Models in OpenVINO: the forward pass of every kind of model on Intel and other CPUs.

Each class is PyTorch's with another forward pass, so tokens, batches, pooling and what is cut are
the same by construction. Models that give log-probabilities of tokens are in `likelihood`.
"""

from __future__ import annotations

import functools
import importlib.metadata
import logging
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import openvino
import torch
from openvino.frontend import OpConversionFailure

from levelfield.core.errors import ModelError, UserError
from levelfield.core.machine import model_threads
from levelfield.models.converted import conversion
from levelfield.models.loading import Loading, reading
from levelfield.models.resolve import Resolved, resolve
from levelfield.models.torch.classifier import TorchClassifier, TorchPairRegressor
from levelfield.models.torch.classifier import load_classifier as torch_classifier
from levelfield.models.torch.classifier import load_regressor as torch_regressor
from levelfield.models.torch.encoder import TorchSentenceEncoder
from levelfield.models.torch.encoder import load_encoder as torch_encoder
from levelfield.models.torch.states import TorchTokenEncoder
from levelfield.models.torch.states import load_states as torch_states

VERSION = 1
"""Counts up when a conversion would have other bytes. Until then older ones are read,
also by tests, which keep theirs in `.pytest_cache`."""

_MODEL = "model.xml"
_PRECISIONS = {"float32": "f32", "bfloat16": "bf16"}

Tensors = Mapping[str, torch.Tensor]
Forward = Callable[[Tensors], dict[str, torch.Tensor]]


def on_cpu(loading: Loading) -> Loading:
    """Returns how the module to convert is loaded.

    Raises:
        UserError: the user names another device, or a precision that this processor does not have.
    """
    if loading.device not in ("auto", "cpu"):
        raise UserError(
            f"--device {loading.device}: engine openvino computes on the CPU; leave the device "
            "out, or use --engine torch"
        )
    if loading.dtype == "bfloat16" and "BF16" not in _core().get_property(
        "CPU", "OPTIMIZATION_CAPABILITIES"
    ):
        raise UserError(
            "--dtype bfloat16: this processor has no arithmetic for it, and OpenVINO would compute "
            "in float32; leave it out"
        )
    return loading.replace(device="cpu", dtype="float32", engine="auto")


def forward_of(
    module: Callable[[Tensors], Sequence[torch.Tensor]],
    resolved: Resolved,
    loading: Loading,
    *,
    kind: str,
    example: Tensors,
    outputs: Sequence[str],
) -> Forward:
    """Returns what computes as a module does, in OpenVINO.

    Args:
        module: gives the outputs for the inputs, which may have any sizes.
        resolved: the model that it is the forward pass of.
        loading: how it is computed.
        kind: tells the passes of one model apart.
        example: inputs by name, no size of which is 1.
        outputs: their names, in order.

    Raises:
        ModelError: OpenVINO can't convert it, or there is no room for the conversion.
    """

    def write(folder: Path) -> None:
        openvino.save_model(
            _converted(resolved.name, module, example, outputs),
            folder / _MODEL,
            compress_to_fp16=False,
        )

    made_by = ("openvino", importlib.metadata.version("openvino"), kind, "float32", str(VERSION))
    with reading(resolved.name):
        folder = conversion(resolved.name, resolved.revision, made_by, write)
        settings = {
            "INFERENCE_PRECISION_HINT": _PRECISIONS[loading.dtype],
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": model_threads(),
            # workers beside each other would share the first processors
            "ENABLE_CPU_PINNING": False,
        }
        compiled = _core().compile_model(folder / _MODEL, "CPU", settings)
    request = compiled.create_infer_request()

    def forward(tensors: Tensors) -> dict[str, torch.Tensor]:
        results = request.infer({name: tensors[name].numpy() for name in example})
        return {name: torch.from_numpy(results[name]) for name in outputs}

    return forward


@functools.cache
def _core() -> Any:
    return openvino.Core()


_LACKING = re.compile(r"No conversion rule found for operations: (.+)")


def _converted(
    name: str,
    module: Callable[[Tensors], Sequence[torch.Tensor]],
    example: Tensors,
    outputs: Sequence[str],
) -> Any:
    """Returns the module as a model of OpenVINO that takes inputs of any sizes.

    Raises:
        ModelError: it has an operation that OpenVINO lacks.
    """
    quiet = logging.getLogger("openvino")
    level = quiet.level
    quiet.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), torch.inference_mode():
            warnings.simplefilter("ignore")  # of branches that do not depend on the texts
            model = openvino.convert_model(
                _Traced(module, list(example)), example_input=tuple(example.values())
            )
    except OpConversionFailure as error:
        lacking = _LACKING.search(str(error))
        raise ModelError(
            f"model '{name}': OpenVINO can't convert it"
            f"{f' (it lacks {lacking[1]})' if lacking else ''}; use --engine torch"
        ) from error
    finally:
        quiet.setLevel(level)
    for ports, names in ((model.inputs, example), (model.outputs, outputs)):
        for port, name in zip(ports, names, strict=True):
            port.get_tensor().set_names({name})
    return model


class _Traced(torch.nn.Module):
    """A module whose inputs come in order, as tracing gives them."""

    def __init__(
        self, module: Callable[[Tensors], Sequence[torch.Tensor]], inputs: Sequence[str]
    ) -> None:
        super().__init__()
        self._call = module
        self._inputs = inputs

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(self._call(dict(zip(self._inputs, tensors, strict=True))))


_READ = ("input_ids", "attention_mask")


def texts(inputs: Sequence[str] = _READ) -> dict[str, torch.Tensor]:
    """Returns an example of two texts, one of which is padded: (2, 8) each."""
    example = {name: torch.ones(2, 8, dtype=torch.long) for name in inputs}
    example["attention_mask"][1, 5:] = 0  # a mask without a zero may be left out by a module
    return example


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
            example=texts(inputs),
            outputs=(output,),
        )

    def __call__(self, **tensors: torch.Tensor) -> SimpleNamespace:
        return SimpleNamespace(**self._forward(tensors))

    def get_input_embeddings(self) -> torch.nn.Module:
        """Returns the module's table of input embeddings."""
        table: torch.nn.Module = self._table
        return table


def load_encoder(name: str, loading: Loading) -> TorchSentenceEncoder:
    """Returns the encoder of this name.

    Raises:
        ModelError: there is no such model, it is not an encoder, or OpenVINO can't convert it.
    """
    resolved = resolve(name, loading)

    def engine(module: Any) -> Forward:
        if isinstance(module, torch.nn.Module):
            module.requires_grad_(False)

        def call(features: Tensors) -> list[torch.Tensor]:
            embeddings = module(dict(features))
            return [embeddings[output] for output in _EMBEDDINGS]

        return forward_of(
            call, resolved, loading, kind="encoder", example=texts(), outputs=_EMBEDDINGS
        )

    return torch_encoder(name, on_cpu(loading)).computed_by(engine)


def load_states(name: str, loading: Loading, *, layer: int) -> TorchTokenEncoder:
    """Returns the states of this model after a layer.

    Raises:
        ModelError: there is no such model, it has no encoder, or OpenVINO can't convert it.
        UserError: it has no such layer.
    """
    resolved, kind = resolve(name, loading), f"states{layer}"
    return torch_states(name, on_cpu(loading), layer=layer).computed_by(
        lambda module: OpenVINOModule(
            module, resolved, loading, kind=kind, output="last_hidden_state"
        )
    )


def load_classifier(name: str, loading: Loading) -> TorchClassifier:
    """Returns the classifier of this name.

    Raises:
        ModelError: there is no such model, it is not a classifier, or OpenVINO can't convert it.
    """
    resolved = resolve(name, loading)
    return torch_classifier(name, on_cpu(loading)).computed_by(
        lambda module: OpenVINOModule(module, resolved, loading, kind="classifier", output="logits")
    )


def load_regressor(name: str, loading: Loading) -> TorchPairRegressor:
    """Returns the regressor of this name.

    Raises:
        ModelError: there is no such model, it is no regressor, or OpenVINO can't convert it.
    """
    resolved = resolve(name, loading)

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
