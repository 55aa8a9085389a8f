"""`levelfield reproduce`: published numbers beside what the released data give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from levelfield.cli.options import RAY, WORKERS, WholeNumber
from levelfield.cli.outputs import OutputType, Writing
from levelfield.cli.terminal import progress_bar, say, tell_json
from levelfield.core.errors import UserError

if TYPE_CHECKING:
    from levelfield.run.options import Workers


@click.command(cls=Writing)
@click.argument("id", required=False, metavar="[ID]")
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON document on stdout.")
@click.option(
    "--model",
    default="",
    help="Model for tables of a metric. [default: offline/minilm where such a table is asked for]",
)
@click.option(
    "--pairs",
    is_flag=True,
    help="Take pairs of text and rater for thesis.3 and .5 to .9, with ROUGE of raw texts.",
)
@WORKERS
@RAY
@click.option(
    "--metric",
    "-m",
    "metrics",
    multiple=True,
    help="Metric or family to measure, with defaults; may be given again. [default: all]",
)
@click.option(
    "--without",
    multiple=True,
    metavar="METRIC",
    help="Metric or family to leave out, with defaults; may be given again.",
)
@click.option(
    "--most",
    type=WholeNumber(1),
    metavar="TEXTS",
    help="Measure so many texts of a set at most, with defaults: whole clusters of them.",
)
@click.option(
    "--markdown",
    type=OutputType("Markdown tables"),
    help="Page to write, with defaults; - is stdout.",
)
def reproduce(
    id: str | None,
    as_json: bool,
    model: str,
    pairs: bool,
    workers: Workers,
    ray: str | None,
    metrics: tuple[str, ...],
    without: tuple[str, ...],
    most: int | None,
    markdown: str | None,
) -> None:
    """Derive published numbers again from released data, and say which come out the same.

    ID is a table (lpf.8), a part of one (lpf.8a), a paper (lpf, thesis, ctrleval, cdm) or `all`;
    without it, the tables are listed with their state. The questions of the thesis are answered
    anew under thesis.rq1, thesis.rq2 and thesis.rq3 (thesis.rq: all). `defaults` compares every
    metric, as it is by default, with every rated set; defaults.SET and defaults.SET.PART choose.
    Reads only what is on this machine: under $LEVELFIELD_DATA, or fetched with `levelfield data
    fetch`.
    """
    from levelfield import papers

    if id and papers.is_of_defaults(id):
        if model or pairs:
            raise UserError(
                "defaults take neither --model nor --pairs: they are scored as they are"
            )
        _defaults(
            id,
            as_json,
            markdown,
            metrics=metrics,
            without=without,
            most=most,
            workers=workers,
            ray=ray,
        )
        return
    if metrics or without or most or markdown:
        raise UserError(
            "--metric, --without, --most and --markdown are of `levelfield reproduce defaults`"
        )
    report = papers.reproduce(
        id,
        model=model,
        pairs=pairs,
        workers=workers,
        ray=ray,
        stages=progress_bar,
        note=lambda note: say(f"note: {note}"),
    )
    if as_json:
        tell_json(report.to_dict())
        return
    from levelfield.cli.answers import print_answers
    from levelfield.cli.papers import print_list, print_tables

    if report.answers:
        print_answers(report.answers)
    elif not id:
        print_list(report.reproductions)
    else:
        print_tables(report.reproductions, report.facts)


def _defaults(id: str, as_json: bool, markdown: str | None, **words: Any) -> None:
    from levelfield import papers

    report = papers.agreement_of_defaults(
        id,
        **words,
        stages=progress_bar,
        note=lambda note: say(f"note: {note}"),
    )
    if markdown:
        from levelfield.io import atomic_writer

        with atomic_writer(markdown) as file:
            file.write(report.to_markdown())
    if as_json:
        tell_json(report.to_dict())
    elif markdown != "-":
        from levelfield.cli.defaults_table import print_defaults

        print_defaults(report)
    if markdown and markdown != "-":
        say(f"wrote {markdown}")
