"""The questions of the style-transfer thesis (Mao, 2021), section 4, with intervals and tests.

A text that two systems gave to one source was shown to the experts once, and is one judgement.
Over all texts (segment level, agreement) each judgement counts once; within a system and in the
means of systems it counts for every system that gave it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean

import numpy as np

from levelfield.agree.agreement import MEAN_OF_ASPECTS, rater_agreement
from levelfield.agree.correlate import Correlation, correlations
from levelfield.agree.join import RatedScores, join
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.scoring.run_table import RunTable
from levelfield.scoring.summary import MetricSummary, summarise
from levelfield.stats.correlation import pearson
from levelfield.stats.dependent import swap_test
from levelfield.stats.estimate import Estimate, finite
from levelfield.stats.multiplicity import holm
from levelfield.stats.system_difference import swap_systems
from levelfield_reproductions.published_tables import read_paper
from levelfield_reproductions.recipes.released import Scoring, samples_of
from levelfield_reproductions.recipes.thesis import CRITERIA, MEASURES, SURVEYS, SYSTEMS
from levelfield_reproductions.recipes.thesis_values import (
    SET,
    judgements,
    metric_columns,
    rated,
)
from levelfield_reproductions.reproduction import Cell, Grid, Question, QuestionAnswer
from levelfield_reproductions.verdict import Derived

_COLUMNS = {measure: column for column, measure in MEASURES.items()}
_TABLES = {
    ("source", "content"): ("6", "3"),
    ("source", "fluency"): ("6", "5"),
    ("references", "content"): ("9", "7"),
    ("references", "fluency"): ("9", "8"),
}
"""Compared with what, and aspect -> the tables of τ over all texts and of r within systems."""


def answer(question: Question, scoring: Scoring) -> QuestionAnswer:
    """Returns the answer to a question of the thesis."""
    samples = samples_of(SET, "ratings")
    if isinstance(samples, Derived):
        return QuestionAnswer(question, (), {}, str(samples.gap))
    if question.id.endswith("1"):
        return _metrics(question, samples, scoring)
    grids = _experts(samples) if question.id.endswith("2") else _systems(samples)
    return QuestionAnswer(question, tuple(grids), {})


# RQ1


def _metrics(question: Question, samples: Sequence[Sample], scoring: Scoring) -> QuestionAnswer:
    """Compares metrics with aspects over all texts, within systems and over means of systems."""
    columns = metric_columns(samples, scoring)
    every = join(columns.values, rated(samples), flip=columns.flipped)
    distinct = join(columns.values, rated(judgements(samples)), flip=columns.flipped)
    within = correlations(every, group="system", systems="these", wanted=("pearson",))
    estimates = [
        _by_metric(correlations(distinct, systems="these", wanted=("tau-like",))),
        _by_metric(c for c in within if c.is_mean),
        _by_metric(correlations(every, level="system", wanted=("pearson",))),
    ]
    notes = [
        "τ: Kendall's-τ-like coefficient of the thesis over distinct judgements; r within: mean "
        "over systems of Pearson's r within each (what the thesis calls system level); r of means: "
        "Pearson's r of the systems' means; 95 % intervals by resampling sources, those "
        "of means for systems like these",
        "thesis τ and thesis r are as printed: absolute values, of earlier versions of metrics, so "
        "not comparable to the digit; signs here are those of agreement (the direction of "
        f"{', '.join(columns.flipped) or 'no metric'} is turned)",
        "against references the human references themselves are left out, as in the thesis: those "
        "r of means are of 8 systems, the others of 9",
        "released classifiers give P(target style): of formal sources, 1 − P(formal)",
    ]
    metrics_of: dict[str, list[str]] = {}
    for name, reason in columns.left_out.items():
        metrics_of.setdefault(reason, []).append(name)
    notes += [f"left out: {', '.join(names)}: {reason}" for reason, names in metrics_of.items()]
    grids = [
        _agreement_grid(aspect, every.metrics, estimates, notes if aspect == CRITERIA[-1] else ())
        for aspect in CRITERIA
    ]
    return QuestionAnswer(
        question, (*grids, _best_grid(distinct), _against_grid(distinct, every)), columns.signatures
    )


def _by_metric(results: Iterable[Correlation]) -> dict[tuple[str, str], Estimate]:
    return {(c.aspect, c.metric): next(iter(c.estimates.values())) for c in results}


def _agreement_grid(
    aspect: str,
    metrics: Iterable[str],
    estimates: Sequence[Mapping[tuple[str, str], Estimate]],
    notes: Sequence[str],
) -> Grid:
    columns = ["metric", "n"]
    for name, published in (("τ", "thesis τ"), ("r within", "thesis r"), ("r of means", "")):
        columns += [name, f"{name} low", f"{name} high", *([published] if published else [])]
    rows = []
    overall, within, between_means = estimates
    for metric in sorted(metrics, key=lambda m: -_or(overall[aspect, m].value, -2)):
        τ, r, means = (f[aspect, metric] for f in (overall, within, between_means))
        printed = _printed(metric, aspect)
        rows.append((metric, τ.n, *_three(τ), printed[0], *_three(r), printed[1], *_three(means)))
    title = f"RQ1  {aspect}: agreement of metrics with the experts, best first by τ"
    return Grid(title, tuple(columns), tuple(rows), tuple(notes))


def _three(e: Estimate) -> tuple[Cell, Cell, Cell]:
    return finite(e.value), finite(e.low), finite(e.high)


def _or(value: float, instead: float) -> float:
    return value if math.isfinite(value) else instead


def _printed(metric: str, aspect: str) -> tuple[Cell, Cell]:
    """Returns the τ over all texts and the mean r within systems, as the thesis prints them."""
    measure, _, against = metric.removeprefix("released ").lower().partition(".")
    column = _COLUMNS.get(measure)
    if column is None or (against, aspect) not in _TABLES:
        return None, None
    overall, within = _TABLES[against, aspect]
    numbers = {
        (n.table, n.row, n.column): n.printed
        for t in read_paper("thesis").tables
        for n in t.numbers
    }
    return (
        numbers.get((f"thesis.{overall}", aspect, column)),
        numbers.get((f"thesis.{within}", "Mean", column)),
    )


def _best_grid(table: RatedScores) -> Grid:
    """Returns the best metric on each aspect against every other."""
    rows: list[tuple[Cell, ...]] = []
    p: list[float] = []
    for aspect in CRITERIA:
        r = {m: _r(table, aspect, m) for m in table.metrics}
        ranked = sorted((m for m in r if math.isfinite(r[m])), key=lambda m: -r[m])
        for other in ranked[1:]:
            row, value = _difference(table, aspect, ranked[0], other)
            rows.append((aspect, ranked[0], other, *row))
            p.append(value)
    return Grid(
        "RQ1  the metric with the highest r on each aspect against the others",
        ("aspect", "best", "other", "n", "difference of r", "p", "p (Holm)"),
        _with_holm(rows, p),
        (
            "Pearson's r over distinct judgements; paired permutation test that swaps the two "
            "metrics' values of whole sources, Holm over all rows; the best was chosen on the same "
            "texts, so its lead is somewhat too large",
        ),
    )


def _against_grid(distinct: RatedScores, every: RatedScores) -> Grid:
    """Returns the same measure against sources and against references."""
    rows: list[tuple[Cell, ...]] = []
    p: list[float] = []
    measures = [m.removesuffix(".source") for m in every.metrics if m.endswith(".source")]
    compared = [m for m in measures if f"{m}.references" in every.metrics]
    for aspect, level in itertools.product(("content", "fluency"), ("texts", "means of systems")):
        table = distinct if level == "texts" else every
        for measure in compared:
            names = (f"{measure}.source", f"{measure}.references")
            row, value = _difference(table, aspect, *names, swap_whole_systems=level != "texts")
            rows.append((aspect, level, measure, *row))
            p.append(value)
    return Grid(
        "RQ1  sources or references: r of a measure against sources minus against references",
        ("aspect", "level", "measure", "n", "difference of r", "p", "p (Holm)"),
        _with_holm(rows, p),
        (
            "as above, without the human references; means: the two measures' values of whole "
            "systems are swapped; n: texts; positive: sources agree better",
        ),
    )


def _r(table: RatedScores, aspect: str, metric: str) -> float:
    rows = table.rows(aspect, metric)
    return pearson(table.metrics[metric][rows], table.aspects[aspect][rows])


def _difference(
    table: RatedScores, aspect: str, a: str, b: str, *, swap_whole_systems: bool = False
) -> tuple[tuple[Cell, ...], float]:
    """Returns n, the difference of r and its p, on the texts with values of both metrics."""
    rows = table.rows(aspect, a, b)
    x_a, x_b, y = table.metrics[a][rows], table.metrics[b][rows], table.aspects[aspect][rows]
    test = (
        swap_systems(x_a, x_b, y, table.systems[rows])
        if swap_whole_systems
        else swap_test(x_a, x_b, y, table.clusters[rows])
    )
    return (rows.size, finite(test.difference), finite(test.p)), test.p


def _with_holm(
    rows: Sequence[tuple[Cell, ...]], p: Sequence[float]
) -> tuple[tuple[Cell, ...], ...]:
    return tuple((*row, finite(value)) for row, value in zip(rows, holm(p).tolist(), strict=True))


# RQ2


def _experts(samples: Sequence[Sample]) -> Iterator[Grid]:
    """Yields α, Pearson and ICC of the two experts of a survey by criterion, and the mean α."""
    report = rater_agreement(rated(judgements(samples)), by="survey")
    names = {as_in_files: name for name, as_in_files in SURVEYS.items()}
    [table] = [t for t in read_paper("thesis").tables if t.number == "10"]
    printed = {n.column: n.printed for n in table.numbers}
    rows: list[tuple[Cell, ...]] = []
    for group in report.groups:
        survey = names.get(group.part, "all surveys")
        # over all surveys the pairs are of eight people, without a single r
        r = [*_three(group.pairs[0].pearson)] if len(group.pairs) == 1 else [None] * 3
        thesis = printed.get(survey) if group.aspect == MEAN_OF_ASPECTS else None
        icc = group.icc.get("ICC(1,1)" if survey == "all surveys" else "ICC(2,1)")
        iccs = [*_three(icc)] if icc else [None] * 3
        rows.append((group.aspect, survey, group.items, *_three(group.alpha), *r, thesis, *iccs))
    columns = ["aspect", "survey", "n"]
    for name in ("α", "r", "ICC"):
        columns += [name, f"{name} low", f"{name} high", *(["thesis r"] if name == "r" else [])]
    yield Grid(
        "RQ2  agreement of the two experts of a survey",
        tuple(columns),
        tuple(rows),
        (
            "α: Krippendorff's for interval data; ICC: (2,1), absolute agreement of one expert, "
            "and (1,1) over all surveys, whose experts are eight people; 95 % intervals by "
            "resampling sources, of ICC from F",
            "each distinct judgement counts once; Table 10 counts the text of several systems for "
            "each of them and puts an expert's three ratings in one column, so that differences of "
            "aspects count as agreement (`levelfield reproduce thesis.10` does so as well); α of "
            "'mean of aspects' is averaged over them",
        ),
    )


# RQ3


def _systems(samples: Sequence[Sample]) -> Iterator[Grid]:
    """Yields mean ratings of systems with intervals, and comparisons of pairs on equal sources."""
    names = {as_in_files: name for name, as_in_files in SYSTEMS.items()}
    tally = RunTable()
    tally.add(samples, [names[sample.system] for sample in samples])
    for aspect in CRITERIA:
        values = np.array([fmean(s.ratings[aspect].values()) for s in samples])
        ids = tuple(s.id for s in samples)
        tally.add_scores(Scores(aspect, ids, values, {}, "experts", direction="higher"))
    summaries = summarise(tally)
    [table] = [t for t in read_paper("thesis").tables if t.number == "11"]
    printed = {(n.row, n.column): n.printed for n in table.numbers}
    for summary in summaries:
        yield _means_grid(summary, printed)
    yield _pairs_grid(summaries)


def _means_grid(summary: MetricSummary, printed: Mapping[tuple[str, str], str]) -> Grid:
    groups = sorted(summary.groups, key=lambda g: -g.mean.value)
    not_worse = {groups[0].group}
    for c in summary.comparisons:
        if groups[0].group in (c.a, c.b) and c.p_adjusted > 0.05:
            not_worse |= {c.a, c.b}
    rows = [
        (
            g.group, g.n, g.mean.value, g.mean.low, g.mean.high,
            printed.get((g.group, summary.metric)), "best" if g.group in not_worse else "",
        )
        for g in groups
    ]  # fmt: skip
    return Grid(
        f"RQ3  {summary.metric}: mean rating of the experts, 1 to 100",
        ("system", "n", "mean", "low", "high", "thesis", ""),
        tuple(rows),
        (
            "95 % intervals by resampling sources; 'best': the highest mean, and those that are "
            "not shown to differ from it",
        ),
    )


def _pairs_grid(summaries: Sequence[MetricSummary]) -> Grid:
    rows = [
        (s.metric, c.a, c.b, c.inputs, c.difference, c.low, c.high, finite(c.effect), c.p,
         c.p_adjusted)
        for s in summaries
        for c in s.comparisons
    ]  # fmt: skip
    return Grid(
        "RQ3  every two systems on the same sources",
        ("aspect", "a", "b", "n", "a − b", "low", "high", "d_z", "p", "p (Holm)"),
        tuple(rows),
        ("paired permutation test over sources, Holm over all rows; d_z: Cohen's",),
    )
