"""Geometric and harmonic means of two metrics: values, intervals, comparisons."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.scoring.joint import (
    MEANS,
    Criterion,
    geometric,
    harmonic,
    joint,
    slopes,
    slopes_of_pair,
)
from levelfield.scoring.run_table import RunTable
from levelfield.scoring.summary import adjusted
from levelfield.stats.resampling import Resampling

FEW = Resampling(resamples=200, permutations=500)
SHARE = st.floats(0, 1)
SOME = st.just(0.0) | st.floats(1e-3, 1)


def tally_of(
    values: dict[str, list[tuple[float, float]]], higher: bool = True, choice: str = "1"
) -> RunTable:
    """Systems with (content, style) on the same sources."""
    tally = RunTable()
    rows = [(s, i, *v) for s, pairs in values.items() for i, v in enumerate(pairs)]
    for system, i, _, _ in rows:
        tally.add([Sample(f"{system}:{i}", "So.", source=f"source {i}", system=system)], [system])
    ids = tuple(f"{system}:{i}" for system, i, _, _ in rows)
    for name, column in (("content", 2), ("style", 3)):
        v = np.array([row[column] for row in rows], np.float64)
        undefined = {id: "why" for id, x in zip(ids, v, strict=True) if math.isnan(x)}
        tally.add_scores(Scores(name, ids, v, undefined, f"{name}|v:{choice}", higher))
    return tally


@given(SHARE, SHARE)
def test_means_lie_between_the_two_and_the_harmonic_is_the_lower(c, s):
    means = np.array([[c, s]])
    (g,), (h,) = geometric(means), harmonic(means)
    slack = 1e-12
    assert min(c, s) - slack <= h <= g + slack <= max(c, s) + 2 * slack


def test_a_copying_system_has_no_joint_value_however_much_content_it_keeps():
    found = joint(
        tally_of({"copy": [(1.0, 0.0)] * 4, "fair": [(0.64, 0.25), (0.64, 0.25)] * 2}),
        Criterion("content"), Criterion("style"), resampling=FEW,
    )  # fmt: skip
    by = {s.metric: {g.group: g.mean.value for g in s.groups} for s in found}
    assert by["joint.geometric"] == {"copy": 0.0, "fair": pytest.approx(0.4)}
    assert by["joint.harmonic"]["fair"] == pytest.approx(2 * 0.64 * 0.25 / 0.89)


def test_a_metric_in_percent_is_divided_by_its_best():
    percent = joint(
        tally_of({"x": [(64.0, 0.25)] * 3}), Criterion("content", 100.0), Criterion("style")
    )
    assert percent[0].overall.mean.value == pytest.approx(0.4)
    assert "best:100.0" in percent[0].signature


def test_samples_without_one_of_both_are_left_out_and_counted():
    values = {"x": [(0.5, 0.5), (math.nan, 1.0), (1.0, math.nan), (0.7, 0.7)]}
    (g, _) = joint(tally_of(values), Criterion("content"), Criterion("style"), resampling=FEW)
    assert g.overall.mean.value == pytest.approx(0.6)
    assert (g.overall.n, g.overall.undefined) == (4, 2)
    assert g.reasons == {"content or style undefined": 2}
    assert "n:4 undefined:2" in g.signature


def test_a_system_that_leaves_rewrites_empty_is_no_better_for_it():
    tally = RunTable()
    ids = tuple("12345678")
    for id in ids:
        system = "gaps" if id in "1234" else "whole"
        tally.add([Sample(id, "" if id in "34" else "So.", source=id, system=system)], [system])
    values = {
        "content": np.array([0.8, 0.8, np.nan, np.nan, 0.6, 0.6, 0.6, 0.6]),
        "style": np.array([0.8, 0.8, 0, 0, 0.6, 0.6, 0.6, 0.6]),
    }
    for name, v in values.items():
        undefined = {id: "empty text" for id, x in zip(ids, v, strict=True) if np.isnan(x)}
        tally.add_scores(Scores(name, ids, v, undefined, f"{name}|v:1", True))
    (g, h) = joint(tally, Criterion("content"), Criterion("style"), resampling=FEW)
    for summary in (g, h):
        of = {group.group: group for group in summary.groups}
        assert of["gaps"].mean.value == pytest.approx(0.4)
        assert of["whole"].mean.value == pytest.approx(0.6)
        assert of["gaps"].undefined == 0
        assert "|empty:0|" in summary.signature


def test_a_clear_difference_is_found_and_none_where_there_is_none():
    rng = np.random.default_rng(3)
    base = rng.uniform(0.3, 0.6, (40, 2))
    better = base + rng.uniform(0.1, 0.3, (40, 2))
    same = base[:, ::-1]  # content and style exchanged: the same means of both
    found = adjusted(
        joint(
            tally_of({n: [tuple(v) for v in x] for n, x in
                   {"base": base, "better": better, "same": same}.items()}),
            Criterion("content"), Criterion("style"), resampling=FEW,
        )
    )  # fmt: skip
    pairs = {(c.a, c.b): c for c in found[0].comparisons}
    clear, none = pairs["base", "better"], pairs["base", "same"]
    assert clear.p_adjusted < 0.05
    assert clear.low < clear.difference < clear.high < 0
    assert none.difference == pytest.approx(0)
    assert none.p == 1.0
    assert clear.inputs == clear.clusters == 40
    assert math.isnan(clear.effect)


def test_systems_that_share_no_input_are_not_compared():
    tally = RunTable()
    for system in "ab":
        tally.add([Sample(system, "So.", source=system, system=system)], [system])
    for name in ("content", "style"):
        tally.add_scores(Scores(name, ("a", "b"), np.ones(2), {}, f"{name}|v:1", True))
    (g, _) = joint(tally, Criterion("content"), Criterion("style"), resampling=FEW)
    (c,) = g.comparisons
    assert (c.inputs, c.note.partition(":")[0]) == (0, "no shared inputs")
    assert math.isnan(c.p)


def test_a_metric_of_which_lower_is_better_has_no_part_in_a_mean():
    with pytest.raises(UserError, match="lower is better"):
        joint(tally_of({"x": [(0.5, 0.5)]}, higher=False), Criterion("content"), Criterion("style"))
    with pytest.raises(UserError, match="no values of bleu"):
        joint(tally_of({"x": [(0.5, 0.5)]}), Criterion("bleu"), Criterion("style"))


@pytest.mark.parametrize("name", MEANS)
@given(st.tuples(st.floats(0.01, 2), st.floats(0.01, 2)))
def test_slopes_are_the_derivatives_of_the_joint_mean(name, pair):
    means, step = np.array(pair), 1e-6
    numeric = [(MEANS[name](means + e) - MEANS[name](means - e)) / (2 * step)
               for e in step * np.eye(2)]  # fmt: skip
    assert slopes(name, means) == pytest.approx(numeric, rel=1e-3)
    assert means @ slopes(name, means) == pytest.approx(MEANS[name](means))


@pytest.mark.parametrize("name", MEANS)
@given(st.tuples(SOME, SOME, SOME.map(lambda x: -x) | SOME, SOME))
@example((0.5, 0.1, 0.9, 0.0))
@example((0.5, 0.1, -0.2, 0.9))
def test_values_with_the_slopes_of_a_pair_differ_by_its_joint_means(name, numbers):
    means = np.array(numbers).reshape(2, 2)
    f = MEANS[name](means)
    linear = (means * slopes_of_pair(name, means)).sum(axis=1)
    assert linear[0] - linear[1] == pytest.approx(f[0] - f[1], abs=1e-9)


def rates(a, b, K, kind, runs):
    """The share of runs in which G and H of two systems are called different.

    Args:
        a, b: their means of content and style.
        kind: how style is drawn.
    """
    rng = np.random.default_rng(5)
    shown = np.zeros(2)
    for _ in range(runs):
        common = rng.normal(size=K)

        def system(c, s, common=common):
            content = c + 0.1 * (rng.normal(size=K) + common)
            style = rng.random(K) < s if kind == "0 or 1" else s + 0.1 * rng.normal(size=K)
            return list(zip(content, style.astype(float), strict=True))

        summaries = joint(
            tally_of({"a": system(*a), "b": system(*b)}), Criterion("content"), Criterion("style"),
            resampling=FEW,
        )  # fmt: skip
        shown += [summary.comparisons[0].p <= 0.05 for summary in summaries]
    return shown / runs


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("a", "b", "K", "kind"),
    [
        ((0.5, 0.1), (0.5, 0.1), 20, "0 or 1"),  # in one run of four a system has no style at all
        ((0.9, 0.4), (0.4, 0.9), 30, "0 or 1"),  # swaps of the two systems' values err in 16 %
        ((0.9, 0.4), (0.4, 0.9), 30, "normal"),
        ((0.5, 0.4), (0.5, 0.4), 6, "0 or 1"),
    ],
)
def test_equal_joint_means_are_called_different_in_5_percent_of_runs(a, b, K, kind):
    assert (rates(a, b, K, kind, 200) <= 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / 200)).all()


def test_a_difference_of_joint_means_is_that_on_the_inputs_that_both_have():
    rng = np.random.default_rng(4)
    a, b = rng.uniform(0.2, 0.9, (2, 30, 2))
    a[:5, 0] = math.nan
    both = {"a": [tuple(v) for v in a], "b": [tuple(v) for v in b]}
    for summary, mean in zip(
        joint(tally_of(both), Criterion("content"), Criterion("style"), resampling=FEW),
        (geometric, harmonic), strict=True,
    ):  # fmt: skip
        (c,) = summary.comparisons
        expected = mean(a[5:].mean(axis=0)) - mean(b[5:].mean(axis=0))
        assert (c.inputs, c.difference) == (25, pytest.approx(float(expected)))
        assert summary.groups[1].mean.value == pytest.approx(float(mean(b.mean(axis=0))))


@pytest.mark.parametrize("seed", range(30))
def test_two_systems_without_a_joint_value_do_not_differ_by_rounding(seed):
    rng = np.random.default_rng(seed)
    a, b = np.zeros((2, 5, 2))
    a[:, 0], b[:, 1] = rng.random((2, 5))  # all content and no style, and the other way round
    both = {"a": [tuple(v) for v in a], "b": [tuple(v) for v in b]}
    for summary in joint(tally_of(both), Criterion("content"), Criterion("style"), resampling=FEW):
        assert summary.comparisons[0].p == 1.0


def test_equal_signatures_are_of_equal_metrics_with_equal_choices():
    def signed(choice: str) -> str:
        tally = tally_of({"x": [(0.5, 0.5)]}, choice=choice)
        return joint(tally, Criterion("content"), Criterion("style"), resampling=FEW)[0].signature

    assert signed("1") == signed("1") != signed("2")
    assert "content:content#" in signed("1")


@pytest.mark.slow
def test_joint_means_take_seeds_as_a_sample():
    rng = np.random.default_rng(0)
    shown = 0
    for _ in range(60):
        tally, ids, values = RunTable(), [], []
        effect = {(s, seed): rng.normal(scale=0.1) for s in "ab" for seed in range(3)}
        for system in "ab":
            for i in range(30):
                for seed in range(3):
                    ids.append(f"{system}{i}/{seed}")
                    sample = Sample(ids[-1], "Rain.", source=f"S {i}", seed=seed, system=system)
                    tally.add([sample], [system])
                    both = 0.5 + effect[system, seed] + 0.1 * rng.normal(size=2)
                    values.append(np.clip(both, 0.01, 1))
        for name, column in zip(("content", "style"), np.array(values).T, strict=True):
            tally.add_scores(Scores(name, tuple(ids), column.copy(), {}, f"{name}|v:0", True))
        (summary, _) = joint(tally, Criterion("content"), Criterion("style"))
        (c,) = summary.comparisons
        shown += c.p <= 0.05
        assert (c.low <= 0 <= c.high) == (c.p > 0.05)
    assert c.note == "3 seeds each: t test with prompts and seeds as samples"
    assert shown <= 9  # 5 % of 60; swaps of prompts show about 45
    mean = summary.groups[0].mean
    assert mean.low < mean.value < mean.high


def test_joint_means_of_four_inputs_say_that_they_can_show_nothing():
    tally, ids = RunTable(), [f"{s}{i}" for s in "ab" for i in range(4)]
    for id in ids:
        tally.add([Sample(id, "Rain.", source=f"S {id[1]}", system=id[0])], [id[0]])
    for name in ("content", "style"):
        values = np.r_[np.linspace(0.1, 0.2, 4), np.linspace(0.7, 0.9, 4)]
        tally.add_scores(Scores(name, tuple(ids), values, {}, f"{name}|v:0", True))
    (summary, _) = joint(tally, Criterion("content"), Criterion("style"))
    (c,) = summary.comparisons
    assert c.p >= 0.125
    assert "p can't go below 0.125" in c.note
