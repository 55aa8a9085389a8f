"""`levelfield convert`: files that authors published, as guides and models of ours."""

from __future__ import annotations

import click

from levelfield.cli.outputs import INPUT, OutputType, Writing
from levelfield.cli.terminal import say
from levelfield.io.reading import pairs
from levelfield.training.convert.table import LAYOUTS


@click.command(
    cls=Writing,
    epilog="\n\n".join(f"{one.name}: {one.files}; makes {one.makes}." for one in LAYOUTS.values()),
)
@click.argument("layout", type=click.Choice(list(LAYOUTS)))
@click.argument("source", type=INPUT)
@click.option("--out", required=True, type=OutputType(), help="The folder that is made.")
@click.option(
    "--option",
    "-o",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the layout; docs/convert.md lists them.",
)
@click.option(
    "--allow-pickle",
    is_flag=True,
    help="Read pickled weights; only tensors and plain containers are read.",
)
def convert(
    layout: str, source: str, out: str, options: tuple[str, ...], allow_pickle: bool
) -> None:
    """Convert weights that authors published to a guide or a model folder.

    SOURCE is the authors' file or folder, of this LAYOUT. Missing and unknown tensors and wrong
    shapes are named, and nothing is left at --out unless it is whole.
    """
    from levelfield.training.convert import convert as run

    converted = run(
        layout, source, out, options=pairs("--option", options), allow_pickle=allow_pickle
    )
    say(f"{out}: {converted.usage.format(out=out)}")
