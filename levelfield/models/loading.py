"""How a model is loaded: one value that travels from a metric's options to an engine."""

# Annotations stay objects here: subclasses of `LoadingOptions` live in modules that need not know
# the names in them, and options are read from annotations.

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from levelfield.core.errors import UserError
from levelfield.models.engines import REFERENCE, Kind, check_name, computation

Precision = Literal["float32", "bfloat16", "int8"]


@dataclass(frozen=True)
class Loading:
    """How a model is loaded.

    Attributes:
        device: `auto` (a GPU where there is one), `cpu`, `cuda`, `cuda:1`, `mps` or `xpu`.
        dtype: of the weights.
        batch_tokens: the most tokens in a batch, padding included; None leaves it to the engine.
        engine: what computes, by its name in `ENGINES` of models/engines.py; `auto` is `torch`. A
            model of a kind that it does not serve is computed by `torch`.
        allow_pickle: also loads weights that are pickled; unpickling can run any code.

    Raises:
        UserError: there is no device, precision or engine of such a name, or no batch of that
            size.
    """

    device: str = "auto"
    dtype: Precision = "float32"
    batch_tokens: int | None = None
    engine: str = "auto"
    allow_pickle: bool = False

    def __post_init__(self) -> None:
        if not _DEVICE.fullmatch(self.device):
            raise UserError(f"--device {self.device:.60}: expected auto, cpu, cuda, cuda:1 or mps")
        if self.batch_tokens is not None and self.batch_tokens < 1:
            raise UserError(f"batch_tokens={self.batch_tokens}: expected 1 or more")
        if self.dtype not in get_args(Precision):
            expected = ", ".join(get_args(Precision))
            raise UserError(f"--dtype {self.dtype:.60}: expected {expected}")
        check_name(self.engine)


_DEVICE = re.compile(r"auto|(cpu|cuda|mps|xpu)(:[0-9]{1,3})?")


@dataclass(frozen=True, kw_only=True)
class TorchOptions:
    """Base of techniques: the options that say how their models are loaded. They write with what is
    inside a model, which PyTorch alone shows."""

    device: str = "auto"
    dtype: Literal["float32", "bfloat16"] = "float32"
    batch_tokens: int | None = None
    allow_pickle: bool = False

    @property
    def loading(self) -> Loading:
        """The options as one value."""
        return Loading(
            device=self.device,
            dtype=self.dtype,
            batch_tokens=self.batch_tokens,
            allow_pickle=self.allow_pickle,
        )


@dataclass(frozen=True, kw_only=True)
class LoadingOptions:
    """Base of metrics that have a model: the options that say how it is loaded."""

    device: str = "auto"
    dtype: Precision = "float32"
    batch_tokens: int | None = None
    engine: str = "auto"
    allow_pickle: bool = False

    def kinds(self) -> tuple[Kind, ...]:
        """Returns the kinds of the models whose weights it loads."""
        return ()

    @property
    def computation(self) -> Mapping[str, str]:
        """What the signature says of how its models are computed.

        Raises:
            UserError: they can't be computed so on this machine.
        """
        check_name(self.engine)
        foreign = self.engine not in ("auto", REFERENCE)
        return computation(self.kinds() if foreign else (), self.engine, self.dtype)

    @property
    def loading(self) -> Loading:
        """The options as one value."""
        return Loading(
            device=self.device,
            dtype=self.dtype,
            batch_tokens=self.batch_tokens,
            engine=self.engine,
            allow_pickle=self.allow_pickle,
        )
