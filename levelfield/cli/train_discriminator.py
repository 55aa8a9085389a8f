"""`levelfield train perturb` and `levelfield train discriminator`: negatives by rules, and a
classifier that tells human texts from negatives."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from levelfield.cli.options import WholeNumber
from levelfield.cli.outputs import INPUT, OutputType, Writing
from levelfield.cli.terminal import progress_bar, say
from levelfield.cli.train_recipe import SOURCE, RecipeOptions, recipe_options
from levelfield.core.errors import UserError

_KINDS = "shuffle,drop,repeat,negate"


@click.command(cls=Writing)
@click.argument("corpus", nargs=-1, required=True, metavar="CORPUS...", type=INPUT)
@click.option(
    "--out", required=True, type=OutputType("negatives"), help="The negatives, a JSONL file."
)
@click.option(
    "--kinds", default=_KINDS, show_default=True, help="Also substitute; separated by commas."
)
@click.option(
    "--times",
    type=WholeNumber(1, 1_000),
    default=1,
    help="Number of perturbations of a text, at most.",
)
@click.option("--seed", type=WholeNumber(0), default=0, help="Seed of all random choices.")
def perturb(corpus: tuple[str, ...], out: str, kinds: str, times: int, seed: int) -> None:
    """Negatives for a discriminator: the texts of a corpus, spoilt by rules.

    A document of plain text is a block of lines between empty lines, or a line where there are no
    empty ones. Negation is by rules for English.
    """
    from levelfield.io import atomic_writer
    from levelfield.training.cdm.perturb import write_perturbed
    from levelfield.training.corpus import corpus_documents

    chosen = [kind.strip() for kind in kinds.split(",") if kind.strip()]
    total = sum(Path(name).stat().st_size for name in corpus if Path(name).is_file())
    with progress_bar("perturbing", total) as progress, atomic_writer(out) as file:
        texts = corpus_documents(corpus, progress)
        counts = write_perturbed(texts, chosen, file, seed=seed, times=times)
        if not counts.negatives:
            raise UserError(
                f"the corpus has {counts.unchanged:,} texts, of which none can be perturbed by "
                f"{kinds}"
            )
    applied = ", ".join(f"{kind}: {n:,}" for kind, n in counts.kinds.items())
    say(f"{out}: {counts.negatives:,} negatives ({applied})")
    if counts.unchanged:
        say(f"note: texts in which nothing can be perturbed: {counts.unchanged:,}")


@click.command(cls=Writing)
@click.argument("negatives", nargs=-1, required=True, metavar="NEGATIVES...", type=INPUT)
@click.option("--out", required=True, type=OutputType(), help="The folder of the model.")
@click.option(
    "--start",
    default="offline/minilm",
    show_default=True,
    help="An encoder to begin from; '' for random weights.",
)
@click.option(
    "--batch", type=WholeNumber(1, 65_536), default=16, show_default=True, help="Pairs a step."
)
@click.option(
    "--window",
    type=WholeNumber(8, 65_536),
    default=256,
    show_default=True,
    help="Tokens of a text.",
)
@click.option(
    "--keep",
    type=click.Choice(["end", "beginning"]),
    default="end",
    show_default=True,
    help="Part of a longer text that is read.",
)
@recipe_options(steps=1000, learning_rate=5e-5)
@SOURCE
@click.option("--allow-pickle", is_flag=True, help="Take a start whose weights are pickled.")
def discriminator(
    negatives: tuple[str, ...],
    out: str,
    start: str,
    batch: int,
    window: int,
    keep: Literal["end", "beginning"],
    sources: tuple[str, ...],
    allow_pickle: bool,
    recipe: RecipeOptions,
) -> None:
    """A classifier that tells human texts from negatives, for discriminator.score.

    NEGATIVES are JSONL files of {"positive", "negative"}, as `levelfield train perturb` and the
    sampler of CDM make them; a text is a string, or a list of turns. Random weights need a higher
    --learning-rate, say 5e-4. Stopped and run again, it goes on from its last checkpoint.
    """
    from levelfield.training.discriminator.build import DiscriminatorSpec, build_discriminator

    spec = DiscriminatorSpec(
        recipe.recipe(),
        start=start,
        batch=batch,
        window=window,
        keep=keep,
        device=recipe.device,
        allow_pickle=allow_pickle,
    )
    with progress_bar("training", spec.recipe.steps) as progress:
        history = build_discriminator(
            [Path(name) for name in negatives],
            spec,
            Path(out),
            sources=sources,
            notes=say,
            progress=progress,
        )
    last = history[-1].validation
    say(f"{out}: accuracy {last['accuracy']:.3f}, AUC {last['auc']:.3f} on held-out pairs")
