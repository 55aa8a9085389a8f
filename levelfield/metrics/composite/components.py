"""What each aspect is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from levelfield.core.metric import Metric
from levelfield.metrics.composite.scales import StandardScale, scale_key
from levelfield.models.scorers import Normalize

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
    """

    part: str
    evidence: Evidence
    form: str = ""
    normalize: Normalize = "tokens"
    by_label: bool = False


INGREDIENTS: Mapping[str, tuple[Ingredient, ...]] = {
    "coherence": (
        Ingredient("embedding", "embedding"),
        Ingredient("share", "likelihood", "share"),
        Ingredient("log-p", "likelihood", "log-p"),
    ),
    "consistency": (
        Ingredient("embedding", "embedding"),
        Ingredient("share", "likelihood", "share"),
        Ingredient("log-p", "likelihood", "log-p"),
    ),
    "attribute-relevance": (
        Ingredient("embedding", "embedding"),
        Ingredient("after", "likelihood", "after"),
        # Not divided by tokens it is P(label | text), which has bounds; the mean is the noisier the
        # shorter the text. Any text fits better after the sentences of one label than of another.
        Ingredient("channel", "likelihood", "channel", normalize="none", by_label=True),
        Ingredient("judge", "judge"),
    ),
}
"""Aspect -> its components, all of them; a judge is left out where there is none."""

JUDGES: Mapping[str, str] = {"sentiment": "linear,vader"}
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

    def standard_score(self, x: float, label: str) -> float:
        """(x − μ) / σ with the scale of a wanted label."""
        scale = self.scales[label if self.component.ingredient.by_label else ""]
        return (x - scale.mean) / scale.sd
