"""`levelfield convert`: files that authors published, as guides and models of ours."""

from __future__ import annotations

import click

from levelfield.cli.options import takes
from levelfield.cli.outputs import INPUT, OutputType, Writing
from levelfield.cli.terminal import say
from levelfield.train.convert.table import LAYOUTS, ConvertOptions


@click.command(
    cls=Writing,
    epilog="\n\n".join(f"{one.name}: {one.files}; makes {one.makes}." for one in LAYOUTS.values()),
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
    from levelfield.train.convert import convert as run

    converted = run(layout, source, out, chosen)
    say(f"{out}: {converted.usage.format(out=out)}")
