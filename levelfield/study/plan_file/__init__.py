"""A study file read and checked: TOML in, a plan out, or all that is wrong with it.

What a study file may say is documented in `docs/study-file.md`.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

from levelfield.core.errors import InputError
from levelfield.core.limits import CELL_REQUESTS, STUDY_REQUESTS
from levelfield.io.problems import printable, shown
from levelfield.io.toml import TomlTable, read_toml, toml_kind
from levelfield.study.plan import Plan, TechniqueSource
from levelfield.study.plan_file.checks import once, product
from levelfield.study.plan_file.controls import read_controls
from levelfield.study.plan_file.datasets import read_datasets
from levelfield.study.plan_file.metrics import read_metrics
from levelfield.study.plan_file.systems import read_systems
from levelfield.systems.making import technique_class


def load_plan(path: str | os.PathLike[str]) -> Plan:
    """Returns the plan in a study file. No model is loaded and no system is started.

    Raises:
        UserError: there is no such file, or it is not TOML.
        InputError: with everything that is wrong in it, one line each.
    """
    name = printable(os.fspath(path))
    file = Path(path).absolute()
    problems: list[str] = []
    top = TomlTable(read_toml(file, name, mend="name a study file"), "", problems)
    title = top.text("name", '"Openings"')
    seeds = _seeds(top)
    out = top.text("out", '"results"', default=f"{file.stem}.study")
    datasets = read_datasets(top, file.parent)
    controls = read_controls(top)
    plan = Plan(
        name=title,
        file=file,
        out=file.parent / Path(out).expanduser(),
        datasets=datasets,
        controls=controls,
        systems=read_systems(top, controls, file.parent),
        seeds=seeds,
        metrics=read_metrics(top, file.parent, datasets),
    )
    if plan.out.exists() and not plan.out.is_dir():
        top.wrong_field("out", f"{shown(out)} is a file; name a folder")
    _check_size(top, plan)
    _check_sources(top, plan)
    top.finish()
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
            if in_cell > CELL_REQUESTS:
                top.wrong(
                    f"datasets.{printable(dataset.name)} with controls.{printable(control.name)}: "
                    f"{product(counts)} requests (prompts × values) in each cell, at most "
                    f"{CELL_REQUESTS:,} are asked; leave out prompts or values"
                )
    if total > STUDY_REQUESTS:
        counts = [
            len(plan.systems),
            len(plan.seeds),
            sum(len(dataset.prompts) for dataset in plan.datasets),
            sum(len(control.values) for control in plan.controls),
        ]
        top.wrong(
            f"{total:,} requests (systems × seeds × prompts × values: {product(counts)}), at most "
            f"{STUDY_REQUESTS:,} are asked; make several studies of it"
        )


def _check_sources(top: TomlTable, plan: Plan) -> None:
    """Notes techniques that rewrite where there are prompts, and others where there are sources."""
    for system in plan.systems:
        if not (isinstance(system.source, TechniqueSource) and system.source.technique):
            continue
        rewrites = bool(getattr(technique_class(system.source.technique), "rewrites", False))
        for dataset in plan.datasets:
            if dataset.rewrite != rewrites:
                does = "rewrites sources" if rewrites else "continues prompts"
                top.wrong(
                    f"system {shown(system.name)}: technique {system.source.technique} {does}, and "
                    f"datasets.{printable(dataset.name)} has "
                    f"{'sources' if dataset.rewrite else 'prompts'}; make a study of each"
                )


def _seeds(top: TomlTable) -> tuple[int, ...]:
    value = top.take("seeds")
    if not isinstance(value, list) or not value:
        there = "there is none" if value is None else f"found {toml_kind(value)}"
        top.wrong_field("seeds", f"expected a list of whole numbers, such as [1, 2, 3]; {there}")
        return ()
    for n, seed in enumerate(value, 1):
        if type(seed) is not int or seed < 0:
            top.wrong_field(
                f"seeds[{n}]", f"expected a whole number from 0 on; found {toml_kind(seed)}"
            )
    once(top, "seeds", value)
    return tuple(seed for seed in value if type(seed) is int)
