"""`levelfield train judge`: a small classifier of a style, a sentiment, a topic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from levelfield.cli.options import Word, takes, takes_given
from levelfield.cli.outputs import INPUT, Writing
from levelfield.cli.terminal import console, progress_bar, say
from levelfield.cli.train_models import FOLDER, SOURCE
from levelfield.core.options import choices
from levelfield.models.small.shapes import Settings
from levelfield.train.judge import JudgeSpec, Tuning
from levelfield.train.judge.command import JudgeOptions

if TYPE_CHECKING:
    from levelfield.train.figures import Figures


_ENDS = choices(JudgeOptions)["ends"]
_SETTINGS = {"fasttext": Settings, "textcnn": JudgeSpec, "transformer": Tuning}
_NAMES = (
    *("epochs", "vocabulary", "case", "half", "ngrams"),
    *("quantize", "start", "learning_rate", "l2"),
)


@click.command(cls=Writing)
@click.argument("files", nargs=-1, metavar="[FILE...]", type=INPUT)
@FOLDER
@takes(JudgeOptions, without=("ends", "settings"))
@click.option(
    *_ENDS.flags,
    "ends",
    type=(Word(_ENDS), Word(_ENDS)),
    metavar="LOWEST HIGHEST",
    help=f"{_ENDS.rule.help}  [default: {_ENDS.rule.otherwise}]",
)
@takes_given(_SETTINGS, "settings", _NAMES)
@SOURCE
def judge(
    files: tuple[str, ...],
    out: str,
    options: JudgeOptions,
    ends: tuple[float, float] | None,
    settings: dict[str, Any],
    sources: tuple[str, ...],
) -> None:
    """Train a judge of a style: a TextCNN, fastText, a linear head, or a fine-tuned encoder.

    FILEs are read as `levelfield score` reads them; a text's label is its control.ATTRIBUTE. Or
    --recipe names data sets and settings: sentiment, sentiment-nltk, topic or formality, with
    -textcnn, -fasttext, -linear or -transformer after it. --model gives the last two another
    encoder, and --learning-rate the last one its rate.

    Leaves a model folder with a card and test.json: accuracy, macro F1, confusion and calibration
    on held-out texts. Use it with --metric control --option judges=FOLDER.
    """
    from levelfield.train.judge.architectures import build_judge

    options = options.replace(ends=ends, settings=settings)
    spec, texts = options.spec(files), options.texts(files)
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
