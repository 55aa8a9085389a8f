"""Tables 1 to 4 of CTRLEval (Ke et al., 2022): the set counted, and scored anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np

from levelfield.core.sample import Sample
from levelfield.papers.recipes.released import (
    Cells,
    Scoring,
    lines_of,
    missing,
    not_here,
    samples_of,
)
from levelfield.papers.tables import Number, PublishedTable
from levelfield.papers.verdict import Derived
from levelfield.stats.correlation import statistics

TASKS = ("sentiment", "topic")
PROMPTS = {"sentiment": "prompt/prompt_senti.txt", "topic": "prompt/prompt_topic.txt"}
VERBALIZERS = {"sentiment": "prompt/verbal_senti.txt", "topic": "prompt/verbal_topic.txt"}
METRICS = {
    "coherence": "ctrleval.coherence",
    "consistency": "ctrleval.consistency",
    "attribute relevance": "ctrleval.attribute-relevance",
}
PUBLISHED_MODEL = "google/pegasus-large"

_UNKNOWN = {
    "models": "the files name no systems",
    "ratings": "the files hold the mean of the raters only",
    "alpha": "the files hold the mean of the raters only; alpha needs each rater's",
    "seed prompts": "the files do not say which prompts were the first",
}


def derive(table: PublishedTable, scoring: Scoring) -> Cells:
    """The numbers of a table of the paper."""
    if table.scored:
        return _agreement(table, scoring)
    return {(n.row, n.column): _counted(n) for n in table.numbers}


def _counted(number: Number) -> Derived:
    """Tables 1 and 2: how much there is of everything."""
    if number.column in _UNKNOWN:
        return Derived(why=_UNKNOWN[number.column])
    task = number.row
    if number.table == "ctrleval.1":
        samples = samples_of("ctrleval", task)
        if isinstance(samples, Derived):
            return samples
        return Derived(_count(samples, number.column))
    if absent := missing("ctrleval", [PROMPTS[task], VERBALIZERS[task]]):
        return not_here("ctrleval", absent)
    prompts = len(lines_of("ctrleval", PROMPTS[task]))
    verbalizers = len(lines_of("ctrleval", VERBALIZERS[task])) - 1  # below the labels
    counts = {"prompts": prompts, "verbalizers": verbalizers, "evaluators": prompts * verbalizers}
    return Derived(float(counts[number.column]))


def _count(samples: Sequence[Sample], column: str) -> float:
    match column:
        case "prefixes":
            return float(len({s.prompt for s in samples}))
        case "labels":
            return float(len({str(s.control) for s in samples}))
        case "samples":
            return float(len(samples))
    # length: what stands between blanks, prefix included
    return fmean(len(s.text.split()) for s in samples)


def _agreement(table: PublishedTable, scoring: Scoring) -> Cells:
    """Tables 3 and 4: r, ρ and τ of the metric, with the model asked for, and people."""
    cells: dict[tuple[str, str], Derived] = {}
    other = Derived(why="the scores of this metric on these texts were not released")
    mine = {n.column for n in table.numbers if n.row == "CTRLEval"}
    for task in TASKS:
        columns = [c for c in mine if c.split()[0] == task]
        if not scoring.model:
            found = dict.fromkeys(columns, Derived(why="needs a model: name it with --model"))
        else:
            found = dict(_correlations(task, columns, scoring))
        cells |= {("CTRLEval", column): derived for column, derived in found.items()}
    return {(n.row, n.column): cells.get((n.row, n.column), other) for n in table.numbers}


def _correlations(task: str, columns: Sequence[str], scoring: Scoring) -> Mapping[str, Derived]:
    from levelfield.core.registry import create

    samples = samples_of("ctrleval", task)
    if isinstance(samples, Derived):
        return dict.fromkeys(columns, samples)
    names = {c: " ".join(c.split()[1:-1]) or "attribute relevance" for c in columns}
    derived: dict[str, Derived] = {}
    for aspect in dict.fromkeys(names.values()):
        [metric] = create([METRICS[aspect]], {"model": scoring.model}, {})
        values = scoring.score(metric, samples).values
        people = np.array([s.ratings[aspect]["mean"] for s in samples])
        defined = np.isfinite(values)
        of_kind = statistics(
            values[defined], people[defined], ("pearson", "spearman", "kendall")
        ).values()
        comparable = f"model:{PUBLISHED_MODEL}@" in metric.signature
        why = (
            [] if comparable else [f"not comparable to the digit: the paper's is {PUBLISHED_MODEL}"]
        )
        if not defined.all():
            why.append(f"{(~defined).sum()} of {len(samples)} texts are undefined and left out")
        for kind, value in zip("rρτ", of_kind, strict=True):
            for column in (c for c, of in names.items() if of == aspect and c.endswith(kind)):
                derived[column] = Derived(value, "; ".join(why), comparable=comparable)
    return derived
