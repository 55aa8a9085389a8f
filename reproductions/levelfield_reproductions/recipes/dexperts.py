"""Figures 3 to 5 of Liu et al. (2021) from the judgements that were released."""

from __future__ import annotations

from collections import Counter

from levelfield_reproductions.published_tables import PublishedTable
from levelfield_reproductions.recipes.released import Cells, Scoring, choices_of
from levelfield_reproductions.verdict import Derived

SYSTEM = "DExperts"


def derive(table: PublishedTable, scoring: Scoring) -> Cells:  # noqa: ARG001
    """Returns the shares of judgements for DExperts, for neither, and for the other system."""
    cells = [(n.row, n.column) for n in table.numbers]
    choices = choices_of("dexperts-human", table.number)
    if isinstance(choices, Derived):
        return dict.fromkeys(cells, choices)
    judgements: dict[str, Counter[str]] = {}
    for choice in choices:
        winner = {1.0: choice.a, 0.0: choice.b}.get(choice.outcome, "")
        column = {SYSTEM: SYSTEM, "": "equal"}.get(winner, "other")
        [other] = {choice.a, choice.b} - {SYSTEM}
        judgements.setdefault(f"{other}, {choice.aspect}", Counter())[column] += 1
    return {
        (row, column): Derived(judgements[row][column] / judgements[row].total())
        for row, column in cells
        if row in judgements
    }
