"""How human a text is to a classifier that was trained to tell human texts from negatives."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from levelfield.core.continuation import READING, Reading, continuation
from levelfield.core.errors import ModelError, UserError
from levelfield.core.options import option
from levelfield.core.sample import Sample
from levelfield.core.undefined import (
    EMPTY_TEXT,
    UNREADABLE,
    Undefined,
)
from levelfield.metrics.sample_metric import (
    ChoiceSignature,
    SampleMetric,
    SampleValue,
    map_defined,
)
from levelfield.models.contracts import Classifier
from levelfield.models.load import load
from levelfield.models.loading import LoadingOptions
from levelfield.models.resolve import OURS, Resolved, resolve
from levelfield.models.tokens import AS_TEXT

TURN_MARK = "</UTT>"
LABELS = {"negative", "positive"}
"""Of the models that `levelfield train discriminator` makes."""


@dataclass(frozen=True)
class DiscriminatorScore(LoadingOptions, ChoiceSignature, SampleMetric):
    """P(positive | text) of a discriminator, a classifier trained on human texts and negatives.

    What it measures is what the negatives lack: with negatives from a contrast of two models it is
    generative CDM (Lu et al. 2024, "Open-Domain Text Evaluation via Contrastive Distribution
    Methods", Algorithm 1), with negatives from perturbations it is in the manner of UNION, one of
    the baselines of CTRLEval's section 4.3. In [0, 1], higher is better. A text longer than the
    model was trained for is judged by the part that training kept, and counts as truncated.

    Undefined: `empty text`; nothing in the text that the model can read; with text=continuation
    `no prompt`, `prompt is not a prefix of the text` and `nothing after the prompt`.
    """

    model: str = option(
        "",
        "Folder that `levelfield train discriminator` made; there is no default.",
        metavar="FOLDER",
    )
    value: Literal["probability", "logit"] = option(
        "probability",
        "Value to report: the probability, or the logit log P(positive) − log P(negative), which "
        "still tells texts apart whose probabilities are all but 0 or 1.",
    )
    text: Reading = READING
    task: Literal["text", "dialogue"] = option(
        "text",
        "Read the text alone, or a dialogue: the turns of `context` with the text as the last one, "
        "one turn per line; without context the text is a whole dialogue, whose turns are lines "
        "or separated by `</UTT>`.",
    )

    name: ClassVar[str] = "discriminator.score"
    requires: ClassVar[frozenset[str]] = frozenset({"text"})
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.text == "continuation" and self.task == "dialogue":
            raise UserError("text=continuation requires task=text: a turn continues no prompt")
        if self.text == "continuation":
            object.__setattr__(self, "requires", frozenset({"text", "prompt"}))
        if self.task == "dialogue":
            object.__setattr__(self, "reads", frozenset({"context"}))

    def _choices(self) -> Mapping[str, object]:
        return {
            "model": self._resolved().label,
            "value": self.value,
            "text": self.text,
            "task": self.task,
            **AS_TEXT,
        }

    def _resolved(self) -> Resolved:
        if not self.model.strip():
            raise UserError(
                f"{self.name} needs a discriminator: --option model=FOLDER; make negatives with "
                "`levelfield train perturb` and the model with `levelfield train discriminator`"
            )
        return resolve(self.model, self.loading)

    @functools.cached_property
    def _classifier(self) -> Classifier:
        resolved = self._resolved()
        classifier = load("classifier", self.model, self.loading)
        if set(classifier.labels) != LABELS or resolved.model_type in OURS:
            raise ModelError(
                f"model '{self.model}' is not a discriminator: its labels are "
                f"{', '.join(classifier.labels)}, expected negative and positive; "
                "`levelfield train discriminator` makes one"
            )
        return classifier

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        return map_defined((self._text(sample) for sample in samples), self._values)

    def _values(self, texts: Sequence[str]) -> list[SampleValue | Undefined]:
        p, cut = self._classifier.probabilities(texts)
        positive = self._classifier.labels.index("positive")
        value = (
            np.log(p[:, positive]) - np.log(p[:, 1 - positive])
            if self.value == "logit"
            else p[:, positive]
        )
        return [
            Undefined(UNREADABLE) if math.isnan(score) else SampleValue(score, (), less)
            for score, less in zip(value.tolist(), cut.tolist(), strict=True)
        ]

    def _text(self, sample: Sample) -> str | Undefined:
        """Returns the text that the model reads of a sample."""
        text = sample.text
        if not text.strip():
            return Undefined(EMPTY_TEXT)
        if self.task == "dialogue":
            turns = [*sample.context, text]
            parts = (part.strip() for turn in turns for part in turn.split(TURN_MARK))
            dialogue = "\n".join(part for part in parts if part)
            return dialogue or Undefined(EMPTY_TEXT)
        if self.text == "whole":
            return text.strip()
        rest = continuation(sample)
        return rest if isinstance(rest, Undefined) else rest.strip()
