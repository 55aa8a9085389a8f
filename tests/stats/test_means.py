"""Means over clusters with Student's interval, against the plain loop and independent libraries."""

import math

import numpy as np
import pytest
import scipy.stats
import statsmodels.api as sm
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flips import clustered
from levelfield.stats.means import UNBOUNDED, cluster_mean, natural_range

NAN = float("nan")


def loop_ends(values, clusters, level):
    """m ± t √(K / (K − 1) Σ_k (Σ_{i∈k} (v_i − m))² / n²)."""
    mean = sum(values) / len(values)
    names = sorted(set(clusters.tolist()))
    squares = sum(
        sum(v - mean for v, c in zip(values, clusters, strict=True) if c == name) ** 2
        for name in names
    )
    K = len(names)
    se = math.sqrt(K / (K - 1) * squares) / len(values)
    t = scipy.stats.t.ppf((1 + level) / 2, K - 1)
    return [mean - t * se, mean + t * se]


@settings(max_examples=30, deadline=None)
@given(clustered(), st.sampled_from([0.5, 0.9, 0.95]))
def test_the_interval_is_that_of_the_slow_loop(data, level):
    values, clusters = data
    mean = cluster_mean(values, clusters, level=level)
    assert mean.value == pytest.approx(values.mean(), abs=1e-9)
    assert (mean.n, mean.clusters) == (values.size, np.unique(clusters).size)
    if mean.clusters >= 5 and loop_ends(values, clusters, level)[0] < mean.value - 1e-9:
        assert [mean.low, mean.high] == pytest.approx(loop_ends(values, clusters, level), abs=1e-9)
    else:
        assert math.isnan(mean.low)
        assert math.isnan(mean.high)
        assert mean.why_no_interval


def test_clusters_of_unequal_size_agree_with_statsmodels():
    rng = np.random.default_rng(3)
    clusters = rng.integers(12, size=70)
    values = rng.exponential(size=12)[clusters] + rng.normal(size=70)
    fit = sm.OLS(values, np.ones(70)).fit(
        cov_type="cluster", cov_kwds={"groups": clusters}, use_t=True
    )
    mean = cluster_mean(values, clusters)
    assert [mean.low, mean.high] == pytest.approx(fit.conf_int()[0])


def test_single_clusters_agree_with_scipy():
    values = np.random.default_rng(5).exponential(size=80)
    expected = scipy.stats.ttest_1samp(values, 0).confidence_interval(0.9)
    mean = cluster_mean(values, np.arange(80), level=0.9)
    assert (mean.low, mean.high) == pytest.approx(expected)


@settings(max_examples=30, deadline=None)
@given(clustered(), st.randoms(use_true_random=False))
def test_order_of_values_does_not_matter(data, random):
    values, clusters = data
    order = list(range(values.size))
    random.shuffle(order)
    mean, shuffled = cluster_mean(values, clusters), cluster_mean(values[order], clusters[order])
    assert [mean.value, mean.low, mean.high] == pytest.approx(
        [shuffled.value, shuffled.low, shuffled.high], nan_ok=True, abs=1e-9
    )


@settings(max_examples=30, deadline=None)
@given(clustered(), st.sampled_from([0.5, 2.0, 8.0]), st.integers(-50, 50))
def test_the_interval_follows_scale_and_shift(data, scale, shift):
    values, clusters = data
    mean, moved = cluster_mean(values, clusters), cluster_mean(scale * values + shift, clusters)
    assert [moved.value, moved.low, moved.high] == pytest.approx(
        [scale * x + shift for x in (mean.value, mean.low, mean.high)], nan_ok=True, abs=1e-6
    )


def test_clusters_that_agree_within_widen_the_interval():
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(20), 10)
    values = rng.normal(size=20)[clusters] + 0.1 * rng.normal(size=200)
    together, alone = cluster_mean(values, clusters), cluster_mean(values, np.arange(200))
    assert together.high - together.low > 2 * (alone.high - alone.low)


@pytest.mark.parametrize("clusters", [5, 40])
def test_the_interval_covers_as_often_as_it_says(clusters):
    rng = np.random.default_rng(11)
    code = np.repeat(np.arange(clusters), 3)
    hits = 0
    for _ in range(2000):
        mean = cluster_mean(rng.normal(size=clusters)[code] + rng.normal(size=code.size), code)
        hits += mean.low <= 0 <= mean.high
    assert 0.935 <= hits / 2000 <= 0.965


