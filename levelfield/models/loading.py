"""How a model is loaded: one value that travels from a metric's options to what loads it."""

from __future__ import annotations

import contextlib

# Annotations stay objects here: subclasses of `LoadingOptions` live in modules that need not know
# the names in them, and options are read from annotations.
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from levelfield.core.errors import LevelfieldError, ModelError, first_line
from levelfield.core.options import Options, group, option

Kind = Literal[
    "infilling",
    "encoder-decoder",
    "causal",
    "causal-tokens",
    "encoder",
    "states",
    "classifier",
    "regressor",
    "choices",
]
"""A contract each, as the overloads of `load` say."""

Loader = str | Callable[..., Any]
"""Makes a model from `(name, loading, **options)`; `MODULE:FUNCTION` is imported at first use."""

_TORCH = "levelfield.models.torch"
LOADERS: dict[Kind, Loader] = {
    "infilling": f"{_TORCH}.infilling:load_infilling",
    "encoder-decoder": f"{_TORCH}.infilling:load_encoder_decoder",
    "causal": f"{_TORCH}.causal:load_causal",
    "causal-tokens": "levelfield.models.causal_tokens:load_causal_tokens",
    "encoder": f"{_TORCH}.encoder:load_encoder",
    "states": f"{_TORCH}.states:load_states",
    "classifier": f"{_TORCH}.classifier:load_classifier",
    "regressor": f"{_TORCH}.classifier:load_regressor",
    "choices": f"{_TORCH}.choices:load_choices",
}
"""What loads models of a kind."""

Precision = Literal["float32", "bfloat16"]

_REMOVED = ("openvino", "ctranslate2")
_INSTEAD = (
    "leave --engine out, and use --dtype bfloat16 on a processor with avx512_bf16 (`lscpu` lists "
    "it), or --workers auto"
)


@dataclass(frozen=True)
class Loading(Options):
    """How a model is loaded.

    Raises:
        UserError: a device, precision or engine is unknown, or the batch size is not valid.
    """

    device: str = option(
        "auto",
        "Device that computes: auto (a GPU if there is one), cpu, cuda, cuda:1, mps or xpu.",
        fits=re.compile(r"auto|(cpu|cuda|mps|xpu)(:[0-9]{1,3})?").fullmatch,
        expected="auto, cpu, cuda, cuda:1, mps or xpu",
        metavar="NAME",
    )
    dtype: Precision = option("float32", "Precision of the weights.")
    batch_tokens: int | None = option(
        None, "Maximum number of tokens in a batch, including padding; limits memory use.", least=1,
        otherwise="what suits the device", metavar="N",
    )  # fmt: skip
    engine: Literal["auto", "torch"] = option(
        "auto",
        "Engine that computes: PyTorch, whichever of the two names it has.",
        removed={engine: f"engine {engine} was removed; {_INSTEAD}" for engine in _REMOVED},
    )
    allow_pickle: bool = option(
        False, "Accept models whose weights are pickled; unpickling can run arbitrary code."
    )


AS_USUAL = Loading()
"""How models are loaded unless the user says otherwise."""


@dataclass(frozen=True, kw_only=True)
class TorchOptions(Options):
    """Base of techniques. They write with what is inside a model, which PyTorch alone shows."""

    loading: Loading = group(
        AS_USUAL, without=("engine",), among={"dtype": ("float32", "bfloat16")}
    )


@dataclass(frozen=True, kw_only=True)
class LoadingOptions(Options):
    """Base of metrics that have a model."""

    loading: Loading = group(AS_USUAL)

    @property
    def computation(self) -> Mapping[str, str]:
        """What the signature says of how its models are computed."""
        return {"dtype": self.loading.dtype}


def quiet() -> None:
    """Switches off the progress bars and reports of `transformers`: commands show their own, and
    loaders raise what is wrong."""
    from transformers.utils import logging

    disable: Callable[[], None] = logging.disable_progress_bar
    disable()
    silence: Callable[[], None] = logging.set_verbosity_error
    silence()


@contextlib.contextmanager
def reading(name: str) -> Iterator[None]:
    """Turns whatever is raised while a model's files are read into an error of ours.

    Libraries raise anything on files that are damaged.

    Raises:
        ModelError: names the model and the first line of the error.
    """
    try:
        yield
    except (LevelfieldError, MemoryError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # the panic of a library in Rust is not an Exception
        first = first_line(error)
        if isinstance(error, KeyError):
            first = f"{first} is missing"
        raise ModelError(f"model '{name}' can't be loaded: {first}") from error
