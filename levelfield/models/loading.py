"""How a model is loaded: one value that travels from a metric's options to an engine."""

# Annotations stay objects here: subclasses of `LoadingOptions` live in modules that need not know
# the names in them, and options are read from annotations.

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from levelfield.core.options import Options, group, option
from levelfield.models.engines import ENGINES, REFERENCE, Kind, computation

Precision = Literal["float32", "bfloat16", "int8"]


@dataclass(frozen=True)
class Loading(Options):
    """How a model is loaded.

    Raises:
        UserError: there is no device, precision or engine of such a name, or no batch of that
            size.
    """

    device: str = option(
        "auto",
        "Device that computes: auto (a GPU where there is one), cpu, cuda, cuda:1, mps or xpu.",
        fits=re.compile(r"auto|(cpu|cuda|mps|xpu)(:[0-9]{1,3})?").fullmatch,
        expected="auto, cpu, cuda, cuda:1, mps or xpu",
        metavar="NAME",
    )
    dtype: Precision = option(
        "float32", "Precision of the weights; int8 requires an engine that has it."
    )
    batch_tokens: int | None = option(
        None, "Most tokens in a batch, padding included; bounds memory.", least=1,
        otherwise="what the engine chooses", metavar="N",
    )  # fmt: skip
    engine: str = option(
        "auto",
        "Engine that computes: torch (auto), openvino or ctranslate2. Models of a kind that it "
        "does not serve are computed by torch.",
        among=lambda: ("auto", *ENGINES),
        metavar="NAME",
    )
    allow_pickle: bool = option(
        False, "Accept models whose weights are pickled; unpickling can run any code."
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
