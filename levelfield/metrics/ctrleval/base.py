"""The model of an aspect, and the scorer that reads it."""

from __future__ import annotations

import abc
import functools
from collections.abc import Mapping
from dataclasses import dataclass

from levelfield.core.errors import ModelError, UserError
from levelfield.metrics.sample_metric import SampleMetric
from levelfield.models.load import load
from levelfield.models.loading import Loading, LoadingOptions
from levelfield.models.resolve import OFFLINE_MODEL, Resolved, resolve
from levelfield.models.scorers import (
    EmbeddingScorer,
    InfillingScorer,
    Normalize,
    Patterns,
    Scorer,
)
from levelfield.models.tokens import AS_TEXT


@dataclass(frozen=True)
class CTRLEvalMetric(LoadingOptions, SampleMetric, abc.ABC):
    """Base of the aspects."""

    model: str = OFFLINE_MODEL
    normalize: Normalize = "tokens"
    patterns: Patterns = "infilling"

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
            **({"patterns": self.patterns, "normalize": self.normalize} if infills else AS_TEXT),
            **own,
            "dtype": self.dtype,
        }

    def _scorer(self) -> Scorer:
        return _scorer_of(self.model, self.loading, self._infills, self.patterns, self.normalize)


@functools.lru_cache(maxsize=4)
def _scorer_of(
    name: str, loading: Loading, infills: bool, patterns: Patterns, normalize: Normalize
) -> Scorer:
    """The scorer of these choices. A process keeps the last ones with their models: a scorer
    remembers embeddings of prompts, and word frequencies are cached by it."""
    if not infills:
        return EmbeddingScorer(load("encoder", name, loading))
    return InfillingScorer(load("infilling", name, loading), patterns, normalize)
