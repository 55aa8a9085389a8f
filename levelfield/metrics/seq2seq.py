"""What metrics that ask an encoder-decoder model have in common: its options, and its scores."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from levelfield.errors import ModelError
from levelfield.metric import Level, Progress, no_progress, partitions
from levelfield.metrics.ctrleval import UNREADABLE, Outcome, Undefined
from levelfield.metrics.fluency import NOT_NUMBERS
from levelfield.models.resolve import Resolved, resolve
from levelfield.sample import Sample
from levelfield.scores import PARTS_SCHEMA, Scores, concatenate

if TYPE_CHECKING:
    from levelfield.models.infilling import TorchInfillingModel

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Seq2SeqMetric(abc.ABC):
    """A metric of single samples with an encoder-decoder model behind it."""

    model: str
    device: str = "auto"
    dtype: Literal["float32", "bfloat16"] = "float32"
    batch_tokens: int | None = None
    allow_pickle: bool = False

    name: ClassVar[str]
    level: ClassVar[Level] = "sample"

    @property
    @abc.abstractmethod
    def signature(self) -> str:
        """Every choice that could change a value."""

    @property
    @abc.abstractmethod
    def higher_is_better(self) -> bool: ...

    @abc.abstractmethod
    def _outcomes(self, samples: Sequence[Sample]) -> list[Outcome | Undefined]:
        """What comes out for each of these samples."""

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
        from levelfield.models.infilling import load_seq2seq

        return load_seq2seq(
            self.model,
            device=self.device,
            dtype=self.dtype,
            allow_pickle=self.allow_pickle,
            batch_tokens=self.batch_tokens,
        )

    def score(self, samples: Sequence[Sample], *, progress: Progress = no_progress) -> Scores:
        """The values of these samples, undefined ones with their reasons, and their parts."""
        scored = [self._scores(())]
        for partition in partitions(samples):
            scored.append(self._scores(partition))
            progress(len(partition))
        return concatenate(scored)

    def _scores(self, samples: Sequence[Sample]) -> Scores:
        found = list(zip(samples, self._outcomes(samples) if samples else (), strict=True))
        defined = [(sample.id, o) for sample, o in found if isinstance(o, Outcome)]
        rows = [(id, *part) for id, outcome in defined for part in outcome.parts]
        return Scores(
            metric=self.name,
            ids=tuple(sample.id for sample in samples),
            values=np.array(
                [o.value if isinstance(o, Outcome) else np.nan for _, o in found], np.float64
            ),
            undefined={sample.id: o.reason for sample, o in found if isinstance(o, Undefined)},
            signature=self.signature,
            higher_is_better=self.higher_is_better,
            parts=pl.DataFrame(rows, schema=PARTS_SCHEMA, orient="row"),
            truncated=frozenset(id for id, outcome in defined if outcome.cut),
        )


def unfit(log_p: Floats) -> str:
    """Why the log-probabilities of a target's tokens give no value; empty if they do."""
    if not log_p.size:
        return UNREADABLE
    return NOT_NUMBERS if np.isnan(log_p).any() else ""
