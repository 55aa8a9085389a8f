"""Aggregation: the study's tables, from cells with texts, groups or rates."""

from __future__ import annotations

import itertools
import math
import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import levelfield_reproductions as papers
from flips import flips, p_of
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.datasets import lpf
from levelfield.scoring.comparison import verdict
from levelfield.stats.effect import cohen_dz
from levelfield.stats.resampling import Resampling
from levelfield.study.aggregate import aggregate
from levelfield.study.aggregate.control import ControlData, MeasuredTexts, weights_of_mean
from levelfield.study.aggregate.results import StudySummary
from levelfield.study.cells import Cell, CellKey, Cost, GroupValue, Rate
from levelfield.study.observations import ALL
from levelfield.study.report import comparison_rows
from levelfield_reproductions.recipes import lpf as recipe
from levelfield_reproductions.study_layout import published_cells

QUICK = Resampling(resamples=200, permutations=400)
NAN = float("nan")
VALUES = ("positive", "negative")
SLOR = "fluency.slor"

Score = Callable[[str, str, str, int, int], float]
"""(system, dataset, value, prompt, seed) -> the value of a text."""


def cell(
    system: str,
    dataset: str,
    seed: int,
    score: Score,
    *,
    prompts: int = 6,
    values: Sequence[str] = VALUES,
    right: Score | None = None,
    judges: Sequence[str] = (),
    control: str = "sentiment",
    metric: str = SLOR,
) -> Cell:
    """Returns a cell with a text for each prompt and value; `right` is the chance to agree."""
    samples, scores = [], {}
    votes: dict[str, dict[str, str]] = {judge: {} for judge in judges}
    for p, value in itertools.product(range(prompts), values):
        id = f"{system}/{dataset}/{control}/{seed}/{p}-{value}"
        samples.append(
            Sample(
                id,
                "text",
                prompt=f"{dataset} prompt {p}",
                control={control: value},
                system=system,
                dataset=dataset,
                seed=seed,
                extra={"request": f"{p}-{value}"},
            )
        )
        scores[id] = score(system, dataset, value, p, seed)
        for j, judge in enumerate(judges):
            assert right is not None
            rng = random.Random(f"{id}{judge}")
            agrees = rng.random() < right(system, dataset, value, p, seed) - 0.05 * j
            votes[judge][id] = value if agrees else "other"
    return Cell(
        CellKey(system, dataset, control, seed),
        tuple(samples),
        scores={metric: scores},
        votes={control: votes} if judges else {},
        signatures={metric: f"{metric}|v:1"},
    )


def study(
    score: Score, systems: str = "ab", datasets: str = "xy", seeds: int = 2, **more: object
) -> list[Cell]:
    sizes = {d: 4 + 3 * i for i, d in enumerate(datasets)}
    return [
        cell(system, d, seed, score, prompts=sizes[d], **more)  # type: ignore[arg-type]
        for system in systems
        for d in datasets
        for seed in range(seeds)
    ]


def noisy(system: str, dataset: str, value: str, prompt: int, seed: int) -> float:
    rng = random.Random(f"{system}{dataset}{value}{prompt}{seed}")
    return 10 + (system == "b") + rng.gauss(0, 1)


def hash_of(key: Sequence[str | int]) -> int:
    return zlib.crc32(repr(key).encode())


def of(summary: StudySummary, system: str, measure: str, dataset: str = ALL, value: str = ALL):
    [control] = summary.controls
    entry = control.entry(system, measure, dataset, value)
    assert entry is not None
    return entry


def test_mean_and_deviation_are_the_formula_over_cells():
    cells = study(noisy)
    summary = aggregate(cells, resampling=QUICK)
    assert summary.weights == {"x": 4, "y": 7}
    pairs = [
        (float(np.mean(list(c.scores[SLOR].values()))), summary.weights[c.key.dataset])
        for c in cells
        if c.key.system == "a"
    ]
    m = sum(w * v for v, w in pairs) / sum(w for _, w in pairs)
    s = math.sqrt(sum(w * (v - m) ** 2 for v, w in pairs) / sum(w for _, w in pairs))
    entry = of(summary, "a", SLOR)
    assert (entry.mean, entry.deviation) == (pytest.approx(m), pytest.approx(s))
    assert entry.n == 2 * 2 * (4 + 7)
    assert entry.interval.low < m < entry.interval.high
    assert (entry.rank, of(summary, "b", SLOR).rank) == (2, 1)


def test_a_lower_perplexity_ranks_first():
    summary = aggregate(study(noisy, metric="fluency.perplexity"), resampling=QUICK)
    assert of(summary, "a", "fluency.perplexity").rank == 1


