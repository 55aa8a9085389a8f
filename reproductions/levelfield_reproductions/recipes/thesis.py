"""Tables of the style-transfer thesis (Mao, 2021) from the released ratings and metric values.

Tables 10 and 11 are derived. Tables 3 and 5 to 9 rest on metric values that were replaced before
the release: they are shown with the same statistic of the released values, which is not comparable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from levelfield.core.registry import create
from levelfield.core.sample import Sample
from levelfield.stats.correlation import pearson, tau_like
from levelfield_reproductions.published_tables import PublishedTable
from levelfield_reproductions.recipes.released import NAMES, Cells, Scoring, samples_of
from levelfield_reproductions.verdict import Derived

SYSTEMS: Mapping[str, str] = NAMES["thesis"]["systems"]
SURVEYS: Mapping[str, str] = NAMES["thesis"]["surveys"]
"""As the thesis names them -> as the files do."""
MEASURES: Mapping[str, str] = NAMES["thesis"]["metrics"]
"""Column of Tables 3 and 5 to 9 -> our measure."""
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
ROUGE = {column: measure for column, measure in MEASURES.items() if "rouge" in measure}
_EARLIER = "of the values that were released; the thesis used earlier ones"
_PAIRS = "of every expert's rating"
_RAW = f"{_PAIRS} and ROUGE of the raw texts; the thesis used values that were not released"

Statistic = Callable[[Sequence[float], Sequence[float]], float]


def derive(table: PublishedTable, scoring: Scoring) -> Cells:
    """Returns the numbers of a table of the thesis."""
    if table.number in CORRELATIONS:
        return _correlations(table, scoring)
    if table.number == "4":
        return {}
    samples = samples_of("formality-judgements", "ratings")
    if isinstance(samples, Derived):
        return {(n.row, n.column): samples for n in table.numbers}
    if table.number == "10":
        return {(n.row, n.column): _agreement(samples, n.column) for n in table.numbers}
    return {(n.row, n.column): _mean(samples, n.row, n.column) for n in table.numbers}


def _agreement(samples: Sequence[Sample], survey: str) -> Derived:
    """Returns Pearson between the two experts of a survey, over all its texts and criteria."""
    texts = [s for s in samples if s.extra["survey"] == SURVEYS[survey]]
    first, second = ([s.ratings[c][r] for s in texts for c in CRITERIA] for r in ("1", "2"))
    return Derived(pearson(first, second))


def _mean(samples: Sequence[Sample], row: str, criterion: str) -> Derived:
    """Returns the mean over the texts of a system and both experts."""
    system_samples = [s for s in samples if s.system == SYSTEMS[row]]
    return Derived(fmean(r for s in system_samples for r in s.ratings[criterion].values()))


def _correlations(table: PublishedTable, scoring: Scoring) -> Cells:
    """Tables 3 and 5 to 9 with the released values in place of the earlier ones.

    |r| within a system and their mean over systems (3, 5, 7, 8), or |τ| over all texts (6, 9), the
    human references left out where they are what texts are compared with. Of a text the mean of
    its ratings counts; with `scoring.pairs` each rating does, and ROUGE is that of the raw texts.
    """
    kind, criterion = CORRELATIONS[table.number]
    cells = [(n.row, n.column) for n in table.numbers if not n.gap]
    samples = samples_of("formality-judgements", kind.replace(".", "-"))
    if isinstance(samples, Derived):
        return dict.fromkeys(cells, samples)
    if kind == "content.ref":
        samples = [s for s in samples if s.system != HUMAN]
    values = {c: {s.id: s.extra[kind][c] for s in samples} for _, c in cells}
    if scoring.pairs:
        values |= _rouge_of_raw_texts(samples, kind, scoring)

    def agreement(row: str, column: str) -> Derived:
        if criterion:
            systems = [SYSTEMS[row]] if row != "Mean" else sorted({s.system for s in samples})
            coefficients = [
                _of(pearson, [s for s in samples if s.system == x], column) for x in systems
            ]
        else:
            coefficients = [_of(tau_like, samples, column, row)]
        raw = _RAW if column in ROUGE else f"{_PAIRS}; {_EARLIER}"
        return Derived(
            fmean(map(abs, coefficients)), raw if scoring.pairs else _EARLIER, comparable=False
        )

    def _of(statistic: Statistic, texts: Sequence[Sample], column: str, aspect: str = "") -> float:
        x, y = [], []
        for s in texts:
            ratings = list(s.ratings[aspect or criterion].values())
            people = ratings if scoring.pairs else [fmean(ratings)]
            x += [values[column][s.id]] * len(people)
            y += people
        return statistic(x, y)

    return {(row, column): agreement(row, column) for row, column in cells}


def _rouge_of_raw_texts(
    samples: Sequence[Sample], kind: str, scoring: Scoring
) -> dict[str, dict[str, float]]:
    """Returns column -> id -> F of the package `rouge` since 1.0."""
    against = "source" if kind == "content.src" else "references"
    metrics = create([f"{name}.{against}" for name in ROUGE.values()], {"variant": "rouge-1.0"}, {})
    scores = [scoring.score(metric, samples) for metric in metrics]
    return {
        column: dict(zip(column_scores.ids, column_scores.values.tolist(), strict=True))
        for column, column_scores in zip(ROUGE, scores, strict=True)
    }
