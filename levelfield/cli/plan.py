"""`levelfield plan`: how many inputs, seeds, samples and raters a study needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from levelfield.cli.options import takes
from levelfield.cli.outputs import INPUT, Delivery, Writing, delivers
from levelfield.planning.design import MetricPlanOptions, RaterPlanOptions, SystemPlanOptions

if TYPE_CHECKING:
    from levelfield.planning.result import SizePlan


@click.group()
def plan() -> None:
    """Compute how large a study must be, from a pilot or from expectations."""


@plan.command(cls=Writing)
@click.argument("scores", nargs=-1, metavar="[SCORES]...", type=INPUT)
@takes(SystemPlanOptions, "chosen")
@delivers("latex")
def systems(scores: tuple[str, ...], chosen: SystemPlanOptions, delivery: Delivery) -> None:
    """Compute how many inputs and seeds a comparison of systems needs.

    SCORES are what `levelfield score` or `levelfield study export` wrote for a pilot, with the
    pilot's texts as --samples. Without a pilot, give the expected spread of values with --sd and
    --sd-seeds.
    """
    from levelfield.planning.systems import plan_systems

    delivery.give(plan_systems(scores, chosen), _show)


@plan.command(cls=Writing)
@click.argument("scores", nargs=-1, metavar="[SCORES]...", type=INPUT)
@takes(MetricPlanOptions, "chosen")
@delivers("latex")
def metrics(scores: tuple[str, ...], chosen: MetricPlanOptions, delivery: Delivery) -> None:
    """Compute how many rated samples and raters a metric's agreement needs.

    SCORES and --ratings are those of a pilot, as for `levelfield correlate`. Without a pilot, give
    the expected values with --r and --agreement.
    """
    from levelfield.planning.metrics import plan_metrics

    delivery.give(plan_metrics(scores, chosen), _show)


@plan.command(cls=Writing)
@click.argument("ratings", nargs=-1, metavar="[RATINGS]...", type=INPUT)
@takes(RaterPlanOptions, "chosen")
@delivers("latex")
def raters(ratings: tuple[str, ...], chosen: RaterPlanOptions, delivery: Delivery) -> None:
    """Compute how many items and raters the agreement of raters needs.

    RATINGS are those of a pilot, as for `levelfield agreement`. Without a pilot, give the expected
    value with --agreement.
    """
    from levelfield.planning.raters import plan_raters

    delivery.give(plan_raters(ratings, chosen), _show)


def _show(result: SizePlan) -> None:
    from levelfield.show.terminal import console
    from levelfield.show.terminal.blocks import print_table

    out = console()
    print_table(out, result.table())
    out.print(result.signature, style="dim", soft_wrap=True)