def test_the_order_of_cells_and_texts_changes_no_number():
    cells = study(noisy, judges=("j", "k"), right=lambda *_: 0.7)
    shuffled = [replace(c, samples=tuple(reversed(c.samples))) for c in cells]
    random.Random(0).shuffle(shuffled)
    first, other = aggregate(cells, resampling=QUICK), aggregate(shuffled, resampling=QUICK)
    for key, entry in first.controls[0].entries.items():
        counterpart = other.controls[0].entries[key]
        for a, b in (
            (entry.mean, counterpart.mean),
            (entry.deviation, counterpart.deviation),
            (entry.interval.low, counterpart.interval.low),
            (entry.between_seeds.deviation, counterpart.between_seeds.deviation),
            (entry.between_prompts.deviation, counterpart.between_prompts.deviation),
        ):
            assert a == pytest.approx(b, nan_ok=True)
    for measure, comparisons in first.controls[0].comparisons.items():
        for c, d in zip(comparisons, other.controls[0].comparisons[measure], strict=True):
            assert abs(c.difference) == pytest.approx(abs(d.difference))
            assert c.p == pytest.approx(d.p)


def test_seeds_and_prompts_spread_apart():
    def by_seed(*place: str | int) -> float:
        return 10.0 + int(place[4])

    def by_prompt(*place: str | int) -> float:
        return 10.0 + int(place[3])

    seeds = of(aggregate(study(by_seed, seeds=3), resampling=QUICK), "a", SLOR)
    assert seeds.between_seeds.deviation == pytest.approx(1.0)
    assert seeds.between_prompts.deviation == pytest.approx(0.0)
    prompts = of(aggregate(study(by_prompt, seeds=3), resampling=QUICK), "a", SLOR)
    assert prompts.between_seeds.deviation == pytest.approx(0.0)
    variances = [np.var(np.arange(4), ddof=1), np.var(np.arange(7), ddof=1)]
    assert prompts.between_prompts.deviation == pytest.approx(
        math.sqrt((4 * variances[0] + 7 * variances[1]) / 11)
    )


def test_one_seed_has_no_deviation_between_seeds_and_a_note():
    summary = aggregate(study(noisy, seeds=1), resampling=QUICK)
    entry = of(summary, "a", SLOR)
    assert math.isnan(entry.between_seeds.deviation)
    assert entry.between_seeds.why == "one seed"
    assert any("One seed" in note for note in summary.controls[0].notes)


def test_undefined_texts_are_counted_and_weigh_nothing():
    def holes(*place: str | int) -> float:
        return NAN if place[2:4] == ("positive", 0) else 5.0

    entry = of(aggregate(study(holes), resampling=QUICK), "a", SLOR)
    assert (entry.mean, entry.n, entry.undefined) == (5.0, 40, 4)


def test_a_system_without_any_value_is_there_without_a_mean():
    summary = aggregate(study(lambda system, *_: NAN if system == "a" else 1.0), resampling=QUICK)
    entry = of(summary, "a", SLOR)
    assert math.isnan(entry.mean)
    assert (entry.rank, entry.n, entry.undefined) == (None, 0, 44)
    assert entry.interval.why_no_interval == "no values"
    [comparison] = summary.controls[0].comparisons[SLOR]
    assert verdict(comparison, "higher") == "not compared"


def test_a_metric_without_any_value_is_left_out_and_named():
    control = aggregate(study(lambda *_: NAN), resampling=QUICK).controls[0]
    assert control.measures == ()
    assert f"Left out because no text has a value: {SLOR}" in control.notes


def test_cells_that_are_not_measured_are_named():
    cells = study(noisy)
    bare = [replace(c, scores={}, groups=()) if c.key.system == "a" else c for c in cells]
    notes = aggregate(bare, resampling=QUICK).controls[0].notes
    (note,) = (note for note in notes if note.startswith("Not measured yet: a / "))
    assert note.endswith("more; `levelfield study run` measures it")
    whole = aggregate(cells, resampling=QUICK).controls[0].notes
    assert not any("Not measured" in note for note in whole)


def test_judges_average_and_their_deviation_over_judges_too():
    cells = study(noisy, judges=("j", "k"), right=lambda *_: 0.8)
    summary = aggregate(cells, resampling=QUICK)
    shares = []
    for c in (c for c in cells if c.key.system == "a"):
        for judge in ("j", "k"):
            votes = c.votes["sentiment"][judge]
            right = [votes[s.id] == s.control["sentiment"] for s in c.samples]
            shares.append((100 * float(np.mean(right)), summary.weights[c.key.dataset]))
    v, w = np.array(shares).T
    m = float(np.average(v, weights=w))
    entry = of(summary, "a", "average")
    assert entry.mean == pytest.approx(m)
    assert entry.deviation == pytest.approx(math.sqrt(float(np.average((v - m) ** 2, weights=w))))
    assert entry.interval.low <= m <= entry.interval.high
    means = [of(summary, "a", j).mean for j in ("j", "k")]
    assert entry.mean == pytest.approx(np.mean(means))


