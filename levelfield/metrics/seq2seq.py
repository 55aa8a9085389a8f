"""Base of metrics that ask an encoder-decoder model: its options, and its scores."""

from __future__ import annotations

import abc
from dataclasses import dataclass

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.errors import ModelError
from levelfield.core.options import option
from levelfield.core.undefined import PROBABILITIES_NOT_NUMBERS, UNREADABLE
from levelfield.metrics.sample_metric import ChoiceSignature, SampleMetric
from levelfield.models.contracts import EncoderDecoderModel
from levelfield.models.load import load
from levelfield.models.loading import LoadingOptions
from levelfield.models.resolve import Resolved, resolve


@dataclass(frozen=True)
class Seq2SeqMetric(LoadingOptions, ChoiceSignature, SampleMetric, abc.ABC):
    """A metric of single samples that asks an encoder-decoder model."""

    model: str = option(help="Encoder-decoder model: a hub name or a folder.", positional=True)

    @property
    def _resolved(self) -> Resolved:
        resolved = resolve(self.model, self.loading)
        if resolved.kind != "encoder-decoder":
            raise ModelError(
                f"model '{self.model}' is a {resolved.kind} model; {self.name} needs an "
                "encoder-decoder, for example facebook/bart-large-cnn; give --model NAME"
            )
        return resolved

    def _seq2seq(self) -> EncoderDecoderModel:
        """Returns the model for sources without gaps."""
        return load("encoder-decoder", self.model, self.loading)


def unfit(log_p: Floats) -> str:
    """Returns why the log-probabilities of a target give no value; empty if they do."""
    if not log_p.size:
        return UNREADABLE
    return PROBABILITIES_NOT_NUMBERS if np.isnan(log_p).any() else ""
