"""Tables and cases of CTRLEval (Ke et al., 2022): the set's counts, and new scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np

from levelfield.core.errors import ModelError, UserError
from levelfield.core.registry import create
from levelfield.core.sample import Sample
from levelfield.stats.correlation import statistics
from levelfield_reproductions.published_tables import Gap, Number, PublishedTable
from levelfield_reproductions.recipes.released import (
    NAMES,
    Cells,
    Scoring,
    lines_of,
    missing,
    not_here,
    samples_of,
)
from levelfield_reproductions.verdict import Derived

PROMPTS = {"sentiment": "prompt/prompt_senti.txt", "topic": "prompt/prompt_topic.txt"}
VERBALIZERS = {"sentiment": "prompt/verbal_senti.txt", "topic": "prompt/verbal_topic.txt"}
PEGASUS = "google/pegasus-large"
_ALONE: Mapping[str, Mapping[str, str]] = {"CTRLEval": {}}
OPTIONS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "3": _ALONE,
    "4": _ALONE,
    "5": {
        "CTRLEval": {},
        **{weights: {"weights": weights} for weights in ("mean", "max", "min")},
        "PPL-GPT-PF": {"patterns": "ppl-gpt"},
        "BARTScore-PF": {"patterns": "bartscore"},
    },
}
"""Table of one model -> row -> options of the metric."""
MODELS: Mapping[str, Mapping[str, str]] = NAMES["ctrleval"]["models"]
"""Table of several models -> row -> model."""
CASES: Mapping[str, str] = NAMES["ctrleval"]["cases"]
"""Row of Figures 6 and 7 -> the text."""


def derive(table: PublishedTable, scoring: Scoring) -> Cells:
    """Returns the numbers of a table of the paper."""
    if table.scored:
        return _agreement(table, scoring)
    if table.number.startswith("figure"):
        return _cases(table)
    return {(n.row, n.column): _counted(n) for n in table.numbers if not n.gap}


def _counted(number: Number) -> Derived:
    """Tables 1 and 2: how much there is of everything."""
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
    # length: pieces between blanks, prefix included
    return fmean(len(s.text.split()) for s in samples)


def _cases(table: PublishedTable) -> Cells:
    """Figures 6 and 7: people's ratings of a text, and its rank among all, the best first.

    Equal ratings share the mean of their ranks.
    """
    samples = samples_of("ctrleval", "sentiment")
    cells: dict[tuple[str, str], Derived] = {}
    for row in dict.fromkeys(n.row for n in table.numbers):
        if isinstance(samples, Derived):
            cells[row, "human"] = cells[row, "human rank"] = samples
            continue
        ratings = {s.id: s.ratings[row.rpartition(" ")[0]]["mean"] for s in samples}
        rating = ratings[CASES[row]]
        better = sum(other > rating for other in ratings.values())
        equal = sum(other == rating for other in ratings.values())
        cells[row, "human"] = Derived(rating)
        cells[row, "human rank"] = Derived(better + (equal + 1) / 2)
    return cells


def _agreement(table: PublishedTable, scoring: Scoring) -> Cells:
    """Returns Tables 3 to 7: r, ρ and τ of the metric, with the requested model, and people.

    Tables 6 and 7 have only the rows of that model.
    """
    models = MODELS.get(table.number, dict.fromkeys(OPTIONS.get(table.number, ()), PEGASUS))
    cells: dict[tuple[str, str], Derived] = {}
    for row, model in models.items():
        columns = [n.column for n in table.numbers if n.row == row and not n.gap]
        needed = Gap(f"the model {model}", f"levelfield reproduce {table.id} --model {model}")
        row_cells: Mapping[str, Derived] = dict.fromkeys(columns, Derived(gap=needed))
        if scoring.model and (table.number in OPTIONS or scoring.model.split("@")[0] == model):
            options = OPTIONS.get(table.number, {}).get(row, {})
            try:
                row_cells = _correlations(columns, model, options, scoring)
            except ModelError:
                raise
            except UserError as error:  # patterns that do not suit the requested model
                lacking = replace(needed, what=f"{needed.what}: {error}")
                row_cells = dict.fromkeys(columns, Derived(gap=lacking))
        cells |= {(row, column): derived for column, derived in row_cells.items()}
    return cells


def _correlations(
    columns: Sequence[str], published: str, options: Mapping[str, str], scoring: Scoring
) -> Mapping[str, Derived]:
    """Returns column -> correlation.

    A column is `sentiment coherence r`; without an aspect it is of attribute relevance.
    """
    derived: dict[str, Derived] = {}
    for task, aspect in dict.fromkeys(map(_part, columns)):
        part_columns = [c for c in columns if _part(c) == (task, aspect)]
        samples = samples_of("ctrleval", task)
        if isinstance(samples, Derived):
            derived |= dict.fromkeys(part_columns, samples)
            continue
        name = f"ctrleval.{aspect.replace(' ', '-')}"
        [metric] = create([name], {"model": scoring.model, **options}, {})
        values = scoring.score(metric, samples).values
        people = np.array([s.ratings[aspect]["mean"] for s in samples])
        defined = np.isfinite(values)
        r, ρ, τ = statistics(
            values[defined], people[defined], ("pearson", "spearman", "kendall")
        ).values()
        comparable = f"model:{published}@" in metric.signature
        remarks = [] if comparable else [f"not comparable to the digit: the paper's is {published}"]
        if not defined.all():
            remarks.append(f"{(~defined).sum()} of {len(samples)} texts are undefined and left out")
        coefficients = {"r": r, "ρ": ρ, "τ": τ}
        for column in part_columns:
            value = coefficients[column.split()[-1]]
            derived[column] = Derived(value, "; ".join(remarks), comparable=comparable)
    return derived


def _part(column: str) -> tuple[str, str]:
    """Returns task and aspect."""
    task, *aspect, _ = column.split()
    return task, " ".join(aspect) or "attribute relevance"