def test_a_metric_of_the_judges_is_the_column_average_in_percent():
    cells = [
        replace(c, scores={"control.average": dict.fromkeys(c.scores[SLOR], 0.25)})
        for c in study(noisy)
    ]
    summary = aggregate(cells, resampling=QUICK)
    assert [m.name for m in summary.controls[0].measures] == ["average"]
    assert of(summary, "a", "average").mean == pytest.approx(25)


def test_two_attributes_are_judged_apart_and_averaged_within_a_run():
    key = CellKey("a", "x", "multiple", 1)
    control = {"sentiment": "positive", "topic": "World"}
    samples = tuple(Sample(str(i), "t", prompt=f"p{i}", control=control) for i in range(4))
    votes = {
        "sentiment": {"j": dict(zip("0123", ["positive"] * 3 + ["negative"], strict=True))},
        "topic": {"j": dict(zip("0123", ["World", "", "Sports", "Sports"], strict=True))},
    }
    summary = aggregate([Cell(key, samples, votes=votes)], resampling=QUICK)
    assert of(summary, "a", "sentiment/j").mean == 75
    assert of(summary, "a", "topic/j").mean == 25  # an undecided judge is not right
    assert of(summary, "a", "average").mean == 50
    assert of(summary, "a", "average").deviation == 0


def test_corpus_metrics_are_averaged_over_values_and_have_no_interval():
    cells = [
        Cell(
            CellKey("a", "x", "topic", 1),
            groups=(
                GroupValue("diversity.distinct-1", "World", 0.2, 35),
                GroupValue("diversity.distinct-1", "Sports", 0.4, 35),
            ),
        )
    ]
    entry = of(aggregate(cells, resampling=QUICK), "a", "diversity.distinct-1")
    assert entry.mean == pytest.approx(30)
    assert "corpus" in entry.interval.why_no_interval
    assert "corpus" in entry.between_prompts.why


def test_the_average_of_keywords_is_that_of_the_four_coverages():
    coverages = {"any": 1.0, "all": 0.5, "ext-cov": 0.9, "cov": 0.6}
    groups = tuple(GroupValue(f"keywords.{k}", "", v, 35) for k, v in coverages.items())
    cells = [Cell(CellKey("a", "x", "keywords", 1), groups=groups)]
    entry = of(aggregate(cells, resampling=QUICK), "a", "average")
    assert entry.mean == pytest.approx(75)
    assert entry.deviation == pytest.approx(math.sqrt((25**2 + 25**2 + 15**2 + 15**2) / 4))


def test_published_rates_of_two_attributes_are_averaged_within_a_run():
    def run(dataset: str, sentiment: float, topic: float) -> Cell:
        rates = {"both": 10.0, "sentiment": sentiment, "topic": topic}
        key = CellKey("a", dataset, "multiple", 1)
        return Cell(key, rates=tuple(Rate(name, "", v) for name, v in rates.items()))

    cells = [run("x", 90, 50), run("y", 80, 60)]
    summary = aggregate(cells, weights={"x": 35, "y": 625}, resampling=QUICK)
    average = of(summary, "a", "average")
    assert (average.mean, average.deviation) == (pytest.approx(70), pytest.approx(0))
    assert of(summary, "a", "sentiment").mean == pytest.approx((35 * 90 + 625 * 80) / 660)
    assert of(summary, "a", "both").mean == 10
    assert summary.controls[0].agreements == ()


def test_an_average_takes_the_judges_that_a_cell_has():
    cells = study(noisy, judges=("j", "k"), right=lambda *_: 0.8)
    votes = {"sentiment": {"j": cells[0].votes["sentiment"]["j"]}}
    cells[0] = replace(cells[0], votes=votes)
    [control] = aggregate(cells, resampling=QUICK).controls
    entry = control.entry("a", "average")
    assert entry is not None
    assert (entry.n, entry.undefined) == (44, 0)
    assert entry.interval.low < entry.mean < entry.interval.high


def test_an_empty_output_is_wrong_under_every_judge_and_says_nothing_of_their_agreement():
    key = CellKey("a", "x", "sentiment", 1)
    samples = tuple(
        Sample(str(i), "t" if i < 6 else "", prompt=f"p{i}", control={"sentiment": "positive"})
        for i in range(10)
    )

    def votes(wrong: str) -> dict[str, str]:
        read = {i: "negative" if i in wrong else "positive" for i in "012345"}
        return read | dict.fromkeys("6789", "(empty)")

    judge_votes = {"j": votes("012"), "k": votes("123")}
    [control] = aggregate(
        [Cell(key, samples, votes={"sentiment": judge_votes})], resampling=QUICK
    ).controls
    for measure in ("j", "k", "average"):
        entry = control.entry("a", measure)
        assert entry is not None
        assert (entry.mean, entry.n, entry.undefined) == (30, 10, 0)
    [agreement] = control.agreements
    assert agreement.n[0][1] == 6
    assert agreement.kappa[0][1] == pytest.approx(1 / 3)


