"""Metrics in a study file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from levelfield.core import registry
from levelfield.core.errors import UserError
from levelfield.core.metric_file import MetricFile
from levelfield.io.problems import shown
from levelfield.io.toml import TomlTable, toml_kind
from levelfield.study.plan import (
    MetricPlan,
)
from levelfield.study.plan_file.checks import attempt

_IN_STUDIES = frozenset({"id", "text", "prompt", "control", "system", "dataset", "seed"})
"""Fields of a sample that the texts of a study have."""


def read_metrics(top: TomlTable, folder: Path) -> tuple[MetricPlan, ...]:
    """Returns the metrics with their options."""
    example = '"diversity" or {name = "control.average", options = {judges = "offline"}}'
    plans = []
    members: Counter[str] = Counter()
    for table in top.list_of_tables("metrics", example, named=True):
        name = table.text("name", '"diversity"')
        if file := MetricFile.parse(name):
            name = str(MetricFile(folder / file.path, file.cls))
        options = _metric_options(table, folder)
        table.finish()
        if name:
            members.update(attempt(table, "", _members, name, options) or ())
            plans.append(MetricPlan(name, options))
    for name, n in members.items():
        if n > 1:
            top.wrong_field("metrics", f"{shown(name)} is there {n} times; values go by its name")
    return tuple(plans)


def _members(name: str, options: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the metrics that a name stands for, all of which can be made with these options.

    Raises:
        UserError: there is none, it doesn't know an option, or a study has not what it reads.
    """
    names = registry.matching(name)
    for member in registry.create(names, {}, options):
        if lacking := sorted(member.requires - _IN_STUDIES):
            raise UserError(
                f"metric '{member.name}' reads {', '.join(lacking)}, which a study's texts don't "
                "have"
            )
    return names


def _metric_options(table: TomlTable, folder: Path) -> dict[str, str]:
    """Returns options as a user would write them on the command line."""
    fields = table.table("options")
    options = {}
    for name in fields:
        match fields.take(name):
            case bool() as value:
                options[name] = str(value).lower()
            case int() | float() as number:
                options[name] = str(number)
            case str() as text:
                # the one kind of value that means another thing in another folder
                is_path = text.startswith(("./", "../"))
                options[name] = os.path.normpath(folder / text) if is_path else text
            case other:
                fields.wrong_field(
                    name, f"expected a string, a number, true or false; found {toml_kind(other)}"
                )
    return options
