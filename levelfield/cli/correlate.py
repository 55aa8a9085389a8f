"""`levelfield correlate`: how far metrics agree with people, and which agrees best."""

from __future__ import annotations

import datetime
import shlex
import sys
from typing import Any

import click

from levelfield.cli.options import FiniteNumber, WholeNumber
from levelfield.cli.outputs import INPUT, OutputType, Writing
from levelfield.cli.terminal import say, tell_json
from levelfield.core.errors import UserError
from levelfield.core.limits import DRAWS
from levelfield.io.reading import columns
from levelfield.stats.estimands import STATISTICS


@click.command(cls=Writing)
@click.argument("scores", nargs=-1, required=True, metavar="SCORES...", type=INPUT)
@click.option(
    "--ratings", multiple=True, required=True, metavar="FILE", type=INPUT, help="What people said."
)
@click.option("--format", "format", help="Of the ratings; else their suffix says it.")
@click.option(
    "--map",
    "mapping",
    multiple=True,
    metavar="FIELD=COLUMN",
    help="Our field, your column, in any of the files: id=system+segment, ratings.ASPECT=COLUMN, "
    "metric.NAME=COLUMN.",
)
@click.option(
    "--samples", multiple=True, metavar="FILE", type=INPUT, help="For systems and sources."
)
@click.option("--aspect", "aspects", multiple=True, help="Only this one; may be given again.")
@click.option("--metric", "-m", "metrics", multiple=True, help="Only this one, or a family.")
@click.option("--lower-is-better", multiple=True, metavar="METRIC", help="Turn its sign.")
@click.option("--level", type=click.Choice(["segment", "system"]), default="segment")
@click.option("--group", type=click.Choice(["all", "system", "source", "dataset"]), default="all")
@click.option(
    "--systems",
    type=click.Choice(["these", "like-these"]),
    default="like-these",
    show_default=True,
    help="With --level system: intervals and tests of these systems, or of systems like these.",
)
@click.option(
    "--statistic", "statistics", multiple=True, type=click.Choice(STATISTICS), help="Only this one."
)
@click.option("--compare", type=click.Choice(["pearson", "spearman"]), default="pearson")
@click.option("--correction", type=click.Choice(["holm", "bonferroni"]), default="holm")
@click.option(
    "--family",
    type=click.Choice(["aspect", "run"]),
    default="aspect",
    show_default=True,
    help="The comparisons that p is adjusted over: those on an aspect, or all.",
)
@click.option("--alpha", type=FiniteNumber(0, 1, min_open=True, max_open=True), default=0.05)
@click.option("--drift", is_flag=True, help="By system and by quality.")
@click.option(
    "--parts",
    metavar="FILE",
    type=INPUT,
    help="Of `score --parts`: drift by number of evaluators.",
)
@click.option("--resamples", type=WholeNumber(1, DRAWS), default=2000, show_default=True)
@click.option("--permutations", type=WholeNumber(1, DRAWS), default=10_000, show_default=True)
@click.option("--seed", type=WholeNumber(0), default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON document on stdout.")
@click.option("--latex", type=OutputType("LaTeX tables"), help="A booktabs table; - is stdout.")
@click.option(
    "--report", type=OutputType("a page of levelfield"), help="A page to look at: one HTML file."
)
def correlate(
    scores: tuple[str, ...],
    ratings: tuple[str, ...],
    mapping: tuple[str, ...],
    samples: tuple[str, ...],
    parts: str | None,
    as_json: bool,
    latex: str | None,
    report: str | None,
    **words: Any,
) -> None:
    """Say how far metrics agree with people's ratings, and which agrees best.

    SCORES are files that `levelfield score` wrote, or those of other programs: CSV, TSV, JSONL,
    JSON or Parquet with an id and a column for each metric (--map metric.NAME=COLUMN), or with
    columns metric and score. Ratings are samples with ratings, or one rating a row: id, aspect,
    rater, value. Prints correlations with 95 % intervals by aspect, and which differences between
    metrics are real.
    """
    from levelfield.cli.correlate_table import print_evaluation
    from levelfield.io import atomic_writer
    from levelfield.meta.evaluation import correlate
    from levelfield.report.correlate_page import CorrelateReport, write_correlate_page

    sources = [*scores, *ratings, *samples, *([parts] if parts else [])]
    if sources.count("-") > 1:
        raise UserError("stdin can be read once only")
    evaluation = correlate(
        scores, ratings, mapping=columns(mapping), samples=samples, parts=parts, **words
    )
    notes = evaluation.table.notes
    for note in notes:
        say(f"note: {note}")
    if latex:
        with atomic_writer(latex) as file:
            file.write(evaluation.to_latex())
    if report:
        write_correlate_page(
            report,
            CorrelateReport(
                title="levelfield: metrics against ratings",
                created=datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
                evaluation=evaluation,
                notes=notes,
                files=(*scores, *ratings),
                command=shlex.join(["levelfield", *sys.argv[1:]]),
            ),
        )
    if as_json:
        tell_json(evaluation.to_dict())
    elif "-" not in (latex, report):
        print_evaluation(evaluation)
    written = [path for path in (latex, report) if path and path != "-"]
    if written:
        say(f"wrote {', '.join(written)}")
