"""`levelfield correlate`: how far metrics agree with people, and which agrees best."""

from __future__ import annotations

import datetime
import shlex
import sys
from typing import cast

import click

from levelfield.cli.options import takes
from levelfield.cli.outputs import INPUT, OutputType, Writing
from levelfield.cli.terminal import say, tell_json
from levelfield.core.errors import UserError
from levelfield.meta.design import CorrelateOptions


@click.command(cls=Writing)
@click.argument("scores", nargs=-1, required=True, metavar="SCORES...", type=INPUT)
@click.option(
    "--ratings",
    multiple=True,
    required=True,
    metavar="FILE",
    type=INPUT,
    help="File of ratings; may be given again.",
)
@takes(CorrelateOptions, "chosen")
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON document on stdout.")
@click.option("--latex", type=OutputType("LaTeX tables"), help="A booktabs table; - is stdout.")
@click.option(
    "--report", type=OutputType("a page of levelfield"), help="A page to look at: one HTML file."
)
def correlate(
    scores: tuple[str, ...],
    ratings: tuple[str, ...],
    chosen: CorrelateOptions,
    as_json: bool,
    latex: str | None,
    report: str | None,
) -> None:
    """Say how far metrics agree with people's ratings, and which agrees best.

    SCORES are files that `levelfield score` wrote, or those of other programs: CSV, TSV, JSONL,
    JSON or Parquet with an id and a column for each metric (--map metric.NAME=COLUMN), or with
    columns metric and score. Ratings are samples with ratings, or one rating a row: id, aspect,
    rater, value. Prints correlations with 95 % intervals by aspect, and which differences between
    metrics are real.
    """
    from levelfield.io import atomic_writer
    from levelfield.meta.evaluation import correlate
    from levelfield.report.terminal.correlation_tables import print_evaluation

    samples = cast("tuple[str, ...]", chosen.samples)
    sources = [*scores, *ratings, *samples, *([chosen.parts] if chosen.parts else [])]
    if sources.count("-") > 1:
        raise UserError("stdin can be read once only")
    evaluation = correlate(scores, ratings, chosen)
    notes = evaluation.table.notes
    for note in notes:
        say(f"note: {note}")
    if latex:
        with atomic_writer(latex) as file:
            file.write(evaluation.to_latex())
    if report:
        from levelfield.report.correlate_page import CorrelateReport, write_correlate_page

        write_correlate_page(
            report,
            CorrelateReport(
                title="levelfield: metrics against ratings",
                created=datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
                evaluation=evaluation,
                notes=notes,
                files=(*scores, *ratings),
                command=shlex.join(["levelfield", *sys.argv[1:]]),
            ),
        )
    if as_json:
        tell_json(evaluation.to_dict())
    elif "-" not in (latex, report):
        print_evaluation(evaluation)
    written = [path for path in (latex, report) if path and path != "-"]
    if written:
        say(f"wrote {', '.join(written)}")
