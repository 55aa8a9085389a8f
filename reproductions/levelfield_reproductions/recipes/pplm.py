"""The ablation of Dathathri et al. (2020), Tables 4 to 6, from the released judgements.

A row of a file counts 1 for a system if at least two of its three raters chose the system's text or
both texts; that is the rule of the authors' notebook.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from levelfield.io.comparisons import PairChoice
from levelfield_reproductions.published_tables import PublishedTable
from levelfield_reproductions.recipes.released import Cells, Scoring, choices_of
from levelfield_reproductions.verdict import Derived

BAGS = ("computers", "legal", "military", "politics", "religion", "science", "space")
SUMS = {"all bags of words": BAGS}
"""Row of several files -> the files; other rows name them."""


def derive(table: PublishedTable, scoring: Scoring) -> Cells:  # noqa: ARG001
    """Returns the per cent of rows that count for a system."""
    counts = {
        row: _counts(SUMS.get(row) or row.split(", ")) for row in {n.row for n in table.numbers}
    }
    cells: dict[tuple[str, str], Derived] = {}
    for number in table.numbers:
        counted = counts[number.row]
        if isinstance(counted, Derived):
            cells[number.row, number.column] = counted
        else:
            on_topic, rows = (counted[kind, number.column] for kind in ("on topic", "rows"))
            cells[number.row, number.column] = Derived(100 * on_topic / rows)
    return cells


def _counts(parts: tuple[str, ...] | list[str]) -> Counter[tuple[str, str]] | Derived:
    counts: Counter[tuple[str, str]] = Counter()
    for part in parts:
        choices = choices_of("pplm-human", part)
        if isinstance(choices, Derived):
            return choices
        rows: defaultdict[str, list[PairChoice]] = defaultdict(list)
        for choice in choices:
            rows[choice.item].append(choice)
        for judgements in rows.values():
            for system, outcome in ((judgements[0].a, 1.0), (judgements[0].b, 0.0)):
                votes = sum(j.outcome == outcome or j.tie == "both" for j in judgements)
                counts["on topic", system] += votes >= 2
                counts["rows", system] += 1
    return counts
