"""`levelfield score`: from files of texts to values, a table and a page."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from levelfield.cli.options import (
    DTYPE,
    ENGINE,
    FAMILY,
    FORMAT,
    MAP,
    RAY,
    TIME_LIMIT,
    WORKERS,
    WholeNumber,
    columns,
    pairs,
)
from levelfield.cli.outputs import INPUT, OutputType, Writing
from levelfield.cli.terminal import progress_bar, say, tell_json
from levelfield.run.tasks import TASKS

if TYPE_CHECKING:
    from levelfield.io.source import Ids
    from levelfield.run.result import ScoreSummary


@dataclass(frozen=True)
class _Outputs:
    """Where results go: paths, `-` for stdout."""

    out: str
    parts: str | None
    report: str | None
    latex: str | None
    markdown: str | None
    as_json: bool

    @property
    def paths(self) -> list[str]:
        every = (self.out, self.parts, self.report, self.latex, self.markdown)
        return [path for path in every if path is not None]


@click.command(cls=Writing)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=INPUT)
@click.option(
    "--metric",
    "-m",
    "metrics",
    multiple=True,
    help="A metric, a family, or PATH.py:CLASS. [default: composite]",
)
@click.option("--task", type=click.Choice(sorted(TASKS)), help="Metrics that belong together.")
@click.option(
    "--content",
    metavar="METRIC",
    help="With --task: what stands for content in the joint mean of content and style.",
)
@click.option(
    "--model", help="Hub name (NAME or NAME@REVISION), folder, offline/minilm or offline/smollm2."
)
@click.option(
    "--option",
    "-o",
    "words",
    multiple=True,
    metavar="[METRIC:]NAME=VALUE",
    help="Of all metrics that have it, or of one metric or family.",
)
@FORMAT
@MAP
@click.option(
    "--source-file",
    metavar="FILE",
    type=INPUT,
    help="Line n is the source of line n of each FILE of plain text.",
)
@click.option(
    "--reference-file",
    "reference_files",
    multiple=True,
    metavar="FILE",
    type=INPUT,
    help="Line n is a reference for line n of each FILE; may be given again.",
)
@click.option("--control", multiple=True, metavar="ATTR=LABEL", help="For texts that name none.")
@click.option("--system", default="", help="For texts that name none.")
@click.option(
    "--ids",
    type=click.Choice(["given", "file"]),
    default="given",
    help="`file`: prefix ids by file.",
)
@click.option("--by", help="Group by: system, dataset, seed, control, control.ATTR, none.")
@click.option(
    "--corpus-by",
    metavar="FIELDS",
    help="What the texts behind one value of a corpus metric share, or none. "
    "[default: system,dataset,seed,control]",
)
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
    help="The evaluators behind the values, as JSONL.",
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
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, mps.")
@DTYPE
@ENGINE
@click.option("--batch-tokens", type=WholeNumber(1), help="Tokens in a batch; bounds memory.")
@click.option("--seed", type=WholeNumber(0), default=0, show_default=True, help="Of resampling.")
@FAMILY
@TIME_LIMIT
@WORKERS
@RAY
@click.option("--allow-pickle", is_flag=True, help="Take models whose weights are pickled.")
@click.option("--no-cache", is_flag=True, help="Score everything anew, keep nothing.")
def score(
    files: tuple[str, ...],
    words: tuple[str, ...],
    format: str | None,
    mapping: tuple[str, ...],
    source_file: str | None,
    reference_files: tuple[str, ...],
    control: tuple[str, ...],
    system: str,
    ids: Ids,
    out: str,
    parts: str | None,
    report: str | None,
    latex: str | None,
    markdown: str | None,
    all_pairs: bool,
    as_json: bool,
    no_cache: bool,
    **options: Any,
) -> None:
    """Score texts with one or more metrics, and compare the systems that wrote them.

    Reads JSONL, JSON, CSV, TSV, Parquet, plain text, CTRLEval's files and Hugging Face data sets
    (hf:NAME?split=test). Prints a table of means with 95 % intervals by system (or by label where
    no system is named), what is shown best, and a ranking a metric with letters for what can't be
    told apart.
    """
    from levelfield.io import open_samples
    from levelfield.run.gallery import Gallery
    from levelfield.run.options import ScoreOptions
    from levelfield.run.score import measure

    outputs = _Outputs(out, parts, report, latex, markdown, as_json)
    chosen = ScoreOptions(options=pairs("--option", words), cache=not no_cache, **options)
    source = open_samples(
        files,
        format=format,
        mapping=columns(mapping),
        control=pairs("--control", control),
        system=system,
        ids=ids,
        source_file=source_file,
        reference_files=reference_files,
    )
    result = measure(
        source,
        chosen,
        files=files,
        out=out,
        parts=parts,
        gallery=Gallery() if report else None,
        stages=progress_bar,
        note=lambda note: say(f"note: {note}"),
    )
    _show(result, outputs, pairs=all_pairs)


def _show(result: ScoreSummary, outputs: _Outputs, *, pairs: bool) -> None:
    """Says what came out: on the terminal, as JSON, as files."""
    for note in result.notes:
        say(f"note: {note}")
    if outputs.report:
        from levelfield.report import score_page, write_page

        page = score_page(result, command=shlex.join(["levelfield", *sys.argv[1:]]))
        write_page(outputs.report, page)
    from levelfield.io import atomic_writer

    for path, form in ((outputs.latex, result.to_latex), (outputs.markdown, result.to_markdown)):
        if path:
            with atomic_writer(path) as file:
                file.write(form())
    if outputs.as_json:
        tell_json(result.to_dict())
    elif "-" not in outputs.paths:
        from levelfield.cli.summaries import print_results

        print_results(result, pairs=pairs)
    written = [path for path in outputs.paths if path and path != "-"]
    if written:
        say(f"wrote {', '.join(written)}")
