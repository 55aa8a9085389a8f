"""`levelfield score`: from files of texts to values, a table and a page."""

from __future__ import annotations

import functools

import click

from levelfield.cli.options import takes
from levelfield.cli.outputs import (
    INPUT,
    Delivery,
    OutputType,
    Writing,
    command_line,
    delivers,
    out_option,
)
from levelfield.cli.terminal import progress_bar, say_note
from levelfield.io.reading import ReadingOptions
from levelfield.scoring.options import ScoreOptions


@click.command(cls=Writing)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=INPUT)
@takes(ScoreOptions)
@takes(ReadingOptions, "reading", without=("prompt",), among={"ids": ("given", "file")})
@out_option("scores", "Write one value per line; - is stdout.", "scores.jsonl")
@click.option(
    "--parts",
    type=OutputType("parts of scores"),
    help="Write the evaluators that the values are made of, as JSONL.",
)
@click.option(
    "--pairs", "all_pairs", is_flag=True, help="Print the comparison of each pair of systems."
)
@delivers("report", "latex", "markdown", json="Print the summary as one JSON document on stdout.")
def score(
    files: tuple[str, ...],
    options: ScoreOptions,
    reading: ReadingOptions,
    out: str,
    parts: str | None,
    all_pairs: bool,
    delivery: Delivery,
) -> None:
    """Score texts with one or more metrics, and compare the systems that wrote them.

    Reads JSONL, JSON, CSV, TSV, Parquet, plain text, CTRLEval's files and Hugging Face data sets
    (hf:NAME?split=test). Prints a table of means with 95 % intervals by system (or by label if no
    system is named), which system is shown to be best, and a ranking per metric with letters for
    systems that can't be told apart.
    """
    from levelfield.io import open_samples
    from levelfield.scoring.gallery import Gallery
    from levelfield.scoring.run import measure
    from levelfield.show.terminal.score_tables import print_results

    def write_report(path: str) -> None:
        from levelfield.show import score_page, write_page

        write_page(path, score_page(result, command=command_line()))

    result = measure(
        open_samples(files, reading),
        options,
        files=files,
        out=out,
        parts=parts,
        gallery=Gallery() if "report" in delivery.files else None,
        stages=progress_bar,
        note=say_note,
    )
    delivery.give(
        result,
        functools.partial(print_results, pairs=all_pairs),
        page=write_report,
        written=(out, parts),
        notes=result.notes,
    )
