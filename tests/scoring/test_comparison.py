"""Verdicts where values are undefined: what is left alone never decides."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from flips import p_of
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.scoring.comparison import (
    Bounds,
    Comparison,
    ValuesOfSystems,
    adjusted_comparisons,
    compared_systems,
    undefined_ends,
    verdict,
)
from levelfield.scoring.joint import Criterion, joint
from levelfield.scoring.run_table import RunTable
from levelfield.scoring.summary import adjusted, summarise
from levelfield.scoring.unpaired import SeparateTexts

NAN = float("nan")


def scores(ids, values, metric):
    undefined = {id: "empty text" for id, v in zip(ids, values, strict=True) if np.isnan(v)}
    return Scores(metric, tuple(ids), values, undefined, f"{metric}|v:0", True)


def compared(values, answered=None, votes=0):
    values = np.asarray(values, dtype=np.float64)
    texts = np.ones(values.shape, np.intp) if answered is None else np.asarray(answered) * 1
    clusters = np.arange(1, len(values) + 1, dtype=np.uint64)
    names = [chr(ord("a") + i) for i in range(values.shape[1])]
    run = ValuesOfSystems(
        names,
        values,
        texts,
        texts * np.isnan(values),
        clusters,
        seeded=None,
        why_empty=lambda *_: "nothing shared",
        ends=undefined_ends(values),
        votes=votes,
    )
    return compared_systems([run])[0]


def adjusted_alone(c):
    return replace(c, p_adjusted=c.p_bounded, p_unbounded=c.p)


def test_a_system_that_is_undefined_where_it_would_be_bad_does_not_win():
    a = np.r_[np.ones(60), np.full(40, NAN)]
    b = np.r_[np.ones(40), np.zeros(20), np.ones(40)]
    (c,) = compared(np.column_stack([a, b]))
    assert c.difference == pytest.approx(1 / 3)
    assert c.p < 0.001
    assert c.bounds == Bounds(
        pytest.approx(-0.2), pytest.approx(0.2), pytest.approx(c.bounds.p_lowest),
        pytest.approx(c.bounds.p_highest), only_a=40, only_b=0, inputs=100,
    )  # fmt: skip
    assert verdict(adjusted_alone(c), "higher") == "withheld"


def test_a_difference_that_no_undefined_value_could_turn_is_shown():
    rng = np.random.default_rng(0)
    values = rng.normal([3, 0], size=(60, 2))
    values[:2, 0] = NAN
    (c,) = compared(values)
    assert c.bounds is not None
    assert 0 < c.bounds.lowest < c.difference < c.bounds.highest
    assert verdict(adjusted_alone(c), "higher") == "a > b"
    worst = np.nanquantile(values, 0.025)
    lowest = np.where(np.isnan(values[:, 0]), worst, values[:, 0]) - values[:, 1]
    assert c.bounds.lowest == pytest.approx(lowest.mean())
    assert c.bounds.p_lowest == pytest.approx(p_of(lowest))
    assert c.p_bounded == max(c.p, c.bounds.p_lowest)


def test_what_no_system_has_a_value_for_bounds_nothing():
    values = np.random.default_rng(1).normal(size=(30, 2))
    values[:9] = NAN
    (c,) = compared(values)
    assert c.bounds is None
    assert (c.inputs, c.left_out) == (21, 9)


def test_a_text_that_is_not_there_bounds_nothing():
    values = np.random.default_rng(1).normal(size=(30, 2))
    values[:9, 0] = NAN
    (c,) = compared(values, ~np.isnan(values))
    assert c.bounds is None


def test_a_third_system_takes_no_input_away_and_bounds_its_own_pairs_only():
    values = np.random.default_rng(1).normal(size=(30, 3))
    values[:9, 2] = NAN
    comparisons = compared(values)
    assert [c.bounds is None for c in comparisons] == [True, False, False]
    assert [c.inputs for c in comparisons] == [30, 21, 21]
    (alone,) = compared(values[:, :2])
    assert comparisons[0].difference == pytest.approx(alone.difference)
    assert comparisons[0].p == pytest.approx(alone.p)


def test_one_bad_system_does_not_ruin_the_pairs_of_others():
    values = np.random.default_rng(8).normal([0.6, 0, 0], size=(200, 3))
    values[8:, 2] = NAN
    found, *_ = compared(values)
    assert (found.a, found.b, found.inputs) == ("a", "b", 200)
    assert found.p < 1e-3


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("both", [False, True])
def test_a_withheld_verdict_says_what_undefined_values_would_turn_it(sign: int, both: bool):
    rng = np.random.default_rng(4)
    values = sign * rng.normal([0.75, 0], size=(100, 2))
    values[:15, 0] = NAN
    values[15 : 15 + 10 * both, 1] = NAN
    ((c,),) = adjusted_comparisons([compared(values)])
    assert verdict(c, "higher") == "withheld"
    assert c.tipping is not None
    assert c.tipping.above == (sign > 0)
    assert math.isnan(c.tipping.b) != both

    def p_at(of_a: float, of_b: float) -> float:
        filled = np.where(np.isnan(values), [of_a, of_b], values)
        d = filled[:, 0] - filled[:, 1]
        return scipy.stats.ttest_1samp(d, 0).pvalue

    b = c.tipping.b if both else 0.0
    assert p_at(c.tipping.a, b) == pytest.approx(0.05, rel=1e-6)
    assert p_at(c.tipping.a + 0.2 * sign, b - 0.2 * sign) < 0.05
    side = "below" if sign > 0 else "above"
    value = f"{c.tipping.a:.3g}".replace("-", "−")
    assert f"the difference is shown unless those of a average {side} {value}" in c.note


def test_few_undefined_values_withhold_little():
    rng = np.random.default_rng(9)
    shown = np.zeros(2)
    for _ in range(60):
        values = rng.normal(size=(100, 1)) + rng.normal([0.6, 0], 1.0, size=(100, 2))
        values[rng.permutation(100)[:5], 0] = NAN
        (c,) = compared(values)
        at_least = np.where(np.isnan(values), np.nanmin(values), values)
        p_of_least = scipy.stats.ttest_1samp(at_least[:, 0] - values[:, 1], 0).pvalue
        shown += [c.p_bounded <= 0.05, p_of_least <= 0.05]
    assert shown[0] > 1.2 * shown[1]


def test_a_system_that_loses_its_worst_texts_is_not_called_better():
    rng = np.random.default_rng(10)
    claims = np.zeros(2)
    for _ in range(80):
        values = rng.normal(size=(100, 1)) + rng.normal(size=(100, 2))
        values[np.argsort(values[:, 0])[:20], 0] = NAN
        (c,) = compared(values)
        claims += [c.p_bounded <= 0.05, c.p <= 0.05]
    assert claims[1] > 30
    assert claims[0] <= 4


def test_one_outlier_does_not_withhold_a_verdict():
    values = np.random.default_rng(11).normal([1.5, 0], size=(100, 2))
    values[0, 0] = NAN
    values[1, 1] = -300
    values[1, 0] = -299
    (c,) = compared(values)
    assert c.p_bounded < 0.001


def separate(a, b, *, strata=(None, None), clusters=None, seeds=None):
    values = np.r_[a, b]
    n = np.arange(values.size)
    zeros = np.zeros(values.size, np.intp)
    codes = zeros if strata[0] is None else np.r_[strata[0], strata[1]]
    return SeparateTexts(
        values=values,
        systems=np.repeat([0, 1], [len(a), len(b)]),
        seeds=zeros if seeds is None else seeds,
        inputs=n,
        clusters=n if clusters is None else clusters,
        strata=codes,
    )


def test_an_unpaired_difference_is_welchs():
    rng = np.random.default_rng(12)
    a, b = rng.normal(0, 1, 30), rng.normal(1, 3, 50)
    found = separate(a, b).difference(0, 1)
    expected = scipy.stats.ttest_ind(a, b, equal_var=False)
    assert found.contrast.p == pytest.approx(expected.pvalue)
    assert found.contrast.df == pytest.approx(expected.df)
    assert found.contrast.value == pytest.approx(a.mean() - b.mean())
    assert (found.n_a, found.n_b, found.left_out) == (30, 50, 0)


def test_an_unpaired_difference_does_not_mix_strata():
    rng = np.random.default_rng(13)
    of_a, of_b = np.repeat([0, 1, 2], [40, 10, 5]), np.repeat([0, 1, 3], [10, 40, 5])
    a, b = rng.normal(5 * of_a, 1), rng.normal(5 * of_b, 1)
    found = separate(a, b, strata=(of_a, of_b)).difference(0, 1)
    means = [a[of_a == h].mean() - b[of_b == h].mean() for h in (0, 1)]
    variances = [
        a[of_a == h].var(ddof=1) / (of_a == h).sum() + b[of_b == h].var(ddof=1) / (of_b == h).sum()
        for h in (0, 1)
    ]
    assert found.contrast.value == pytest.approx(np.mean(means))  # both strata weigh 8
    assert found.contrast.variance == pytest.approx(np.sum(variances) / 4)
    assert abs(a.mean() - b.mean()) > 1 > abs(found.contrast.value)
    assert found.left_out == 10


def test_texts_of_one_prompt_are_one_of_few_independent_ones():
    rng = np.random.default_rng(14)
    assert separate(rng.normal(size=40), rng.normal(size=40), clusters=np.arange(80) // 10
    ).difference(0, 1) is None  # fmt: skip


def test_a_system_without_any_value_is_not_compared():
    values = np.column_stack([np.arange(9.0), np.full(9, NAN)])
    (c,) = compared(values)
    assert c.inputs == 0
    assert math.isnan(c.p_bounded)
    assert verdict(adjusted_alone(c), "higher") == "not compared"


def test_a_system_without_any_value_takes_no_input_from_the_others():
    values = np.random.default_rng(2).normal(size=(20, 3))
    values[:, 1] = NAN
    assert [c.inputs for c in compared(values)] == [0, 20, 0]


def test_swapping_systems_turns_the_bounds():
    values = np.random.default_rng(5).normal(size=(40, 2))
    values[:5, 0] = NAN
    values[3:20, 1] = NAN
    (one,), (other,) = compared(values), compared(values[:, ::-1])
    assert (one.bounds.lowest, one.bounds.highest) == pytest.approx(
        (-other.bounds.highest, -other.bounds.lowest)
    )
    assert (
        (one.bounds.only_a, one.bounds.only_b)
        == (3, 15)
        == (other.bounds.only_b, other.bounds.only_a)
    )
    assert one.p_bounded == pytest.approx(other.p_bounded)


def test_a_value_that_some_seeds_lack_alone_does_not_win():
    rng = np.random.default_rng(0)
    tally, ids = RunTable(), []
    for system, i, seed in itertools.product("ab", range(100), range(3)):
        ids.append(f"{system}{i}/{seed}")
        sample = Sample(ids[-1], "Rain.", prompt=f"P {i}", seed=seed, system=system)
        tally.add([sample], [system])
    of_a = np.where(rng.random(300) < 0.4, NAN, 1.0)
    values = np.r_[of_a, np.full(300, 0.8)]
    tally.add_scores(scores(ids, values, "keen"))
    (summary,) = summarise(tally)
    (c,) = summary.comparisons
    assert c.difference == pytest.approx(0.2)
    assert c.p < 0.05
    lacking = int(np.isnan(values).sum())
    # the values are shares of five votes, so the worst is 0
    assert c.bounds.lowest == pytest.approx(0.2 - 1.0 * lacking / 300, abs=0.02)
    assert c.bounds.only_a > 50
    assert c.bounds.only_b == 0


def test_the_joint_mean_is_bounded_too():
    tally = RunTable()
    samples = [
        Sample(id=f"{s}{i}", text="Rain.", source=f"Source {i}", system=s)
        for s in "ab"
        for i in range(40)
    ]
    tally.add(samples, [sample.system for sample in samples])
    rng = np.random.default_rng(2)
    content = rng.uniform(0.5, 0.7, 80)
    content[:15] = NAN  # a's
    style = np.r_[rng.uniform(0.7, 0.8, 40), rng.uniform(0.5, 0.6, 40)]
    ids = [sample.id for sample in samples]
    tally.add_scores(scores(ids, content, "content"))
    tally.add_scores(scores(ids, style, "style"))
    for summary in adjusted(joint(tally, Criterion("content"), Criterion("style"))):
        (c,) = summary.comparisons
        assert c.p < 0.001
        assert (c.bounds.only_a, c.bounds.only_b, c.bounds.inputs) == (15, 0, 40)
        assert c.bounds.lowest < c.difference < c.bounds.highest
        assert "undefined on 15 of 40 inputs for a alone" in c.note


def test_shares_that_do_not_differ_have_an_interval_with_a_width():
    (same,) = compared(np.stack([np.ones(8), np.ones(8)], axis=1), votes=1)
    assert same.p == 1
    assert (same.low, same.high) == pytest.approx((-0.324, 0.324), abs=1e-3)
    (apart,) = compared(np.stack([np.ones(8), np.zeros(8)], axis=1), votes=1)
    assert apart.p == 2.0**-8  # mid-p
    assert (apart.low, apart.high) == pytest.approx((0.351, 1), abs=1e-3)
    (swapped,) = compared(np.stack([np.zeros(8), np.ones(8)], axis=1), votes=1)
    assert (swapped.low, swapped.high) == (-apart.high, -apart.low)


@pytest.mark.parametrize("shift", [0.0, 2.5])
def test_equal_differences_of_other_values_have_no_interval(shift: float):
    values = np.linspace(3.0, 20.0, 8)
    (c,) = compared(np.stack([values + shift, values], axis=1))
    assert np.isnan([c.low, c.high]).all()
    assert c.p == (2.0**-7 if shift else 1)
    assert "all differences are equal: no interval" in c.note


def test_four_inputs_that_do_not_differ_have_no_interval():
    (c,) = compared(np.stack([np.ones(4), np.ones(4)], axis=1), votes=1)
    assert np.isnan([c.low, c.high]).all()
    assert c.p == 1


def test_so_few_inputs_for_so_many_comparisons_are_said():
    values = np.arange(8.0)[:, None] / 100 + np.arange(6) * np.ones((8, 1))
    values += np.random.default_rng(0).normal(size=values.shape) / 1000
    (comparisons,) = adjusted_comparisons([compared(values)])
    assert len(comparisons) == 15
    assert all(c.p == 2 / 2**8 for c in comparisons)
    assert all("few independent inputs for 15 comparisons" in c.note for c in comparisons)


def test_a_comparison_without_bounds_rests_on_its_p():
    c = Comparison("a", "b", 9, 0, 9, 1.0, 0.5, 1.5, 1.0, 0.01, 0.01, "")
    assert c.p_bounded == 0.01


def test_ties_are_named_where_they_are_why_p_can_not_be_small():
    values = np.zeros((40, 2))
    values[:3, 0] = 1
    (c,) = compared(values)
    assert c.note == "ties on 37 of 40 independent inputs: p can't go below 0.25"
