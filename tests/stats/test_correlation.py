"""Statistics of agreement against scipy and against loops over all pairs."""

import itertools
import math
import time

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from levelfield.stats.correlation import (
    estimates,
    kendall,
    mean_over_groups,
    pair_counts,
    pairwise_accuracy,
    pearson,
    spearman,
    statistics,
    tau_like,
)
from levelfield.stats.estimands import STATISTICS
from levelfield.stats.estimate import percentile_ends
from levelfield.stats.measures import CORRELATIONS, why_undefined
from levelfield.stats.resampling import Resampling
from levelfield.stats.ties import best_threshold, calibrated, calibrated_within

PLAIN = (*CORRELATIONS, "accuracy")


@st.composite
def pairs(draw, least=2, most=25):
    """Values and ratings with many ties."""
    n = draw(st.integers(least, most))
    numbers = st.integers(-4, 4).map(float)
    x = draw(st.lists(numbers, min_size=n, max_size=n))
    y = draw(st.lists(numbers, min_size=n, max_size=n))
    return np.array(x), np.array(y)


def loop_counts(x, y, same=lambda *_: False):
    counts = dict.fromkeys(("C", "D", "Tx", "Ty", "Txy"), 0)
    for i, j in itertools.combinations(range(len(x)), 2):
        if same(i, j):
            continue
        dx, dy = x[i] - x[j], y[i] - y[j]
        kind = (
            "Txy" if dx == dy == 0 else "Tx" if dx == 0 else "Ty" if dy == 0
            else "C" if dx * dy > 0 else "D"
        )  # fmt: skip
        counts[kind] += 1
    return counts


def loop_tau_like(x, y):
    """Ratings tied: left out. Same order: concordant. Otherwise: discordant."""
    concordant = discordant = 0
    for i, j in itertools.combinations(range(len(x)), 2):
        if y[i] == y[j]:
            continue
        if (x[i] - x[j]) * (y[i] - y[j]) > 0:
            concordant += 1
        else:
            discordant += 1
    return (concordant - discordant) / (concordant + discordant)


@given(pairs())
def test_pairs_are_counted_as_a_loop_over_all_pairs_counts_them(data):
    assert tuple(pair_counts(*data)) == tuple(loop_counts(*data).values())


@given(pairs())
def test_coefficients_equal_scipy_and_the_definitions(data):
    x, y = data
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert all(math.isnan(statistics(x, y)[s]) for s in CORRELATIONS)
        return
    assert pearson(x, y) == pytest.approx(scipy.stats.pearsonr(x, y)[0], abs=1e-9)
    assert spearman(x, y) == pytest.approx(scipy.stats.spearmanr(x, y)[0], abs=1e-9)
    assert kendall(x, y) == pytest.approx(scipy.stats.kendalltau(x, y)[0], abs=1e-9)
    assert tau_like(x, y) == pytest.approx(loop_tau_like(x, y), abs=1e-12)


@given(pairs())
def test_accuracy_is_the_share_of_pairs_ordered_or_tied_alike(data):
    x, y = data
    right = [
        np.sign(x[i] - x[j]) == np.sign(y[i] - y[j])
        for i, j in itertools.combinations(range(x.size), 2)
    ]
    assert pairwise_accuracy(x, y) == pytest.approx(np.mean(right))


def test_the_tau_like_coefficient_of_a_worked_example():
    # of six pairs one is tied in the ratings; two of the other five are tied in the metric
    x, y = [1, 1, 2, 2], [1, 2, 2, 3]
    assert pair_counts(x, y) == (3, 0, 2, 1, 0)
    assert tau_like(x, y) == pytest.approx((3 - 2) / 5)


@given(pairs(), st.randoms(use_true_random=False))
def test_the_order_of_samples_does_not_matter(data, random):
    x, y = data
    order = list(range(x.size))
    random.shuffle(order)
    for s, value in statistics(x, y).items():
        assert statistics(x[order], y[order])[s] == pytest.approx(value, nan_ok=True)


