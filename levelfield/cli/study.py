"""`levelfield study`: the same requests to every system, and what comes of them."""

from __future__ import annotations

import datetime
import json
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from levelfield.cli.terminal import console, progress_bar, say
from levelfield.core.errors import UserError

if TYPE_CHECKING:
    from levelfield.core.metric import Metric
    from levelfield.study.aggregate.results import StudySummary
    from levelfield.study.audit import Finding
    from levelfield.study.cells import Cell, CellKey
    from levelfield.study.plan import Plan
    from levelfield.study.run import CellStatus

SEVERITIES = ("serious", "warning", "note")
_STATES = ("done", "texts", "partial", "failed", "stale", "held", "missing")
_MOST_LINES = 20


@click.group()
def study() -> None:
    """Compare systems on a level playing field.

    A study is a TOML file: systems, prompts, kinds of control, seeds, metrics. `run` asks the
    systems and measures their texts, `audit` looks for what should be mended before anything is
    published, `report` makes the tables. `audit` and `report` also take a folder in the layout of
    the published study (Lorandi and Belz, 2026).
    """


@study.command()
@click.argument("file", metavar="STUDY.toml")
@click.option("--jobs", "-j", type=click.IntRange(1), default=1, help="Cells at once.")
@click.option("--only", multiple=True, metavar="SYSTEM", help="Only these systems.")
@click.option("--no-scores", is_flag=True, help="Get the texts, measure nothing.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, mps.")
@click.option("--dtype", type=click.Choice(["float32", "bfloat16"]), default="float32")
@click.option("--batch-tokens", type=click.IntRange(1), help="Tokens in a batch; bounds memory.")
@click.option("--allow-pickle", is_flag=True, help="Take models whose weights are pickled.")
@click.option("--no-cache", is_flag=True, help="Measure everything anew, keep nothing.")
@click.option("--json", "as_json", is_flag=True, help="What happened, as one JSON document.")
def run(
    file: str, jobs: int, only: tuple[str, ...], no_scores: bool, as_json: bool, **given: Any
) -> None:
    """Ask the systems for their texts, and measure them.

    What is done is left alone: after an interruption, a failure or a change of the study the same
    command goes on where it is needed. A cell that fails is reported and the others go on; the
    exit code is then 1.
    """
    from levelfield.study.plan_file import load_plan
    from levelfield.study.run import run as run_cells

    plan = load_plan(file)
    systems = [system.name for system in plan.systems]
    if unknown := sorted(set(only) - set(systems)):
        raise UserError(f"--only {unknown[0]}: {file} has the systems {', '.join(systems)}")
    metrics = [] if no_scores else _metrics(plan, given)
    keys = [key for key in plan.cells() if not only or key.system in only]
    total = sum(status.asked for status in _statuses(plan, only))
    with progress_bar("texts", total) as progress:
        report = run_cells(
            plan,
            jobs=jobs,
            only=lambda key: not only or key.system in only,
            progress=progress,
            on_cell=lambda cell: say(f"failed: {cell.key}: {cell.failure}") if cell.failure else 0,
        )
    for note in report.notes:
        say(f"note: {note}")
    measured = None if no_scores else _measure(plan, keys, metrics, given)
    failed = [cell for cell in report.cells if cell.state == "failed"]
    if as_json:
        document = {
            "study": plan.name,
            "out": str(plan.out),
            "cells": [_status_document(cell) for cell in report.cells],
            "asked_now": len(report.fresh),
            "measured_now": measured,
            "notes": list(report.notes),
        }
        click.echo(json.dumps(document, ensure_ascii=False))
    else:
        _print_status(report.cells)
        _say_problems(report.cells)
        say(f"texts and scores: {plan.out}")
    if failed:
        say(f"{len(failed)} of {len(report.cells)} cells failed; the same command tries them again")
        sys.exit(1)


def _metrics(plan: Plan, given: Mapping[str, Any]) -> list[Metric]:
    from levelfield.study.measure import metrics_of

    common = {k: given[k] for k in ("device", "dtype", "batch_tokens", "allow_pickle")}
    metrics = metrics_of(plan, common)
    for metric in metrics:
        _ = metric.signature  # resolves the model: whatever is wrong with it is said before work
    return metrics


def _measure(
    plan: Plan, keys: Sequence[CellKey], metrics: Sequence[Metric], given: Mapping[str, Any]
) -> int:
    """Measures what has changed; how many cells that were."""
    from levelfield.run.cache import keeping
    from levelfield.study.measure import measure
    from levelfield.study.store import Store

    notes: list[str] = []
    store = Store(plan.out)
    total = sum(r.answered for key in keys if (r := store.record(key))) * len(metrics)
    with (
        keeping(notes, enabled=not given["no_cache"]) as keeper,
        progress_bar("scores", total) as progress,
    ):
        cells = measure(keys, store, metrics, keeper, progress=progress)
    for note in notes:
        say(f"note: {note}")
    return cells