def test_the_interval_stays_within_the_limits():
    values = [0.0, 0.0, 0.0, 0.1, 0.6]
    free, inside = (cluster_mean(values, range(5), limits=x) for x in (UNBOUNDED, (0.0, 1.0)))
    assert free.low < 0
    assert (inside.low, inside.high) == (0.0, free.high)
    assert cluster_mean([1, 1, 1, 1, 0.5], range(5), limits=(0, 1)).high == 1


@example([0.1] * 7)
@given(st.lists(st.floats(0.01, 1e6), min_size=1, max_size=1).map(lambda v: v * 13))
def test_equal_values_have_no_interval(values):
    mean = cluster_mean(values, range(len(values)))
    assert math.isnan(mean.low)
    assert math.isnan(mean.high)
    assert mean.why_no_interval.startswith("nothing varies")


@given(st.lists(st.floats(-1e9, 1e9) | st.just(NAN), max_size=5))
def test_a_natural_range_holds_all_values(values):
    defined = [v for v in values if not math.isnan(v)]
    low, high = natural_range(np.array(values))
    assert all(low <= v <= high for v in defined)


@pytest.mark.parametrize(
    ("values", "limits"),
    [
        ([0.0, 0.4], (0, 1)),
        ([-0.1, 0.4], (-1, 1)),
        ([7.0, 100.0], (0, 100)),
        ([7.0, 101.0], (0, math.inf)),
        ([0.3, 1 + 1e-7], (0, 1 + 1e-7)),
        ([-1e-9, 0.5], (-1e-9, 1)),
        ([-3.0, -0.5], (-math.inf, 0)),
        ([-3.0, 0.5], UNBOUNDED),
        ([NAN], UNBOUNDED),
    ],
)
def test_the_range_of_a_metric_is_the_narrowest_that_its_values_know(values, limits):
    assert natural_range(np.array(values)) == limits


@pytest.mark.parametrize(
    ("values", "clusters", "n", "reason"),
    [
        ([], [], 0, "no values"),
        ([NAN, NAN], ["a", "b"], 0, "no values"),
        ([2.0], ["a"], 1, "one value"),
        ([2.0, NAN], ["a", "b"], 1, "one value"),
        ([2.0, 4.0], ["a", "a"], 2, "one cluster"),
        ([2.0, 4.0], ["a", "b"], 2, "fewer than 5 independent inputs"),
        ([2.0, 4.0, 3.0, 1.0, 2.0], "abcde", 5, ""),
    ],
)
def test_an_interval_that_is_undefined_says_why(values, clusters, n, reason):
    mean = cluster_mean(values, [*clusters])
    assert (mean.n, mean.why_no_interval) == (n, reason)
    assert math.isnan(mean.low) == math.isnan(mean.high) == bool(reason)
    assert math.isnan(mean.value) == (n == 0)


def test_a_cluster_too_few_is_the_callers_mistake():
    with pytest.raises(ValueError, match="one cluster per value"):
        cluster_mean([1.0, 2.0], [1])


@pytest.mark.parametrize("clusters", [1, 2, 4, 5, 6])
def test_a_mean_of_fewer_clusters_than_an_interval_needs_has_none_and_says_why(clusters):
    values, codes = np.arange(12) % 5.0, np.arange(12) % clusters
    for votes in (0, 1):
        mean = cluster_mean(values / 4, codes, votes=votes)
        assert bool(mean.why_no_interval) == (clusters < 5)
        assert math.isnan(mean.low) == (clusters < 5)


def test_with_weights_every_input_counts_the_same_however_many_values_it_has():
    draw = np.random.default_rng(3)
    inputs = np.repeat(np.arange(30), draw.integers(1, 6, 30))
    values = draw.normal(inputs % 3, 1.0)
    sizes = np.bincount(inputs)
    weighted = cluster_mean(values, inputs, weights=1 / sizes[inputs])
    input_means = np.bincount(inputs, weights=values) / sizes
    plain = cluster_mean(input_means, np.arange(30))
    assert (weighted.value, weighted.low, weighted.high) == pytest.approx(
        (plain.value, plain.low, plain.high), rel=1e-12
    )
    assert (weighted.n, weighted.clusters) == (values.size, 30)
    equal = cluster_mean(values, inputs, weights=np.full(values.size, 0.25))
    without = cluster_mean(values, inputs)
    assert (equal.low, equal.high) == pytest.approx((without.low, without.high), rel=1e-12)
