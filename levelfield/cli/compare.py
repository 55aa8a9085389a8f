"""`levelfield compare`: which system is better, every two on the inputs that both answered."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from levelfield.cli.options import takes
from levelfield.cli.outputs import INPUT, Delivery, Writing, delivers
from levelfield.cli.terminal import progress_bar, say_note
from levelfield.core.errors import UserError
from levelfield.io.reading import ReadingOptions
from levelfield.scoring.options import CompareOptions

if TYPE_CHECKING:
    from levelfield.scoring.compare import SystemComparisons


@click.command(cls=Writing)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=INPUT)
@takes(CompareOptions, "chosen", without=("shard",))
@takes(ReadingOptions, "reading", without=("prompt", "ids"))
@delivers("latex", "markdown")
def compare(
    files: tuple[str, ...], chosen: CompareOptions, reading: ReadingOptions, delivery: Delivery
) -> None:
    """Compare systems pair by pair, on the inputs that both answered.

    Reads logs of Inspect (.eval, .json), folders of lm-evaluation-harness and of HELM, and what
    `levelfield score` reads. Logs are compared by the scores that they hold for their samples,
    paired by sample, with epochs averaged within samples; --metric then selects some of these
    scores. Other files, and logs given with a metric of `levelfield metrics`, are scored. Prints
    means with 95 % intervals, and differences with their intervals, tests and verdicts.
    """
    from levelfield.scoring.compare import compare

    if files.count("-") > 1:
        raise UserError("stdin can be read only once")
    comparisons = compare(
        [Path(file) for file in files],
        chosen=chosen,
        reading=reading,
        stages=progress_bar,
        note=say_note,
    )
    delivery.give(comparisons, _show, notes=comparisons.notes)


def _show(comparisons: SystemComparisons) -> None:
    from levelfield.show.terminal.score_tables import print_comparisons

    print_comparisons(comparisons)
