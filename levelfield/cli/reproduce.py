"""`levelfield reproduce`: published numbers beside what the released data give."""

from __future__ import annotations

import click

from levelfield.cli.terminal import progress_bar, say, tell_json


@click.command()
@click.argument("id", required=False, metavar="[ID]")
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON document on stdout.")
@click.option(
    "--model",
    default="",
    help="For tables of a metric; offline/minilm where such a table is asked for.",
)
@click.option(
    "--pairs",
    is_flag=True,
    help="thesis.3, .5 to .9 over pairs of text and rater, with ROUGE of raw texts.",
)
def reproduce(id: str | None, as_json: bool, model: str, pairs: bool) -> None:
    """Derive published numbers again from released data, and say which come out the same.

    ID is a table (lpf.8), a part of one (lpf.8a), a paper (lpf, thesis, ctrleval, cdm) or `all`;
    without it, the tables are listed with their state. The questions of the thesis are answered
    anew under thesis.rq1, thesis.rq2 and thesis.rq3 (thesis.rq: all). Reads only what is on this
    machine: under $LEVELFIELD_DATA, or fetched with `levelfield data fetch`.
    """
    from levelfield import papers

    report = papers.reproduce(
        id,
        model=model,
        pairs=pairs,
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