@study.command()
@click.argument("file", metavar="STUDY.toml")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def status(file: str, as_json: bool) -> None:
    """Say how far every cell of a study is."""
    from levelfield.study.plan_file import load_plan

    plan = load_plan(file)
    cells = _statuses(plan, ())
    if as_json:
        document = [_status_document(cell) for cell in cells]
        click.echo(json.dumps({"study": plan.name, "cells": document}, ensure_ascii=False))
    else:
        _print_status(cells)
        _say_problems(cells)


def _statuses(plan: Plan, only: Sequence[str]) -> list[CellStatus]:
    from levelfield.study.run import status

    return [cell for cell in status(plan) if not only or cell.key.system in only]


def _print_status(cells: Sequence[CellStatus]) -> None:
    """A row a system: its cells by state, its texts, and what they cost."""
    from rich.table import Table
    from rich.text import Text

    states = [s for s in _STATES if any(cell.state == s for cell in cells)]
    table = Table(box=None, pad_edge=False)
    table.add_column("system")
    for heading in (*states, "texts", "s a text", "peak MiB"):
        table.add_column(heading, justify="right")
    by_system: dict[str, list[CellStatus]] = {}
    for cell in cells:
        by_system.setdefault(cell.key.system, []).append(cell)
    for system, mine in by_system.items():
        counts: Counter[str] = Counter(cell.state for cell in mine)
        costs = [cell.cost for cell in mine if cell.cost]
        texts = sum(cost.texts for cost in costs)
        seconds = sum(cost.wall_s for cost in costs)
        peaks = [cost.peak_bytes for cost in costs if cost.peak_bytes]
        table.add_row(
            Text(system),
            *(f"{counts[state]:,}" if counts[state] else "–" for state in states),
            f"{sum(c.answered for c in mine):,} of {sum(c.asked for c in mine):,}",
            f"{seconds / texts:.3g}" if texts else "–",
            f"{max(peaks) / 2**20:,.0f}" if peaks else "–",
        )
    console().print(table)


def _say_problems(cells: Sequence[CellStatus]) -> None:
    """What was wrong with answers, one line each."""
    lines = [f"{cell.key}: {problem}" for cell in cells for problem in cell.problems]
    for line in lines[:_MOST_LINES]:
        say(f"problem: {line}")
    if len(lines) > _MOST_LINES:
        say(f"… and {len(lines) - _MOST_LINES:,} more problems; --json has all")


def _status_document(cell: CellStatus) -> dict[str, Any]:
    return {
        **cell.key._asdict(),
        "state": cell.state,
        "asked": cell.asked,
        "answered": cell.answered,
        "problems": list(cell.problems),
        "failure": cell.failure,
        "cost": vars(cell.cost) if cell.cost else None,
    }


class Target(NamedTuple):
    """What `audit` and `report` look at: a study of ours, or a folder of the published layout."""

    name: str
    cells: list[Cell]
    expected: list[CellKey]
    weights: Mapping[str, float] | None
    out: Path


def _target(path: str) -> Target:
    from levelfield.papers.recipes.lpf import SIZES
    from levelfield.study.plan_file import load_plan
    from levelfield.study.published import published_cells
    from levelfield.study.store import Store

    if Path(path).expanduser().is_dir():
        cells = published_cells(path)
        known = {cell.key.dataset for cell in cells} <= set(SIZES)
        name = Path(path).resolve().name
        return Target(name, cells, [], SIZES if known else None, Path("study-report"))
    plan = load_plan(path)
    store = Store(plan.out)
    keys = plan.cells()
    cells = [store.read_cell(key) for key in keys]
    if not any(cell.samples for cell in cells):
        raise UserError(f"{path}: there are no texts yet; `levelfield study run {path}` gets them")
    weights = {dataset.name: dataset.weight for dataset in plan.datasets}
    return Target(plan.name, cells, keys, weights, plan.out / "report")


@study.command()
@click.argument("target", metavar="STUDY.toml|FOLDER")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option(
    "--fail-on", type=click.Choice(SEVERITIES), help="Exit with 1 if there is a finding as bad."
)
def audit(target: str, as_json: bool, fail_on: str | None) -> None:
    """Look for what should be noticed before a study is published.

    Texts that don't continue their prompt or answer another request, seeds that change nothing,
    controls without effect, judges that disagree, lengths that can't be compared, missing cells,
    and more. Reads only.
    """
    from levelfield.study.audit import audit as look

    found = _target(target)
    findings = look(found.cells, expected=found.expected)
    if as_json:
        documents = [_finding_document(finding) for finding in findings]
        click.echo(json.dumps({"study": found.name, "findings": documents}, ensure_ascii=False))
    else:
        _print_findings(findings)
    if fail_on:
        bad = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
        if any(finding.severity in bad for finding in findings):
            sys.exit(1)