@given(pairs(), st.floats(0.01, 100), st.floats(-1e4, 1e4))
def test_pearson_keeps_under_affine_maps_and_ranks_under_monotone_ones(data, scale, shift):
    x, y = data
    assert pearson(scale * x + shift, y) == pytest.approx(pearson(x, y), abs=1e-6, nan_ok=True)
    assert pearson(-x, y) == pytest.approx(-pearson(x, y), abs=1e-9, nan_ok=True)
    for f in (spearman, kendall, tau_like, pairwise_accuracy):
        assert f(x**3 + np.exp(x), y) == pytest.approx(f(x, y), abs=1e-9, nan_ok=True)


@given(pairs())
def test_values_keep_their_bounds_and_all_but_tau_like_are_symmetric(data):
    x, y = data
    there, back = statistics(x, y), statistics(y, x)
    for s in PLAIN:
        low = 0 if s == "accuracy" else -1
        assert math.isnan(there[s]) or low <= there[s] <= 1
        if s != "tau-like":
            assert back[s] == pytest.approx(there[s], nan_ok=True)


def test_what_is_undefined_says_why():
    assert why_undefined("pearson", [], []) == "no samples"
    assert why_undefined("accuracy", [1], [2]) == "one sample"
    assert why_undefined("kendall", [1, 1], [1, 2]) == "constant metric"
    assert why_undefined("kendall", [1, 2], [1, 1]) == "constant rating"
    assert why_undefined("spearman", [3, 3], [1, 1]) == "constant metric and rating"
    assert why_undefined("pearson", [1, 2], [1, 2]) == ""
    assert pairwise_accuracy([1, 1, 1], [2, 2, 3]) == pytest.approx(1 / 3)


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_samples_have_no_statistic(n):
    correlations = estimates(np.zeros(n), np.zeros(n), np.arange(n))
    assert set(correlations) == set(STATISTICS)
    for e in correlations.values():
        assert math.isnan(e.value)
        assert e.why_undefined in ("no samples", "one sample")
        assert e.n == n


def test_two_samples_have_a_value_and_a_warning():
    estimate = estimates([1, 2], [3, 4], [0, 1], wanted=("pearson",))["pearson"]
    assert estimate.value == pytest.approx(1)
    assert "only the ends of its range" in estimate.note
    assert math.isnan(estimate.low)
    assert estimate.why_no_interval == "two samples"


def test_no_nan_is_taken_in_and_infinity_only_as_a_rank():
    with pytest.raises(ValueError, match="NaN"):
        pearson([1, float("nan")], [1, 2])
    assert math.isnan(pearson([1, 2, float("inf")], [1, 2, 3]))
    assert spearman([-float("inf"), 2, 2, float("inf")], [1, 2, 2, 3]) == 1
    assert kendall([-float("inf"), 2, 5, float("inf")], [1, 2, 4, 3]) == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="one rating per value"):
        pearson([1, 2, 3], [1, 2])


def test_values_of_extreme_size_lose_nothing():
    rng = np.random.default_rng(3)
    x = rng.normal(size=50)
    y = x + rng.normal(size=50)
    r = scipy.stats.pearsonr(x, y)[0]
    for scale in (1e-200, 1e200, 1e-12):
        assert pearson(x * scale, y) == pytest.approx(r, abs=1e-9)
    assert pearson(1e6 + x, y) == pytest.approx(r, abs=1e-7)


def slow_resamples(x, y, clusters, resamples, seed):
    """The same draws; every resample is written out, and a sample is not compared with itself."""
    names = sorted(set(clusters.tolist()))
    members = [np.flatnonzero(clusters == name) for name in names]
    rng = np.random.default_rng(seed)
    drawn = rng.integers(len(names), size=(resamples, len(names)))
    for row in drawn:
        rows = np.concatenate([members[k] for k in row])
        xs, ys = x[rows], y[rows]
        counts = loop_counts(xs, ys, same=lambda i, j, rows=rows: rows[i] == rows[j])
        C, D, Tx, Ty, Txy = counts.values()
        constant = np.ptp(xs) == 0 or np.ptp(ys) == 0
        nan = float("nan")
        yield {
            "pearson": nan if constant else scipy.stats.pearsonr(xs, ys)[0],
            "spearman": nan if constant else scipy.stats.spearmanr(xs, ys)[0],
            "kendall": nan if constant else (C - D) / math.sqrt((C + D + Tx) * (C + D + Ty)),
            "tau-like": nan if constant else (C - D - Tx) / (C + D + Tx),
            "accuracy": (C + Txy) / (C + D + Tx + Ty + Txy),
        }


