"""`levelfield train cdm`: Algorithm 1 of generative CDM as one command."""

from __future__ import annotations

from pathlib import Path

import click

from levelfield.cli.outputs import INPUT, OutputType, Writing
from levelfield.cli.terminal import progress_bar, say


@click.command(cls=Writing)
@click.argument("plan", metavar="PLAN.toml", type=INPUT)
@click.option("--out", required=True, type=OutputType(), help="The folder of all that is made.")
def cdm(plan: str, out: str) -> None:
    """Generative CDM: two infillers, negatives, and the discriminator that is the metric.

    Trains what PLAN.toml does not name a model for, in this order: the amateur, the expert,
    negatives from log p⁻ ∝ log p_a − γ (log p_e − log p_a), and a discriminator, for
    discriminator.score. Killed and run again, it goes on where it was.
    """
    from levelfield.training.cdm.plan import load_cdm_plan
    from levelfield.training.cdm.run import run_cdm

    history = run_cdm(load_cdm_plan(Path(plan)), Path(out), notes=say, bar=progress_bar)
    figures = history[-1].validation
    say(f"{out}/discriminator: " + ", ".join(f"{k} {v:.3f}" for k, v in figures.items()))
