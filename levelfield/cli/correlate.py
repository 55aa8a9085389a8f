"""`levelfield correlate`: how well metrics agree with people, and which agrees best."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from levelfield.agree.design import CorrelateOptions
from levelfield.cli.options import takes
from levelfield.cli.outputs import INPUT, Delivery, Writing, command_line, delivers, files_option
from levelfield.core.errors import UserError

if TYPE_CHECKING:
    from levelfield.agree.preference import PreferenceReport


@click.command(cls=Writing)
@click.argument("scores", nargs=-1, required=True, metavar="SCORES...", type=INPUT)
@files_option("--ratings", help="File of ratings; may be given again.", required=False)
@files_option(
    "--choices",
    help="File of choices between two texts, instead of ratings; may be given again.",
    required=False,
)
@takes(CorrelateOptions, "chosen")
@delivers("latex", "report")
def correlate(
    scores: tuple[str, ...],
    ratings: tuple[str, ...],
    choices: tuple[str, ...],
    chosen: CorrelateOptions,
    delivery: Delivery,
) -> None:
    """Measure how well metrics agree with people, and which agrees best.

    SCORES are files written by `levelfield score` or by other programs: CSV, TSV, JSONL, JSON or
    Parquet with an id and a column for each metric (--map metric.NAME=COLUMN), or with columns
    metric and score. Ratings are samples with ratings, or one rating per row: id, aspect, rater,
    value. Prints correlations with 95 % intervals by aspect, and which differences between metrics
    are real. Choices are those of `levelfield rate export`, or tables with one choice per row: a, b
    (systems), better, sample_a, sample_b; for these, it prints how often metrics choose as people
    do.
    """
    from levelfield.agree.evaluation import correlate
    from levelfield.show.terminal.correlation_tables import print_evaluation

    samples = cast("tuple[str, ...]", chosen.samples)
    sources = [*scores, *ratings, *choices, *samples, *([chosen.parts] if chosen.parts else [])]
    if sources.count("-") > 1:
        raise UserError("stdin can be read only once")
    if bool(ratings) == bool(choices):
        raise UserError("give people's judgements with --ratings or --choices")
    if choices:
        from levelfield.agree.preference import preferences

        if "report" in delivery.files:
            raise UserError(
                "--report shows ratings only; for choices use the table, --latex or --json"
            )
        preference = preferences(scores, choices, chosen)
        delivery.give(preference, _show_choices, notes=preference.notes)
        return
    evaluation = correlate(scores, ratings, chosen)
    notes = evaluation.table.notes

    def write_report(path: str) -> None:
        from levelfield.show.correlate_page import CorrelateReport, write_correlate_page
        from levelfield.show.page import now_in_words

        report = CorrelateReport(
            title="levelfield: metrics against ratings",
            created=now_in_words(),
            evaluation=evaluation,
            notes=notes,
            files=(*scores, *ratings),
            command=command_line(),
        )
        write_correlate_page(path, report)

    delivery.give(evaluation, print_evaluation, page=write_report, notes=notes)


def _show_choices(report: PreferenceReport) -> None:
    from levelfield.show.terminal import console
    from levelfield.show.terminal.blocks import print_tables

    print_tables(console(), report.tables(), report.signature)
