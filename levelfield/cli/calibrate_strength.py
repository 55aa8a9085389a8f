"""`levelfield calibrate-strength`: the strength that a budget of divergence allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from levelfield.cli.generate import PROMPTS, asked
from levelfield.cli.options import takes
from levelfield.cli.outputs import INPUT, Delivery, Writing, delivers
from levelfield.cli.terminal import console, progress_bar
from levelfield.generation.contract import CalibrationOptions
from levelfield.show.terminal import plain_table

if TYPE_CHECKING:
    from levelfield.generation.calibration import Calibration


@click.command(cls=Writing)
@click.argument("requests", required=False, metavar="[REQUESTS]", type=INPUT)
@PROMPTS
@click.option(
    "--technique",
    required=True,
    help="Name of a technique listed by `levelfield techniques`, or a class in a file, "
    "my_technique.py:Class.",
)
@takes(CalibrationOptions, "chosen")
@delivers(json="Print the strengths tried as one JSON document.")
def calibrate_strength(
    requests: str | None,
    prompt_set: str | None,
    technique: str,
    chosen: CalibrationOptions,
    delivery: Delivery,
) -> None:
    """Find the strength at which a technique uses a divergence budget.

    The budget is the mean divergence from the base per token: Σ q log (q / p) over the vocabulary,
    with q the technique's distribution of the next token and p its base's, at the tokens of texts
    that the technique writes. Techniques at the same budget can be compared: none has more room
    than another. REQUESTS are read as by `levelfield generate`; use requests other than those of
    the comparison.
    """
    from levelfield.generation.calibration import calibrate_strength as run

    calibration = run(
        asked(requests, prompt_set, "calibrate-strength"),
        technique,
        chosen,
        stages=lambda stage, total: progress_bar(stage, total),
    )
    delivery.give(calibration, _show, notes=[calibration.note] * bool(calibration.note))


def _show(calibration: Calibration) -> None:
    from rich.text import Text

    table = plain_table(f">{calibration.knob}", ">nats per token", ">95 % interval", ">tokens")
    for tried in calibration.tried:
        nats = tried.divergence
        ends = f"{nats.low:.3f} to {nats.high:.3f}" if nats.low == nats.low else "–"
        row = (f"{tried.strength:.4g}", f"{nats.value:.3f}", ends, f"{nats.n:,}")
        table.add_row(*map(Text, row), style="bold" if tried is calibration.found else "")
    console().print(table)
    missed = "" if calibration.is_within else f", not within {calibration.tolerance:.0%}"
    option = f"-o {calibration.knob}={calibration.found.strength:.4g}"
    console().print(Text(f"{option} for a budget of {calibration.budget:g} nats per token{missed}"))
    console().print(Text(calibration.signature, style="dim"))