def test_the_share_of_ties_is_among_the_notes():
    cells = [
        replace(c, scores={"control.majority": c.scores[SLOR]}, ties={"control.majority": 1})
        for c in study(lambda *_: 0.5, systems="ab", datasets="x", seeds=2)
    ]
    [control] = aggregate(cells, resampling=QUICK).controls
    texts = sum(len(c.samples) for c in cells)
    assert any(
        note.startswith("control.majority: the judges are divided on") and f"(4 of {texts})" in note
        for note in control.notes
    )
    bare = [replace(c, ties={}) for c in cells]
    assert not any("divided" in n for n in aggregate(bare, resampling=QUICK).controls[0].notes)


def test_an_infinite_value_is_in_no_mean_of_a_study_and_the_notes_say_so():
    def endless(*place: str | int) -> float:
        return math.inf if place[3] == 0 else 5.0

    summary = aggregate(study(endless), resampling=QUICK)
    entry = of(summary, "a", SLOR)
    assert (entry.mean, entry.undefined) == (5.0, 8)
    assert any("values are infinite" in note for note in summary.controls[0].notes)


def test_weights_are_how_many_prompts_were_asked_for():
    cells = [replace(c, asked=len(c.samples) + 2 * 3) for c in study(noisy)]
    summary = aggregate(cells, resampling=QUICK)
    assert summary.weights == {"x": 4 + 3, "y": 7 + 3}


def test_a_clear_difference_is_found_and_none_is_not():
    def apart(*place: str | int) -> float:
        return noisy(*place) + 2 * (place[0] == "b")  # type: ignore[arg-type]

    summary = aggregate(study(apart, systems="abc", seeds=3), resampling=QUICK)
    by_pair = {(c.a, c.b): c for c in summary.controls[0].comparisons[SLOR]}
    assert verdict(by_pair["a", "b"], "higher") == "b > a"
    assert verdict(by_pair["a", "c"], "higher") == "no difference shown"
    assert by_pair["a", "b"].inputs == 2 * (4 + 7)
    assert by_pair["a", "b"].clusters == 11
    assert by_pair["a", "b"].low < by_pair["a", "b"].difference < by_pair["a", "b"].high < 0
    assert by_pair["a", "b"].effect < -0.5


def test_a_difference_is_that_of_the_means_where_all_is_there():
    summary = aggregate(study(noisy), resampling=QUICK)
    [c] = summary.controls[0].comparisons[SLOR]
    assert c.difference == pytest.approx(of(summary, "a", SLOR).mean - of(summary, "b", SLOR).mean)


def test_with_one_dataset_and_seed_intervals_and_tests_are_those_of_single_means():
    cells = [cell(system, "x", 0, noisy, prompts=6) for system in "ab"]
    summary = aggregate(cells, resampling=QUICK)
    values = {c.key.system: np.array([*c.scores[SLOR].values()]) for c in cells}
    prompts = [s.prompt for s in cells[0].samples]
    entry = of(summary, "a", SLOR)
    expected = scipy.stats.ttest_1samp(values["a"].reshape(6, 2).mean(axis=1), 0)
    assert (entry.interval.low, entry.interval.high) == pytest.approx(
        (expected.confidence_interval().low, expected.confidence_interval().high)
    )
    assert entry.interval.clusters == 6
    [c] = summary.controls[0].comparisons[SLOR]
    d = values["a"] - values["b"]
    tests = flips(d, prompts)
    expected = (tests.p[0], tests.low[0], tests.high[0])
    assert (c.p, c.low, c.high) == pytest.approx(expected, nan_ok=True)
    assert c.effect == pytest.approx(cohen_dz(d))


def test_intervals_of_several_datasets_with_one_seed_have_the_variance_within_each():
    cells = [c for c in study(noisy, seeds=1) if c.key.system == "a"]
    entry = of(aggregate(cells, resampling=QUICK), "a", SLOR)
    variance = shares = 0.0
    for K, cell in zip((4, 7), cells, strict=True):
        by_prompt = np.array([*cell.scores[SLOR].values()]).reshape(K, 2).mean(axis=1)
        part = (K / 11) ** 2 * float(np.var(by_prompt, ddof=1)) / K
        variance, shares = variance + part, shares + part**2 / (K - 1)
    half = scipy.stats.t.ppf(0.975, variance**2 / shares) * math.sqrt(variance)
    assert (entry.interval.low, entry.interval.high) == pytest.approx(
        (entry.mean - half, entry.mean + half)
    )


def test_what_is_a_share_is_decided_for_all_systems():
    def coverage(system: str, dataset: str, value: str, prompt: int, seed: int) -> float:
        share = random.Random(f"{dataset}{value}{prompt}{seed}").random()
        return float(share < 0.8) if system == "a" else share

    cells = study(coverage, datasets="vwxyz", metric="keywords.cov")
    interval = of(aggregate(cells, resampling=QUICK), "a", "keywords.cov").interval
    assert interval.high < 100
    assert (interval.low + interval.high) / 2 == pytest.approx(interval.value)


