"""The study's tables from its released runs (Lorandi and Belz, 2026).

A run is one system on one prompt set under one seed. Every value of a table is the mean over the
runs of a row, weighted by the size of the prompt set. In brackets is the weighted standard
deviation of the same values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_DOWN, Decimal
from statistics import fmean
from typing import Any

from levelfield.datasets import dataset, lpf
from levelfield.datasets.lpf import PublishedRun
from levelfield.io.fetch import local_copy
from levelfield.stats.correlation import pearson, spearman
from levelfield.stats.weighted import mean_and_deviation, printed_ranks
from levelfield_reproductions.published_tables import Gap, PublishedTable, read_paper
from levelfield_reproductions.recipes.released import NAMES, Cells, Scoring, missing, not_here
from levelfield_reproductions.verdict import Derived, Verdict, judge

SIZES: Mapping[str, int] = NAMES["lpf"]["sizes"]
PROMPT_SETS: Mapping[str, str] = NAMES["lpf"]["prompt_sets"]
SYSTEMS: Mapping[str, str] = NAMES["lpf"]["systems"]
JUDGES: Mapping[str, Mapping[str, str]] = NAMES["lpf"]["judges"]
COVERAGES: Mapping[str, str] = NAMES["lpf"]["coverages"]
PROMPTING = {"ZS": ("zero_shot",), "FS": ("few_shot",), "Ov": ("zero_shot", "few_shot")}
LANGUAGE_MODELS = ("gpt2-xl", "bigscience/bloom-1b7")
BOTH = {"both": "overall", "sentiment": "sentiment", "topic": "topic"}
LEFT_OUT = {("13", "Prior CTG"): "prior_ctg-owt_neutral_prompts-multiple-None-len50-3443"}
"""Row of a table -> the run that its control effectiveness does not rest on."""

Measure = Callable[[PublishedRun], list[float]]
"""The values of a column in a run: one, or several that count alike."""


def derive(table: PublishedTable, scoring: Scoring) -> Cells:  # noqa: ARG001
    """Returns the numbers of a table of the study."""
    match table.number:
        case "2":
            return {(n.row, n.column): _prompts(n.row) for n in table.numbers if not n.gap}
        case "7" | "15":
            return {}
        case "14":
            return _totals(table)
        case "16":
            return _original_comparison(table)
        case "text":
            return _correlations(table)
        case "10" | "11" | "12" | "13":
            return _marked(_weighted(table), table)
    return _weighted(table)


def _prompts(name: str) -> Derived:
    """Returns how many different prompts the texts of a run on a prompt set continue."""
    run = re.compile(rf"results/\w+/[^/]+-{PROMPT_SETS[name]}-[^/]+/processed_[^/]+\.csv")
    files = [f for f in dataset("lpf").files if run.fullmatch(f.path)]
    here = next(filter(None, map(local_copy, files)), None)
    if here is None:
        return not_here("lpf", [f.path for f in files[:1]])
    return Derived(float(len({s.extra["original_id"] for s in lpf.texts_of(here)})))


def _totals(table: PublishedTable) -> Cells:
    """Returns Table 14: sums of the printed sizes of the models."""
    parts: dict[str, float] = {}
    for n in table.numbers:
        if n.column != "total":
            parts[n.row] = parts.get(n.row, 0) + float(n.value)
    remark = "the sum of the printed sizes"
    return {(row, "total"): Derived(total, remark) for row, total in parts.items()}


def _marked(cells: Cells, table: PublishedTable) -> Cells:
    """Returns the cells, with a word on those that print rounded to two decimals, then to one.

    The second rounding takes a half down.
    """
    marked = dict(cells)
    for number in table.numbers:
        derived = cells[number.row, number.column]
        if derived.value is None or judge(number, derived).verdict is not Verdict.DIFFERS:
            continue
        once = Decimal(derived.value).quantize(Decimal("0.01"))
        twice = once.quantize(Decimal("0.1"), ROUND_HALF_DOWN)
        if twice == number.value:
            steps = f"rounded twice in print: {derived.value:.3f}, {once}, {twice}"
            remark = "; ".join(filter(None, (derived.why, steps)))
            marked[number.row, number.column] = replace(derived, why=remark)
    return marked


def _weighted(table: PublishedTable) -> Cells:
    cells: dict[tuple[str, str], Derived] = {}
    measures = _measures(table.control)
    places = {n.column: n.places for n in table.numbers}
    runs = Runs.of(table.control)
    for row in dict.fromkeys(n.row for n in table.numbers):
        for column in (c for c in places if c in measures):
            is_control = column in (*BOTH, "average")
            left_out = LEFT_OUT.get((table.number, row), "") if is_control else ""
            mean, sd = _mean_and_sd(runs.row_runs(row), measures[column], left_out)
            cells[row, column], cells[row, f"{column} sd"] = mean, sd
    for column in (c for c in places if f"{c} rank" in places):
        values = {row: d for (row, c), d in cells.items() if c == column}
        for row, rank in _ranks(values, places[column], lowest=column == "perplexity").items():
            cells[row, f"{column} rank"] = rank
    return cells


def _measures(control: str) -> Mapping[str, Measure]:
    """Returns column -> the measure that it takes from a run."""
    if control == "keywords":
        single = {c: _at("word_coverage", "overall", k, scale=100) for c, k in COVERAGES.items()}
    elif control == "multiple":
        single = {c: _at("multiple", k, "accuracy") for c, k in BOTH.items()}
    else:
        single = {c: _at(j, "overall", "accuracy") for c, j in JUDGES[control].items()}
    averaged = ("sentiment", "topic") if control == "multiple" else tuple(single)

    def average(run: PublishedRun) -> list[float]:
        values = [v for column in averaged for v in single[column](run)]
        # two attributes are averaged within a run; judges and coverages count as runs of their own
        return [fmean(values)] if control == "multiple" else values

    def language_model_mean(measure: str) -> Measure:
        measures = [_at("perplexity", model, measure) for model in LANGUAGE_MODELS]
        return lambda run: [
            fmean(v for measure_of_model in measures for v in measure_of_model(run))
        ]

    return {
        **{f"dist{n}": _at("distinct-n", "overall", f"dist{n}", scale=100) for n in (1, 2, 3)},
        "perplexity": language_model_mean("overall"),
        "SLOR": language_model_mean("overall_slor"),
        "majority": _at("control_effectiveness_majority", "overall", "accuracy"),
        "average": average,
        **single,
    }


def _at(*keys: str, scale: float = 1) -> Measure:
    """Returns the one value at these keys of a run's results."""

    def value(run: PublishedRun) -> list[float]:
        results: Any = run.results
        for key in keys:
            results = results[key]
        return [scale * results]

    return value


