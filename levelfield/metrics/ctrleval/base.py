"""The model of an aspect, and the scorer that reads it."""

from __future__ import annotations

import abc
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from levelfield.core.errors import ModelError, UserError
from levelfield.metrics.sample_metric import SampleMetric
from levelfield.models.load import load
from levelfield.models.loading import LoadingOptions
from levelfield.models.resolve import OFFLINE_MODEL, Resolved, resolve
from levelfield.models.scorers import (
    EmbeddingScorer,
    InfillingScorer,
    Scorer,
)


@dataclass(frozen=True)
class CTRLEvalMetric(LoadingOptions, SampleMetric, abc.ABC):
    """Base of the aspects."""

    model: str = OFFLINE_MODEL
    normalize: Literal["tokens", "none"] = "tokens"
    patterns: Literal["infilling", "ppl-gpt", "bartscore"] = "infilling"

    @property
    def _resolved(self) -> Resolved:
        return resolve(self.model, allow_pickle=self.allow_pickle)

    @property
    def _infills(self) -> bool:
        """Whether the model fills gaps; otherwise it embeds."""
        resolved = self._resolved
        if resolved.kind not in ("encoder-decoder", "encoder"):
            raise ModelError(
                f"model '{self.model}' is a {resolved.kind} model; CTRLEval needs an "
                "encoder-decoder model that fills gaps (PEGASUS, T5, BART) or an encoder"
            )
        if resolved.kind == "encoder" and self.patterns != "infilling":
            raise UserError(f"patterns={self.patterns} needs an encoder-decoder model")
        return resolved.kind == "encoder-decoder"

    def _choices(self, own: Mapping[str, object]) -> dict[str, object]:
        infills = self._infills
        return {
            "model": self._resolved.label,
            "scorer": "infilling" if infills else "embedding",
            **({"patterns": self.patterns, "normalize": self.normalize} if infills else {}),
            **own,
            "dtype": self.dtype,
        }

    def _scorer(self) -> Scorer:
        if not self._infills:
            return _embedding_scorer(load("encoder", self.model, self.loading))
        model = load("infilling", self.model, self.loading)
        return _infilling_scorer(model, self.patterns, self.normalize)


# one scorer a model: it remembers embeddings of prompts, and frequencies are cached by it
_embedding_scorer = functools.lru_cache(maxsize=4)(EmbeddingScorer)
_infilling_scorer = functools.lru_cache(maxsize=4)(InfillingScorer)