def drifting(system: str, dataset: str, value: str, prompt: int, seed: int) -> float:
    """Returns values of equal systems; seeds differ more than texts, and the first is good."""
    drifts = {"a0": 2.0, "a1": 0.6, "a2": 1.0, "b0": 0.4, "b1": 0.9, "b2": -0.2}
    return noisy("", dataset, value, prompt, seed) + drifts.get(f"{system}{seed}", 0.0)


def test_a_difference_no_larger_than_seeds_make_is_not_shown():
    [control] = aggregate(study(drifting, seeds=3), resampling=QUICK).controls
    [c] = control.comparisons[SLOR]
    assert c.p > 0.05
    assert c.low < 0 < c.high
    by_prompt: dict[str, list[float]] = {}
    for cell in study(drifting, seeds=3):
        sign = 1 if cell.key.system == "a" else -1
        for s in cell.samples:
            by_prompt.setdefault(s.prompt, []).append(sign * cell.scores[SLOR][s.id])
    d = [float(np.sum(v)) for v in by_prompt.values()]
    assert p_of(d) < 0.01  # of these runs it is shown


def test_a_comparison_says_how_many_seeds_it_rests_on_and_what_it_is_about():
    cells = study(noisy, systems="ab", seeds=3) + study(noisy, systems="cd", seeds=1)
    [control] = aggregate(cells, resampling=QUICK).controls
    notes = {c.a + c.b: c.note for c in control.comparisons[SLOR]}
    assert notes["ab"] == "3 seeds each: t test with prompts and seeds as samples"
    assert notes["ac"] == (
        "a 3 seeds, c one seed: t test with prompts and seeds as samples, a claim about this run "
        "of c"
    )
    assert notes["cd"] == "one seed each: sign-flip test of prompts, a claim about these runs"
    assert control.seeds_of_systems == {"a": 3, "b": 3, "c": 1, "d": 1}
    assert (
        "a 3 seeds, b 3 seeds, c one seed, d one seed: intervals and tests treat prompts and seeds "
        "as samples; what is said of c, d holds for this run"
    ) in control.notes


def drawn_by_text(cells: Sequence[Cell], systems: str) -> list[Cell]:
    return [replace(c, draws="text") if c.key.system in systems else c for c in cells]


def test_texts_with_draws_of_their_own_repeat_their_prompts():
    cells = drawn_by_text(study(noisy, seeds=3), "ab")
    [control] = aggregate(cells, resampling=QUICK).controls
    [c] = control.comparisons[SLOR]

    def mean(*place: str | int) -> float:
        return float(np.mean([noisy(*place[:4], seed) for seed in range(3)]))  # type: ignore[arg-type]

    averaged = aggregate(drawn_by_text(study(mean, seeds=1), "ab"), resampling=QUICK)
    [expected] = averaged.controls[0].comparisons[SLOR]
    assert c.p == pytest.approx(expected.p, abs=1e-12)
    assert (c.low, c.difference, c.high) == pytest.approx(
        (expected.low, expected.difference, expected.high), abs=1e-12
    )
    assert c.note == ""
    assert control.notes[0] == (
        "Each text has a draw of its own: several seeds are several texts of a prompt, and "
        "intervals and tests treat prompts as the sample"
    )
    for system in "ab":
        drawn, mean_drawn = of(aggregate(cells), system, SLOR), of(averaged, system, SLOR)
        assert drawn.interval.low == pytest.approx(mean_drawn.interval.low, abs=1e-12)
        assert drawn.interval.high == pytest.approx(mean_drawn.interval.high, abs=1e-12)


def test_seeds_are_a_sample_of_those_systems_alone_whose_texts_share_them():
    cells = drawn_by_text(study(noisy, systems="abc", seeds=3), "a")
    [control] = aggregate(cells, resampling=QUICK).controls
    notes = {c.a + c.b: c.note for c in control.comparisons[SLOR]}
    assert notes["ab"] == "b 3 seeds: t test with prompts and seeds as samples"
    assert notes["bc"] == "3 seeds each: t test with prompts and seeds as samples"
    assert [note for note in control.notes if note.startswith("Each text of a ")]
    assert "b 3 seeds, c 3 seeds" not in control.notes[0]


def test_one_seed_of_texts_with_draws_of_their_own_is_not_a_claim_about_one_run():
    [control] = aggregate(drawn_by_text(study(noisy, seeds=1), "ab"), resampling=QUICK).controls
    assert not [note for note in control.notes if "this run" in note]
    assert [c.note for c in control.comparisons[SLOR]] == [""]


