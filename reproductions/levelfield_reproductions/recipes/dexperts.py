"""Shares of judgements of Liu et al. (2021), Figures 3 to 5, counted in the released batches."""

from __future__ import annotations

from collections import Counter

from levelfield_reproductions.published_tables import PublishedTable
from levelfield_reproductions.recipes.released import Cells, Scoring, choices_of
from levelfield_reproductions.verdict import Derived

OURS = "DExperts"


def derive(table: PublishedTable, scoring: Scoring) -> Cells:  # noqa: ARG001
    """Returns, for each question and opponent, the share of judgements for DExperts, for neither
    side, and for the opponent."""
    cells = [(number.row, number.column) for number in table.numbers]
    choices = choices_of("dexperts-human", table.number)
    if isinstance(choices, Derived):
        return dict.fromkeys(cells, choices)
    counts: Counter[tuple[str, str]] = Counter()
    for choice in choices:
        opponent = choice.b if choice.a == OURS else choice.a
        chosen = {1.0: choice.a, 0.0: choice.b}.get(choice.outcome)
        verdict = "equal" if chosen is None else OURS if chosen == OURS else "other"
        counts[opponent, f"{choice.aspect}: {verdict}"] += 1
    totals: Counter[tuple[str, str]] = Counter()
    for (opponent, column), count in counts.items():
        totals[opponent, column.partition(":")[0]] += count
    return {
        (row, column): Derived(counts[row, column] / totals[row, column.partition(":")[0]])
        for row, column in cells
    }
