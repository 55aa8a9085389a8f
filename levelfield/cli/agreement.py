"""`levelfield agreement`: how well people agree with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from levelfield.agree.design import AgreementOptions
from levelfield.cli.options import takes
from levelfield.cli.outputs import INPUT, Delivery, OutputType, Writing, delivers
from levelfield.cli.terminal import say_note
from levelfield.core.errors import UserError
from levelfield.core.strings import json_text

if TYPE_CHECKING:
    from levelfield.agree.agreement import AgreementReport


@click.command(cls=Writing)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=INPUT)
@takes(AgreementOptions, "chosen")
@click.option(
    "--zscores",
    type=OutputType("z-scores"),
    help="Write the ratings as z-scores per rater, one per line; - is stdout.",
)
@delivers()
def agreement(
    files: tuple[str, ...], chosen: AgreementOptions, zscores: str | None, delivery: Delivery
) -> None:
    """Measure how well raters agree, and show where they disagree.

    Reads samples with ratings; or one rating per row: id, aspect, rater, value; or one choice
    between two texts per row: a, b (systems), better, and optionally aspect, rater, item, sample_a,
    sample_b. For choices it prints Krippendorff's alpha, the share of ties, and kappa; for ratings
    Krippendorff's alpha, intraclass correlations, correlations between each pair of raters, how
    each rater used the scale, and the items with the largest disagreement. --judge tests whether a
    judge may stand in for a rater.
    """
    from levelfield.agree.agreement import agreement
    from levelfield.io import atomic_writer

    if [*files, chosen.judge].count("-") > 1:
        raise UserError("stdin can be read only once")
    report = agreement(files, chosen)
    if zscores and report.choices:
        raise UserError("--zscores: choices between two texts have no z-scores")
    if zscores:
        with atomic_writer(zscores) as file:
            for rating in report.z_scores:
                file.write(json_text(rating.to_dict()) + "\n")
    delivery.give(report, _show, written=(zscores,))


def _show(report: AgreementReport) -> None:
    from levelfield.show.terminal import console
    from levelfield.show.terminal.blocks import print_tables

    print_tables(console(), report.tables(), report.signature)
    for note in report.notes():
        say_note(note)
