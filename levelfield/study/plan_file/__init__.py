"""Reads and checks a study file: TOML in, a plan or all its problems out.

What a study file may say is documented in `docs/study-file.md`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levelfield.core import limits
from levelfield.core.class_file import WithheldFileError, files_withheld
from levelfield.core.errors import InputError
from levelfield.core.options import Options, json_schema, option, schema_document
from levelfield.core.paths import user_path
from levelfield.generation.contract import Decoding, rewrites
from levelfield.generation.table import make_technique
from levelfield.io.problems import printable, shown
from levelfield.io.toml import TomlTable, read_toml
from levelfield.models.resolve import OFFLINE_LM
from levelfield.stats.resampling import Draws
from levelfield.study.plan import MetricPlan, Plan, TechniqueSource, Word
from levelfield.study.plan_file.checks import once, product, read_controls, read_metrics
from levelfield.study.plan_file.datasets import DatasetTable, read_datasets
from levelfield.study.plan_file.sources import SystemEntry, read_systems
from levelfield.study.plan_file.techniques import read_defaults
from levelfield.study.strengths import with_strengths


@dataclass(frozen=True, kw_only=True)
class StudyTable(Options):
    """A study file."""

    name: str = option(help="Title of the study.", example='"Openings"')
    seeds: tuple[int, ...] = option(
        help="Seeds, all different; each request carries one, and the audit checks how a system "
        "uses it.",
        least=0,
        fewest=1,
        example="[1, 2, 3]",
    )
    draws: Draws | None = option(
        None,
        "Unit that a seed draws for, unless a system has its own: `text`, each text by itself, so "
        "that several seeds are several texts of a prompt; or `run`, all texts of a run together, "
        "so that seeds are a sample of runs.",
        otherwise="`text` for techniques, `run` for other systems",
    )
    out: str = option(
        "",
        "Folder for all output of the study.",
        otherwise="`<stem of the file>.study`",
        example='"results"',
    )
    model: str = option(
        "",
        "Base model of all techniques, unless a system names its own.",
        otherwise=f"`{OFFLINE_LM}`",
        example=f'"{OFFLINE_LM}"',
    )
    decoding: Decoding = option(
        Decoding(), "Decoding of all techniques, unless a system has its own."
    )
    options: Mapping[str, Word] = option(
        {},
        "Options of each technique that has them, unless a system has its own.",
        blank=True,
        example="{ batch = 64 }",
    )
    datasets: Mapping[str, DatasetTable] = option(
        help="Datasets by name.", fewest=1, example='[datasets.openings] prompts = ["The lake"]'
    )
    controls: Mapping[str, Mapping[str, tuple[str | tuple[str, ...], ...]]] = option(
        help="Kinds of control by name: attributes with their values, each a string, or a list of "
        "strings that are requested together. Several attributes are combined in all ways.",
        fewest=1,
        example='[controls.sentiment] sentiment = ["positive", "negative"]',
    )
    systems: tuple[SystemEntry, ...] = option(
        help="Systems to compare.", fewest=1, example='[[systems]] name = "gedi"'
    )
    budgets: tuple[float, ...] | None = option(
        None,
        "Budgets in nats per token. Each technique without a given strength takes part once per "
        "budget, as the system `NAME @ BUDGET`, and the report has tables for each budget.",
        fewest=1,
        above=0,
        otherwise="none",
        example="[0.1, 0.3, 1.0]",
    )
    planned: Mapping[str, float] = option(
        {},
        "Difference between two systems that the study is to show, by metric, in its units; the "
        "report gives the number of comparisons that could show it. `levelfield plan systems` "
        "plans it from a pilot.",
        above=0,
        example='{ "control.average" = 0.1 }',
    )
    calibration: Mapping[str, DatasetTable] = option(
        {},
        "Datasets by name on which the strengths of systems with a budget are found; their prompts "
        "must differ from those that the study compares.",
        example='[calibration.held-out] prompts = ["The old road"]',
    )
    metrics: tuple[str | MetricPlan, ...] = option(
        help="Metrics that measure the texts: names, or tables with `name` and `options`, also as "
        "`[[metrics]]`.",
        fewest=1,
        example='"diversity" or {name = "control.average", options = {judges = "offline"}}',
    )


def schema() -> dict[str, Any]:
    """Returns the JSON schema (draft 2020-12) of study files, for editors.

    The options of techniques are there as far as their classes can be imported.
    """
    return schema_document(json_schema(StudyTable), "A study of levelfield")


def load_plan(path: str | os.PathLike[str], *, strengths: bool = True) -> Plan:
    """Returns the plan in a study file. No model is loaded, no system is started, and no file of a
    metric is run.

    Args:
        strengths: whether systems with a budget get the strengths that were found for them.

    Raises:
        UserError: there is no such file, or it is not TOML.
        InputError: with everything that is wrong in it, one line each.
    """
    with files_withheld():
        return _load_plan(path, strengths=strengths)


def _load_plan(path: str | os.PathLike[str], *, strengths: bool) -> Plan:
    name = printable(os.fspath(path))
    file = Path(path).absolute()
    problems: list[str] = []
    top = TomlTable(read_toml(file, name, mend="name a study file"), "", problems)
    fields = top.values(StudyTable, without=("controls",), complete=True)
    seeds = top.take("seeds")
    once(top, "seeds", seeds if isinstance(seeds, list) else ())
    out = fields["out"] or f"{file.stem}.study"
    datasets = tuple(read_datasets(top.inside(StudyTable, "datasets"), file.parent))
    controls = tuple(read_controls(top.inside(StudyTable, "controls")))
    defaults = read_defaults(top, fields["model"], fields["options"], file.parent)
    systems = top.inside(StudyTable, "systems")
    budgets = fields["budgets"] or ()
    once(top, "budgets", budgets)
    metrics = top.inside(StudyTable, "metrics")
    plan = Plan(
        name=fields["name"] or "",
        file=file,
        out=file.parent / user_path(out),
        datasets=datasets,
        controls=controls,
        systems=read_systems(top, systems, controls, defaults, budgets, fields["draws"]),
        seeds=fields["seeds"] or (),
        metrics=tuple(read_metrics(top, metrics, file.parent, datasets)),
        calibration=tuple(read_datasets(top.inside(StudyTable, "calibration"), file.parent)),
        planned=fields["planned"],
    )
    if plan.out.exists() and not plan.out.is_dir():
        top.wrong_field("out", f"{shown(out)} is a file; name a folder")
    _check_size(top, plan)
    _check_sources(top, plan)
    _check_calibration(top, plan)
    top.finish()
    if not problems and strengths:
        plan, problems = with_strengths(plan)
    if problems:
        raise InputError([f"{name}: {problem}" for problem in problems])
    return plan


def _check_size(top: TomlTable, plan: Plan) -> None:
    """Notes a study, or a cell of it, that asks for too much."""
    total = 0
    for control in plan.controls:
        systems = sum(control.name in system.controls for system in plan.systems)
        for dataset in plan.datasets:
            counts = [len(dataset.prompts), len(control.values)]
            in_cell = math.prod(counts)
            total += in_cell * systems * len(plan.seeds)
            if in_cell > limits.CELL_REQUESTS:
                top.wrong(
                    f"datasets.{printable(dataset.name)} with controls.{printable(control.name)}: "
                    f"{product(counts)} requests (prompts × values) in each cell, at most "
                    f"{limits.CELL_REQUESTS:,} are allowed; leave out prompts or values"
                )
    if total > limits.STUDY_REQUESTS:
        counts = [
            len(plan.systems),
            len(plan.seeds),
            sum(len(dataset.prompts) for dataset in plan.datasets),
            sum(len(control.values) for control in plan.controls),
        ]
        top.wrong(
            f"{total:,} requests (systems × seeds × prompts × values: {product(counts)}), at most "
            f"{limits.STUDY_REQUESTS:,} are allowed; split the study"
        )


def _check_calibration(top: TomlTable, plan: Plan) -> None:
    """Notes budgets without prompts to calibrate on, and prompts that the study also compares."""
    budgets = [
        system.name
        for system in plan.systems
        if isinstance(system.source, TechniqueSource) and system.source.budget
    ]
    held_out = {prompt for dataset in plan.calibration for prompt in dataset.prompts}
    if budgets and not held_out:
        top.wrong(
            f"system {shown(budgets[0])}: budget needs prompts to calibrate on: "
            '[calibration.held-out] prompts = ["The old road"]'
        )
    if shared := [p for d in plan.datasets for p in d.prompts if p in held_out]:
        top.wrong(
            f"calibration: {shown(shared[0])} is also a prompt of the study; the prompts of the "
            "calibration must differ from those that are compared"
        )


def _check_sources(top: TomlTable, plan: Plan) -> None:
    """Notes techniques that rewrite for datasets of prompts, and others for datasets of sources."""
    for system in plan.systems:
        if not (isinstance(system.source, TechniqueSource) and system.source.technique):
            continue
        try:
            technique = make_technique(system.source.technique, system.source.options)
        except WithheldFileError:  # its requests are refused when it runs
            continue
        writes_anew = rewrites(technique)
        for dataset in plan.datasets:
            if dataset.rewrite != writes_anew:
                does = "rewrites sources" if writes_anew else "continues prompts"
                top.wrong(
                    f"system {shown(system.name)}: technique {system.source.technique} {does}, and "
                    f"datasets.{printable(dataset.name)} has "
                    f"{'sources' if dataset.rewrite else 'prompts'}; make a separate study for each"
                )
