"""Summaries of runs: what rests on what, whatever order the samples come in."""

import math
import random
import warnings
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from flips import p_of
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.scoring.comparison import better_system, verdict
from levelfield.scoring.run_table import RunTable
from levelfield.scoring.summary import POINTS, summarise
from levelfield.stats.means import cluster_mean
from levelfield.stats.multiplicity import false_discovery_rate, holm
from levelfield.stats.power import detectable_difference
from levelfield.stats.resampling import Family, Resampling

NAN = float("nan")


def sample(id, system="x", prompt="The court", **more):
    return Sample(id=str(id), text=f"{prompt} sat.", prompt=prompt, system=system, **more)


def scores(ids, values, metric="coherence", higher=True, signature="coherence|v:0"):
    values = np.asarray(values, dtype=np.float64)
    ids = tuple(map(str, ids))
    undefined = {i: "empty text" for i, v in zip(ids, values, strict=True) if np.isnan(v)}
    return Scores(metric, ids, values, undefined, signature, higher)


def tally(rows, metrics=("coherence",), higher=True):
    """rows: (sample, value per metric ...)"""
    table = RunTable()
    for s, *_ in rows:
        table.add([s], [s.system])
    for k, metric in enumerate(metrics, start=1):
        values = [row[k] for row in rows]
        table.add_scores(scores([r[0].id for r in rows], values, metric, higher, f"{metric}|v:0"))
    return table


def study(systems, prompts=12, seeds=2, shift=0.0, metrics=1, seed=0):
    """Samples of systems on equal prompts; the i-th system's values lie i × shift higher."""
    rng = np.random.default_rng(seed)
    level = rng.normal(size=prompts)
    return [
        (
            sample(f"{system}/{p}/{s}", system, f"Prompt {p}", seed=s),
            *(level[p] + i * shift + rng.normal(size=metrics)),
        )
        for i, system in enumerate(systems)
        for p in range(prompts)
        for s in range(seeds)
    ]


def test_means_are_over_defined_values_and_say_how_many():
    rows = [(sample(i, "x", f"P{i}"), v) for i, v in enumerate([1.0, 3.0, NAN, 2.0])]
    (summary,) = summarise(tally(rows))
    (group,) = summary.groups
    assert (group.group, group.n, group.undefined) == ("x", 4, 1)
    assert (group.mean.value, group.mean.n) == (2.0, 3)
    assert sorted(group.points) == [1.0, 2.0, 3.0]
    assert summary.reasons == {"empty text": 1}
    assert summary.signature == "coherence|v:0|n:4 undefined:1 truncated:0"
    assert summary.overall.mean == group.mean
    assert summary.comparisons == ()


def test_group_intervals_are_those_of_means_over_clusters():
    rows = [(replace(s, seed=None), v) for s, v in study(["x", "y"], prompts=9, seeds=3)]
    (summary,) = summarise(tally(rows))
    for group in summary.groups:
        mine = [(s.prompt, v) for s, v in rows if s.system == group.group]
        interval = cluster_mean([v for _, v in mine], [c for c, _ in mine])
        assert group.mean.value == pytest.approx(interval.value)
        assert (group.mean.n, group.mean.clusters) == (27, 9)
        # clusters are drawn in the order of their hashes, so the ends agree within the draws' error
        width = interval.high - interval.low
        assert group.mean.low == pytest.approx(interval.low, abs=0.15 * width)
        assert group.mean.high == pytest.approx(interval.high, abs=0.15 * width)


def test_systems_are_compared_on_means_over_seeds_of_equal_inputs():
    rows = study(["x", "y"], prompts=10, seeds=3, shift=1.0)
    (summary,) = summarise(tally(rows))
    (c,) = summary.comparisons
    mean = {
        (system, p): np.mean([v for s, v in rows if (s.system, s.prompt) == (system, p)])
        for system in "xy"
        for p in {s.prompt for s, _ in rows}
    }
    d = np.array([mean["x", p] - mean["y", p] for p in sorted({s.prompt for s, _ in rows})])
    assert (c.a, c.b, c.inputs, c.left_out, c.clusters) == ("x", "y", 10, 0, 10)
    assert c.difference == pytest.approx(d.mean())
    assert c.effect == pytest.approx(d.mean() / d.std(ddof=1))
    assert c.low < c.difference < c.high
    assert verdict(c, "higher") == "y > x"
    assert verdict(c, "lower") == "x > y"


