"""The ablation of Dathathri et al. (2020) from the judgements that were released."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, pstdev

from levelfield.io.comparisons import PairChoice
from levelfield_reproductions.published_tables import PublishedTable
from levelfield_reproductions.recipes.released import NAMES, Cells, Scoring, choices_of, samples_of
from levelfield_reproductions.verdict import Derived

SUMS: Mapping[str, Sequence[str]] = NAMES["pplm"]["sums"]
"""Row -> the parts of the set that it sums; any other row is a part."""
SET = "pplm-human"
_RATERS = 3
_MAJORITY = 2


def derive(table: PublishedTable, scoring: Scoring) -> Cells:  # noqa: ARG001
    """Returns the numbers of the ablation, or of the fluency of its texts."""
    values = {"ablation": _on_topic, "fluency": _fluency}[table.number]
    by_row = {
        row: _joined(SUMS.get(row, (row,)), values)
        for row in dict.fromkeys(number.row for number in table.numbers)
    }
    return {
        (n.row, n.column): row if isinstance(row, Derived) else _statistic(row, n.column)
        for n in table.numbers
        for row in (by_row[n.row],)
    }


Values = Mapping[str, Sequence[float]]
"""System -> single values."""


def _joined(parts: Sequence[str], values: Callable[[str], Values | Derived]) -> Values | Derived:
    """Returns the values of several parts together, or what the first incomplete part lacks."""
    joined: defaultdict[str, list[float]] = defaultdict(list)
    for part in parts:
        part_values = values(part)
        if isinstance(part_values, Derived):
            return part_values
        for system, singles in part_values.items():
            joined[system] += singles
    return joined


def _statistic(values: Values, column: str) -> Derived:
    system, _, beside = column.partition(" ")
    if not values.get(system):
        return Derived()
    return Derived((pstdev if beside == "sd" else fmean)(values[system]))


def _on_topic(part: str) -> Values | Derived:
    """Returns 100 for each row in which two of three raters find the system's text on topic, else
    0; a row that lacks a rater is left out."""
    choices = choices_of(SET, part)
    if isinstance(choices, Derived):
        return choices
    rows: defaultdict[str, list[PairChoice]] = defaultdict(list)
    for choice in choices:
        rows[choice.item].append(choice)
    values: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows.values():
        if len(row) != _RATERS:
            continue
        votes = Counter({row[0].a: 0, row[0].b: 0})
        for choice in row:
            votes[choice.a] += choice.outcome == 1 or choice.tie == "both"
            votes[choice.b] += choice.outcome == 0 or choice.tie == "both"
        for system, count in votes.items():
            values[system].append(100.0 * (count >= _MAJORITY))
    return values


def _fluency(part: str) -> Values | Derived:
    """Returns every rater's every rating of a system's texts."""
    samples = samples_of(SET, part)
    if isinstance(samples, Derived):
        return samples
    values: defaultdict[str, list[float]] = defaultdict(list)
    for sample in samples:
        for ratings in sample.extra.get("fluency", {}).values():
            values[sample.system] += ratings
    return values
