"""`levelfield rate init` and `check`: a study before anybody sees it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from levelfield.cli.options import JSON
from levelfield.cli.outputs import OutputType, Writing
from levelfield.cli.terminal import console, say, tell, tell_json
from levelfield_rating.cli.options import STUDY

if TYPE_CHECKING:
    from levelfield_rating.plan.check import StudyCheck


@click.command(cls=Writing)
@click.argument("folder", type=OutputType())
def init(folder: str) -> None:
    """Write a study to begin with: a study file with comments, samples, and what to do next."""
    from levelfield_rating.starter import write_starter

    for path in write_starter(folder):
        tell(str(path))
    say(f"next: levelfield rate serve {Path(folder) / 'STUDY.toml'}")


@click.command()
@STUDY
@JSON
def check(file: str, as_json: bool) -> None:
    """Say what is wrong or odd with a study, and how much there is to rate."""
    from levelfield_rating.plan.check import check_study

    result = check_study(file)
    if as_json:
        tell_json(result.to_dict())
    else:
        _print(result)
    for problem in result.problems:
        say(f"error: {problem}")
    if not as_json:
        for warning in result.warnings:
            say(f"warning: {warning}")
        if result.ok:
            say("this study can be served")
    if result.problems:
        click.get_current_context().exit(2)


@click.command()
def schema() -> None:
    """Print the JSON Schema of study files, for editors that complete and check TOML."""
    from levelfield_rating import schema

    tell_json(schema(), indent=2)


def _print(study: StudyCheck) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()
    out.print(Text(study.title, "bold"))
    merged = f", {study.merged:,} shown by an equal one" if study.merged else ""
    out.print(
        Text(
            f"{study.samples:,} samples of {len(study.systems):,} systems; {study.units:,} "
            f"sources, prompts or contexts; {study.texts:,} different texts{merged}"
        )
    )
    if not study.surveys:
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("survey", "raters", "items", "negative", "directions", "words", "minutes"):
        table.add_column(heading, justify="left" if heading == "directions" else "right")
    for number, survey in enumerate(study.surveys, 1):
        directions = ", ".join(f"{name or '–'} {n}" for name, n in survey.directions.items())
        table.add_row(
            str(number),
            str(study.raters),
            f"{survey.items:,}",
            str(survey.controls),
            Text(directions),
            f"{survey.words:,}",
            f"{survey.minutes:.0f}",
        )
    out.print(table)
