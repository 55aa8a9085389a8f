"""`levelfield train guide`: what a technique of controlled generation learns on a base."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from levelfield.cli.options import FiniteNumber, WholeNumber
from levelfield.cli.outputs import INPUT, OutputType, Writing
from levelfield.cli.terminal import progress_bar, say
from levelfield.cli.train_models import SOURCE
from levelfield.io.reading import pairs
from levelfield.models.resolve import OFFLINE_LM
from levelfield.training.guide.kinds import TECHNIQUES, GuideSpec, guide_training


@click.command(cls=Writing)
@click.option(
    "--technique",
    required=True,
    type=click.Choice(list(TECHNIQUES)),
    help="Technique that the guide is for.",
)
@click.option(
    "--data",
    required=True,
    multiple=True,
    metavar="NAME|FILE",
    type=INPUT,
    help="Labelled texts: a data set or a file. May be given several times.",
)
@click.option(
    "--attribute",
    required=True,
    help="Attribute whose labels are learnt: control.ATTRIBUTE of the samples.",
)
@click.option("--out", required=True, type=OutputType(), help="The folder of the guide.")
@click.option("--model", default=OFFLINE_LM, show_default=True, help="The base: a causal model.")
@click.option(
    "--held-out",
    multiple=True,
    metavar="NAME|FILE",
    type=INPUT,
    help="File of texts to try the guide on; of a data set, its part test.",
)
@click.option(
    "--share",
    type=FiniteNumber(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="Share of the texts to try the guide on, where nothing is held out.",
)
@click.option(
    "--sentences",
    type=WholeNumber(1),
    default=1,
    show_default=True,
    help="Sentences of a passage that is cut from the reviews of a data set.",
)
@click.option("--format", "format", help="Format of the files. [default: what their suffix says]")
@click.option(
    "--map", "mapping", multiple=True, metavar="FIELD=COLUMN", help="Our field, your column."
)
@click.option(
    "--lambda",
    "lam",
    type=FiniteNumber(0, 1),
    help="Share of the generative loss; the rest is for telling labels apart; not fudge. "
    "[default: 0.8]",
)
@click.option(
    "--layers",
    type=WholeNumber(1),
    help="Upper layers of the base that learn; of fudge: its own. [default: 15; fudge: 2]",
)
@click.option(
    "--rank", type=WholeNumber(1, 1024), help="Rank of the adapter; not for fudge. [default: 8]"
)
@click.option(
    "--width", type=WholeNumber(16, 1024), help="Width of the network of fudge. [default: 64]"
)
@click.option(
    "--dropout",
    type=FiniteNumber(0, 1, max_open=True),
    help="Dropout in the network of fudge. [default: 0.2]",
)
@click.option(
    "--tokens", type=WholeNumber(1), help="Most tokens of a text. [default: 48; fudge: 128]"
)
@click.option(
    "--epochs", type=FiniteNumber(0, min_open=True), help="Passes over the texts. [default: 1]"
)
@click.option("--batch", type=WholeNumber(1), help="Texts a step. [default: 16; fudge: 64]")
@click.option(
    "--learning-rate",
    type=FiniteNumber(0, min_open=True),
    help="Learning rate after the warm-up. [default: 1e-3]",
)
@click.option(
    "--option",
    "-o",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any other setting of this kind of guide.",
)
@click.option(
    "--seed", type=WholeNumber(0), default=0, show_default=True, help="Seed of weights and batches."
)
@click.option(
    "--device",
    default="auto",
    show_default=True,
    help="Device that computes: auto (a GPU where there is one), cpu, cuda, cuda:1, mps or xpu.",
)
@click.option(
    "--precision",
    type=click.Choice(["float32", "bfloat16"]),
    default="float32",
    show_default=True,
    help="Precision of products.",
)
@click.option("--allow-pickle", is_flag=True, help="Take a base whose weights are pickled.")
@SOURCE
def guide(
    technique: str,
    data: tuple[str, ...],
    attribute: str,
    out: str,
    model: str,
    held_out: tuple[str, ...],
    share: float,
    sentences: int,
    format: str | None,
    mapping: tuple[str, ...],
    seed: int,
    device: str,
    precision: str,
    allow_pickle: bool,
    sources: tuple[str, ...],
    options: tuple[str, ...],
    **settings: Any,
) -> None:
    """A guide: what gedi, dexperts, ctrl-lite, fudge and discup learn on a base.

    The texts of --data have their label in control.ATTRIBUTE. The guide is a low-rank adapter on
    the base, a few megabytes; that of fudge is a small network on the base's embeddings. Leaves a
    folder with a card that has figures on held-out texts; give it to a technique as guide=FOLDER. A
    run that was killed goes on when it is started again.
    """
    kind = TECHNIQUES[technique]
    spec = GuideSpec(
        kind,
        attribute,
        guide_training(kind).settings({**settings, **pairs("--option", options)}),
        start=model,
        seed=seed,
        device=device,
        precision=precision,
        allow_pickle=allow_pickle,
    )
    from levelfield.training.guide.build import build_guide
    from levelfield.training.guide.texts import guide_texts

    texts = guide_texts(
        data,
        attribute,
        held_out=held_out,
        share=share,
        seed=seed,
        format=format,
        mapping=pairs("--map", mapping),
        sources=sources,
        sentences=sentences,
    )
    say(f"{len(texts.train):,} texts to train on, {len(texts.test):,} held out")
    for name, value in texts.facts.items():
        say(f"{name.lower()}: {value}")
    with progress_bar("training", None) as progress:
        trained = build_guide(texts, spec, Path(out), notes=say, progress=progress)
    figures = trained.settings["figures"]
    say(f"{out}: {', '.join(f'{name} {value:g}' for name, value in figures.items())}")
