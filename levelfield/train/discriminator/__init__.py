"""Discriminators: small classifiers that tell human texts from negatives.

Line 12 of Algorithm 1 in Lu et al. 2024, "Open-Domain Text Evaluation via Contrastive Distribution
Methods", section 3.4.1, and the self-supervised baselines of CTRLEval's section 4.3. Negatives
come from a sampler (`training.cdm.negatives`), from rules (`training.cdm.perturb`), or from
something else.

A training example is a pair, a positive and its negative, and each step sees as many of one as of
the other. The value of a text is P(positive | text), which `discriminator.score` reports.
"""

import dataclasses
from dataclasses import dataclass
from typing import Literal, Self

from levelfield.core.options import group, option
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.train.infiller import Size
from levelfield.train.recipe import Recipe, Stepwise, by_command


@dataclass(frozen=True)
class DiscriminatorSpec(Stepwise):
    """How a discriminator is trained. A classifier to begin from keeps its head if it has two
    labels."""

    recipe: Recipe = group(by_command(1_000, 5e-5))
    start: str = option(
        "offline/minilm",
        "Encoder or classifier to begin from: a hub name, a folder or an embedded model; '' for "
        "random weights.",
        metavar="NAME",
        blank=True,
    )
    size: Size = group(Size(128, 2, 512))
    vocabulary: int = option(
        8192, "Vocabulary size of a model with random weights.", least=2, most=1_000_000
    )
    batch: int = option(16, "Pairs per step.", least=1, most=65_536)
    window: int = option(
        256, "Maximum number of tokens per text, in training and in scoring.", least=8, most=65_536
    )
    keep: Literal["beginning", "end"] = option(
        "end", "Part of a longer text that the model reads; the end of a dialogue is the reply."
    )
    loading: Loading = group(AS_USUAL, without=("dtype", "batch_tokens", "engine"))

    def settled(self, on_gpu: bool) -> Self:
        """Returns it with a value for each choice that was left to the machine or model."""
        return dataclasses.replace(super().settled(on_gpu), size=self.size.settled())
