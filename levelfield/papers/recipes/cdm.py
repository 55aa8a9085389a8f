"""Tables of Lu et al. (2024) from the scores that were released with its data sets."""

from __future__ import annotations

from levelfield.papers.recipes.released import Cells, Scoring, samples_of
from levelfield.papers.tables import PublishedTable
from levelfield.papers.verdict import Derived
from levelfield.stats.correlation import spearman

JUDGES = {
    "G-Eval (GPT-4)": "gpt-4",
    "G-Eval (Flan-T5-11b)": "flan-t5",
    "G-Eval (LLaMa2-7b-Vicuna)": "vicuna",
}
_NOT_RELEASED = Derived(why="the scores of this metric on these texts were not released")


def derive(table: PublishedTable, scoring: Scoring) -> Cells:  # noqa: ARG001
    """The numbers of a table of the paper."""
    number = _of_dialogues if table.number in ("2", "9") else _of_sentences
    return {(n.row, n.column): number(n.row, n.column) for n in table.numbers}


def _of_dialogues(row: str, column: str) -> Derived:
    """Spearman of DEAM's released scores with the ratings of the same dialogues."""
    if row != "DEAM":
        return _NOT_RELEASED
    part, aspect = column.lower().split()
    samples = samples_of("deam", part)
    if isinstance(samples, Derived):
        return samples
    rated = [s for s in samples if aspect in s.ratings]
    scores = [s.extra["deam"][aspect] for s in rated]
    return Derived(spearman(scores, [s.ratings[aspect]["mean"] for s in rated]))


def _of_sentences(row: str, column: str) -> Derived:
    """Spearman of a judge's scores with the degree of sense that a sentence was written for.

    `binarised` asks for degree 1 against the two others.
    """
    if row not in JUDGES:
        return _NOT_RELEASED
    samples = samples_of("commongen-trinity", JUDGES[row])
    if isinstance(samples, Derived):
        return samples
    scores = [s.ratings["commonsense"][JUDGES[row]] for s in samples]
    degrees = [s.extra["quality"] for s in samples]
    if column == "binarised":
        degrees = [float(degree == 1) for degree in degrees]
    return Derived(spearman(scores, degrees))
