"""How a model is loaded: one value that travels from a metric's options to an engine."""

# Annotations stay objects here: subclasses of `LoadingOptions` live in modules that need not know
# the names in them, and options are read from annotations.

from dataclasses import dataclass
from typing import Literal

Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class Loading:
    """How a model is loaded.

    Attributes:
        device: `auto` (a GPU where there is one), `cpu`, `cuda`, `cuda:1` or `mps`.
        dtype: of the weights.
        batch_tokens: the most tokens in a batch, padding included; None leaves it to the engine.
        engine: what computes, by its name in `LOADERS` of models/load.py; `auto` is `torch`.
        allow_pickle: also loads weights that are pickled; unpickling can run any code.
    """

    device: str = "auto"
    dtype: Precision = "float32"
    batch_tokens: int | None = None
    engine: str = "auto"
    allow_pickle: bool = False


@dataclass(frozen=True, kw_only=True)
class LoadingOptions:
    """Base of metrics that have a model: the options that say how it is loaded."""

    device: str = "auto"
    dtype: Precision = "float32"
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