def _mean_and_sd(
    runs: Sequence[PublishedRun] | Derived, measure: Measure, left_out: str = ""
) -> tuple[Derived, Derived]:
    """Returns mean and standard deviation, weighted by the size of the prompt set.

    A run whose results lack the measure does not count, and neither does the one that the paper
    leaves out.
    """
    if isinstance(runs, Derived):
        return runs, runs
    pairs, without = [], []
    for run in runs:
        if run.name == left_out:
            without.append(f"{run.name} is left out, as in the paper")
            continue
        try:
            pairs += [(value, SIZES[run.dataset]) for value in measure(run)]
        except KeyError as error:
            without.append(f"{run.name} has no {error}")
    if not pairs:
        lacking = Derived(gap=Gap(f"results: {without[0]}", "levelfield study run STUDY.toml"))
        return lacking, lacking
    remark = (
        f"{len(runs) - len(without)} of {len(runs)} runs: {'; '.join(without)}" if without else ""
    )
    m, s = mean_and_deviation(*zip(*pairs, strict=True))
    return Derived(m, remark), Derived(s, remark)


@dataclass(frozen=True)
class Runs:
    """The runs with one kind of control: those that were released, those that are here."""

    paths: Mapping[str, str]
    here: Mapping[str, PublishedRun]

    @classmethod
    def of(cls, control: str) -> Runs:
        """Reads the runs that are on this machine."""
        pattern = re.compile(rf"results/{control}/([^/]+)/evaluation_results_\1\.json")
        matches = [m for f in dataset("lpf").files if (m := pattern.fullmatch(f.path))]
        paths = {m[1]: m[0] for m in matches}
        anything = len(missing("lpf", paths.values())) < len(paths)
        here = lpf.runs(control=control, here=True) if anything else []
        return cls(paths, {run.name: run for run in here if run.results})

    def row_runs(self, row: str, prompt_set: str = "") -> Sequence[PublishedRun] | Derived:
        """Returns the runs that a row of a table averages, or those that are missing."""
        system, _, prompting = row.rpartition(" ")
        if prompting not in PROMPTING:
            system, prompting = row, ""
        prompted = "|".join(PROMPTING.get(prompting, ("None",)))
        start, middle = f"{SYSTEMS[system]}-{prompt_set}", re.compile(rf"-({prompted})-len\d+-\d+$")
        names = [n for n in self.paths if n.startswith(start) and middle.search(n)]
        absent = [self.paths[n] for n in names if n not in self.here]
        return not_here("lpf", absent) if absent else [self.here[n] for n in names]


