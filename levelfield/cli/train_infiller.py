"""`levelfield train infiller`: a small model that fills gaps."""

from __future__ import annotations

from pathlib import Path

import click

from levelfield.cli.options import FiniteNumber, WholeNumber
from levelfield.cli.outputs import INPUT, OutputType, Writing
from levelfield.cli.terminal import progress_bar, say
from levelfield.cli.train_recipe import SOURCE, RecipeOptions, recipe_options
from levelfield.core.errors import UserError


@click.command(cls=Writing)
@click.argument("corpus", nargs=-1, required=True, type=INPUT)
@click.option("--out", required=True, type=OutputType(), help="The folder of the model.")
@click.option("--start", default="", help="A model to go on from: hub name or folder.")
@click.option(
    "--family",
    type=click.Choice(["t5", "causal"]),
    default="t5",
    show_default=True,
    help="Family of the model: t5, an encoder-decoder with <extra_id_0>; or causal, which fills "
    "in the middle.",
)
@click.option(
    "--width",
    type=WholeNumber(8, 8192),
    default=256,
    show_default=True,
    help="Width of the states.",
)
@click.option(
    "--layers",
    type=WholeNumber(1, 96),
    default=3,
    show_default=True,
    help="Layers, of an encoder-decoder in each half.",
)
@click.option(
    "--vocabulary",
    type=WholeNumber(300, 60_000),
    default=8192,
    show_default=True,
    help="Number of tokens in the vocabulary.",
)
@click.option("--tokenizer", default="", help="A model folder whose tokenizer to take.")
@click.option(
    "--batch", type=WholeNumber(1, 65_536), default=32, show_default=True, help="Examples a step."
)
@click.option(
    "--window",
    type=WholeNumber(8, 512),
    default=96,
    show_default=True,
    help="Most tokens of an example.",
)
@click.option(
    "--embeddings",
    type=FiniteNumber(0),
    help="Learning rate of the embeddings in those of the rest. "
    "[default: 15 for a t5 from random weights, else 1]",
)
@click.option("--half", is_flag=True, help="Save weights in half precision.")
@SOURCE
@recipe_options(steps=20_000, learning_rate=1e-3)
def infiller(
    corpus: tuple[str, ...],
    out: str,
    start: str,
    family: str,
    width: int,
    layers: int,
    vocabulary: int,
    tokenizer: str,
    batch: int,
    window: int,
    half: bool,
    embeddings: float | None,
    sources: tuple[str, ...],
    recipe: RecipeOptions,
) -> None:
    """A model that fills one gap in a text, for CTRLEval and CDM.

    Reads plain text (also .gz, .xz): documents separated by empty lines, else one a line; dialogues
    with turns joined by </UTT>; and every other format that samples are read from. Without --start
    a model of --width and --layers begins from random weights (feed-forward layers three times
    as wide), and its tokenizer is trained on the corpus unless --tokenizer names one. An amateur
    and an expert need one tokenizer.

    Killed and run again with the same options, it goes on from its last checkpoint.
    """
    from levelfield.training.corpus import corpus_documents
    from levelfield.training.infiller.architecture import Size
    from levelfield.training.infiller.build import InfillerSpec, build_infiller

    head = next(size for size in (64, 32, 16, 8) if width % size == 0 or size == 8)
    if width % head:
        raise UserError(f"--width {width}: expected a multiple of 8")
    if embeddings is None:
        embeddings = 15.0 if family == "t5" and not start else 1.0
    spec = InfillerSpec(
        recipe=recipe.recipe(embeddings),
        family="causal" if family == "causal" else "t5",
        start=start,
        size=Size(width, layers, 3 * width, head),
        vocabulary=vocabulary,
        tokenizer=tokenizer,
        batch=batch,
        window=window,
        half=half,
        device=recipe.device,
    )
    with progress_bar("training", spec.recipe.steps) as progress:
        history = build_infiller(
            lambda: corpus_documents(corpus),
            spec,
            Path(out),
            sources=sources,
            notes=say,
            progress=progress,
        )
    say(f"{out}: held-out loss {history[-1].validation['loss']:.4f} nats a token")
