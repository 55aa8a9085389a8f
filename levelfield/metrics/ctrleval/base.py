"""The model of an aspect, and the scorer that reads it."""

from __future__ import annotations

import abc
import functools
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.errors import ModelError, UserError
from levelfield.core.options import option
from levelfield.metrics.likelihood import LikelihoodScorer
from levelfield.metrics.sample_metric import (
    ChoiceSignature,
    SampleMetric,
    SampleValue,
    rule_weights,
)
from levelfield.metrics.scorers import (
    EmbeddingScorer,
    InfillingScorer,
    Normalize,
    Patterns,
    Scorer,
)
from levelfield.models.causal_tokens import BOS, Bos
from levelfield.models.load import load
from levelfield.models.loading import Loading, LoadingOptions
from levelfield.models.resolve import OFFLINE_MODEL, Resolved, resolve
from levelfield.models.tokens import AS_TEXT

ReadAs = Literal["infilling", "embedding", "likelihood"]

_READ_AS: Mapping[str, ReadAs] = {
    "encoder-decoder": "infilling",
    "encoder": "embedding",
    "causal": "likelihood",
}
"""Kind of model -> its scorer."""


@dataclass(frozen=True)
class CTRLEvalMetric(LoadingOptions, ChoiceSignature, SampleMetric, abc.ABC):
    """Base of the aspects."""

    model: str = option(
        OFFLINE_MODEL,
        "Model that reads the texts, which decides how they are scored: an encoder-decoder that "
        "fills gaps (PEGASUS, T5, BART), an encoder, or a causal model; a hub name, a folder, or "
        "offline/minilm.",
    )
    normalize: Normalize = option(
        "tokens",
        "Divide log-probabilities by the number of target tokens (tokens, the authors' code) or "
        "not (none, the formula of the paper).",
    )
    patterns: Patterns = option(
        "infilling", "Patterns of evaluators: infilling, or an ablation of Table 5."
    )
    _: KW_ONLY
    form: str = option("auto", "Form by which a causal model scores.")
    bos: Bos = option("auto", f"{BOS} For causal models only.")

    _forms: ClassVar[tuple[str, ...]]
    """How a causal model can score the aspect, the default first."""

    @property
    def _resolved(self) -> Resolved:
        return resolve(self.model, self.loading)

    @property
    def _infills(self) -> bool:
        """Whether the model fills gaps."""
        return self._read_as == "infilling"

    @property
    def _read_as(self) -> ReadAs:
        """How the model scores evaluators, which its kind decides."""
        resolved = self._resolved
        if resolved.kind not in _READ_AS:
            raise ModelError(
                f"model '{self.model}' is a {resolved.kind} model; CTRLEval needs an "
                "encoder-decoder model that fills gaps (PEGASUS, T5, BART), an encoder, or a "
                "causal model"
            )
        if resolved.kind == "encoder" and self.patterns != "infilling":
            raise UserError(f"patterns={self.patterns} needs an encoder-decoder model")
        return _READ_AS[resolved.kind]

    def _chosen_form(self) -> str:
        """Returns the form by which a causal model scores; empty for other models.

        Raises:
            UserError: the model is not causal, or an option that the form leaves without meaning
                has a value.
        """
        if self._read_as != "likelihood":
            for name in ("form", "bos"):
                if (value := getattr(self, name)) != "auto":
                    raise UserError(
                        f"{name}={str(value).lower()} needs a causal model; model '{self.model}' "
                        f"is an {self._resolved.kind}"
                    )
            return ""
        form = self._forms[0] if self.form == "auto" else self.form
        for name in self._without_meaning(form):
            if (value := getattr(self, name)) != self._default(name):
                raise UserError(
                    f"{name}={value} has no meaning here: model '{self.model}' is a causal model, "
                    f"and {self.name} with form={form} has no {name}; leave the option out"
                )
        return form

    @abc.abstractmethod
    def _without_meaning(self, form: str) -> Sequence[str]:
        """Returns the options that have no effect with a causal model."""

    def _default(self, option: str) -> object:
        return next(field.default for field in fields(self) if field.name == option)

    @abc.abstractmethod
    def _own(self) -> Mapping[str, object]:
        """Returns the choices of this aspect alone."""

    def _choices(self) -> Mapping[str, object]:
        form = self._chosen_form()
        scorer_choices: Mapping[str, object] = AS_TEXT
        if form:
            tokens = load("causal-tokens", self.model, self.loading, bos=self.bos)
            scorer_choices = {"form": form, "bos": tokens.begin}
        elif self._infills:
            scorer_choices = {"patterns": self.patterns, "normalize": self.normalize}
        return {
            "model": self._resolved.label,
            "scorer": self._read_as,
            **scorer_choices,
            **self._own(),
        }

    def _scorer(self) -> Scorer:
        return _scorer_of(self.model, self.loading, self._infills, self.patterns, self.normalize)

    def _likelihood_scorer(self) -> LikelihoodScorer:
        return LikelihoodScorer(load("causal", self.model, self.loading, bos=self.bos))


@functools.lru_cache(maxsize=4)
def _scorer_of(
    name: str, loading: Loading, infills: bool, patterns: Patterns, normalize: Normalize
) -> Scorer:
    """Returns the scorer of these choices. A process keeps the last ones with their models: a
    scorer remembers embeddings of prompts, and word frequencies."""
    if not infills:
        return EmbeddingScorer(load("encoder", name, loading))
    return InfillingScorer(load("infilling", name, loading), patterns, normalize)


Combine = Literal["mean", "max", "min"]


class ScoredEvaluator(NamedTuple):
    """The score s_j of an evaluator on a sample, and the mass that β_j is proportional to.

    `cut` says whether the model saw less than all.
    """

    part: str
    s: float
    mass: float
    cut: bool


def combine(s: Floats, mass: Floats, how: Combine | None) -> tuple[float, Floats]:
    """Returns S = Σ_j β_j s_j and β: (evaluators,).

    β is `mass` normalised (the plain mean when all of it is zero), or by `how`: equal for `mean`,
    all on the largest or smallest s_j for `max` and `min`.
    """
    equal = how or ("mean" if mass.sum() == 0 else None)
    beta = rule_weights(s, equal) if equal else mass / mass.sum()
    return float(beta @ s), beta


def ensemble(scored: Sequence[ScoredEvaluator], how: Combine | None) -> SampleValue:
    """Returns the value of one sample, with what each evaluator contributes."""
    parts, s, mass, cut = zip(*scored, strict=True)
    value, beta = combine(np.array(s), np.array(mass), how)
    rows = list(zip(parts, np.array(s).tolist(), beta.tolist(), strict=True))
    return SampleValue(value, rows, any(map(bool, cut)))