def _print_findings(findings: Sequence[Finding]) -> None:
    from rich.text import Text

    out = console()
    styles = {"serious": "bold red", "warning": "yellow", "note": "dim"}
    for finding in findings:
        where = ", ".join(
            [part for part in (finding.system, finding.dataset, finding.control) if part]
            + ([f"seed {finding.seed}"] if finding.seed is not None else [])
        )
        line = Text.assemble(
            (f"{finding.severity:8}", styles[finding.severity]),
            (f"{finding.check}", "bold"),
            f"  {where}" if where else "",
        )
        out.print(line, soft_wrap=True)
        out.print(Text(f"        {finding.what}"), soft_wrap=True)
        for example in finding.examples:
            text = " ".join(example.text.split()) or "(nothing)"
            out.print(Text(f"          {example.id}: {text}", "dim"), soft_wrap=True)
    out.print(_counted(findings))


def _counted(findings: Sequence[Finding]) -> str:
    counts: Counter[str] = Counter(finding.severity for finding in findings)
    return ", ".join(f"{counts[s]} {s}" for s in SEVERITIES if counts[s]) or "nothing found"


def _finding_document(finding: Finding) -> dict[str, Any]:
    examples = [example._asdict() for example in finding.examples]
    return {**vars(finding), "examples": examples}


@study.command()
@click.argument("target", metavar="STUDY.toml|FOLDER")
@click.option("--out", help="Folder for page.html, numbers.csv, tables.tex.")
@click.option("--no-audit", is_flag=True, help="Leave the findings out.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of resampling.")
def report(target: str, out: str | None, no_audit: bool, seed: int) -> None:
    """Make the tables of a study: a page, CSV and LaTeX."""
    from levelfield.report.study_files import write_study_csv, write_study_latex
    from levelfield.report.study_page import StudyReport, write_study_page
    from levelfield.stats.resampling import Resampling
    from levelfield.study.aggregate import aggregate
    from levelfield.study.audit import audit as look

    found = _target(target)
    summary = aggregate(found.cells, weights=found.weights, resampling=Resampling(seed=seed))
    findings = None if no_audit else look(found.cells, expected=found.expected)
    folder = Path(out).expanduser() if out else found.out
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: can't be made: {error.strerror}") from error
    whole = StudyReport(
        title=found.name,
        created=datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        summary=summary,
        findings=findings,
        files=[target],
        command=shlex.join(["levelfield", *sys.argv[1:]]),
    )
    write_study_page(folder / "page.html", whole)
    write_study_csv(folder / "numbers.csv", summary)
    write_study_latex(folder / "tables.tex", summary)
    _print_summary(summary)
    if findings is not None:
        say(f"audit: {_counted(findings)}; `levelfield study audit {target}` tells")
    say(f"wrote page.html, numbers.csv, tables.tex in {folder}")


def _print_summary(summary: StudySummary) -> None:
    """A table a kind of control: mean, deviation and rank, as the paper prints them."""
    from rich.table import Table
    from rich.text import Text

    from levelfield.report.study_page import grouped_columns

    out = console()
    for control in summary.controls:
        out.print(Text(control.control, "bold"))
        table = Table(box=None, pad_edge=False)
        table.add_column("system")
        columns = [column for _, group in grouped_columns(control) for column in group]
        for column in columns:
            table.add_column(Text(column.name.rpartition("/")[2]), justify="right")
        for system in control.systems:
            row = [Text(system)]
            for column in columns:
                entry = control.entry(system, column.measure.name)
                if entry is None or entry.mean != entry.mean:
                    row.append(Text("–"))
                    continue
                places = control.places(column.measure.name)
                rank = f" [{entry.rank}]" if entry.rank is not None else ""
                row.append(Text(f"{entry.mean:.{places}f} ({entry.deviation:.{places}f}){rank}"))
            table.add_row(*row)
        out.print(table)
        for note in control.notes:
            out.print(Text(f"  {note}", "dim"), soft_wrap=True)
        out.print()


@study.command()
@click.argument("file", metavar="STUDY.toml")
@click.option("--texts", help="All texts in one file: .jsonl or .parquet.")
@click.option("--scores", help="All scores in one file: .jsonl or .parquet.")
def export(file: str, texts: str | None, scores: str | None) -> None:
    """Put the texts or scores of a study into one file."""
    from levelfield.io import check_targets
    from levelfield.study.plan_file import load_plan
    from levelfield.study.store import Store

    targets = {f"--{k}": v for k, v in (("texts", texts), ("scores", scores)) if v}
    if not targets:
        raise UserError("study export: give --texts FILE, --scores FILE, or both")
    check_targets(targets, [file])
    plan = load_plan(file)
    store, keys = Store(plan.out), plan.cells()
    if texts:
        say(f"wrote {store.export(Path(texts), keys, 'texts'):,} texts to {texts}")
    if scores:
        say(f"wrote {store.export(Path(scores), keys, 'scores'):,} scores to {scores}")
