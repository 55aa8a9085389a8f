"""Composite scores: weighted means of parts, on the scales of reference text.

A composite score is the weighted mean of K standardised components, S = Σ_k β_k (x_k − μ_k) / σ_k
with Σ_k β_k = 1, which puts measurements in different units on one scale. Most weigh the same (the
unit-weighted composite; Wainer 1976, "Estimating coefficients in linear models: It don't make no
nevermind"). Here the components of an aspect of CTRLEval (Ke et al. 2022) are what an encoder, a
causal language model and a judge say of it. μ_k and σ_k come from reference text. Neither they nor
the weights come from ratings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from levelfield.core.errors import UserError
from levelfield.core.metric import LacksModels, Metric
from levelfield.core.options import option
from levelfield.core.sample import Sample
from levelfield.core.undefined import Undefined
from levelfield.metrics.aspects import Aspect, load_aspect, shipped
from levelfield.metrics.composite.base import (
    CHANNEL_LABELS,
    JUDGES,
    Component,
    CompositeMetric,
    composite_values,
)
from levelfield.metrics.control import ControlProbability
from levelfield.metrics.ctrleval import (
    CTRLEvalAttributeRelevance,
    CTRLEvalCoherence,
    CTRLEvalConsistency,
)
from levelfield.metrics.ctrleval.patterns import PROMPT_MATCH
from levelfield.metrics.ctrleval.relevance import ATTRIBUTE, wanted_label
from levelfield.metrics.judges import choose
from levelfield.metrics.sample_metric import SampleValue
from levelfield.text import segmenter


@dataclass(frozen=True)
class CompositeCoherence(CompositeMetric):
    """Coherence from an encoder and a causal language model: 0 is the average reference text.

    S = (1/3) Σ_k (x_k − μ_k) / σ_k, over
        embedding: ctrleval.coherence with the encoder;
        share: ctrleval.coherence with the causal model, form=share: the share of the sentences'
            surprisal that goes when they are read together;
        log-p: the same with form=log-p: the mean log-probability of the text's tokens.
    μ_k and σ_k are the mean and the standard deviation of x_k on reference text, half of it intact
    and half degraded on purpose. The parts are the standard scores: the number of standard
    deviations above the average. Unbounded; higher is better.

    Undefined: where a part is: `empty text`, `one sentence only`, a text that a model can't read.
    The reason names the parts where they differ.

    Ke et al. 2022, "CTRLEval", section 3.2.1; Watanabe 1960, "Information theoretical analysis of
    multivariate correlation".
    """

    language: str = segmenter.LANGUAGE

    name: ClassVar[str] = "composite.coherence"
    requires: ClassVar[frozenset[str]] = frozenset({"text"})

    def components(self) -> list[Component]:
        return [
            Component(
                ingredient, CTRLEvalCoherence(language=self.language, **self._options(ingredient))
            )
            for ingredient in self._ingredients
        ]

    def _own(self) -> Mapping[str, object]:
        return {"segmenter": segmenter.label(self.language)}


@dataclass(frozen=True)
class CompositeConsistency(CompositeMetric):
    """Consistency from an encoder and a causal language model: 0 is the average reference text.

    S = Σ_k β_k (x_k − μ_k) / σ_k, over
        embedding, β = 2/5: ctrleval.consistency with the encoder;
        evidence, β = 2/5: ctrleval.consistency with the causal model, form=evidence: how much
            likelier what follows the prompt becomes when the prompt is read before it, by the root
            of its tokens;
        log-p, β = 1/5: the same with form=log-p: the mean log-probability of the tokens after the
            prompt, given the prompt.
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
            Component(
                ingredient, CTRLEvalConsistency(match=self.match, **self._options(ingredient))
            )
            for ingredient in self._ingredients
        ]

    def _own(self) -> Mapping[str, object]:
        return {"match": self.match}


