"""Intervals and tests against slow oracles written plainly from their formulas."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from levelfield.stats.bootstrap import cluster_bootstrap_mean
from levelfield.stats.effect import cohen_dz
from levelfield.stats.multiplicity import holm
from levelfield.stats.permutation import paired_permutation, smallest_p
from levelfield.stats.resampling import Resampling

NAN = float("nan")
numbers = st.floats(-1e3, 1e3, allow_subnormal=False).map(lambda x: round(x, 3))


@st.composite
def clustered(draw, most=24):
    n = draw(st.integers(2, most))
    values = draw(hnp.arrays(np.float64, n, elements=numbers))
    clusters = draw(hnp.arrays(np.int64, n, elements=st.integers(0, 6)))
    return values, clusters


def loop_bootstrap(values, clusters, resamples, level, seed):
    """The same draws, pooled value by value."""
    members = [values[clusters == c] for c in sorted(set(clusters.tolist()))]
    rng = np.random.default_rng(seed)
    means = []
    for _ in range(resamples):
        drawn = rng.integers(len(members), size=len(members))
        means.append(np.mean(np.concatenate([members[k] for k in drawn])))
    return np.quantile(means, [(1 - level) / 2, (1 + level) / 2])


def enumerated_p(differences, clusters):
    names = sorted(set(clusters.tolist()))
    observed = abs(np.mean(differences))
    reached = 0
    for signs in itertools.product((1, -1), repeat=len(names)):
        of = dict(zip(names, signs, strict=True))
        flipped = [d * of[c] for d, c in zip(differences, clusters.tolist(), strict=True)]
        reached += abs(np.mean(flipped)) >= observed - 1e-9 * max(1.0, observed)
    return reached / 2 ** len(names)


@settings(max_examples=30, deadline=None)
@given(clustered(), st.sampled_from([0.5, 0.9, 0.95]), st.integers(0, 9))
def test_the_bootstrap_pools_whole_clusters_as_the_slow_loop_does(data, level, seed):
    values, clusters = data
    interval = cluster_bootstrap_mean(
        values, clusters, resampling=Resampling(resamples=60, level=level, seed=seed)
    )
    assert interval.value == pytest.approx(values.mean(), abs=1e-9)
    assert (interval.n, interval.clusters) == (values.size, np.unique(clusters).size)
    if interval.clusters > 1:
        expected = loop_bootstrap(values, clusters, 60, level, seed)
        assert [interval.low, interval.high] == pytest.approx(expected, abs=1e-9)
    else:
        assert math.isnan(interval.low)
        assert math.isnan(interval.high)
        assert interval.why_no_interval == "one cluster"


def test_draws_in_chunks_are_the_draws_of_one_loop():
    values = np.random.default_rng(3).normal(size=6000)
    clusters = np.arange(6000) // 2  # 3,000 clusters and 200 resamples do not fit one chunk
    interval = cluster_bootstrap_mean(
        values, clusters, resampling=Resampling(resamples=200, seed=1)
    )
    expected = loop_bootstrap(values, clusters, 200, 0.95, 1)
    assert [interval.low, interval.high] == pytest.approx(expected)


def test_single_clusters_agree_with_scipy_within_monte_carlo_error():
    values = np.random.default_rng(5).exponential(size=80)
    ours = cluster_bootstrap_mean(values, np.arange(80), resampling=Resampling(resamples=6000))
    theirs = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=6000, method="percentile", rng=np.random.default_rng(7)
    ).confidence_interval
    error = 0.05 * (theirs.high - theirs.low)
    assert ours.low == pytest.approx(theirs.low, abs=error)
    assert ours.high == pytest.approx(theirs.high, abs=error)


@settings(max_examples=30, deadline=None)
@given(clustered(), st.randoms(use_true_random=False))
def test_order_of_values_does_not_matter(data, random):
    values, clusters = data
    order = list(range(values.size))
    random.shuffle(order)
    one = cluster_bootstrap_mean(values, clusters, resampling=Resampling(resamples=40))
    other = cluster_bootstrap_mean(
        values[order], clusters[order], resampling=Resampling(resamples=40)
    )
    assert [one.value, one.low, one.high] == pytest.approx(
        [other.value, other.low, other.high], nan_ok=True, abs=1e-9
    )
    assert paired_permutation(values, clusters, permutations=64) == pytest.approx(
        paired_permutation(values[order], clusters[order], permutations=64)
    )


@settings(max_examples=30, deadline=None)
@given(clustered(), st.sampled_from([0.5, 2.0, 8.0]), st.integers(-50, 50))
def test_the_interval_follows_scale_and_shift(data, scale, shift):
    values, clusters = data
    one = cluster_bootstrap_mean(values, clusters, resampling=Resampling(resamples=40))
    other = cluster_bootstrap_mean(
        scale * values + shift, clusters, resampling=Resampling(resamples=40)
    )
    assert [other.value, other.low, other.high] == pytest.approx(
        [scale * x + shift for x in (one.value, one.low, one.high)], nan_ok=True, abs=1e-6
    )


def test_clusters_that_agree_within_widen_the_interval():
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(20), 10)
    values = rng.normal(size=20)[clusters] + 0.1 * rng.normal(size=200)
    together = cluster_bootstrap_mean(values, clusters)
    alone = cluster_bootstrap_mean(values, np.arange(200))
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_coverage_of_the_clustered_interval_is_near_its_level():
    rng = np.random.default_rng(11)
    clusters = np.repeat(np.arange(40), 3)
    hits = 0
    for run in range(400):
        values = rng.normal(size=40)[clusters] + rng.normal(size=clusters.size)
        interval = cluster_bootstrap_mean(
            values, clusters, resampling=Resampling(resamples=400, seed=run)
        )
        hits += interval.low <= 0 <= interval.high
    assert 0.91 <= hits / 400 <= 0.98


@pytest.mark.parametrize(
    ("values", "clusters", "n", "why"),
    [
        ([], [], 0, "no values"),
        ([NAN, NAN], ["a", "b"], 0, "no values"),
        ([2.0], ["a"], 1, "one value"),
        ([2.0, NAN], ["a", "b"], 1, "one value"),
        ([2.0, 4.0], ["a", "a"], 2, "one cluster"),
        ([2.0, 4.0], ["a", "b"], 2, ""),
    ],
)
def test_an_interval_that_is_undefined_says_why(values, clusters, n, why):
    interval = cluster_bootstrap_mean(values, clusters)
    assert (interval.n, interval.why_no_interval) == (n, why)
    assert math.isnan(interval.low) == math.isnan(interval.high) == bool(why)
    assert math.isnan(interval.value) == (n == 0)


def test_a_cluster_too_few_is_the_callers_mistake():
    with pytest.raises(ValueError, match="one cluster a value"):
        cluster_bootstrap_mean([1.0, 2.0], [1])


@settings(max_examples=60, deadline=None)
@given(clustered())
def test_few_clusters_are_enumerated_exactly(data):
    differences, clusters = data
    assert paired_permutation(differences, clusters) == pytest.approx(
        enumerated_p(differences, clusters)
    )


def test_single_clusters_agree_with_scipy_permutation_test():
    differences = np.random.default_rng(2).normal(0.4, 1, size=40)
    theirs = scipy.stats.permutation_test(
        (differences,),
        lambda d: abs(d.mean()),
        permutation_type="samples",
        n_resamples=20_000,
        alternative="greater",
        rng=np.random.default_rng(3),
    ).pvalue
    ours = paired_permutation(differences, np.arange(40), permutations=20_000)
    assert ours == pytest.approx(theirs, abs=0.006)


def test_random_flips_agree_with_enumeration():
    rng = np.random.default_rng(8)
    differences, clusters = rng.normal(0.3, 1, size=36), np.repeat(np.arange(12), 3)
    exact = paired_permutation(differences, clusters, permutations=2**12)
    assert exact == pytest.approx(enumerated_p(differences, clusters))
    drawn = paired_permutation(differences, clusters, permutations=2**12 - 1)
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 2**12))


def test_a_random_p_is_never_zero():
    assert paired_permutation(np.ones(50), np.arange(50), permutations=999) == 1 / 1000


@settings(max_examples=30, deadline=None)
@given(clustered(), st.sampled_from([64, 500]))
def test_p_is_the_same_for_a_minus_b_and_b_minus_a(data, permutations):
    differences, clusters = data
    p = paired_permutation(differences, clusters, permutations=permutations)
    assert p == paired_permutation(-differences, clusters, permutations=permutations)
    assert 0 < p <= 1


@pytest.mark.parametrize("n", [1, 5, 200])
def test_equal_systems_have_p_one(n):
    assert paired_permutation(np.zeros(n), np.arange(n)) == 1
    assert cohen_dz(np.zeros(n)) == 0


def test_differences_that_cancel_in_every_cluster_have_p_one():
    assert paired_permutation([0.1, 0.2, -0.3, 5.0, -5.0], [0, 0, 0, 1, 1]) == 1


def test_rounding_does_not_break_ties():
    # 0.1 + 0.2 and 0.3 differ in the last bit; all sign patterns but two lie below
    assert paired_permutation([0.1, 0.2, 0.3], [0, 1, 2]) == 2 / 8
    assert paired_permutation([0.1, 0.2, -0.3, 1e-17], [0, 1, 2, 3]) == 1


def test_undefined_differences_are_left_out():
    assert paired_permutation([1.0, NAN, 2.0], [0, 1, 2]) == paired_permutation([1, 2], [0, 2])
    assert math.isnan(paired_permutation([NAN], [0]))


def test_the_permutation_test_keeps_its_level():
    rng = np.random.default_rng(13)
    clusters = np.repeat(np.arange(15), 3)
    rejected = 0
    for run in range(1000):
        d = rng.standard_t(3, size=15)[clusters] + rng.normal(size=clusters.size)
        rejected += paired_permutation(d, clusters, permutations=199, seed=run) <= 0.05
    assert rejected / 1000 == pytest.approx(0.05, abs=3 * math.sqrt(0.05 * 0.95 / 1000))


@given(st.integers(1, 9))
def test_the_smallest_p_is_reached_when_all_clusters_agree(k):
    differences = np.arange(1.0, k + 1)
    assert paired_permutation(differences, np.arange(k)) == smallest_p(differences, np.arange(k))


@given(st.lists(st.one_of(st.just(NAN), st.floats(0, 1)), max_size=8))
def test_holm_is_the_plain_recipe(p_values):
    adjusted = holm(p_values)
    rest = sorted((p, i) for i, p in enumerate(p_values) if not math.isnan(p))
    running, expected = 0.0, [NAN] * len(p_values)
    for rank, (p, i) in enumerate(rest):
        running = max(running, min(1.0, (len(rest) - rank) * p))
        expected[i] = running
    assert adjusted.tolist() == pytest.approx(expected, nan_ok=True)


def test_holm_on_a_worked_example():
    assert holm([0.01, 0.04, NAN, 0.03]).tolist() == pytest.approx(
        [0.03, 0.06, NAN, 0.06], nan_ok=True
    )


def test_effect_size_is_mean_over_standard_deviation():
    assert cohen_dz([1.0, 2.0, 3.0, NAN]) == pytest.approx(2.0)
    assert cohen_dz([-1.0, -2.0, -3.0]) == pytest.approx(-2.0)


@pytest.mark.parametrize("differences", [[], [0.5], [0.1, 0.1, 0.1], [NAN]])
def test_effect_size_without_spread_is_undefined(differences):
    assert math.isnan(cohen_dz(differences))
