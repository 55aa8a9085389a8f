"""Tables 10 and 11 of the style-transfer thesis (Mao, 2021) from the released ratings."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from levelfield.meta.correlation import pearson
from levelfield.papers.recipes.released import Cells, Scoring, samples_of
from levelfield.papers.tables import Table
from levelfield.papers.verdict import Derived
from levelfield.sample import Sample

SYSTEMS = {
    "BART large + SC + BLEU": "BART",
    "High-quality pairs": "HIGH",
    "IBT + SC + BLEU + BLEURT": "IBT",
    "DURL": "LUO",
    "Bi-directional": "NIU",
    "NMT-Combined": "RAO",
    "Human references": "REF",
    "StyIns": "YI",
    "Zhou's": "ZHOU",
}
SURVEYS = {"Survey 1": "1", "Survey 2": "5", "Survey 4": "4", "Survey 5": "2"}
"""As the thesis names them -> as the files do."""
CRITERIA = ("content", "style", "fluency")


def derive(table: Table, scoring: Scoring) -> Cells:  # noqa: ARG001
    """The numbers of a table of the thesis."""
    samples = samples_of("formality-judgements", "ratings")
    if isinstance(samples, Derived):
        return {(n.row, n.column): samples for n in table.numbers}
    if table.number == "10":
        return {(n.row, n.column): _agreement(samples, n.column) for n in table.numbers}
    return {(n.row, n.column): _mean(samples, n.row, n.column) for n in table.numbers}


def _agreement(samples: Sequence[Sample], survey: str) -> Derived:
    """Pearson between the two experts of a survey, over all its texts and criteria at once."""
    texts = [s for s in samples if s.extra["survey"] == SURVEYS[survey]]
    first, second = ([s.ratings[c][r] for s in texts for c in CRITERIA] for r in ("1", "2"))
    return Derived(pearson(first, second))


def _mean(samples: Sequence[Sample], row: str, criterion: str) -> Derived:
    """The mean over the texts of a system and both experts."""
    of_system = [s for s in samples if s.system == SYSTEMS[row]]
    return Derived(fmean(r for s in of_system for r in s.ratings[criterion].values()))