def test_one_seed_is_tested_by_sign_flips_and_the_claim_is_about_the_run():
    rows = study(["x", "y"], prompts=10, seeds=1, shift=1.0)
    (c,) = summarise(tally(rows))[0].comparisons
    values = {(s.system, s.prompt): v for s, v in rows}
    d = [values["x", p] - values["y", p] for p in sorted({s.prompt for s, _ in rows})]
    assert c.p == pytest.approx(p_of(d))
    assert c.note == "one seed each: sign-flip test of prompts, a claim about these runs"


@pytest.mark.slow
def test_what_seeds_alone_differ_by_is_not_called_a_difference():
    rng = np.random.default_rng(0)
    shown = 0
    for _ in range(200):
        effect = {(s, seed): rng.normal(scale=0.5) for s in "xy" for seed in range(3)}
        rows = [
            (s, v + effect[s.system, s.seed])
            for s, v in study(["x", "y"], prompts=20, seeds=3, seed=int(rng.integers(10**6)))
        ]
        (summary,) = summarise(tally(rows), resampling=Resampling(resamples=10))
        shown += "no difference" not in verdict(summary.comparisons[0], "higher")
    assert shown <= 20  # 5 % of 200; sign flips of prompts show about 60
    assert summary.comparisons[0].note == "3 seeds each: t test with prompts and seeds as samples"


def test_seeds_that_differ_widen_the_interval_of_a_systems_mean():
    rows = [(s, v + 3 * s.seed) for s, v in study(["x"], prompts=30, seeds=3)]
    (with_seeds,) = summarise(tally(rows))[0].groups
    (without,) = summarise(tally([(replace(s, seed=None), v) for s, v in rows]))[0].groups
    assert with_seeds.mean.value == pytest.approx(without.mean.value)
    assert with_seeds.mean.high - with_seeds.mean.low > 3 * (without.mean.high - without.mean.low)


def test_samples_without_a_seed_are_said_nothing_of():
    rows = [(replace(s, seed=None), v) for s, v in study(["x", "y"], prompts=10, seeds=2)]
    (c,) = summarise(tally(rows))[0].comparisons
    assert c.note == ""


def test_inputs_that_one_system_lacks_are_left_out_of_its_pairs_only():
    rows = [
        (s, NAN if (s.system, s.prompt) == ("z", "Prompt 0") else v)
        for s, v in study(["x", "y", "z"], prompts=8)
        if (s.system, s.prompt) != ("y", "Prompt 1")
    ]
    (summary,) = summarise(tally(rows))
    assert len(summary.comparisons) == 3
    assert [(c.a + c.b, c.inputs, c.left_out) for c in summary.comparisons] == [
        ("xy", 7, 1),
        ("xz", 7, 1),
        ("yz", 6, 2),
    ]


def test_texts_with_a_label_only_are_compared_as_independent_ones():
    rng = np.random.default_rng(5)
    rows = [
        (
            Sample(id=f"{s}{i}", text="Rain.", system=s, control={"sentiment": wanted}),
            rng.normal(2 * (s == "y") + 5 * (wanted == "positive")),
        )
        for s in "xy"
        for i, wanted in enumerate(["positive", "negative"] * 50)
    ]
    (c,) = summarise(tally(rows))[0].comparisons
    assert c.unpaired
    assert (c.inputs, c.clusters) == (200, 200)
    assert c.p < 1e-9
    assert c.difference == pytest.approx(-2, abs=0.5)
    assert c.note.startswith("unpaired: Welch's t test of 100 and 100 texts within control values")


def test_systems_with_other_prompts_are_compared_as_independent_and_why_is_said():
    rows = [(sample(f"{s}{i}", s, f"{s} prompt {i}"), float(i % 7)) for s in "xy" for i in range(9)]
    (c,) = summarise(tally(rows))[0].comparisons
    assert c.unpaired
    assert "no shared inputs: x has prompt" in c.note
    assert c.p == pytest.approx(1)
    se = math.sqrt(2 * np.var([i % 7 for i in range(9)], ddof=1) / 9)
    assert (c.error.se, c.error.df) == pytest.approx((se, 16))
    assert c.detectable == pytest.approx(detectable_difference(se, 16))