def _ranks(values: Mapping[str, Derived], places: int, *, lowest: bool) -> Mapping[str, Derived]:
    """Returns ranks, best first; values that are printed alike share the better rank."""
    lacking = next((d.gap for d in values.values() if d.gap), None)
    if lacking is not None:
        gap = replace(lacking, what=f"a rank needs every row: {lacking.what}")
        return dict.fromkeys(values, Derived(gap=gap))
    values_by_row = {row: d.value for row, d in values.items() if d.value is not None}
    ranks = printed_ranks(values_by_row, places, direction="lower" if lowest else "higher")
    return {row: Derived(float(rank)) for row, rank in ranks.items()}


def _original_comparison(table: PublishedTable) -> Cells:
    """Returns Table 16: one prompt set, with equal weights for all judges and seeds."""
    cells: dict[tuple[str, str], Derived] = {}
    runs = {control: Runs.of(control) for control in JUDGES}
    for row in dict.fromkeys(n.row for n in table.numbers):
        control, prompts, system = row.split(", ")
        here = runs[control].row_runs(system, PROMPT_SETS[prompts])
        cells[row, "LPF"], _ = _mean_and_sd(here, _measures(control)["average"])
    return cells


def _correlations(table: PublishedTable) -> Cells:
    """Returns Pearson between the two columns of Tables 8 and 9, and of their printed ranks.

    On two attributes the columns are those printed; and so are those of Table 16, of which the
    study has no ranks.
    """
    cells: dict[tuple[str, str], Derived] = {}
    for row in dict.fromkeys(n.row for n in table.numbers):
        columns, control, *no_llm = (*row.split(", "), "")[:3]
        x, y = columns.split(" and ")
        number = {"average": "8", "perplexity": "9", "LPF": "16"}[x]
        [source] = (
            t for t in read_paper("lpf").tables if (t.number, t.control) == (number, control)
        )
        from_print = control in ("multiple", "")
        cells_of_source = _printed(source) if from_print else _weighted(source)
        rows = [
            r
            for r in dict.fromkeys(n.row for n in source.numbers)
            if not any(no_llm) or r.rpartition(" ")[2] not in PROMPTING
        ]
        remark = f"of the printed numbers of {source.id}" if from_print else ""
        values = [(cells_of_source[r, x], cells_of_source[r, y]) for r in rows]
        cells[row, "Pearson"] = _correlation(values, pearson, remark)
        if number == "16":
            cells[row, "Spearman"] = _correlation(values, spearman, remark)
        else:
            ranks = [
                (cells_of_source[r, f"{x} rank"], cells_of_source[r, f"{y} rank"]) for r in rows
            ]
            cells[row, "Spearman"] = _correlation(ranks, pearson, remark)
    return cells


def _printed(table: PublishedTable) -> Cells:
    return {(n.row, n.column): Derived(float(n.value)) for n in table.numbers}


def _correlation(
    pairs: Sequence[tuple[Derived, Derived]],
    statistic: Callable[[Sequence[float], Sequence[float]], float],
    remark: str,
) -> Derived:
    a = [x.value for x, _ in pairs if x.value is not None]
    b = [y.value for _, y in pairs if y.value is not None]
    if len(a) < len(pairs) or len(b) < len(pairs):
        return Derived(gap=next(d.gap for pair in pairs for d in pair if d.value is None))
    return Derived(statistic(a, b), remark)
