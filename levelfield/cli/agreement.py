"""`levelfield agreement`: how far people agree with each other."""

from __future__ import annotations

from typing import Any

import click

from levelfield.cli.options import FORMAT, MAP, WholeNumber
from levelfield.cli.outputs import INPUT, OutputType, Writing
from levelfield.cli.terminal import say, tell_json
from levelfield.core.json_text import json_text
from levelfield.io.reading import columns


@click.command(cls=Writing)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=INPUT)
@FORMAT
@MAP
@click.option("--aspect", "aspects", multiple=True, help="Only this one; may be given again.")
@click.option("--by", default="", help="Parts: survey, dataset, system, control.ATTR, a field.")
@click.option(
    "--level",
    type=click.Choice(["nominal", "ordinal", "interval"]),
    default="interval",
    show_default=True,
    help="What the numbers are: names, ranks, or a scale.",
)
@click.option("--worst", type=WholeNumber(0), default=10, show_default=True, help="Items shown.")
@click.option(
    "--zscores",
    type=OutputType("z-scores"),
    help="Ratings as z per rater, one a line; - is stdout.",
)
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON document on stdout.")
@click.option("--seed", type=WholeNumber(0), default=0, show_default=True, help="Of resampling.")
def agreement(
    files: tuple[str, ...],
    mapping: tuple[str, ...],
    zscores: str | None,
    as_json: bool,
    **words: Any,
) -> None:
    """Say how far raters agree with each other, and on what they do not.

    Reads samples with ratings, or one rating a row: id, aspect, rater, value. Prints
    Krippendorff's alpha, intraclass correlations, correlations of each two raters, how each rater
    used the scale, and the items of the largest disagreement.
    """
    from levelfield.cli.agreement_table import print_agreement
    from levelfield.io import atomic_writer
    from levelfield.meta.agreement import agreement

    report = agreement(files, mapping=columns(mapping), **words)
    if zscores:
        with atomic_writer(zscores) as file:
            for rating in report.z_scores:
                file.write(json_text(rating.to_dict()) + "\n")
    if as_json:
        tell_json(report.to_dict())
    elif zscores != "-":
        print_agreement(report)
    if zscores and zscores != "-":
        say(f"wrote {zscores}")
