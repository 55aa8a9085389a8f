"""Columns of a study's tables: its measures by family, control effectiveness last."""

from __future__ import annotations

from typing import NamedTuple

from levelfield.study.aggregate.results import ControlSummary
from levelfield.study.observations import Measure

CONTROL = "Control effectiveness"
_NAMES = {"diversity": "Diversity", "fluency": "Fluency"}
_OF_CONTROL = ("control", "keywords")


class Column(NamedTuple):
    """A column of a table: the measure, and its name below that of its group."""

    measure: Measure
    name: str


def grouped_columns(control: ControlSummary) -> list[tuple[str, list[Column]]]:
    """Returns the measures as the study's tables group them, with the name of each group."""
    groups: dict[str, list[Column]] = {}
    for measure in control.measures:
        family, _, rest = measure.name.partition(".")
        if measure.of_control or family in _OF_CONTROL:
            name = rest if family in _OF_CONTROL else measure.name
            groups.setdefault(CONTROL, []).append(Column(measure, name))
        elif rest:
            groups.setdefault(_NAMES.get(family, family), []).append(Column(measure, rest))
        else:
            groups.setdefault("", []).append(Column(measure, measure.name))
    last = groups.pop(CONTROL, None)
    return [*groups.items(), *([(CONTROL, last)] if last else [])]
