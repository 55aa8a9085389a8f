"""Metrics in a study file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path

from levelfield.core import registry
from levelfield.core.errors import UserError
from levelfield.core.registry import MetricFile
from levelfield.io.problems import shown
from levelfield.io.toml import TomlTable
from levelfield.study.plan import MetricPlan, PromptSet
from levelfield.study.plan_file.checks import attempt, option_words

_IN_STUDIES = frozenset({"id", "text", "prompt", "control", "system", "dataset", "seed"})
"""Fields of a sample that the texts of a study have."""


def read_metrics(
    top: TomlTable, tables: Iterable[TomlTable], folder: Path, datasets: Sequence[PromptSet]
) -> tuple[MetricPlan, ...]:
    """Returns the metrics with their options; they may read sources and references where all
    datasets have them."""
    readable = set(_IN_STUDIES)
    if datasets and all(dataset.rewrite for dataset in datasets):
        readable.add("source")
        if all(any(dataset.references) for dataset in datasets):
            readable.add("references")
    plans = []
    members: Counter[str] = Counter()
    for table in tables:
        fields = table.values(MetricPlan, complete=True)
        name = fields["name"] or ""
        if file := MetricFile.parse(name):
            name = str(MetricFile(folder / file.path, file.cls))
        options = option_words(fields["options"], folder)
        table.finish()
        if name:
            members.update(attempt(table, "", _members, name, options, readable) or ())
            plans.append(MetricPlan(name, options))
    for name, n in members.items():
        if n > 1:
            top.wrong_field("metrics", f"{shown(name)} is there {n} times; values go by its name")
    return tuple(plans)


def _members(name: str, options: Mapping[str, str], fields: Set[str]) -> tuple[str, ...]:
    """Returns the metrics that a name stands for, all of which can be made with these options and
    read no other fields.

    Raises:
        UserError: there is none, it doesn't know an option, or a study has not what it reads.
    """
    names = registry.matching(name)
    for member in registry.create(names, {}, options):
        if lacking := sorted(member.requires - fields):
            raise UserError(
                f"metric '{member.name}' reads {', '.join(lacking)}, which a study's texts don't "
                "have"
            )
    return names
