"""The questions of a study file: design, tasks and criteria."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Mapping
from typing import get_args

from levelfield.io.problems import Wrong, listed, printable, shown
from levelfield.io.toml import TomlTable, toml_kind
from levelfield.rating.model import Design, RatingCriterion, ScaleKind
from levelfield.rating.plan.fields import MISPLACED, choice, identifier

DESIGNS: tuple[Design, ...] = get_args(Design)
SCALES: Mapping[Design, tuple[ScaleKind, ...]] = {
    "direct": ("slider", "likert"),
    "pairwise": ("pairwise",),
    "ranking": ("ranking",),
}
"""The scales that answer each design's questions."""

POINTS = (2, 11)
"""Of a Likert scale, least and most."""


def pairs_with_system(table: TomlTable, design: Design) -> str:
    pairs = table.text("pairs", '"all" or "with:baseline"', default="all")
    if "pairs" in table and design != "pairwise":
        table.wrong_field("pairs", 'goes with kind = "pairwise" only')
    if pairs == "all":
        return ""
    kind, _, system = pairs.partition(":")
    if kind != "with" or not system:
        table.wrong_field("pairs", f'expected "all" or "with:SYSTEM"; found {toml_kind(pairs)}')
    return system


def read_tasks(top: TomlTable, attribute: str) -> dict[str, str]:
    tasks = {}
    one = top.text("task", '"Make it formal."', default="")
    if one:
        tasks[""] = one
    given = top.table("tasks")
    for direction in given:
        tasks[direction] = given.text(direction, '"Make it formal."')
    if one and len(tasks) > 1:
        top.wrong_field("task", "there are [tasks] as well; say one of the two")
    elif len(tasks) > 0 and not one and not attribute:
        given.wrong('goes with direction = "ATTRIBUTE", whose values the tasks are for')
    for direction, template in tasks.items():
        try:
            blanks_of(template)
        except Wrong as wrong:
            top.wrong(f"tasks: {printable(direction)}: {wrong}" if direction else f"task: {wrong}")
    return tasks


def blanks_of(template: str) -> list[str]:
    """Returns the attributes that a task is filled in from.

    Raises:
        Wrong: it is no template.
    """
    try:
        fields = [parts[1:] for parts in string.Formatter().parse(template)]
    except ValueError as error:
        raise Wrong(f"{error} in {shown(template)}; write a brace as such twice") from None
    names = [(name, form or conversion) for name, form, conversion in fields if name is not None]
    for name, more in names:
        if not name or more or set(name) & set(".["):
            raise Wrong(f"can't fill in {shown(template)}; say {{attribute}}")
    return [name for name, _ in names]


def read_criteria(top: TomlTable, design: Design) -> tuple[RatingCriterion, ...]:
    criteria = []
    example = '[[criteria]] id = "content"'
    for table in top.list_of_tables("criteria", example):
        scale = choice(table, "scale", get_args(ScaleKind), SCALES[design][0])
        if scale not in SCALES[design]:
            table.wrong_field(
                "scale",
                f"{scale} is no scale of a {design} design; there are {listed(SCALES[design])}",
            )
        points = table.whole("points", 5)
        if "points" in table and scale != "likert":
            table.wrong_field("points", "only a likert scale has points")
        elif not POINTS[0] <= points <= POINTS[1]:
            table.wrong_field("points", f"expected {POINTS[0]} to {POINTS[1]}; found {points}")
        labels = table.texts("labels", '["poor", "fair", "good"]') or ()
        if labels and scale != "likert":
            table.wrong_field("labels", "only the points of a likert scale have labels")
        elif labels and len(labels) != points:
            table.wrong_field("labels", f"{len(labels)} labels for {points} points; label each")
        criteria.append(
            RatingCriterion(
                id=identifier(table, "id", '"content"'),
                title=table.text("title", '"Content"'),
                statement=table.text("statement", '"Both texts say the same."'),
                scale=scale,
                low=table.text("low", '"disagree"', default=""),
                high=table.text("high", '"agree"', default=""),
                points=points,
                labels=labels,
                help=table.text("help", '"Compare names and numbers."', default=""),
            )
        )
        table.finish(elsewhere=MISPLACED)
    for id, n in Counter(criterion.id for criterion in criteria).items():
        if id and n > 1:
            top.wrong_field("criteria", f"{n} have the id {shown(id)}; ids are unique")
    return tuple(criteria)