@dataclass(frozen=True)
class CompositeAttributeRelevance(CompositeMetric):
    """Attribute relevance from an encoder, a causal language model and a judge.

    S = Σ_k β_k (x_k − μ_k) / σ_k, over
        embedding: ctrleval.attribute-relevance with the encoder;
        after: ctrleval.attribute-relevance with the causal model, form=after: the probability of
            the wanted label's word after the text;
        channel, with channel=true and of an attribute with two labels only: the same with
            form=channel and normalize=none: P(text | wanted label) among the labels, with a scale
            for each label;
        judge, where the attribute has judges, with three times the weight of each other part:
            control.probability with them.
    μ_k and σ_k are the mean and the standard deviation of x_k on reference text with every label of
    the attribute in turn: 0 is a text that has the wanted label no more than any other. Parts are
    as for composite.coherence.

    Undefined: `empty text`, since standard scores have no lowest value that could stand for it; the
    sample's control has no label for the attribute, or one that it does not know; several
    attributes with attribute=auto; a text that a model can't read. The reason names the parts where
    they differ.

    Ke et al. 2022, "CTRLEval", section 3.2.3.
    """

    attribute: str = ATTRIBUTE
    judge: str = option(
        "auto",
        "Judges of the attribute, as control.probability accepts them; auto is "
        "smollm2-linear,vader for sentiment and none for other attributes; none uses no judge.",
    )
    channel: bool = option(
        False,
        "Use the part channel, too, for an attribute of two labels; it more than doubles the cost.",
    )

    name: ClassVar[str] = "composite.attribute-relevance"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "control"})
    goes_first: ClassVar[bool] = True

    @property
    def control_attributes(self) -> frozenset[str]:
        """The attributes of which a sample's control must name one; empty where a file says it,
        which is not read before the first use."""
        if self.attribute == "auto":
            return frozenset(shipped())
        return frozenset({self.attribute} & shipped().keys())

    @property
    def _aspects(self) -> Mapping[str, Aspect]:
        """What option `attribute` stands for: names or a file, with their aspects."""
        if self.attribute == "auto":
            return shipped()
        return {self.attribute: load_aspect(self.attribute)}

    def components(self) -> list[Component]:
        components = []
        for name, aspect in self._aspects.items():
            judge = self._judge_of(aspect)
            for ingredient in self._ingredients:
                if ingredient.optional and not (
                    self.channel and len(aspect.labels) <= CHANNEL_LABELS
                ):
                    continue
                metric: Metric
                if ingredient.evidence != "judge":
                    metric = CTRLEvalAttributeRelevance(
                        attribute=name, empty="undefined", **self._options(ingredient)
                    )
                elif judge:
                    metric = ControlProbability(
                        judges=judge, empty="undefined", loading=self.loading
                    )
                else:
                    continue
                components.append(Component(ingredient, metric, aspect.attribute, aspect.labels))
        if self.judge not in ("auto", "none") and not any(map(_is_judge, components)):
            attributes = ", ".join(aspect.attribute for aspect in self._aspects.values())
            raise UserError(f"judge={self.judge}: it judges none of {attributes}")
        return components

    def lacking(self, attributes: Collection[str] | None) -> list[UserError]:
        """Returns an error for each model that the judges of these attributes lack."""
        return [
            error
            for component in self.components()
            if attributes is None or component.attribute in attributes
            if isinstance(component.metric, LacksModels)
            for error in component.metric.lacking([component.attribute])
        ]

    def _judge_of(self, aspect: Aspect) -> str:
        """Returns the name of the judge of an attribute; empty if it has none."""
        if self.judge == "none":
            return ""
        if self.judge == "auto":
            shipped_aspect = shipped().get(aspect.attribute)
            same_labels = shipped_aspect is not None and shipped_aspect.labels == aspect.labels
            return JUDGES.get(aspect.attribute, "") if same_labels else ""
        judges = choose(self.judge, self.loading)
        judged = any(judge.attribute in ("", aspect.attribute) for judge in judges)
        return self.judge if judged else ""

    def _own(self) -> Mapping[str, object]:
        aspects = [f"{aspect.attribute}@{aspect.digest}" for aspect in self._aspects.values()]
        judges = {
            component.attribute: component.metric.judges
            for component in self.components()
            if isinstance(component.metric, ControlProbability)
        }
        return {
            "attribute": "+".join(aspects),
            "judge": " ".join(f"{attribute}={judge}" for attribute, judge in judges.items())
            or "none",
        }

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        targets = [wanted_label(sample, self.attribute) for sample in samples]
        values: dict[str, Iterator[SampleValue | Undefined]] = {}
        for attribute, parts in self._standard_parts.items():
            # a judge speaks of every attribute that the control names
            alone = [
                (replace(sample, control={attribute: sample.control[attribute]}), target[1])
                for sample, target in zip(samples, targets, strict=True)
                if not isinstance(target, Undefined) and target[0].attribute == attribute
            ]
            members, labels = [sample for sample, _ in alone], [label for _, label in alone]
            for part in parts if alone else ():
                if isinstance(part.component.metric, ControlProbability):
                    part.component.metric.load_judges()
            values[attribute] = iter(composite_values(members, parts, labels) if alone else ())
        return [
            target if isinstance(target, Undefined) else next(values[target[0].attribute])
            for target in targets
        ]


def _is_judge(component: Component) -> bool:
    return component.ingredient.evidence == "judge"


__all__ = ["CompositeAttributeRelevance", "CompositeCoherence", "CompositeConsistency"]
