"""How a model is loaded: one value that travels from a metric's options to an engine.

A new engine is a folder beside `torch/`, an entry in `ENGINES`, and one in `LOADERS` for each kind
that it serves. `load` compares the first numbers of every engine but PyTorch with PyTorch's
(`check.py`), so a loader has no check of its own.
"""

from __future__ import annotations

import contextlib
import importlib.util

# Annotations stay objects here: subclasses of `LoadingOptions` live in modules that need not know
# the names in them, and options are read from annotations.
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from levelfield.core.errors import LevelfieldError, ModelError, UserError, first_line, with_extra
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
_OPENVINO = "levelfield.models.openvino"
LOADERS: dict[tuple[Kind, str], Loader] = {
    ("infilling", "torch"): f"{_TORCH}.infilling:load_infilling",
    ("encoder-decoder", "torch"): f"{_TORCH}.infilling:load_encoder_decoder",
    ("causal", "torch"): f"{_TORCH}.causal:load_causal",
    ("causal-tokens", "torch"): "levelfield.models.causal_tokens:load_causal_tokens",
    ("encoder", "torch"): f"{_TORCH}.encoder:load_encoder",
    ("states", "torch"): f"{_TORCH}.states:load_states",
    ("classifier", "torch"): f"{_TORCH}.classifier:load_classifier",
    ("regressor", "torch"): f"{_TORCH}.classifier:load_regressor",
    ("choices", "torch"): f"{_TORCH}.choices:load_choices",
    ("infilling", "openvino"): f"{_OPENVINO}.likelihood:load_infilling",
    ("encoder-decoder", "openvino"): f"{_OPENVINO}.likelihood:load_encoder_decoder",
    ("causal", "openvino"): f"{_OPENVINO}.likelihood:load_causal",
    ("encoder", "openvino"): f"{_OPENVINO}:load_encoder",
    ("states", "openvino"): f"{_OPENVINO}:load_states",
    ("classifier", "openvino"): f"{_OPENVINO}:load_classifier",
    ("regressor", "openvino"): f"{_OPENVINO}:load_regressor",
}


@dataclass(frozen=True)
class Engine:
    """What computes models.

    Attributes:
        precisions: the values of `dtype` that it has.
        module: what it imports; empty where every installation has it.
    """

    precisions: tuple[str, ...]
    module: str = ""


REFERENCE = "torch"
"""The engine that computes what no other serves, and that the others are compared with."""

ENGINES: dict[str, Engine] = {
    REFERENCE: Engine(("float32", "bfloat16")),
    "openvino": Engine(("float32", "bfloat16"), "openvino"),
}
"""Engines by name. The extra that installs one has its name."""


def engine_of(kind: Kind, engine: str) -> str:
    """Returns the engine that computes models of a kind where the user names this one: itself if it
    serves the kind, else PyTorch."""
    return engine if (kind, engine) in LOADERS else REFERENCE


def check_usable(loading: Loading) -> None:
    """Checks that the engine has the precision and is installed.

    Raises:
        UserError: it does not have the precision.
        ModelError: it is not installed.
    """
    engine, dtype = loading.engine, loading.dtype
    precisions = ENGINES[engine].precisions
    if dtype not in precisions:
        having = [name for name, other in ENGINES.items() if dtype in other.precisions]
        others = f"; --engine {' or '.join(having)} has it" if having else ""
        raise UserError(
            f"--dtype {dtype}: engine {engine}, which would compute here, has "
            f"{' and '.join(precisions)}{others}"
        )
    module = ENGINES[engine].module
    if module and importlib.util.find_spec(module) is None:
        raise ModelError(
            f"engine {engine} is not installed: {with_extra(engine)}; --engine torch needs nothing "
            "else"
        )


def computation(kinds: tuple[Kind, ...], loading: Loading) -> Mapping[str, str]:
    """Returns what signatures say of how models of these kinds are computed: the precision, and the
    engine where one computes that is not PyTorch.

    Raises:
        UserError: an engine that computes one of them can't with this precision, or is not
            installed.

    >>> from levelfield.models.loading import Loading
    >>> computation(["encoder"], Loading())
    {'dtype': 'float32'}
    """
    names = {engine_of(kind, loading.engine) for kind in kinds} or {REFERENCE}
    for name in sorted(names):
        check_usable(loading.replace(engine=name))
    others = names - {REFERENCE}
    return {"dtype": loading.dtype, **({"engine": others.pop()} if others else {})}


def kinds_of(engine: str) -> list[Kind]:
    """Returns the kinds of models that an engine serves."""
    return [kind for kind, name in LOADERS if name == engine]


Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class Loading(Options):
    """How a model is loaded.

    Raises:
        UserError: there is no device, precision or engine of such a name, or no batch of that
            size.
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
        otherwise="what the engine chooses", metavar="N",
    )  # fmt: skip
    engine: str = option(
        "auto",
        "Engine that computes: torch (auto) or openvino. Models of a kind that it does not serve "
        "are computed by torch.",
        among=lambda: ("auto", *ENGINES),
        removed={
            "ctranslate2": "engine ctranslate2 was removed; use --engine openvino, which serves "
            "the same models"
        },
        metavar="NAME",
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

    def kinds(self) -> tuple[Kind, ...]:
        """Returns the kinds of the models whose weights it loads."""
        return ()

    @property
    def computation(self) -> Mapping[str, str]:
        """What the signature says of how its models are computed.

        Raises:
            UserError: they can't be computed so on this machine.
        """
        foreign = self.loading.engine not in ("auto", REFERENCE)
        return computation(self.kinds() if foreign else (), self.loading)


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