def test_an_unpaired_comparison_is_bounded_by_its_undefined_values():
    rng = np.random.default_rng(6)
    rows = []
    for s in "xy":
        values = np.sort(rng.normal(size=100))
        if s == "x":
            values[:30] = NAN
        rows += [(sample(f"{s}{i}", s, f"{s} {i}"), float(v)) for i, v in enumerate(values)]
    (c,) = summarise(tally(rows))[0].comparisons
    assert c.p < 0.05
    assert (c.bounds.only_a, c.bounds.only_b, c.bounds.inputs) == (30, 0, 200)
    assert verdict(c, "higher") == "withheld"
    assert "; undefined for 30 texts of x and 0 of y: with these, the difference is" in c.note
    values = {s.id: v for s, v in rows}
    x, y = (np.array([values[f"{s}{i}"] for i in range(100)]) for s in "xy")
    filled = np.where(np.isnan(x), c.tipping.a, x)
    assert scipy.stats.ttest_ind(filled, y, equal_var=False).pvalue == pytest.approx(0.05, rel=0.01)


def test_one_undefined_seed_does_not_cost_the_input():
    rows = [
        (s, NAN if (s.system, s.seed) == ("x", 0) else v) for s, v in study(["x", "y"], prompts=7)
    ]
    (summary,) = summarise(tally(rows))
    assert summary.comparisons[0].inputs == 7


def test_inputs_of_one_prompt_are_one_cluster():
    rows = [
        (
            sample(f"{system}{p}{wanted}", system, f"P{p}", control={"sentiment": wanted}),
            float(p + (system == "y")),
        )
        for system in "xy"
        for p in range(7)
        for wanted in ("positive", "negative")
    ]
    (summary,) = summarise(tally(rows))
    (c,) = summary.comparisons
    assert (c.inputs, c.clusters) == (14, 7)
    assert c.p == 2 / 2**7


def test_samples_generated_from_a_control_alone_are_each_their_own_cluster():
    rows = [
        (Sample(id=f"{s}{i}", text="Rain.", system=s, control={"topic": t}), float(i))
        for s in "xy"
        for i, t in enumerate(["art", "science", "art", "science"])
    ]
    (summary,) = summarise(tally(rows))
    assert summary.overall.mean.clusters == 8
    assert (summary.comparisons[0].inputs, summary.comparisons[0].clusters) == (2, 2)


def test_samples_generated_from_nothing_share_no_input():
    rows = [(Sample(id=f"{s}{i}", text="Rain.", system=s), float(i)) for s in "xy" for i in "123"]
    (summary,) = summarise(tally(rows))
    (c,) = summary.comparisons
    assert (c.inputs, c.note.partition(":")[0]) == (0, "no shared inputs")
    assert math.isnan(c.p)
    assert math.isnan(c.difference)
    assert verdict(c, "higher") == "not compared"


def test_labels_are_not_compared():
    (summary,) = summarise(tally(study(["positive", "negative"])), compare=False)
    assert [g.group for g in summary.groups] == ["negative", "positive"]
    assert summary.comparisons == ()


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 3))
def test_identical_systems_are_never_called_different(seed, prompts, seeds):
    rows = study(["x"], prompts=prompts, seeds=seeds, seed=seed)
    twin = [
        (sample(f"twin {s.id}", "y", s.prompt, seed=s.seed), v)
        for s, v in reversed(rows)  # another order of summation must not make a difference
    ]
    (summary,) = summarise(tally(rows + twin), resampling=Resampling(resamples=50))
    (c,) = summary.comparisons
    assert (c.difference, c.effect) == (0, 0)
    assert (c.p, c.p_adjusted) == pytest.approx((1, 1))
    assert verdict(c, "higher") == verdict(c, "lower") == "no difference shown"