def test_bounds_of_undefined_values_hold_seeds_as_well():
    def holey(system: str, dataset: str, value: str, prompt: int, seed: int) -> float:
        empty = (system, prompt) == ("a", 1)
        return NAN if empty else noisy(system, dataset, value, prompt, seed)

    cells = study(holey, seeds=3)
    worst = float(np.nanquantile([v for c in cells for v in c.scores[SLOR].values()], 0.025))
    filled = [
        replace(c, scores={SLOR: {id: worst if v != v else v for id, v in c.scores[SLOR].items()}})
        for c in cells
    ]
    [c] = aggregate(cells, resampling=QUICK).controls[0].comparisons[SLOR]
    [expected] = aggregate(filled, resampling=QUICK).controls[0].comparisons[SLOR]
    assert c.bounds is not None
    assert c.bounds.lowest == pytest.approx(expected.difference)
    # how far seeds of other systems differ is taken from the values that there are
    assert c.bounds.p_lowest == pytest.approx(expected.p, rel=0.1)
    assert c.bounds.p_highest != c.bounds.p_lowest


def test_comparisons_as_json_have_the_bounds_of_their_differences():
    def holey(*place: str | int) -> float:
        return NAN if (place[0], place[3]) == ("a", 1) else noisy(*place)  # type: ignore[arg-type]

    summary = aggregate(study(holey), resampling=QUICK)
    [c] = summary.controls[0].comparisons[SLOR]
    assert c.bounds is not None
    [row] = comparison_rows(summary)
    assert (row["lowest"], row["highest"]) == (c.bounds.lowest, c.bounds.highest)
    [row] = comparison_rows(aggregate(study(noisy), resampling=QUICK))
    assert (row["lowest"], row["highest"]) == (None, None)


def test_with_one_seed_the_notes_say_that_claims_are_about_this_run():
    [control] = aggregate(study(noisy, seeds=1), resampling=QUICK).controls
    assert control.notes[-1].endswith("claims are about this run")


def test_the_interval_of_a_mean_holds_how_far_seeds_differ():
    several = of(aggregate(study(drifting, seeds=3), resampling=QUICK), "a", SLOR)
    lone = [c for c in study(drifting, seeds=3) if c.key.seed == 1]
    single = of(aggregate(lone, resampling=QUICK), "a", SLOR)
    assert several.interval.low < several.mean < several.interval.high
    width, width_of_run = (e.interval.high - e.interval.low for e in (several, single))
    assert width > 2 * width_of_run


@pytest.mark.parametrize("dataset", [ALL, "y"])
@pytest.mark.parametrize("value", [ALL, "positive"])
def test_the_interval_of_a_mean_is_centred_on_it_where_texts_and_cells_are_missing(
    dataset: str, value: str
):
    def holey(*place: str | int) -> float:
        return NAN if hash_of(place) % 5 == 0 else noisy(*place)  # type: ignore[arg-type]

    cells = [c for c in study(holey, seeds=3) if c.key != CellKey("a", "y", "sentiment", 2)]
    entry = of(aggregate(cells, resampling=QUICK), "a", SLOR, dataset, value)
    assert (entry.interval.low + entry.interval.high) / 2 == pytest.approx(entry.mean)


def test_the_contrast_of_a_mean_is_the_mean_where_texts_and_cells_are_missing():
    def holey(*place: str | int) -> float:
        return NAN if hash_of(place) % 5 == 0 else noisy(*place)  # type: ignore[arg-type]

    cells = [c for c in study(holey, seeds=3) if c.key != CellKey("a", "y", "sentiment", 2)]
    data = ControlData.of(cells, {"x": 3.0, "y": 1.0}, QUICK)
    [observed] = data.observations.observed
    positions = data.positions["a", ALL]
    assert observed.texts is not None
    texts = MeasuredTexts.of(data, observed.texts, positions)
    for value in (ALL, *VALUES):
        c = texts.mean(weights_of_mean(data, observed, texts, positions, value))
        assert c is not None
        entry = of(
            aggregate(cells, weights={"x": 3, "y": 1}, resampling=QUICK), "a", SLOR, ALL, value
        )
        assert c.value == pytest.approx(entry.mean)


def test_an_interval_of_shares_stays_between_0_and_100():
    cells = study(noisy, judges=("j", "k"), right=lambda *_: 0.97, seeds=2)
    for entry in aggregate(cells, resampling=QUICK).controls[0].entries.values():
        if entry.measure == "average" and not entry.interval.why_no_interval:
            assert 0 <= entry.interval.low <= entry.mean <= entry.interval.high <= 100


@pytest.mark.parametrize("shift", [0.0, -1e-9])
def test_an_interval_ends_at_0_only_if_no_value_is_below_0(shift: float):
    def seldom(*place: str | int) -> float:
        return shift + (hash_of(place) % 40 == 0)  # type: ignore[arg-type]

    entry = of(aggregate(study(seldom, seeds=3), resampling=QUICK), "a", SLOR)
    assert entry.interval.low < entry.mean < entry.interval.high
    assert (entry.interval.low == 0) == (shift == 0)


