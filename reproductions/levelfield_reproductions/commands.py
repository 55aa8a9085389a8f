"""The commands `levelfield reproduce` and `levelfield convert`."""

from __future__ import annotations

import functools
from typing import Any

import click

from levelfield.cli.options import takes
from levelfield.cli.outputs import INPUT, Delivery, OutputType, Writing, delivers
from levelfield.cli.terminal import progress_bar, say
from levelfield.core.errors import UserError
from levelfield_reproductions.choices import DefaultsOptions, TableOptions
from levelfield_reproductions.convert import LAYOUTS, ConvertOptions


@click.command(cls=Writing)
@click.argument("id", required=False, metavar="[ID]")
@takes(TableOptions, "chosen")
@takes(DefaultsOptions, "defaults", without=("workers", "ray"))
@delivers("markdown", markdown="Write a page in Markdown (defaults only); - is stdout.")
def reproduce(
    id: str | None, chosen: TableOptions, defaults: DefaultsOptions, delivery: Delivery
) -> None:
    """Derive published numbers again, and report which agree.

    ID is a table (lpf.8), a part of one (lpf.8a), a paper (lpf, thesis, ctrleval, cdm, dexperts,
    pplm) or `all`; without it, the tables are listed with their state. The questions of the thesis
    are answered again under thesis.rq1, thesis.rq2 and thesis.rq3 (thesis.rq: all). `defaults`
    compares every metric, with its defaults, with every rated set; defaults.SET and
    defaults.SET.PART select one. Reads only files on this machine: under $LEVELFIELD_DATA, or
    fetched with `levelfield data fetch`.
    """
    import levelfield_reproductions as papers

    reporting: dict[str, Any] = {"stages": progress_bar, "note": lambda note: say(f"note: {note}")}
    if id and papers.is_of_defaults(id):
        if chosen.model or chosen.pairs:
            raise UserError(
                "defaults accepts neither --model nor --pairs: metrics are scored with their "
                "defaults"
            )
        from levelfield_reproductions.terminal import print_defaults

        defaults = defaults.replace(execution=chosen.execution)
        delivery.give(papers.agreement_of_defaults(id, defaults, **reporting), print_defaults)
        return
    if defaults != DefaultsOptions() or delivery.files:
        raise UserError(
            "--metric, --without, --most and --markdown require `levelfield reproduce defaults`"
        )
    from levelfield_reproductions.terminal import print_report

    delivery.give(
        papers.reproduce(id, chosen, **reporting), functools.partial(print_report, is_list=not id)
    )


@click.command(
    cls=Writing,
    epilog="\n\n".join(
        f"{layout.name}: {layout.files}; makes {layout.makes}." for layout in LAYOUTS.values()
    ),
)
@click.argument("layout", type=click.Choice(list(LAYOUTS)))
@click.argument("source", type=INPUT)
@click.option("--out", required=True, type=OutputType(), help="Folder to make.")
@takes(ConvertOptions, "chosen")
def convert(layout: str, source: str, out: str, chosen: ConvertOptions) -> None:
    """Convert weights that authors published to a guide or a model folder.

    SOURCE is the authors' file or folder, of this LAYOUT. Missing and unknown tensors and wrong
    shapes are named, and nothing is left at --out unless it is whole.
    """
    from levelfield_reproductions.convert import convert as run

    converted = run(layout, source, out, chosen)
    say(f"{out}: {converted.usage.format(out=out)}")
