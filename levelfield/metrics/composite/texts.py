"""Composite coherence and consistency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from levelfield.core.sample import Sample
from levelfield.core.undefined import Undefined
from levelfield.metrics.composite.base import CompositeMetric, composite_values
from levelfield.metrics.composite.components import Component
from levelfield.metrics.ctrleval import CTRLEvalCoherence, CTRLEvalConsistency
from levelfield.metrics.ctrleval.patterns import PROMPT_MATCH
from levelfield.metrics.sample_metric import SampleValue
from levelfield.metrics.text.segmenter import LANGUAGE


@dataclass(frozen=True)
class CompositeCoherence(CompositeMetric):
    """Coherence from an encoder and a causal language model: 0 is the average reference text.

    S = (1/3) Σ_k (x_k − μ_k) / σ_k, over
        embedding: ctrleval.coherence with the encoder;
        share: ctrleval.coherence with the causal model, form=share: the share of the sentences'
            surprisal that goes when they are read together;
        log-p: the same with form=log-p: the mean log-probability of the text's tokens.
    μ_k and σ_k are the mean and the standard deviation of x_k on reference text, half of it intact
    and half degraded on purpose. The parts are the standard scores, which mean: so many standard
    deviations above the average. Unbounded; higher is better.

    Undefined: where a part is: `empty text`, `one sentence only`, a text that a model can't read.
    The reason names the parts where they differ.

    Ke et al. 2022, "CTRLEval", section 3.2.1; Watanabe 1960, "Information theoretical analysis of
    multivariate correlation".
    """

    language: str = LANGUAGE

    name: ClassVar[str] = "composite.coherence"
    requires: ClassVar[frozenset[str]] = frozenset({"text"})

    def components(self) -> list[Component]:
        return [
            Component(one, CTRLEvalCoherence(language=self.language, **self._options(one)))
            for one in self._ingredients
        ]

    def _own(self) -> Mapping[str, object]:
        return {"segmenter": f"punkt-{self.language}"}

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        return composite_values(samples, self._standard_parts[""])


@dataclass(frozen=True)
class CompositeConsistency(CompositeMetric):
    """Consistency from an encoder and a causal language model: 0 is the average reference text.

    S = (1/3) Σ_k (x_k − μ_k) / σ_k, over
        embedding: ctrleval.consistency with the encoder;
        share: ctrleval.consistency with the causal model, form=share: the share of the surprisal of
            what follows the prompt that goes when the prompt is read before it;
        log-p: the same with form=log-p: the mean log-probability of the tokens after the prompt,
            given the prompt.
    Scales and parts are as for composite.coherence.

    Undefined: where a part is: `empty text`, `no prompt`, `prompt is not a prefix of the text`,
    `nothing after the prompt`, a text that a model can't read. The reason names the parts where
    they differ.

    Ke et al. 2022, "CTRLEval", section 3.2.2.
    """

    match: Literal["exact", "loose"] = PROMPT_MATCH

    name: ClassVar[str] = "composite.consistency"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "prompt"})

    def components(self) -> list[Component]:
        return [
            Component(one, CTRLEvalConsistency(match=self.match, **self._options(one)))
            for one in self._ingredients
        ]

    def _own(self) -> Mapping[str, object]:
        return {"match": self.match}

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        return composite_values(samples, self._standard_parts[""])