def test_a_system_whose_seeds_are_equal_has_the_interval_of_one_run():
    def greedy(system: str, dataset: str, value: str, prompt: int, _seed: int) -> float:
        return noisy(system, dataset, value, prompt, 0)

    [control] = aggregate(study(greedy, datasets="x", seeds=3), resampling=QUICK).controls
    [c] = control.comparisons[SLOR]
    d = [
        np.mean([greedy("a", "x", v, p, 0) - greedy("b", "x", v, p, 0) for v in VALUES])
        for p in range(4)
    ]
    assert c.p == pytest.approx(scipy.stats.ttest_1samp(d, 0).pvalue)


@given(st.integers(2, 4), st.integers(1, 3), st.integers(0, 99))
@settings(max_examples=10)
def test_p_is_never_below_what_the_permutations_allow(systems: int, seeds: int, seed: int):
    names = "abcd"[:systems]
    cells = study(lambda *k: noisy(*k) + seed * (k[0] == "a"), systems=names, seeds=seeds)
    [control] = aggregate(cells, resampling=QUICK).controls
    for c in control.comparisons[SLOR]:
        assert 0 < c.p <= c.p_adjusted <= 1


def test_a_system_that_lacks_a_dataset_is_marked_and_spoils_no_other_comparison():
    cells = [c for c in study(noisy, systems="abc") if c.key != CellKey("c", "y", "sentiment", 0)]
    cells = [c for c in cells if (c.key.system, c.key.dataset) != ("c", "y")]
    [control] = aggregate(cells, resampling=QUICK).controls
    assert control.incomplete == {"c": "dataset y"}
    assert any(note.startswith("Incomplete: c has nothing for dataset y") for note in control.notes)
    by_pair = {(c.a, c.b): c for c in control.comparisons[SLOR]}
    assert (by_pair["a", "b"].inputs, by_pair["a", "b"].left_out) == (22, 0)
    assert (by_pair["a", "c"].inputs, by_pair["a", "c"].left_out) == (8, 14)
    assert "x" in by_pair["a", "c"].note


def test_a_system_that_lacks_a_value_is_marked():
    cells = [cell(s, "x", 0, noisy, values=VALUES if s == "a" else VALUES[:1]) for s in ("a", "b")]
    [control] = aggregate(cells, resampling=QUICK).controls
    assert control.incomplete == {"b": "value negative"}
    assert control.comparisons[SLOR][0].inputs == 6


def test_judges_agree_as_the_formulas_say():
    cells = study(noisy, judges=("j", "k"), right=lambda *_: 0.6)
    [agreement] = aggregate(cells, resampling=QUICK).controls[0].agreements
    right = {"j": [], "k": []}
    for cell, s in ((c, s) for c in cells for s in c.samples):
        for judge, hits in right.items():
            hits.append(cell.votes["sentiment"][judge][s.id] == s.control["sentiment"])
    j, k = np.array(right["j"]), np.array(right["k"])
    p_e = j.mean() * k.mean() + (1 - j.mean()) * (1 - k.mean())
    assert agreement.kappa[0][1] == pytest.approx((np.mean(j == k) - p_e) / (1 - p_e))
    assert agreement.r[0][1] == pytest.approx(np.corrcoef(j, k)[0, 1])
    assert agreement.kappa[0][0] == pytest.approx(1)
    assert agreement.n[0][1] == len(j)


def test_from_rates_judges_correlate_over_cells_and_values_and_have_no_kappa():
    rates = [(90, 80), (70, 75), (50, 60), (20, 10)]
    cells = [
        Cell(
            CellKey("a", "x", "sentiment", seed),
            rates=tuple(
                Rate(judge, value, float(rates[2 * seed + v][j]))
                for v, value in enumerate(VALUES)
                for j, judge in enumerate("jk")
            ),
        )
        for seed in range(2)
    ]
    summary = aggregate(cells, resampling=QUICK)
    [agreement] = summary.controls[0].agreements
    assert agreement.of_rates
    assert agreement.r[0][1] == pytest.approx(np.corrcoef(np.array(rates).T)[0, 1])
    assert math.isnan(agreement.kappa[0][1])
    assert of(summary, "a", "j").mean == pytest.approx(57.5)
    assert of(summary, "a", "j").interval.why_no_interval == "only values of whole cells are known"
    assert summary.weights_from.startswith("equal")


def test_costs_are_a_text_over_cells():
    costs = [Cost(10.0, 10, 100, 5), Cost(30.0, 10, 100, 7), None]
    cells = [
        Cell(CellKey("a", "x", "topic", i), cost=c, groups=(GroupValue("m", "", 1.0, 1),))
        for i, c in enumerate(costs)
    ]
    [cost] = aggregate(cells, resampling=QUICK).controls[0].costs
    assert (cost.seconds, cost.deviation, cost.cells, cost.peak_bytes) == (2.0, 1.0, 2, 7)
    assert cost.tokens_per_second == pytest.approx(5)