@pytest.mark.parametrize("seed", range(4))
def test_the_bootstrap_draws_clusters_and_recomputes_everything(seed):
    rng = np.random.default_rng(seed)
    n = 22
    y = rng.integers(1, 6, n).astype(float)
    x = np.round(y + rng.normal(size=n) * 2, seed)
    clusters = rng.integers(0, 8, n)
    correlations = estimates(
        x, y, clusters, wanted=PLAIN, resampling=Resampling(resamples=40, seed=seed)
    )
    slow = list(slow_resamples(x, y, clusters, 40, seed))
    for s in PLAIN:
        drawn = np.array([row[s] for row in slow])
        ends = percentile_ends(drawn[~np.isnan(drawn)], 0.95, np.unique(clusters).size)
        assert (correlations[s].low, correlations[s].high) == pytest.approx(tuple(ends), abs=1e-9)
        assert correlations[s].clusters == np.unique(clusters).size


def test_intervals_do_not_depend_on_order_and_take_a_seed():
    rng = np.random.default_rng(0)
    x, y, clusters = rng.normal(size=60), rng.normal(size=60), np.arange(60) // 3
    order = rng.permutation(60)
    first = estimates(x, y, clusters, resampling=Resampling(resamples=200))
    second = estimates(x[order], y[order], clusters[order], resampling=Resampling(resamples=200))
    for s in PLAIN:
        assert second[s].low == pytest.approx(first[s].low, abs=1e-12)
        assert second[s].high == pytest.approx(first[s].high, abs=1e-12)
    other = estimates(x, y, clusters, resampling=Resampling(resamples=200, seed=1))
    assert other["pearson"].low != first["pearson"].low


def test_one_cluster_has_a_value_and_no_interval():
    correlations = estimates([1, 2, 3], [1, 3, 2], [7, 7, 7])
    assert correlations["pearson"].value == pytest.approx(0.5)
    assert correlations["pearson"].why_no_interval == "one cluster"
    assert correlations["calibrated"].why_undefined == "one cluster"


def test_resamples_in_which_all_is_constant_are_counted():
    x = np.array([0.0, 0, 0, 1, 0, 1])
    estimate = estimates(x, [1, 2, 3, 4, 5, 6], np.arange(6), wanted=("pearson",))["pearson"]
    assert "resamples are undefined" in estimate.note
    assert estimate.low <= estimate.value <= estimate.high


def test_clustered_copies_widen_the_interval_and_not_the_value():
    rng = np.random.default_rng(1)
    x = rng.normal(size=40)
    y = x + rng.normal(size=40)
    copies = np.repeat(np.arange(40), 4)
    whole = estimates(x[copies], y[copies], copies, wanted=("pearson",))["pearson"]
    naive = estimates(x[copies], y[copies], np.arange(160), wanted=("pearson",))["pearson"]
    alone = estimates(x, y, np.arange(40), wanted=("pearson",))["pearson"]
    assert whole.value == pytest.approx(alone.value)
    assert (whole.low, whole.high) == pytest.approx((alone.low, alone.high), abs=1e-9)
    assert naive.high - naive.low < 0.7 * (whole.high - whole.low)


@given(pairs(least=3, most=12))
def test_the_best_threshold_is_the_best_of_all(data):
    x, y = data
    i, j = np.triu_indices(x.size, 1)
    dx, dy = x[i] - x[j], y[i] - y[j]

    def right(threshold):
        return np.mean(np.where(np.abs(dx) <= threshold, 0, np.sign(dx)) == np.sign(dy))

    chosen = best_threshold(np.abs(dx), dx * dy > 0, dy == 0)
    best = max(right(t) for t in (0.0, *np.abs(dx)))
    assert right(chosen) == pytest.approx(best)
    assert all(right(t) < best - 1e-12 for t in (0.0, *np.abs(dx)) if t < chosen)


