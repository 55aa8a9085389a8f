"""Intervals and tests against slow oracles written plainly from their formulas."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from flips import clustered, p_of
from levelfield.stats.bootstrap import cluster_bootstrap_mean
from levelfield.stats.effect import cohen_dz
from levelfield.stats.multiplicity import holm
from levelfield.stats.resampling import Resampling

NAN = float("nan")


def loop_bootstrap(values, clusters, resamples, level, seed):
    """The same draws, pooled value by value."""
    members = [values[clusters == c] for c in sorted(set(clusters.tolist()))]
    rng = np.random.default_rng(seed)
    means = []
    for _ in range(resamples):
        drawn = rng.integers(len(members), size=len(members))
        means.append(np.mean(np.concatenate([members[k] for k in drawn])))
    K = len(members)
    t = scipy.stats.t.ppf((1 + level) / 2, K - 1)
    q = scipy.stats.norm.cdf(-math.sqrt(K / (K - 1)) * t)
    return np.quantile(means, [q, 1 - q])


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
    error = 0.07 * (theirs.high - theirs.low)  # ours are a little wider
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
    assert p_of(values, clusters, permutations=64) == pytest.approx(
        p_of(values[order], clusters[order], permutations=64)
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


def test_five_clusters_are_covered_as_said():
    rng = np.random.default_rng(12)
    hits = 0
    for run in range(400):
        interval = cluster_bootstrap_mean(
            rng.normal(size=5), np.arange(5), resampling=Resampling(seed=run)
        )
        hits += interval.low <= 0 <= interval.high
    assert 0.89 <= hits / 400 <= 0.98  # the plain percentile: 0.83


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
