"""Editors: what CBART (He 2021) writes with, trained on sentences that are corrupted here."""

from dataclasses import dataclass
from typing import Literal

from levelfield.core.options import Options, group, option
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.train.recipe import Recipe, Stepwise, by_command

VOCABULARY = "offline/infill-expert"
Learn = Literal["masks", "all"]
"""Which tokens the decoder learns: those that it fills in, or all of the text."""


@dataclass(frozen=True)
class EditorSize(Options):
    """The size of an encoder-decoder that begins from random weights."""

    layers: int = option(
        2,
        "Number of layers of the encoder and of the decoder each, without --start.",
        least=1,
        most=24,
    )
    inner: int = option(
        4,
        "Width of the feed-forward layers, as a multiple of that of the states, without --start.",
        least=1,
        most=64,
    )


@dataclass(frozen=True)
class EditorSpec(Stepwise):
    """How an editor is trained."""

    recipe: Recipe = group(by_command(3_000, 1e-3))
    start: str = option(
        "",
        "Encoder-decoder to begin from: a hub name (facebook/bart-base) or a folder.",
        otherwise="a small BART with random weights",
        metavar="NAME",
    )
    vocabulary: str = option(
        VOCABULARY,
        "Model whose tokenizer and token embeddings are taken, without --start.",
        metavar="NAME",
    )
    size: EditorSize = group(EditorSize())
    sentences: int = option(
        400_000, "Maximum number of sentences of the corpus to learn from.", least=2
    )
    batch: int = option(32, "Sentences per step.", least=1, most=65_536)
    window: int = option(64, "Maximum number of tokens per sentence.", least=4, most=512)
    learn: Learn = option(
        "masks", "Tokens that the decoder learns: those that it fills in, or all of a text."
    )
    half: bool = option(False, "Save weights in half precision.")
    language: str = option("english", "Language of the sentence segmenter.")
    loading: Loading = group(AS_USUAL, without=("dtype", "batch_tokens", "engine"))
