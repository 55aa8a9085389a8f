"""The questions of a study file: design, tasks and criteria; and what its parts share."""

from __future__ import annotations

import contextlib
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from levelfield.core.limits import RATERS, SEED, SURVEYS
from levelfield.core.options import Options, option
from levelfield.io.problems import Wrong, listed, printable, shown
from levelfield.io.toml import TomlTable
from levelfield_rating.model import Design, RatingCriterion, ScaleKind
from levelfield_rating.units import TAG, is_language

LANGUAGE: Mapping[str, Any] = {
    "fits": is_language,
    "expected": "the tag of a language, such as en or pt-BR",
    "example": '"en"',
    "schema": lambda: {"pattern": f"^{TAG.pattern}$"},
}
"""What the tag of a language has to be, for `option`."""

TASK = '"Make it formal."'

MISPLACED = dict.fromkeys(
    (
        *("id", "version", "title", "language", "contact", "duration", "consent_version"),
        *("samples", "map", "ids", "show", "direction", "task"),
    ),
    "belongs to the whole study; write it above the first [table] of the file",
)
"""Keys that TOML takes for part of the table above them."""


Part = TypeVar("Part", bound=Options)


@contextlib.contextmanager
def part_of(top: TomlTable, name: str, options: type[Part]) -> Iterator[tuple[TomlTable, Part]]:
    """Yields a table of a study file and its values; notes its unknown keys afterwards."""
    table = top.table(name)
    yield table, options(**table.values(options))
    table.finish(elsewhere=MISPLACED)


SCALES: Mapping[Design, tuple[ScaleKind, ...]] = {
    "direct": ("slider", "likert"),
    "pairwise": ("pairwise",),
    "ranking": ("ranking",),
}
"""The scales that answer each design's questions, the usual one first."""

UNREAD = "id.that.was.not.read"
"""Stands for the id of a criterion that has none, so that the rest of the file is checked."""


def _is_pairs(text: str) -> bool:
    return text == "all" or (text.startswith("with:") and text != "with:")


@dataclass(frozen=True, kw_only=True)
class RatingDesign(Options):
    """What an item is, and how items are dealt to raters."""

    kind: Design = option(
        "direct",
        "Kind of item: one text (direct), two (pairwise), or all distinct texts of a unit "
        "(ranking, at most 12).",
    )
    surveys: int = option(
        1, "Number of surveys that the units are split into.", least=1, most=SURVEYS
    )
    raters: int = option(
        2,
        "Number of raters of each survey; with one, agreement can't be measured.",
        least=1,
        most=RATERS,
    )
    seed: int = option(
        1,
        "Seed of every random choice; another seed gives another split and other orders.",
        least=0,
        most=SEED,
    )
    pairs: str = option(
        "all",
        "Pairs of a pairwise design: those of all systems, or `with:SYSTEM` for those with one.",
        fits=_is_pairs,
        expected='"all" or "with:SYSTEM"',
        example='"with:baseline"',
        schema=lambda: {"pattern": "^(all|with:.+)$"},
    )

    @classmethod
    def schema_rules(cls) -> Mapping[str, Any]:
        """Returns what only a pairwise design has."""
        pairwise = {"properties": {"kind": {"const": "pairwise"}}, "required": ["kind"]}
        return {"dependentSchemas": {"pairs": pairwise}}

    @property
    def system(self) -> str:
        """The system that is in every pair; empty for all pairs."""
        return self.pairs.partition(":")[2]


def read_design(top: TomlTable) -> RatingDesign:
    with part_of(top, "design", RatingDesign) as (table, design):
        if "pairs" in table and design.kind != "pairwise":
            table.wrong_field("pairs", 'requires kind = "pairwise"')
    return design


def tasks_of(
    top: TomlTable, task: str, by_direction: Mapping[str, str], attribute: str
) -> dict[str, str]:
    """Returns the tasks by direction, or the one task at `""`."""
    if task and by_direction:
        top.wrong_field("task", "there are [tasks] as well; keep one of the two")
    elif by_direction and not attribute:
        top.wrong('tasks: requires direction = "ATTRIBUTE", whose values the tasks are for')
    tasks = ({"": task} if task else {}) | dict(by_direction)
    for direction, template in tasks.items():
        try:
            blanks_of(template)
        except Wrong as wrong:
            top.wrong(f"tasks: {printable(direction)}: {wrong}" if direction else f"task: {wrong}")
    return tasks


def blanks_of(template: str) -> list[str]:
    """Returns the attributes that a task is filled in from.

    Raises:
        Wrong: it is not a template.
    """
    try:
        fields = [parts[1:] for parts in string.Formatter().parse(template)]
    except ValueError as error:
        raise Wrong(f"{error} in {shown(template)}; write a literal brace twice") from None
    names = [(name, form or conversion) for name, form, conversion in fields if name is not None]
    for name, more in names:
        if not name or more or set(name) & set(".["):
            raise Wrong(f"can't fill in {shown(template)}; write {{attribute}}")
    return [name for name, _ in names]


def read_criteria(
    top: TomlTable, tables: Iterable[TomlTable], design: Design
) -> tuple[RatingCriterion, ...]:
    criteria = []
    ids: Counter[str] = Counter()
    for table in tables:
        fields = table.values(RatingCriterion)
        usual = {"id": UNREAD, "title": "", "statement": "", "scale": SCALES[design][0]}
        criterion = RatingCriterion(**{**usual, **fields})
        scale = criterion.scale
        if scale not in SCALES[design]:
            table.wrong_field(
                "scale",
                f"{scale} is not a scale of a {design} design; there are {listed(SCALES[design])}",
            )
        if "points" in table and scale != "likert":
            table.wrong_field("points", "only a likert scale has points")
        n = len(criterion.labels)
        if n and scale != "likert":
            table.wrong_field("labels", "only the points of a likert scale have labels")
        elif n and n != criterion.points and ("points" in fields or "points" not in table):
            table.wrong_field("labels", f"{n} labels for {criterion.points} points; label each")
        table.finish(elsewhere=MISPLACED)
        ids.update([fields["id"]] if "id" in fields else [])
        criteria.append(criterion)
    for id, n in ids.items():
        if n > 1:
            top.wrong_field("criteria", f"{n} have the id {shown(id)}; ids are unique")
    return tuple(criteria)
