"""Infillers: small models that fill one gap in a text ("segment insertion", Lu et al. 2024, 3.4.1).

One example is a window of a document with one segment taken out. Two fifths of the segments are one
or two whole sentences, one fifth are up to 20 tokens anywhere, and two fifths reach from a place to
the end or from the beginning to a place: the gaps of CTRLEval's coherence, of CDM's manipulation,
and of CTRLEval's consistency. Encoder-decoders read `left <extra_id_0> right` and write
`<extra_id_0> segment </s>`, where the segment and its end are learnt. Causal models read
`<|fim_prefix|> left <|fim_suffix|> right <|fim_middle|> segment end` (Bavarian et al. 2022) and
learn all of it but the markers.
"""

import dataclasses
from dataclasses import dataclass
from typing import Literal, Self

from levelfield.core.errors import UserError
from levelfield.core.options import Options, group, option
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.train.recipe import Recipe, Stepwise, by_command

Family = Literal["t5", "causal"]
HEADS = (64, 32, 16, 8)
"""Widths of an attention head, of which the first is taken that divides the width of a model."""


@dataclass(frozen=True)
class Size(Options):
    """The size of a model that begins from random weights."""

    width: int = option(
        help="Width of the states of a model with random weights.",
        least=8,
        most=8192,
        positional=True,
    )
    layers: int = option(
        help="Number of layers of a model with random weights, in each half of an encoder-decoder.",
        least=1,
        most=96,
        positional=True,
    )
    inner: int | None = option(
        None,
        "Width of the feed-forward layers.",
        least=1,
        most=65_536,
        otherwise="three times the width",
    )
    head: int | None = option(
        64,
        "Width of an attention head.",
        least=1,
        most=8192,
        otherwise="64, or the largest of 32, 16 and 8 that divides the width",
    )

    def settled(self) -> "Size":
        """Returns the size with a number for each.

        Raises:
            UserError: no head fits the width.
        """
        head = self.head or next((head for head in HEADS if self.width % head == 0), None)
        if head is None:
            raise UserError(f"--width {self.width}: expected a multiple of 8")
        return dataclasses.replace(self, inner=self.inner or 3 * self.width, head=head)


@dataclass(frozen=True)
class InfillerSpec(Stepwise):
    """How an infiller is trained."""

    recipe: Recipe = group(by_command(20_000, 1e-3, embeddings=None))
    family: Family = option(
        "t5",
        "Way to mark gaps, and kind of a new model: t5, an encoder-decoder with <extra_id_0>; or "
        "causal, a causal model that fills in the middle.",
    )
    start: str = option(
        "",
        "Model to continue from: a hub name or a folder.",
        otherwise="random weights",
        metavar="NAME",
    )
    size: Size = group(Size(256, 3, None, None))
    vocabulary: int = option(
        8192, "Number of tokens of a new tokenizer.", least=300, most=1_000_000
    )
    tokenizer: str = option(
        "",
        "Model folder whose tokenizer is used, without --start.",
        otherwise="one that is trained on the corpus",
        metavar="FOLDER",
    )
    batch: int = option(32, "Examples per step.", least=1, most=65_536)
    window: int = option(96, "Maximum number of tokens per example.", least=8, most=65_536)
    half: bool = option(False, "Save weights in half precision.")
    loading: Loading = group(AS_USUAL, without=("dtype", "batch_tokens", "engine", "allow_pickle"))

    def settled(self, on_gpu: bool) -> Self:
        """Returns it with a value for each choice that was left to the machine or model."""
        embeddings = 15.0 if self.family == "t5" and not self.start else 1.0
        recipe = self.recipe.settled(on_gpu, embeddings=embeddings)
        return dataclasses.replace(self, recipe=recipe, size=self.size.settled())
