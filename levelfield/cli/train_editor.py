"""`levelfield train editor`: what CBART writes with."""

from __future__ import annotations

from pathlib import Path

import click

from levelfield.cli.options import WholeNumber
from levelfield.cli.outputs import INPUT, OutputType, Writing
from levelfield.cli.terminal import progress_bar, say
from levelfield.cli.train_recipe import SOURCE, RecipeOptions, recipe_options


@click.command(cls=Writing)
@click.argument("corpus", nargs=-1, required=True, type=INPUT)
@click.option("--out", required=True, type=OutputType(), help="The folder of the model.")
@click.option(
    "--start",
    default="",
    help="An encoder-decoder to begin from: hub name (facebook/bart-base) or folder. "
    "[default: a small BART with random weights]",
)
@click.option(
    "--vocabulary",
    default="offline/infill-expert",
    show_default=True,
    help="Model whose tokenizer and token embeddings are taken, without --start.",
)
@click.option(
    "--layers",
    type=WholeNumber(1, 24),
    default=2,
    show_default=True,
    help="Layers of the encoder and of the decoder each, without --start.",
)
@click.option(
    "--sentences",
    type=WholeNumber(2),
    default=400_000,
    show_default=True,
    help="Sentences of the corpus to learn from, at most.",
)
@click.option(
    "--batch", type=WholeNumber(1, 65_536), default=32, show_default=True, help="Examples a step."
)
@click.option(
    "--window",
    type=WholeNumber(4, 512),
    default=64,
    show_default=True,
    help="Tokens of the longest sentence.",
)
@click.option(
    "--learn",
    type=click.Choice(["masks", "all"]),
    default="masks",
    show_default=True,
    help="Tokens that the decoder learns: those that it fills in, or all of a text.",
)
@click.option("--half", is_flag=True, help="Save weights in half precision.")
@click.option(
    "--language", default="english", show_default=True, help="Language of the sentence segmenter."
)
@click.option("--allow-pickle", is_flag=True, help="Take a model whose weights are pickled.")
@SOURCE
@recipe_options(steps=3_000, learning_rate=1e-3)
def editor(
    corpus: tuple[str, ...],
    out: str,
    start: str,
    vocabulary: str,
    layers: int,
    sentences: int,
    batch: int,
    window: int,
    learn: str,
    half: bool,
    language: str,
    allow_pickle: bool,
    sources: tuple[str, ...],
    recipe: RecipeOptions,
) -> None:
    """A model that writes sentences around keywords, for the technique cbart.

    Reads plain text (also .gz, .xz): documents separated by empty lines, else one a line; and every
    other format that samples are read from. Its sentences are corrupted, and the model learns to
    mend them: to insert the words that are missing and to replace those that are wrong.

    Killed and run again with the same options, it goes on from its last checkpoint.
    """
    from levelfield.training.corpus import corpus_documents
    from levelfield.training.editor.architecture import EditorSize
    from levelfield.training.editor.build import EditorSpec, build_editor

    spec = EditorSpec(
        recipe=recipe.recipe(),
        start=start,
        vocabulary=vocabulary,
        size=EditorSize(layers),
        sentences=sentences,
        batch=batch,
        window=window,
        learn="all" if learn == "all" else "masks",
        half=half,
        language=language,
        allow_pickle=allow_pickle,
        device=recipe.device,
    )
    with progress_bar("training", spec.recipe.steps) as progress:
        history = build_editor(
            lambda: corpus_documents(corpus),
            spec,
            Path(out),
            sources=sources,
            notes=say,
            progress=progress,
        )
    figures = history[-1].validation
    say(
        f"{out}: held-out loss {figures['loss']:.4f} nats; told: copy {figures['copy']:.1%}, "
        f"replace {figures['replace']:.1%}, insert {figures['insert']:.1%}; "
        f"gaps filled as they were: {figures['gaps']:.1%}"
    )
