"""Perplexity by a model that fills gaps: the whole text in the gap of an empty source."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from levelfield.core.arrays import Floats
from levelfield.core.errors import ModelError
from levelfield.core.options import option
from levelfield.core.sample import Sample
from levelfield.core.signature import signature
from levelfield.core.undefined import EMPTY_TEXT, Undefined, holds_gap_token
from levelfield.metrics.fluency import perplexity
from levelfield.metrics.sample_metric import SampleValue, of_defined
from levelfield.metrics.seq2seq import Seq2SeqMetric, unfit
from levelfield.models.contracts import Gapped, Target
from levelfield.models.engines import Kind
from levelfield.models.gaps import GAP_STYLES
from levelfield.models.load import load
from levelfield.models.resolve import Resolved


@dataclass(frozen=True)
class InfillingPerplexity(Seq2SeqMetric):
    """Perplexity of each text by an infilling model that sees nothing but a gap.

    PPL(S) = exp(−(1/n) Σ_i log p(t_i | t_1 … t_{i−1}, source)), the source being the gap token
    alone, n the tokens of the text and its end token (PPL-PEGASUS of Ke et al. 2022, CTRLEval,
    section 4.3). At least 1, lower is better.

    The paper says no more than "with a language model": that the source is only the gap is our
    reading, which is what its coherence asks of a text of one sentence. The 2.6 to 3.4 that its
    Figure 6 prints are small for perplexities and read like their logarithm: value=nll.

    Undefined: `empty text`; no tokens; a text that holds the gap token; an infinite value. Of a
    text longer than the model takes the beginning is scored, without an end token, and it counts
    as truncated. Probabilities are computed in float32 at least.
    """

    model: str = option(
        "google/pegasus-large", "Model that fills gaps (PEGASUS, T5, BART): a hub name or a folder."
    )
    value: Literal["perplexity", "nll"] = option(
        "perplexity", "Value to give: the perplexity, or its logarithm (nll), in nats a token."
    )
    end: bool = option(True, "Score the end token, too.")

    name: ClassVar[str] = "fluency.infilling-perplexity"
    requires: ClassVar[frozenset[str]] = frozenset({"text"})
    higher_is_better: ClassVar[bool] = False

    @property
    def _resolved(self) -> Resolved:
        found = super()._resolved
        if found.model_type not in GAP_STYLES:
            raise ModelError(
                f"model '{self.model}' is of the family {found.model_type}; {self.name} needs one "
                f"that fills gaps: {', '.join(GAP_STYLES)}"
            )
        return found

    def kinds(self) -> tuple[Kind, ...]:
        return ("infilling",)

    @functools.cached_property
    def signature(self) -> str:
        """Every choice that could change a value."""
        choices = {
            "model": self._resolved.label,
            "source": "gap",
            "value": self.value,
            "end": "scored" if self.end else "no",
            **self.computation,
        }
        return signature(self.name, choices)

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        model = load("infilling", self.model, self.loading)

        def scored(targets: list[Target]) -> Iterable[SampleValue | Undefined]:
            likelihood = model.log_likelihood([Gapped("", "")], [targets])
            return map(self._value, likelihood.log_p[0], likelihood.target_cut[0])

        def target(text: str) -> Target | Undefined:
            if not text.strip():
                return Undefined(EMPTY_TEXT)
            if model.gap_token in text:
                return Undefined(holds_gap_token(model.gap_token))
            return Target(text, end=self.end)

        return of_defined((target(sample.text) for sample in samples), scored)

    def _value(self, log_p: Floats, cut: bool) -> SampleValue | Undefined:
        if why := unfit(log_p):
            return Undefined(why)
        nll = -float(log_p.mean())
        value = nll if self.value == "nll" else perplexity(log_p)
        return SampleValue(value, [("−log p of a token", nll, 1.0)], cut)
