"""`levelfield study`: the same requests to every system, and measures of the texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from levelfield.cli.options import takes
from levelfield.cli.outputs import (
    INPUT,
    Delivery,
    OutputType,
    Writing,
    check_outputs,
    command_line,
    delivers,
)
from levelfield.cli.terminal import console, progress_bar, say, say_note, tell_json
from levelfield.core.errors import UserError
from levelfield.study.settings import (
    StudyAuditOptions,
    StudyCalibrateOptions,
    StudyMeasureOptions,
    StudyReportOptions,
    StudyRunOptions,
    SystemOptions,
)

if TYPE_CHECKING:
    from levelfield.study.status import StudyStatus
    from levelfield.study.verbs import StudyRun

_FILE = click.argument("file", metavar="STUDY.toml", type=INPUT)
_TARGET = click.argument("target", metavar="STUDY.toml|FOLDER", type=INPUT)
_DOCUMENT = "Print one JSON document on stdout."


@click.group()
def study() -> None:
    """Compare systems on a level playing field.

    A study is a TOML file: systems, prompts, kinds of control, seeds, metrics. `run` asks the
    systems for texts and measures them, `measure` measures existing texts, `audit` looks for
    problems to fix before publication, `report` makes the tables. `audit` and `report` also accept
    a folder in the layout of the published study (Lorandi and Belz, 2026).
    """


@study.command()
@_FILE
@takes(StudyRunOptions)
@delivers(json=_DOCUMENT)
def run(file: str, options: StudyRunOptions, delivery: Delivery) -> None:
    """Ask the systems for texts, and measure them.

    Finished cells are kept: after an interruption, a failure or a change of the study, the same
    command does only what is missing. If a cell fails, it is reported and the others continue; the
    exit code is then 1.
    """
    from levelfield.study import load_study

    result = load_study(file).run(
        options,
        stages=progress_bar,
        note=say_note,
        on_cell=lambda cell: say(f"failed: {cell.key}: {cell.failure}") if cell.failure else None,
    )
    delivery.give(result, _show_run)
    if failed := len(result.failed):
        total = len(result.status.cells)
        say(f"{failed} of {total} cells failed; run the same command to try them again")
        click.get_current_context().exit(1)


@study.command()
@_FILE
@takes(StudyCalibrateOptions)
def calibrate(file: str, options: StudyCalibrateOptions) -> None:
    """Find the strengths of systems with a budget, for `run`.

    Techniques are compared at equal cost if each has a budget: the mean divergence from its base,
    in nats per token. Strengths are found on the prompts of [calibration] and written next to the
    study file, to STUDY.strengths.json.
    """
    from levelfield.show.terminal import plain_table
    from levelfield.study import calibrate_study

    table = plain_table("system", ">budget", ">strength", ">nats per token", ">95 % interval")
    for calibration in calibrate_study(file, options, stages=progress_bar):
        ends = (
            "–" if calibration.low is None else f"{calibration.low:.3f} to {calibration.high:.3f}"
        )
        mark = "" if calibration.is_within else ", out of reach"
        numbers = (
            f"{calibration.budget:g}",
            f"{calibration.strength:.4g}{mark}",
            f"{calibration.nats:.3f}",
            ends,
        )
        table.add_row(calibration.system, *numbers)
    console().print(table)


@study.command()
@_FILE
@takes(SystemOptions)
def divergence(file: str, options: SystemOptions) -> None:
    """Measure how far each technique departs from its base in the study.

    Strengths are found on other prompts. This command measures how close techniques come to their
    budgets on the prompts of the comparison, and the divergence of techniques without a strength.
    Reports show it next to other costs.
    """
    from levelfield.show.terminal import plain_table
    from levelfield.study import load_study

    table = plain_table("system", ">nats per token", ">95 % interval", ">tokens")
    for result in load_study(file).divergence(options, stages=progress_bar):
        ends = "–" if result.low is None else f"{result.low:.3f} to {result.high:.3f}"
        table.add_row(result.system, f"{result.nats:.3f}", ends, f"{result.tokens:,}")
    console().print(table)


@study.command()
@_FILE
@takes(StudyMeasureOptions)
@delivers(json=_DOCUMENT)
def measure(file: str, options: StudyMeasureOptions, delivery: Delivery) -> None:
    """Measure the existing texts without asking any system.

    Use it for texts that another machine is writing or has written. Texts that are already measured
    are skipped, and so are stale cells, which `run` asks for again.
    """
    from levelfield.study import load_study

    result = load_study(file).measure(options, stages=progress_bar, note=say_note)
    delivery.give(result, _show_run)


def _show_run(result: StudyRun) -> None:
    _show_status(result.status)
    say(f"texts and scores: {result.out}")


def _show_status(status: StudyStatus) -> None:
    from levelfield.show.terminal.study_tables import print_status, problem_lines

    print_status(status)
    for line in problem_lines(status):
        say(line)


@study.command()
@_FILE
@delivers(json=_DOCUMENT)
def status(file: str, delivery: Delivery) -> None:
    """Show the progress of every cell of a study."""
    from levelfield.study import load_study

    delivery.give(load_study(file).status(), _show_status)


@study.command()
@_TARGET
@delivers(json=_DOCUMENT)
@click.option(
    "--fail-on",
    type=click.Choice(["serious", "warning", "note"]),
    help="Exit with status 1 if a finding is at least this severe.",
)
@takes(StudyAuditOptions)
def audit(target: str, delivery: Delivery, fail_on: Any, options: StudyAuditOptions) -> None:
    """Look for problems to fix before a study is published.

    Finds texts that don't continue their prompt or that answer another request, seeds that change
    nothing or differ too much, copies, controls without effect, judges that disagree, lengths that
    can't be compared, missing cells, and more. Changes no file.
    """
    from levelfield.show.terminal.study_tables import print_findings
    from levelfield.study import load_study

    result = load_study(target).audit(options)
    delivery.give(result, print_findings)
    if fail_on and result.at_least(fail_on):
        click.get_current_context().exit(1)


_TABLES = OutputType(
    files={
        "page.html": "a page of levelfield",
        "numbers.csv": "numbers of a study",
        "tables.tex": "LaTeX tables",
        "tables.md": "Markdown tables",
    }
)


@study.command(cls=Writing)
@_TARGET
@click.option("--out", type=_TABLES, help="Folder for page.html, numbers.csv and the tables.")
@takes(StudyReportOptions)
@click.option("--pairs", is_flag=True, help="Print the comparison of each pair of systems.")
def report(target: str, out: str | None, options: StudyReportOptions, pairs: bool) -> None:
    """Make the tables of a study: a page, CSV, LaTeX and Markdown."""
    from levelfield.io.outputs import OutputTarget
    from levelfield.show.study_page import FILES, write_study_report
    from levelfield.show.terminal.study_tables import print_summary
    from levelfield.study import load_study
    from levelfield.study.audit.findings import counted_findings

    loaded = load_study(target)
    if not out:
        check_outputs([OutputTarget("the report", str(loaded.report_folder), files=_TABLES.files)])
    result = loaded.report(options)
    folder = Path(out) if out else loaded.report_folder
    write_study_report(folder, result, command=command_line())
    print_summary(result.summary, pairs=pairs)
    if result.findings is not None:
        say(f"audit: {counted_findings(result.findings)}; see `levelfield study audit {target}`")
    say(f"wrote {', '.join(FILES)} in {folder}")


@study.command(cls=Writing)
@_FILE
@click.option(
    "--texts",
    type=OutputType("samples"),
    help="Write all texts to one file: .jsonl, .csv or .parquet.",
)
@click.option(
    "--scores",
    type=OutputType("scores"),
    help="Write all scores to one file: .jsonl, .csv or .parquet.",
)
def export(file: str, texts: str | None, scores: str | None) -> None:
    """Write the texts or scores of a study to one file."""
    from levelfield.study import load_study

    if not (texts or scores):
        raise UserError("study export: give --texts FILE, --scores FILE, or both")
    loaded = load_study(file)
    if texts:
        say(f"wrote {loaded.export(texts, 'texts'):,} texts to {texts}")
    if scores:
        say(f"wrote {loaded.export(scores, 'scores'):,} scores to {scores}")


@study.command()
def schema() -> None:
    """Print the JSON Schema of study files, for editors."""
    from levelfield.study import schema

    tell_json(schema(), indent=2)
