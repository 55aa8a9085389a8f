"""What metrics that ask an encoder-decoder model have in common: its options, and its scores."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.errors import ModelError
from levelfield.core.undefined import PROBABILITIES_NOT_NUMBERS, UNREADABLE
from levelfield.metrics.sample_metric import SampleMetric
from levelfield.models.resolve import Resolved, resolve

if TYPE_CHECKING:
    from levelfield.models.torch.infilling import TorchInfillingModel


@dataclass(frozen=True)
class Seq2SeqMetric(SampleMetric, abc.ABC):
    """A metric of single samples with an encoder-decoder model behind it."""

    model: str
    device: str = "auto"
    dtype: Literal["float32", "bfloat16"] = "float32"
    batch_tokens: int | None = None
    allow_pickle: bool = False

    @property
    def _resolved(self) -> Resolved:
        found = resolve(self.model, allow_pickle=self.allow_pickle)
        if found.kind != "encoder-decoder":
            raise ModelError(
                f"model '{self.model}' is a {found.kind} model; {self.name} needs an "
                "encoder-decoder, for example facebook/bart-large-cnn; give --model NAME"
            )
        return found

    def _seq2seq(self) -> TorchInfillingModel:
        """The model for sources without gaps."""
        from levelfield.models.torch.infilling import load_seq2seq

        return load_seq2seq(
            self.model,
            device=self.device,
            dtype=self.dtype,
            allow_pickle=self.allow_pickle,
            batch_tokens=self.batch_tokens,
        )


def unfit(log_p: Floats) -> str:
    """Why the log-probabilities of a target's tokens give no value; empty if they do."""
    if not log_p.size:
        return UNREADABLE
    return PROBABILITIES_NOT_NUMBERS if np.isnan(log_p).any() else ""