def test_fewer_than_six_clusters_say_what_p_can_reach():
    (summary,) = summarise(tally(study(["x", "y"], prompts=4, seeds=1, shift=9.0)))
    (c,) = summary.comparisons
    assert c.note.partition("; ")[2] == "too few independent inputs: p can't go below 0.125"
    assert c.p == 0.125
    assert verdict(c, "higher") == "no difference shown"


def test_one_shared_input_says_so():
    (summary,) = summarise(tally(study(["x", "y"], prompts=1, shift=1.0)))
    (c,) = summary.comparisons
    assert "one input: no interval, no effect size" in c.note
    assert math.isnan(c.low)


@pytest.mark.parametrize("family", get_args(Family))
def test_p_is_adjusted_over_the_comparisons_of_a_metric_or_of_all(family):
    rows = study(["x", "y", "z"], metrics=2, shift=0.3)
    summaries = summarise(
        tally(rows, ("coherence", "consistency")), resampling=Resampling(family=family)
    )
    p = [[c.p for c in s.comparisons] for s in summaries]
    of_family = p if family == "metric" else [[*p[0], *p[1]]]
    adjust = false_discovery_rate if family == "fdr" else holm
    expected = [p for of in of_family for p in adjust(of).tolist()]
    assert [c.p_adjusted for s in summaries for c in s.comparisons] == expected


@pytest.mark.parametrize("shuffle", range(3))
def test_order_and_partition_of_samples_and_scores_do_not_matter(shuffle):
    rows = study(["b", "a", "c"], metrics=2)
    expected = summarise(
        tally(rows, ("coherence", "consistency")), resampling=Resampling(resamples=100)
    )
    order = random.Random(shuffle)
    table = RunTable()
    order.shuffle(rows)
    for s, *_ in rows:
        table.add([s], [s.system])
    for metric in (1, 2):
        order.shuffle(rows)
        name = ("coherence", "consistency")[metric - 1]
        for batch in (rows[i : i + 7] for i in range(0, len(rows), 7)):
            ids, values = [r[0].id for r in batch], [r[metric] for r in batch]
            table.add_scores(scores(ids, values, name, signature=f"{name}|v:0"))
    assert summarise(table, resampling=Resampling(resamples=100)) == expected


def test_swapping_two_systems_turns_the_signs():
    rows = study(["x", "y"], shift=0.4)
    swap = {"x": "y", "y": "x"}
    turned = [(sample(s.id, swap[s.system], s.prompt, seed=s.seed), v) for s, v in rows]
    (one,), (other,) = (summarise(tally(r))[0].comparisons for r in (rows, turned))
    assert other.difference == pytest.approx(-one.difference)
    assert (other.low, other.high) == pytest.approx((-one.high, -one.low))
    assert other.effect == pytest.approx(-one.effect)
    assert other.p == one.p


def test_scaling_a_metric_changes_no_p():
    rows = study(["x", "y"], shift=0.2)
    (one,), (other,) = (
        summarise(tally([(s, f(v)) for s, v in rows]))[0].comparisons
        for f in (lambda v: v, lambda v: 4 * v + 3)
    )
    assert other.p == pytest.approx(one.p)
    assert other.effect == pytest.approx(one.effect)
    assert other.difference == pytest.approx(4 * one.difference)


