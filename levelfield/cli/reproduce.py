"""`levelfield reproduce`: published numbers beside what the released data give."""

from __future__ import annotations

import click

from levelfield.cli.options import takes
from levelfield.cli.outputs import OutputType, Writing
from levelfield.cli.terminal import progress_bar, say, tell_json
from levelfield.core.errors import UserError
from levelfield.papers.choices import DefaultsOptions, TableOptions


@click.command(cls=Writing)
@click.argument("id", required=False, metavar="[ID]")
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON document on stdout.")
@takes(TableOptions, "chosen")
@takes(DefaultsOptions, "defaults", without=("workers", "ray"))
@click.option(
    "--markdown",
    type=OutputType("Markdown tables"),
    help="Page to write, with defaults; - is stdout.",
)
def reproduce(
    id: str | None,
    as_json: bool,
    chosen: TableOptions,
    defaults: DefaultsOptions,
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
        if chosen.model or chosen.pairs:
            raise UserError(
                "defaults take neither --model nor --pairs: they are scored as they are"
            )
        _defaults(id, defaults.replace(execution=chosen.execution), as_json, markdown)
        return
    if defaults != DefaultsOptions() or markdown:
        raise UserError(
            "--metric, --without, --most and --markdown are of `levelfield reproduce defaults`"
        )
    report = papers.reproduce(
        id, chosen, stages=progress_bar, note=lambda note: say(f"note: {note}")
    )
    if as_json:
        tell_json(report.to_dict())
        return
    from levelfield.report.terminal.paper_answers import print_answers
    from levelfield.report.terminal.paper_tables import print_list, print_tables

    if report.answers:
        print_answers(report.answers)
    elif not id:
        print_list(report.reproductions)
    else:
        print_tables(report.reproductions, report.facts)


def _defaults(id: str, chosen: DefaultsOptions, as_json: bool, markdown: str | None) -> None:
    from levelfield import papers

    report = papers.agreement_of_defaults(
        id, chosen, stages=progress_bar, note=lambda note: say(f"note: {note}")
    )
    if markdown:
        from levelfield.io import atomic_writer

        with atomic_writer(markdown) as file:
            file.write(report.to_markdown())
    if as_json:
        tell_json(report.to_dict())
    elif markdown != "-":
        from levelfield.report.terminal.defaults_tables import print_defaults

        print_defaults(report)
    if markdown and markdown != "-":
        say(f"wrote {markdown}")