def test_values_too_many_to_tell_apart_are_not_split():
    values = [f"word {i}" for i in range(20)]
    cells = [cell(s, "x", 0, noisy, values=values, control="keywords") for s in "ab"]
    [control] = aggregate(cells, resampling=QUICK).controls
    assert control.values == ()
    assert control.entry("a", SLOR) is not None
    assert "Not split by the 20 values asked for" in control.notes


def test_texts_without_a_prompt_pair_by_their_request():
    def bare(c: Cell) -> Cell:
        return replace(c, samples=tuple(replace(s, prompt="") for s in c.samples))

    cells = [bare(c) for c in study(noisy, datasets="x", seeds=3)]
    [control] = aggregate(cells, resampling=QUICK).controls
    [c] = control.comparisons[SLOR]
    assert (c.inputs, c.clusters) == (8, 8)


@pytest.mark.parametrize("weights", [{"x": 1.0}, {"x": 1.0, "y": 0.0}, {"x": 1.0, "y": NAN}])
def test_a_weight_that_is_missing_or_not_above_0_is_refused(weights: Mapping[str, float]):
    with pytest.raises(UserError, match="dataset 'y'"):
        aggregate(study(noisy), weights=weights)


def test_no_cells_are_refused():
    with pytest.raises(UserError, match="no cells"):
        aggregate([])


def test_a_failed_cell_is_noted():
    cells = [*study(noisy), Cell(CellKey("c", "x", "sentiment", 0), failure="timed out")]
    [control] = aggregate(cells, resampling=QUICK).controls
    assert any("timed out" in note for note in control.notes)
    assert control.incomplete["c"] == "dataset x, y"


# the published runs


def published(control: str) -> list[Cell]:
    """Cells of the published runs, named by the rows of the study's tables."""
    rows = {}
    for row in dict.fromkeys(n.row for t in papers.tables("lpf") for n in t.numbers):
        system, _, prompting = row.rpartition(" ")
        if prompting not in recipe.PROMPTING:
            system, prompting = row, ""
        for prompted in recipe.PROMPTING.get(prompting, ("",)):
            if system in recipe.SYSTEMS:
                rows.setdefault((recipe.SYSTEMS[system], prompted), []).append(row)
    cells = []
    for run in lpf.runs(control=control, here=True):
        r = run.results
        models = recipe.LANGUAGE_MODELS
        groups = [
            GroupValue(f"diversity.distinct-{n}", "", r["distinct-n"]["overall"][f"dist{n}"], 0)
            for n in (1, 2, 3)
        ]
        groups += [
            GroupValue("fluency.perplexity", "", r["perplexity"][m]["overall"], 0) for m in models
        ]
        groups += [GroupValue(SLOR, "", r["perplexity"][m]["overall_slor"], 0) for m in models]
        keys = recipe.JUDGES[control] | {"majority": "control_effectiveness_majority"}
        rates = [Rate(judge, "", r[key]["overall"]["accuracy"]) for judge, key in keys.items()]
        for row in rows[run.system, run.prompting]:
            key = CellKey(row, run.dataset, control, run.seed)
            cells.append(Cell(key, groups=tuple(groups), rates=tuple(rates)))
    return cells


@pytest.mark.usefixtures("rated_data")
@pytest.mark.parametrize(
    ("control", "tables"),
    [("sentiment", ("lpf.8a", "lpf.9a", "lpf.10")), ("topic", ("lpf.8b", "lpf.9b", "lpf.11"))],
)
def test_the_published_runs_give_the_published_tables(control: str, tables: Sequence[str]):
    summary = aggregate(published(control), weights=recipe.SIZES, resampling=QUICK)
    names = {f"dist{n}": f"diversity.distinct-{n}" for n in (1, 2, 3)}
    names |= {"SLOR": SLOR, "perplexity": "fluency.perplexity"}
    compared = 0
    for id in tables:
        [table] = papers.tables(id)
        derived = recipe._weighted(table)
        for (row, column), d in derived.items():
            base = column.removesuffix(" sd").removesuffix(" rank")
            entry = of(summary, row, names.get(base, base))
            mine = (
                entry.deviation
                if column.endswith(" sd")
                else entry.rank
                if column.endswith(" rank")
                else entry.mean
            )
            assert mine == pytest.approx(d.value, abs=1e-9), (id, row, column)
            compared += 1
    assert compared > 250


def test_the_published_folder_as_it_is_gives_the_published_numbers(rated_data: Path):
    [control] = aggregate(published_cells(rated_data / "lpf/results/sentiment")).controls
    printed = {"gedi": (91.2, 7.3, 3), "prior_ctg": (92.6, 0.5, 1), "dexperts": (50.4, 0.8, 11)}
    for system, (mean, deviation, rank) in printed.items():
        entry = control.entry(system, "average")
        assert entry is not None
        assert (round(entry.mean, 1), round(entry.deviation, 1)) == (mean, deviation)
        assert entry.rank == rank  # of 11: the study ranks two averages over promptings as well
