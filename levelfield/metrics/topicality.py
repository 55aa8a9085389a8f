"""Whether what follows a prompt belongs to it, by a head that learnt true continuations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from levelfield.core.continuation import continuation
from levelfield.core.errors import ModelError
from levelfield.core.options import option
from levelfield.core.sample import Sample
from levelfield.core.undefined import UNREADABLE, Undefined
from levelfield.metrics.sample_metric import (
    ChoiceSignature,
    SampleMetric,
    SampleValue,
    map_defined,
)
from levelfield.models.load import load
from levelfield.models.loading import LoadingOptions
from levelfield.models.resolve import CONTINUATION, Resolved, resolve


@dataclass(frozen=True)
class TopicalityProbability(LoadingOptions, ChoiceSignature, SampleMetric):
    """P(the continuation belongs to its prompt), by a linear head on a causal model's states.

    P = σ(w · h + b), with h the mean of the states of the continuation's tokens, read after the
    prompt, concatenated over several layers. The head was trained to distinguish passages that
    people wrote from the same prompts with what follows another prompt of the same kind of text, as
    many of each, so 0.5 is chance. In [0, 1], higher is better. It was trained on no model's texts
    and on no ratings.

    White space between prompt and continuation belongs to the continuation. If a continuation is
    longer than half of the model's limit, its beginning is read, and the text counts as truncated;
    of a longer prompt, the end is read.

    Undefined: `empty text`; `no prompt`; `prompt is not a prefix of the text`; `nothing after the
    prompt`; nothing in the continuation that the model can read.
    """

    model: str = option(
        "offline/continuation",
        "Head of continuations: offline/continuation, which works without a network on "
        "offline/smollm2, or a folder.",
    )

    name: ClassVar[str] = "topicality.probability"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "prompt"})

    def _choices(self) -> Mapping[str, object]:
        return {"model": self._resolved().label}

    def _resolved(self) -> Resolved:
        resolved = resolve(self.model, self.loading)
        if resolved.model_type != CONTINUATION:
            raise ModelError(
                f"model '{self.model}' is not a head of continuations; {self.name} needs one, such "
                "as "
                "offline/continuation"
            )
        return resolved

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        return map_defined(map(_pair, samples), self._values)

    def _values(self, pairs: Sequence[tuple[str, str]]) -> list[SampleValue | Undefined]:
        _ = self._resolved()
        p, cut = load("regressor", self.model, self.loading).values(pairs)
        return [
            Undefined(UNREADABLE) if np.isnan(value) else SampleValue(value, (), less)
            for value, less in zip(p.tolist(), cut.tolist(), strict=True)
        ]


def _pair(sample: Sample) -> tuple[str, str] | Undefined:
    rest = continuation(sample)
    if isinstance(rest, Undefined):
        return rest
    prompt = sample.prompt.rstrip()
    return prompt, sample.text[len(prompt) :]
