"""`levelfield train rewriter`: a small model that rewrites sentences in a style."""

from __future__ import annotations

from pathlib import Path

import click

from levelfield.cli.options import FiniteNumber, WholeNumber
from levelfield.cli.outputs import INPUT, OutputType, Writing
from levelfield.cli.terminal import progress_bar, say
from levelfield.cli.train_recipe import SOURCE, RecipeOptions, recipe_options
from levelfield.io.reading import pairs as words_of


@click.command(cls=Writing)
@click.option(
    "--pairs",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    type=INPUT,
    help="File of pairs to learn from; may be given again.",
)
@click.option("--attribute", required=True, help="Attribute whose labels are in control.ATTRIBUTE.")
@click.option("--out", required=True, type=OutputType(), help="The folder of the rewriter.")
@click.option(
    "--model",
    default="",
    help="An encoder-decoder or a rewriter to begin from, by name. [default: a small copier]",
)
@click.option(
    "--held-out",
    "held_out",
    multiple=True,
    metavar="FILE",
    type=INPUT,
    help="File of pairs to try the rewriter on; may be given again.",
)
@click.option(
    "--share",
    type=FiniteNumber(0, 1, max_open=True),
    default=0.1,
    show_default=True,
    help="Share of the pairs to try the rewriter on, where no file is held out.",
)
@click.option("--both-directions", is_flag=True, help="Learn every pair the other way round, too.")
@click.option("--label", "labels", multiple=True, help="A style. [default: those of the pairs]")
@click.option(
    "--batch", type=WholeNumber(1, 65_536), default=32, show_default=True, help="Pairs a step."
)
@click.option(
    "--style-reward",
    type=FiniteNumber(0),
    default=0.0,
    show_default=True,
    help="Weight of the judges' probability of the wanted style.",
)
@click.option("--judge", default="", metavar="NAME", help="Judge whose probability is rewarded.")
@click.option(
    "--content-reward",
    type=FiniteNumber(0),
    default=0.0,
    show_default=True,
    help="Weight of the metric of content, its best value being 1.",
)
@click.option(
    "--content",
    default="bleu.references",
    show_default=True,
    metavar="METRIC",
    help="A metric of texts; of references: the text of the pair.",
)
@click.option("--tried-by", default="", metavar="NAME", help="Judges of the held-out rewrites.")
@click.option("--half", is_flag=True, help="Save weights in half precision.")
@click.option("--format", "format", help="Format of the files. [default: what their suffix says]")
@click.option(
    "--map", "mapping", multiple=True, metavar="FIELD=COLUMN", help="Our field, your column."
)
@click.option("--allow-pickle", is_flag=True, help="Take a base whose weights are pickled.")
@SOURCE
@recipe_options(steps=400, learning_rate=1e-3)
def rewriter(
    files: tuple[str, ...],
    attribute: str,
    out: str,
    model: str,
    held_out: tuple[str, ...],
    share: float,
    both_directions: bool,
    labels: tuple[str, ...],
    batch: int,
    style_reward: float,
    judge: str,
    content_reward: float,
    content: str,
    tried_by: str,
    half: bool,
    format: str | None,
    mapping: tuple[str, ...],
    allow_pickle: bool,
    sources: tuple[str, ...],
    recipe: RecipeOptions,
) -> None:
    """A rewriter: an encoder-decoder fine-tuned on pairs of sentences.

    Each pair has `source`, `text`, and the style of `text` in control.ATTRIBUTE. The model learns
    to write the text behind the code of its style, so that one model serves several directions.
    Without --model a small new one begins that copies its source.
    With rewards, sampled texts that are better than the greedy one become likelier, and worse ones
    less likely; begin them from a rewriter that has learnt its pairs (--model FOLDER).

    Leaves a model folder with a card that has figures on held-out pairs; use it with --technique
    rewriter --model FOLDER. A run that was killed goes on when it is started again.
    """
    from levelfield.training.rewriter.build import RewriterSpec, build_rewriter
    from levelfield.training.rewriter.pairs import rewriting_pairs
    from levelfield.training.rewriter.rewards import RewardSpec

    spec = RewriterSpec(
        recipe=recipe.recipe(),
        start=model,
        batch=batch,
        rewards=RewardSpec(style_reward, judge, content_reward, content),
        judges=tried_by,
        half=half,
        device=recipe.device,
        allow_pickle=allow_pickle,
    )
    pairs = rewriting_pairs(
        files,
        attribute,
        held_out=held_out,
        share=share,
        both_directions=both_directions,
        labels=labels,
        seed=recipe.seed,
        format=format,
        mapping=words_of("--map", mapping),
    )
    say(f"{len(pairs.train):,} pairs to learn from, {len(pairs.test):,} held out")
    with progress_bar("training", spec.recipe.steps) as progress:
        about = build_rewriter(
            pairs, spec, Path(out), sources=sources, notes=say, progress=progress
        )
    figures = {name: value for name, value in about.figures.items() if value is not None}
    say(f"{out}: {', '.join(f'{name} {value:.4g}' for name, value in figures.items())}")
