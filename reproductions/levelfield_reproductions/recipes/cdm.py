"""Tables of Lu et al. (2024) from the scores that were released with its data sets."""

from __future__ import annotations

from collections.abc import Mapping

from levelfield.stats.correlation import spearman
from levelfield_reproductions.published_tables import PublishedTable
from levelfield_reproductions.recipes.released import NAMES, Cells, Scoring, samples_of
from levelfield_reproductions.verdict import Derived

SIZES = {
    ("TopicalChat + PersonaChat", "validation size"): ("topical-persona-chat", "valid"),
    ("FED (test)", "size"): ("deam", "fed"),
    ("DSTC9 (test)", "size"): ("deam", "dstc9"),
}
"""Cell of Table 1 -> a part of a data set."""
JUDGES: Mapping[str, str] = NAMES["cdm"]["judges"]


def derive(table: PublishedTable, scoring: Scoring) -> Cells:  # noqa: ARG001
    """Returns the numbers of a table of the paper."""
    cells = [(n.row, n.column) for n in table.numbers]
    match table.number:
        case "1":
            return {cell: _size(*part) for cell, part in SIZES.items()}
        case "2":
            return {(row, c): _dialogue_correlation(c) for row, c in cells if row == "DEAM"}
        case "8" | "10":
            return {(row, c): _sentence_correlation(row, c) for row, c in cells if row in JUDGES}
    return {}


def _size(set: str, part: str) -> Derived:
    samples = samples_of(set, part)
    return samples if isinstance(samples, Derived) else Derived(float(len(samples)))


def _dialogue_correlation(column: str) -> Derived:
    """Returns Spearman's ρ of DEAM's released scores with the ratings of the same dialogues."""
    part, aspect = column.lower().split()
    samples = samples_of("deam", part)
    if isinstance(samples, Derived):
        return samples
    rated = [s for s in samples if aspect in s.ratings]
    scores = [s.extra["deam"][aspect] for s in rated]
    return Derived(spearman(scores, [s.ratings[aspect]["mean"] for s in rated]))


def _sentence_correlation(judge: str, column: str) -> Derived:
    """Returns Spearman's ρ of a judge's scores with the degrees of sense of the sentences.

    `binarised` compares degree 1 with the other two.
    """
    samples = samples_of("commongen-trinity", JUDGES[judge])
    if isinstance(samples, Derived):
        return samples
    scores = [s.ratings["commonsense"][JUDGES[judge]] for s in samples]
    degrees = [s.extra["quality"] for s in samples]
    if column == "binarised":
        degrees = [float(degree == 1) for degree in degrees]
    return Derived(spearman(scores, degrees))
