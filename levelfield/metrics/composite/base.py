"""From components and their scales to the value of a sample."""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from levelfield.core.errors import ModelError, UserError
from levelfield.core.metric import LacksModels
from levelfield.core.options import option
from levelfield.core.sample import Sample
from levelfield.core.signature import signature
from levelfield.core.undefined import Undefined, undefined_parts
from levelfield.metrics.composite.components import (
    INGREDIENTS,
    Component,
    Ingredient,
    StandardPart,
)
from levelfield.metrics.composite.scales import SHIPPED, StandardScale, read_scales, scales_digest
from levelfield.metrics.sample_metric import SampleMetric, SampleValue
from levelfield.models.engines import Kind
from levelfield.models.loading import LoadingOptions
from levelfield.models.resolve import OFFLINE_LM, OFFLINE_MODEL, resolve


@dataclass(frozen=True)
class CompositeMetric(LoadingOptions, SampleMetric, abc.ABC):
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
        "models need.",
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

    def kinds(self) -> tuple[Kind, ...]:
        metrics = [component.metric for component in self.components()]
        return tuple(k for m in metrics if isinstance(m, LoadingOptions) for k in m.kinds())

    @functools.cached_property
    def signature(self) -> str:
        words = []
        used: dict[str, StandardScale] = {}
        for attribute, parts in self._standard_parts.items():
            names = "+".join(part.name for part in parts)
            words.append(f"{attribute}={names}" if attribute else names)
            used |= {
                key: part.scales[label]
                for part in parts
                for label, key in part.component.keys.items()
            }
        made_of = {"parts": " ".join(words), "weights": "equal", "scales": scales_digest(used)}
        choices = {**self.models(), **self._own(), **made_of, **self.computation}
        return signature(self.name, choices)

    @property
    def part_names(self) -> tuple[str, ...]:
        """The names of all components."""
        return tuple(ingredient.part for ingredient in self._ingredients)

    @property
    def _ingredients(self) -> tuple[Ingredient, ...]:
        return INGREDIENTS[self.name.removeprefix("composite.")]

    def _options(self, ingredient: Ingredient) -> dict[str, Any]:
        """Returns the options of an aspect of CTRLEval that say which model scores it, and how."""
        if ingredient.evidence == "embedding":
            return {"model": self.encoder, "loading": self.loading}
        own = {"form": ingredient.form, "normalize": ingredient.normalize}
        return {"model": self.model, **own, "loading": self.loading}

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

    def _no_scale(self, lacking: Sequence[str], attribute: str) -> str:
        chosen = [
            f" --{field.name} {getattr(self, field.name)}"
            for field in fields(self)
            if field.name in TRAINED and getattr(self, field.name) != field.default
        ]
        of = f" of {attribute}" if attribute else ""
        return (
            f"{self.name}: there is no scale for {', '.join(lacking)}{of} with these models and "
            f"options; make one with `levelfield train scales CORPUS --out scales.toml"
            f"{''.join(chosen)}` and give it with --option scales=scales.toml"
        )


TRAINED = ("model", "encoder", "attribute", "judge", "language")
"""The options that scales depend on, which `levelfield train scales` has too."""


def composite_values(
    samples: Sequence[Sample], parts: Sequence[StandardPart], labels: Sequence[str] = ()
) -> list[SampleValue | Undefined]:
    """Returns the mean of (x_k − μ_k) / σ_k of each sample, or why a component has no value.

    Args:
        labels: the label that each sample is wanted to have, of an aspect with labels.
    """
    scored = [part.component.metric.score(samples) for part in parts]
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
            (part.name, part.standard_score(float(s.values[i]), label), 1 / len(parts))
            for part, s in zip(parts, scored, strict=True)
        ]
        value = math.fsum(z for _, z, _ in rows) / len(rows)
        values.append(SampleValue(value, rows, any(sample.id in s.truncated for s in scored)))
    return values
