"""`levelfield train judge`: a small classifier of a style, a sentiment, a topic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from levelfield.cli.options import FiniteNumber, WholeNumber
from levelfield.cli.outputs import INPUT, OutputType, Writing
from levelfield.cli.terminal import console, progress_bar, say
from levelfield.cli.train_models import SOURCE
from levelfield.io.reading import pairs
from levelfield.training.judge.architectures import ARCHITECTURES

if TYPE_CHECKING:
    from levelfield.training.figures import Figures


@click.command(cls=Writing)
@click.argument("files", nargs=-1, metavar="[FILE...]", type=INPUT)
@click.option("--out", required=True, type=OutputType(), help="The folder of the judge.")
@click.option("--recipe", help="Data sets and settings by name, instead of FILEs.")
@click.option(
    "--attribute", help="Attribute whose labels are learnt: control.ATTRIBUTE of the samples."
)
@click.option(
    "--arch",
    type=click.Choice(list(ARCHITECTURES)),
    help="Architecture of the judge. [default: textcnn]",
)
@click.option(
    "--held-out",
    "held_out",
    multiple=True,
    metavar="FILE",
    type=INPUT,
    help="File of texts to try the judge on; may be given again.",
)
@click.option(
    "--share",
    type=FiniteNumber(0, 1, min_open=True, max_open=True),
    help="Share of the texts to try the judge on, where no file is held out. [default: 0.1]",
)
@click.option("--rating", metavar="ASPECT", help="Learn from ratings of this aspect, not labels.")
@click.option("--low", help="Label of the lowest rating. [default: low]")
@click.option("--high", help="Label of the highest rating. [default: high]")
@click.option(
    "--range",
    "ends",
    type=(FiniteNumber(), FiniteNumber()),
    help="Lowest and highest rating. [default: those given]",
)
@click.option("--format", "format", help="Format of the files. [default: what their suffix says]")
@click.option(
    "--map", "mapping", multiple=True, metavar="FIELD=COLUMN", help="Our field, your column."
)
@click.option("--epochs", type=WholeNumber(1, 10_000), help="Passes over the texts; not linear.")
@click.option("--vocabulary", type=WholeNumber(1, 1_000_000), help="Words known at most: textcnn.")
@click.option("--case", is_flag=True, help="Read which words have capitals: textcnn, fasttext.")
@click.option("--half", is_flag=True, help="Save weights in half precision: textcnn.")
@click.option("--ngrams", type=WholeNumber(1, 10), help="Most words of an n-gram: fasttext.")
@click.option("--quantize", is_flag=True, help="Make the model small: fasttext.")
@click.option("--model", help="Encoder: linear, transformer. [default: offline/minilm]")
@click.option(
    "--learning-rate",
    type=FiniteNumber(0, min_open=True),
    help="Learning rate of textcnn and transformer. [default: 1e-3, 1e-4]",
)
@click.option("--l2", type=FiniteNumber(0), help="Weight of the squared norm: linear.")
@click.option(
    "--seed", type=WholeNumber(0), default=0, show_default=True, help="Seed of weights and batches."
)
@click.option(
    "--device",
    default="auto",
    show_default=True,
    help="Device that computes: auto (a GPU where there is one), cpu, cuda, cuda:1, mps or xpu.",
)
@click.option("--allow-pickle", is_flag=True, help="Take an encoder whose weights are pickled.")
@SOURCE
def judge(
    files: tuple[str, ...],
    out: str,
    sources: tuple[str, ...],
    mapping: tuple[str, ...],
    **options: Any,
) -> None:
    """A judge of a style: a TextCNN, fastText, a linear head on an encoder, a fine-tuned encoder.

    FILEs are read as `levelfield score` reads them; a text's label is its control.ATTRIBUTE. Or
    --recipe names data sets and settings: sentiment, sentiment-nltk, topic or formality, with
    -textcnn, -fasttext, -linear or -transformer behind it. --model gives the last two another
    encoder, and --learning-rate the last one its rate.

    Leaves a model folder with a card and test.json: accuracy, macro F1, confusion and calibration
    on held-out texts. Use it with --metric control --option judges=FOLDER.
    """
    from levelfield.training.judge.build import build_judge
    from levelfield.training.judge.options import JudgeOptions

    words = JudgeOptions(mapping=pairs("--map", mapping), **options)
    spec, texts = words.spec(files), words.texts(files)
    say(f"{len(texts.train):,} texts to train on, {len(texts.test):,} held out")
    for name, value in texts.facts.items():
        say(f"{name.lower()}: {value}")
    with progress_bar("training", None) as progress:
        figures = build_judge(
            texts.train,
            texts.test,
            spec,
            Path(out),
            sources=(*texts.sources, *sources),
            facts=texts.facts,
            notes=say,
            progress=progress,
        )
    _show(out, figures)


def _show(out: str, figures: Figures) -> None:
    from rich.table import Table

    rho = figures.spearman
    rank = "" if rho is None else f", Spearman {rho:.3f} with the ratings"
    say(
        f"{out}: accuracy {figures.accuracy:.3f}, macro F1 {figures.macro_f1:.3f}, "
        f"calibration error {figures.ece:.3f}, Brier score {figures.brier:.3f}{rank}"
        f" on {figures.n:,} held-out texts"
    )
    table = Table("right label", *(f"given: {label}" for label in figures.labels))
    for label, row in zip(figures.labels, figures.confusion, strict=True):
        table.add_row(label, *(f"{n:,}" for n in row))
    console().print(table)
