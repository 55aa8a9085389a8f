"""Tables of the style-transfer thesis (Mao, 2021) from the released ratings and metric values.

Tables 10 and 11 are derived. Tables 3 and 5 to 9 rest on metric values that were replaced before
the release: the same statistic of the released ones stands beside them, and is not comparable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean

from levelfield.core.sample import Sample
from levelfield.papers.recipes.released import Cells, Scoring, samples_of
from levelfield.papers.tables import PublishedTable
from levelfield.papers.verdict import Derived
from levelfield.stats.correlation import pearson, tau_like

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
CORRELATIONS = {
    "3": ("content.src", "content"),
    "5": ("content.src", "fluency"),
    "6": ("content.src", ""),
    "7": ("content.ref", "content"),
    "8": ("content.ref", "fluency"),
    "9": ("content.ref", ""),
}
"""Table -> the released files, and the criterion; where there is none, rows are criteria."""
HUMAN = "REF"
_EARLIER = Derived(
    why="of the values that were released; the thesis used earlier ones", comparable=False
)
_NO_CLASSIFIER = Derived(why="the values of these classifiers were not released")

Statistic = Callable[[Sequence[float], Sequence[float]], float]


def derive(table: PublishedTable, scoring: Scoring) -> Cells:  # noqa: ARG001
    """The numbers of a table of the thesis."""
    if table.number in CORRELATIONS:
        return _correlations(table)
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


def _correlations(table: PublishedTable) -> Cells:
    """Tables 3 and 5 to 9 with the released values in place of the earlier ones.

    |r| within a system and their mean over systems (3, 5, 7, 8), or |τ| over all texts (6, 9), the
    human references left out where they are what texts are compared with.
    """
    kind, criterion = CORRELATIONS[table.number]
    samples = samples_of("formality-judgements", kind.replace(".", "-"))
    if isinstance(samples, Derived):
        return {(n.row, n.column): samples for n in table.numbers}
    if kind == "content.ref":
        samples = [s for s in samples if s.system != HUMAN]

    def agreement(row: str, column: str) -> Derived:
        if column not in samples[0].extra[kind]:
            return _NO_CLASSIFIER
        if not criterion:
            return replace(_EARLIER, value=abs(_of(tau_like, samples, column, row)))
        systems = [SYSTEMS[row]] if row != "Mean" else sorted({s.system for s in samples})
        r = [_of(pearson, [s for s in samples if s.system == name], column) for name in systems]
        return replace(_EARLIER, value=fmean(map(abs, r)))

    def _of(statistic: Statistic, some: Sequence[Sample], column: str, aspect: str = "") -> float:
        people = [fmean(s.ratings[aspect or criterion].values()) for s in some]
        return statistic([s.extra[kind][column] for s in some], people)

    return {(n.row, n.column): agreement(n.row, n.column) for n in table.numbers}
