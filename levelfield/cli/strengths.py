"""`levelfield strengths`: strengths of systems from people's choices and rankings."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from levelfield.agree.design import StrengthOptions
from levelfield.cli.options import takes
from levelfield.cli.outputs import INPUT, Delivery, Writing, delivers
from levelfield.core.errors import UserError

if TYPE_CHECKING:
    from levelfield.agree.strengths import StrengthReport


@click.command(cls=Writing)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=INPUT)
@takes(StrengthOptions, "chosen")
@delivers("latex")
def strengths(files: tuple[str, ...], chosen: StrengthOptions, delivery: Delivery) -> None:
    """Estimate strengths of systems from people's choices and rankings.

    Reads pairs.jsonl and rankings.jsonl of `levelfield rate export`, with its ratings.jsonl as
    --samples, or one choice per row: a, b (systems), better (a, b or tie), and optionally aspect,
    rater and prompt. Prints Bradley-Terry strengths with 95 % intervals, and for each pair of
    systems the probability that a text of the first is preferred.
    """
    from levelfield.agree.strengths import strengths

    if [*files, *cast("tuple[str, ...]", chosen.samples)].count("-") > 1:
        raise UserError("stdin can be read only once")
    report = strengths(files, chosen)
    delivery.give(report, _show, notes=report.notes)


def _show(report: StrengthReport) -> None:
    from levelfield.show.terminal import console
    from levelfield.show.terminal.blocks import print_tables

    print_tables(console(), report.tables(), report.signature)