@pytest.mark.parametrize(
    ("values", "mean"),
    [
        ([1.0, math.inf, NAN, 2.0], math.inf),
        ([1.0, -math.inf, NAN, 2.0], -math.inf),
        ([-math.inf, -math.inf, NAN, -math.inf], -math.inf),
        ([1.0, math.inf, NAN, -math.inf], NAN),
    ],
)
def test_the_mean_over_an_infinite_value_is_infinite_and_says_so(values, mean):
    rows = [(sample(i, "x", f"P{i}"), v) for i, v in enumerate(values)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (summary,) = summarise(tally(rows))
    overall = summary.overall
    assert summary.reasons == {"empty text": 1}
    assert (overall.undefined, overall.infinite) == (1, sum(map(math.isinf, values)))
    assert overall.mean.value == pytest.approx(mean, nan_ok=True)
    assert (overall.mean.n, overall.mean.why_no_interval) == (3, "infinite values")
    assert math.isnan(overall.mean.low)
    assert math.isnan(overall.mean.high)
    assert "undefined:1" in summary.signature


@pytest.mark.parametrize("seeds", [1, 2])
def test_systems_with_infinite_values_are_compared_by_the_ranks_of_all_texts(seeds):
    rows = study(["x", "y"], prompts=12, seeds=seeds, shift=2.0)
    lowest = min(rows, key=lambda row: row[1])[0].id
    infinite = [(s, -math.inf if s.id == lowest else v) for s, v in rows]
    values = [v for _, v in infinite]
    by_rank = [(s, 1.0 + sum(other < v for other in values)) for s, v in infinite]
    ((c,),) = [s.comparisons for s in summarise(tally(infinite))]
    ((expected,),) = [s.comparisons for s in summarise(tally(by_rank))]
    assert (c.difference, c.p) == (expected.difference, expected.p)
    assert "some values are infinite: the differences are of ranks among all texts" in c.note
    assert verdict(c, "higher") == "y > x"


def test_no_margin_holds_for_ranks():
    rows = [(s, v if i else math.inf) for i, (s, v) in enumerate(study(["x", "y"]))]
    (summary,) = summarise(tally(rows), resampling=Resampling(margin={"all": 0.5}))
    (c,) = summary.comparisons
    assert math.isnan(c.margin)
    assert math.isnan(c.p_alike)


def test_systems_that_are_infinite_throughout_do_not_differ():
    rows = [(s, math.inf) for s, _ in study(["x", "y"])]
    (summary,) = summarise(tally(rows))
    assert verdict(summary.comparisons[0], "lower") == "no difference shown"
    assert [g.mean.value for g in summary.groups] == [math.inf, math.inf]


def test_a_difference_without_a_better_end_has_no_winner():
    rows = study(["x", "y"], shift=3.0)
    table = RunTable()
    for s, _ in rows:
        table.add([s], [s.system])
    ids = tuple(s.id for s, _ in rows)
    values = np.array([v for _, v in rows])
    table.add_scores(Scores("length", ids, values, {}, "length|v:0", "none"))
    (summary,) = summarise(table)
    (c,) = summary.comparisons
    assert verdict(c, summary.direction) == "y higher than x"
    assert better_system(c, "none") is None
    assert better_system(c, "higher") == "y"
    assert better_system(c, "lower") == "x"


def test_nothing_defined_gives_nan_everywhere_and_no_error():
    (summary,) = summarise(tally([(s, NAN) for s, _ in study(["x", "y"], prompts=3)]))
    assert math.isnan(summary.overall.mean.value)
    assert summary.overall.mean.why_no_interval == "no values"
    assert summary.comparisons[0].note == "no input has a value from both"
    assert summary.comparisons[0].left_out == 3


def test_one_sample_has_a_mean_and_no_interval():
    (summary,) = summarise(tally([(sample(1), 0.5)]))
    assert summary.overall.mean.value == 0.5
    assert summary.overall.mean.why_no_interval == "one value"


def test_no_samples_at_all():
    assert summarise(RunTable()) == []


def test_a_large_group_carries_some_of_its_values_only():
    rows = [(sample(i, "x", f"P{i}"), float(i)) for i in range(POINTS + 100)]
    (summary,) = summarise(tally(rows), resampling=Resampling(resamples=20))
    points = summary.groups[0].points
    assert len(points) == POINTS
    assert np.mean(points) == pytest.approx((POINTS + 99) / 2, rel=0.1)


def test_scores_of_other_samples_are_refused():
    table = tally([(sample(1), 0.5)])
    table.add([sample(2)], ["x"])
    with pytest.raises(ValueError, match="one value for each of the 2 samples"):
        summarise(table)


def test_two_samples_of_one_id_are_refused():
    table = RunTable()
    table.add([sample(1)], ["x"])
    table.add([sample(1)], ["y"])
    with pytest.raises(ValueError, match="one id"):
        summarise(table)


def test_two_signatures_of_one_metric_are_refused():
    table = tally([(sample(1), 0.5)])
    with pytest.raises(ValueError, match="two signatures"):
        table.add_scores(scores([2], [1.0], signature="coherence|v:9"))