def test_tie_calibration_helps_a_continuous_metric_of_tied_ratings_and_is_held_out():
    rng = np.random.default_rng(5)
    y = rng.integers(1, 4, 200).astype(float)
    x = y + rng.normal(size=200) * 0.1
    calibration = calibrated(x, y, np.arange(200))
    assert calibration.estimate.value > pairwise_accuracy(x, y) + 0.2
    assert all(0.2 < t < 0.9 for t in calibration.thresholds)
    assert calibration.estimate.low < calibration.estimate.value < calibration.estimate.high
    noise = calibrated(rng.normal(size=200), y, np.arange(200)).estimate
    assert noise.value < 0.45  # no better than calling all pairs tied


def test_calibration_within_sources_keeps_every_pair_inside_its_source():
    rng = np.random.default_rng(6)
    source = np.repeat(np.arange(30), 4)
    y = rng.integers(0, 2, 120).astype(float)
    x = y + rng.normal(size=120) * 0.05 + 100 * source  # order between sources says nothing
    accuracy, thresholds = calibrated_within(x, y, source)
    assert len(accuracy) == 30
    assert np.mean(list(accuracy.values())) > 0.95
    assert all(t < 1 for t in thresholds)
    assert calibrated_within([1, 2], [1, 2], [0, 1])[0] == {}


def test_means_over_groups_resample_the_clusters_that_groups_share():
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=60), rng.normal(size=60)
    code, groups = np.tile(np.arange(20), 3), np.repeat(np.arange(3), 20)
    drawn = mean_over_groups(
        x, y, code, groups, kinds=("pearson",), resampling=Resampling(resamples=30, seed=2)
    )
    draws = np.random.default_rng(2).integers(20, size=(30, 20))
    for value, row in zip(drawn["pearson"], draws, strict=True):
        slow = [pearson(x[groups == g][row], y[groups == g][row]) for g in range(3)]
        assert value == pytest.approx(np.mean(slow), abs=1e-9)


def test_ten_thousand_samples_take_seconds():
    rng = np.random.default_rng(0)
    x = rng.normal(size=10_000)
    y = np.round(x + rng.normal(size=10_000))
    start = time.process_time()
    kendall(x, y)
    assert time.process_time() - start < 1
    start = time.process_time()
    estimates(x, y, np.arange(10_000) // 4, wanted=("pearson",))
    assert time.process_time() - start < 5


def test_a_mean_of_many_standard_deviations_costs_pearson_no_digits():
    rng = np.random.default_rng(16)
    x = np.round(rng.normal(size=40), 2)
    y = x + rng.normal(size=40)
    far = np.round(x * 256) / 256  # so that adding a large number is exact
    assert pearson(far + 2.0**28, y) == pytest.approx(pearson(far, y), rel=1e-14)


def test_ties_in_sample_are_the_best_of_all_thresholds():
    rng = np.random.default_rng(17)
    y = rng.integers(0, 3, 30).astype(float)
    x = y + rng.normal(size=30)
    i, j = np.triu_indices(30, k=1)
    dx, dy = x[i] - x[j], y[i] - y[j]

    def accuracy(ε, rows=slice(None)):
        sign = np.where(np.abs(dx[rows]) <= ε, 0, np.sign(dx[rows]))
        return np.mean(sign == np.sign(dy[rows]))

    calibration = calibrated(x, y, np.arange(30), ties="in-sample")
    every = [0.0, *np.abs(dx)]
    assert calibration.estimate.value == pytest.approx(max(map(accuracy, every)))
    assert accuracy(calibration.thresholds[0]) == pytest.approx(calibration.estimate.value)
    assert calibration.estimate.why_no_interval == "its threshold is chosen on the same pairs"
    # items as groups: one threshold has the best mean over items
    item = np.arange(30) // 5
    pairs = [np.flatnonzero((item[i] == g) & (item[j] == g)) for g in range(6)]
    item_values, (ε, _) = calibrated_within(x, y, item, ties="in-sample")
    best = max(np.mean([accuracy(e, p) for p in pairs]) for e in every)
    assert np.mean(list(item_values.values())) == pytest.approx(best)
    assert np.mean([accuracy(ε, p) for p in pairs]) == pytest.approx(best)
