"""`levelfield score`: from files of texts to values, a table and a page."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from levelfield.cli.options import takes
from levelfield.cli.outputs import INPUT, OutputType, Writing
from levelfield.cli.terminal import progress_bar, say, tell_json
from levelfield.io.reading import ReadingOptions
from levelfield.run.options import ScoreOptions

if TYPE_CHECKING:
    from levelfield.run.result import ScoreSummary


@click.command(cls=Writing)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=INPUT)
@takes(ScoreOptions)
@takes(ReadingOptions, "reading", without=("prompt",), among={"ids": ("given", "file")})
@click.option(
    "--out",
    type=OutputType("scores"),
    default="scores.jsonl",
    show_default=True,
    help="One value a line; - is stdout.",
)
@click.option(
    "--parts",
    type=OutputType("parts of scores"),
    help="The evaluators that the values are made of, as JSONL.",
)
@click.option(
    "--report", type=OutputType("a page of levelfield"), help="A page to look at: one HTML file."
)
@click.option(
    "--latex", type=OutputType("LaTeX tables"), help="The table for booktabs; - is stdout."
)
@click.option("--markdown", type=OutputType("Markdown tables"), help="The table as Markdown.")
@click.option(
    "--pairs", "all_pairs", is_flag=True, help="Print the comparison of every two systems."
)
@click.option("--json", "as_json", is_flag=True, help="The summary as one JSON document on stdout.")
def score(
    files: tuple[str, ...],
    options: ScoreOptions,
    reading: ReadingOptions,
    out: str,
    parts: str | None,
    all_pairs: bool,
    **pages: Any,
) -> None:
    """Score texts with one or more metrics, and compare the systems that wrote them.

    Reads JSONL, JSON, CSV, TSV, Parquet, plain text, CTRLEval's files and Hugging Face data sets
    (hf:NAME?split=test). Prints a table of means with 95 % intervals by system (or by label where
    no system is named), what is shown best, and a ranking a metric with letters for what can't be
    told apart.
    """
    from levelfield.io import open_samples
    from levelfield.run.gallery import Gallery
    from levelfield.run.score import measure

    result = measure(
        open_samples(files, reading),
        options,
        files=files,
        out=out,
        parts=parts,
        gallery=Gallery() if pages["report"] else None,
        stages=progress_bar,
        note=lambda note: say(f"note: {note}"),
    )
    _show(result, [out, parts], **pages, pairs=all_pairs)


def _show(
    result: ScoreSummary,
    written: list[str | None],
    *,
    report: str | None,
    latex: str | None,
    markdown: str | None,
    as_json: bool,
    pairs: bool,
) -> None:
    """Says what came out: on the terminal, as JSON, as files."""
    from levelfield.io import atomic_writer

    for note in result.notes:
        say(f"note: {note}")
    if report:
        from levelfield.report import score_page, write_page

        page = score_page(result, command=shlex.join(["levelfield", *sys.argv[1:]]))
        write_page(report, page)
    for path, form in ((latex, result.to_latex), (markdown, result.to_markdown)):
        if path:
            with atomic_writer(path) as file:
                file.write(form())
    paths = [path for path in (*written, report, latex, markdown) if path]
    if as_json:
        tell_json(result.to_dict())
    elif "-" not in paths:
        from levelfield.report.terminal.score_tables import print_results

        print_results(result, pairs=pairs)
    if files := [path for path in paths if path != "-"]:
        say(f"wrote {', '.join(files)}")
