"""From components and their scales to the value of a sample."""

from __future__ import annotations

import abc
import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

from levelfield.core.errors import ModelError, UserError
from levelfield.core.metric import LacksModels, Metric
from levelfield.core.options import option
from levelfield.core.sample import Sample
from levelfield.core.undefined import Undefined, undefined_parts
from levelfield.metrics.composite.scales import (
    SHIPPED,
    StandardScale,
    read_scales,
    scale_key,
    scales_digest,
)
from levelfield.metrics.sample_metric import ChoiceSignature, SampleMetric, SampleValue
from levelfield.metrics.scorers import Normalize
from levelfield.models.languages import ENGLISH, languages_of_models
from levelfield.models.loading import LoadingOptions
from levelfield.models.resolve import OFFLINE_LM, OFFLINE_MODEL, resolve

Evidence = Literal["embedding", "likelihood", "judge"]
"""What says something of a text: an encoder, a causal language model, a classifier."""


class Ingredient(NamedTuple):
    """A component as the table has it.

    Attributes:
        part: its name among the parts of a value.
        evidence: the kind of evidence that it is.
        form: of the likelihood, as option `form` of CTRLEval's aspects names it.
        normalize: of the likelihood, as the option of attribute relevance.
        by_label: whether each wanted label has a scale of its own.
        weight: β_k is proportional to it.
        optional: whether it takes part only where it is asked for.
    """

    part: str
    evidence: Evidence
    form: str = ""
    normalize: Normalize = "tokens"
    by_label: bool = False
    weight: int = 1
    optional: bool = False


INGREDIENTS: Mapping[str, tuple[Ingredient, ...]] = {
    "coherence": (
        Ingredient("embedding", "embedding"),
        Ingredient("share", "likelihood", "share"),
        Ingredient("log-p", "likelihood", "log-p"),
    ),
    "consistency": (
        Ingredient("embedding", "embedding", weight=2),
        Ingredient("evidence", "likelihood", "evidence", weight=2),
        # It says whether the rest is text at all, and half as well whether it is the prompt's.
        Ingredient("log-p", "likelihood", "log-p"),
    ),
    "attribute-relevance": (
        Ingredient("embedding", "embedding"),
        Ingredient("after", "likelihood", "after"),
        # Not divided by tokens it is P(label | text), which has bounds; the mean is the noisier the
        # shorter the text. Any text fits better after the sentences of one label than of another.
        Ingredient(
            "channel", "likelihood", "channel", normalize="none", by_label=True, optional=True
        ),
        # Judges learnt the attribute, and the others did not.
        Ingredient("judge", "judge", weight=3),
    ),
}
"""Aspect -> its components, all of them; a judge is left out where there is none."""

CHANNEL_LABELS = 2
"""An attribute with more labels has no `channel`: where topics are known it takes from the sum, and
it costs a pass over the text for each label."""

JUDGES: Mapping[str, str] = {"sentiment": "smollm2-linear,vader"}
"""Attribute -> the judges that come with the package and that learnt the attribute elsewhere. The
zero-shot judge `minilm` is not among them: it is the embedding part itself."""


@dataclass(frozen=True)
class Component:
    """A component of an aspect: a metric with fixed options.

    Attributes:
        ingredient: its place in the table.
        metric: what gives x_k.
        attribute: whose labels it tells apart; empty for an aspect without labels.
        labels: of the attribute.
    """

    ingredient: Ingredient
    metric: Metric
    attribute: str = ""
    labels: tuple[str, ...] = ()

    @property
    def keys(self) -> Mapping[str, str]:
        """Label -> what determines its values, by which its scale is found; the label is `""` where
        all share a scale."""
        labels = self.labels if self.ingredient.by_label else ("",)
        signature = self.metric.signature
        return {label: scale_key(signature, self.attribute, label) for label in labels}


@dataclass(frozen=True)
class StandardPart:
    """A component with its scales.

    Attributes:
        scales: label -> scale, as `Component.keys` has the labels.
    """

    component: Component
    scales: Mapping[str, StandardScale]

    @property
    def name(self) -> str:
        return self.component.ingredient.part

    @property
    def weight(self) -> int:
        return self.component.ingredient.weight

    def standard_score(self, x: float, label: str) -> float:
        """Returns (x − μ) / σ with the scale of a label."""
        scale = self.scales[label if self.component.ingredient.by_label else ""]
        return (x - scale.mean) / scale.sd


