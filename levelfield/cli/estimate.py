"""`levelfield estimate`: mean ratings from few ratings and many scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from levelfield.agree.design import EstimateOptions
from levelfield.cli.options import takes
from levelfield.cli.outputs import INPUT, Delivery, OutputType, Writing, delivers
from levelfield.core.errors import UserError
from levelfield.core.strings import json_text

if TYPE_CHECKING:
    from levelfield.agree.estimate import Estimation


@click.command(cls=Writing)
@click.argument("scores", nargs=-1, required=True, metavar="SCORES...", type=INPUT)
@click.option(
    "--ratings",
    multiple=True,
    metavar="FILE",
    type=INPUT,
    help="File of ratings; may be given again.",
)
@takes(EstimateOptions, "chosen")
@click.option(
    "--out",
    type=OutputType("texts to rate"),
    help="Write the texts of --next, for a study of `levelfield rate`.",
)
@delivers("latex")
def estimate(
    scores: tuple[str, ...],
    ratings: tuple[str, ...],
    chosen: EstimateOptions,
    out: str | None,
    delivery: Delivery,
) -> None:
    """Estimate mean ratings of systems from few ratings and many scores.

    SCORES are files as `levelfield correlate` reads them, with a score for every text; some of
    these texts, drawn at random, have ratings. Prints the mean of the ratings alone and the
    prediction-powered mean, each with its 95 % interval, how many ratings the scores are worth, and
    differences between systems. --next N draws the texts that are most useful to rate next.
    """
    from levelfield.agree.estimate import estimate
    from levelfield.io import atomic_writer

    samples = cast("tuple[str, ...]", chosen.samples)
    if [*scores, *ratings, *samples].count("-") > 1:
        raise UserError("stdin can be read only once")
    if bool(chosen.next) != bool(out):
        raise UserError(
            "--next N says how many texts to draw, and --out FILE where to write them; give both"
        )
    estimation = estimate(scores, ratings, chosen)
    if out:
        with atomic_writer(out) as file:
            for text in estimation.drawn:
                file.write(json_text(text.to_record()) + "\n")
    delivery.give(estimation, _show, written=(out,), notes=estimation.notes)


def _show(estimation: Estimation) -> None:
    from levelfield.show.terminal import console
    from levelfield.show.terminal.blocks import print_tables

    print_tables(console(), estimation.tables(), estimation.signature)