@dataclass(frozen=True)
class CompositeMetric(LoadingOptions, ChoiceSignature, SampleMetric, abc.ABC):
    """Base of the composite aspects."""

    model: str = option(
        OFFLINE_LM, "Causal model of the likelihoods: a hub name, a folder, or offline/smollm2."
    )
    encoder: str = option(
        OFFLINE_MODEL, "Encoder of the embeddings: a hub name, a folder, or offline/minilm."
    )
    scales: str = option(
        SHIPPED,
        "Scales of the components: shipped, or a file of `levelfield train scales`, which other "
        "models require.",
        metavar="FILE",
    )

    @abc.abstractmethod
    def components(self) -> list[Component]:
        """Returns the components with their metrics; of an aspect with labels those of every
        attribute.

        Raises:
            UserError: an option that can't be.
        """

    @abc.abstractmethod
    def _own(self) -> Mapping[str, object]:
        """Returns the choices of this aspect alone, for its signature."""

    def _choices(self) -> Mapping[str, object]:
        words: list[str] = []
        weights: list[list[int]] = []
        used: dict[str, StandardScale] = {}
        for attribute, parts in self._standard_parts.items():
            names = "+".join(part.name for part in parts)
            words.append(f"{attribute}={names}" if attribute else names)
            weights.append([part.weight for part in parts])
            used |= {
                key: part.scales[label]
                for part in parts
                for label, key in part.component.keys.items()
            }
        equal = len(set(itertools.chain(*weights))) == 1
        sums = " ".join("+".join(map(str, part_weights)) for part_weights in weights)
        made_of = {
            "parts": " ".join(words),
            "weights": "equal" if equal else sums,
            "scales": scales_digest(used),
        }
        return {**self.models(), **self._own(), **made_of}

    @property
    def part_names(self) -> tuple[str, ...]:
        """The names of all components."""
        return tuple(ingredient.part for ingredient in self._ingredients)

    @property
    def languages(self) -> Mapping[str, frozenset[str]]:
        """What its scales, and the judges and segmenters of its components, read."""
        read = {"scales=shipped": ENGLISH} if self.scales == SHIPPED else {}
        for component in self.components():
            read |= languages_of_models(getattr(component.metric, "model_names", ()))
            read |= getattr(component.metric, "languages", {})
        return read

    @property
    def _ingredients(self) -> tuple[Ingredient, ...]:
        return INGREDIENTS[self.name.removeprefix("composite.")]

    def _options(self, ingredient: Ingredient) -> dict[str, Any]:
        """Returns the options of an aspect of CTRLEval that say which model scores it, and how."""
        if ingredient.evidence == "embedding":
            return {"model": self.encoder, "loading": self.loading}
        choices = {"form": ingredient.form, "normalize": ingredient.normalize}
        return {"model": self.model, **choices, "loading": self.loading}

    def models(self) -> dict[str, object]:
        """Returns both models as signatures name them.

        Raises:
            ModelError: one is not there, or of another kind.
        """
        try:
            model = resolve(self.model, self.loading)
        except ModelError as error:
            if self.model != OFFLINE_LM:
                raise
            raise ModelError(f"{error} (--metric ctrleval works without it)") from error
        encoder = resolve(self.encoder, self.loading)
        if model.kind != "causal":
            raise ModelError(
                f"model '{self.model}' is a {model.kind} model; composite scores need a causal "
                "language model, and an encoder with --option encoder=NAME"
            )
        if encoder.kind != "encoder":
            raise ModelError(f"encoder={self.encoder}: expected an encoder; it is {encoder.kind}")
        return {"model": model.label, "encoder": encoder.label}

    @functools.cached_property
    def _standard_parts(self) -> Mapping[str, Sequence[StandardPart]]:
        """Attribute -> the components with weights and scales; `""` for an aspect without labels.

        Raises:
            UserError: a component has no scale.
        """
        self.models()
        scales = read_scales(self.scales)
        by_attribute: dict[str, list[Component]] = {}
        for component in self.components():
            by_attribute.setdefault(component.attribute, []).append(component)
        parts = {}
        for attribute, components in by_attribute.items():
            if lacking := [
                c.ingredient.part for c in components if not scales.keys() >= {*c.keys.values()}
            ]:
                for component in components:
                    if isinstance(component.metric, LacksModels):
                        for error in component.metric.lacking([attribute]):
                            raise error
                raise UserError(self._no_scale(lacking, attribute))
            parts[attribute] = [
                StandardPart(c, {label: scales[key] for label, key in c.keys.items()})
                for c in components
            ]
        return parts

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        return composite_values(samples, self._standard_parts[""])

    def _no_scale(self, lacking: Sequence[str], attribute: str) -> str:
        chosen = [
            f" --{field.name} {getattr(self, field.name)}"
            for field in fields(self)
            if field.name in TRAINED and getattr(self, field.name) != field.default
        ]
        suffix = f" of {attribute}" if attribute else ""
        return (
            f"{self.name}: there is no scale for {', '.join(lacking)}{suffix} with these models "
            f"and options; make one with `levelfield train scales CORPUS --out scales.toml"
            f"{''.join(chosen)}` and give it with --option scales=scales.toml"
        )


TRAINED = ("model", "encoder", "attribute", "judge", "language")
"""The options that scales depend on, which `levelfield train scales` has too."""


def composite_values(
    samples: Sequence[Sample], parts: Sequence[StandardPart], labels: Sequence[str] = ()
) -> list[SampleValue | Undefined]:
    """Returns Σ_k β_k (x_k − μ_k) / σ_k of each sample, or why a component has no value.

    Args:
        labels: the label that each sample is wanted to have, of an aspect with labels.
    """
    scored = [part.component.metric.score(samples) for part in parts]
    total = sum(part.weight for part in parts)
    values: list[SampleValue | Undefined] = []
    for i, sample in enumerate(samples):
        reasons = {
            part.name: scores.undefined[sample.id]
            for part, scores in zip(parts, scored, strict=True)
            if sample.id in scores.undefined
        }
        if reasons:
            values.append(Undefined(undefined_parts(reasons)))
            continue
        label = labels[i] if labels else ""
        rows = [
            (part.name, part.standard_score(float(s.values[i]), label), part.weight / total)
            for part, s in zip(parts, scored, strict=True)
        ]
        value = math.fsum(p.weight * z for p, (_, z, _) in zip(parts, rows, strict=True)) / total
        values.append(SampleValue(value, rows, any(sample.id in s.truncated for s in scored)))
    return values
