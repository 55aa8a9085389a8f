"""Prediction-powered means against the formulas written plainly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from levelfield.stats.estimate import ONE_CLUSTER
from levelfield.stats.prediction_powered import (
    ALL_EQUAL,
    NONE_RATED,
    allocation,
    difference_of,
    estimate_of,
    powered_mean,
)


def study(n=12, rated=6, clusters=12, seed=0):
    """Ratings of the first texts, scores of all, and clusters."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n)
    f = 3 * y + rng.normal(size=n) + 100
    y[rated:] = np.nan
    return y, f, rng.permutation(np.arange(n) % clusters)


def plain(y, f, w=None):
    """The mean of the ratings, the powered mean and λ, as the page has them."""
    w = np.ones(len(y)) if w is None else w
    rated = [i for i in range(len(y)) if not math.isnan(y[i])]
    total = sum(w[i] for i in rated)
    y_bar = sum(w[i] * y[i] for i in rated) / total
    f_bar = sum(w[i] * f[i] for i in rated) / total
    covariance = sum(w[i] * (y[i] - y_bar) * (f[i] - f_bar) for i in rated) / total
    variance = sum(w[i] * (f[i] - f_bar) ** 2 for i in rated) / total
    weight = covariance / variance
    return y_bar, y_bar + weight * (sum(f) / len(f) - f_bar), weight


def jackknife(values_without, value):
    K = len(values_without)
    return math.sqrt((K - 1) / K * sum((v - value) ** 2 for v in values_without))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("clusters", [12, 5])
def test_means_weight_and_intervals_are_those_of_the_formula(clusters, weighted):
    y, f, c = study(clusters=clusters)
    w = np.random.default_rng(1).uniform(1, 9, len(y)) if weighted else None
    people, powered, weight = plain(y, f, w)
    mean = powered_mean(y, f, c, w)
    assert mean.value == pytest.approx([people, powered])
    assert mean.weight == pytest.approx(weight)

    def without(k):
        rest = c != k
        return plain(y[rest], f[rest], None if w is None else w[rest])

    has_ratings = sorted(set(c[~np.isnan(y)]))
    error = jackknife([without(k)[1] for k in sorted(set(c))], powered)
    alone = jackknife([without(k)[0] for k in has_ratings], people)
    t = stats.t.ppf(0.975, len(has_ratings) - 1)
    e = estimate_of(mean)
    assert (e.powered.low, e.powered.high) == pytest.approx(
        (powered - t * error, powered + t * error)
    )
    assert (e.people.low, e.people.high) == pytest.approx((people - t * alone, people + t * alone))
    assert e.effective == pytest.approx(6 * (alone / error) ** 2)
    assert e.p == pytest.approx(2 * stats.t.sf(abs(powered / error), len(has_ratings) - 1))


def test_the_estimator_is_that_of_the_paper_with_its_own_weight():
    """PPI++: λ' mean of f over the others + mean of (y − λ' f) over the rated."""
    y, f, c = study()
    mean = powered_mean(y, f, c)
    rated = ~np.isnan(y)
    others, n = int((~rated).sum()), int(rated.sum())
    weight = mean.weight * others / (n + others)
    assert mean.value[1] == pytest.approx(
        weight * f[~rated].mean() + (y[rated] - weight * f[rated]).mean()
    )


def test_the_tuned_weight_of_many_texts_is_that_of_the_paper():
    """λ' = Cov(y, f) / ((1 + n / M) Var(f)), Var over all texts."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=20_000)
    f = y + rng.normal(size=y.size)
    ratings = np.where(np.arange(y.size) < 5_000, y, np.nan)
    expected = np.cov(y[:5_000], f[:5_000])[0, 1] / ((1 + 5 / 15) * f.var())
    weight = powered_mean(ratings, f, np.arange(y.size)).weight
    assert weight * 15 / 20 == pytest.approx(expected, rel=0.03)


def test_scores_of_independent_texts_are_worth_what_their_correlation_says():
    """The variance shrinks by 1 − r² (1 − n / N)."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=4_000)
    f = y + rng.normal(size=y.size)
    ratings = np.where(np.arange(y.size) < 400, y, np.nan)
    r = np.corrcoef(y[:400], f[:400])[0, 1]
    gain = estimate_of(powered_mean(ratings, f, np.arange(y.size))).effective / 400
    assert gain == pytest.approx(1 / (1 - 0.9 * r**2), rel=0.05)


def test_if_all_texts_are_rated_scores_change_nothing():
    y, f, c = study(rated=12, clusters=5)
    e = estimate_of(powered_mean(y, f, c))
    assert e.powered.value == pytest.approx(e.people.value)
    assert e.powered.low == pytest.approx(e.people.low)
    assert e.effective == pytest.approx(12)


@given(st.floats(-5, 5).filter(lambda a: abs(a) > 0.01), st.floats(-1e6, 1e6))
def test_scale_and_direction_of_scores_do_not_matter(a, b):
    y, f, c = study()
    mean, other = powered_mean(y, f, c), powered_mean(y, a * f + b, c)
    assert other.value == pytest.approx(mean.value, rel=1e-6)
    assert other.weight * a == pytest.approx(mean.weight, rel=1e-5)


def test_scores_that_are_all_equal_or_missing_leave_the_ratings_alone():
    y, f, c = study()
    for useless in (np.full_like(f, 0.1), np.full_like(f, np.nan)):
        mean = powered_mean(y, useless, c)
        assert mean.weight == 0
        e = estimate_of(mean)
        assert e.powered.value == e.people.value == pytest.approx(np.nanmean(y))
        assert e.effective == pytest.approx(6, rel=0.2)


def test_a_text_without_a_score_counts_with_the_mean_score():
    y, f, c = study()
    f[[1, 9]] = np.nan
    filled = np.where(np.isnan(f), np.nanmean(f), f)
    mean = powered_mean(y, f, c)
    assert mean.scored == 10
    assert mean.value == pytest.approx(powered_mean(y, filled, c).value)


def test_what_has_no_interval_has_a_reason():
    y, f, c = study()
    nothing = estimate_of(powered_mean(np.full_like(y, np.nan), f, c))
    assert math.isnan(nothing.powered.value)
    assert nothing.powered.why_undefined == NONE_RATED
    assert math.isnan(powered_mean(np.full_like(y, np.nan), f, c).weight)
    estimate = estimate_of(powered_mean(np.where(np.arange(12) == 0, 1.0, np.nan), f, c))
    assert estimate.powered.value == 1
    assert estimate.powered.why_no_interval == ONE_CLUSTER
    same = estimate_of(powered_mean(np.where(np.isnan(y), y, 3.0), f, c))
    assert same.powered.value == pytest.approx(3)
    assert same.powered.why_no_interval == same.people.why_no_interval == ALL_EQUAL
    assert math.isnan(same.effective)
    assert math.isnan(same.p)


def test_a_difference_leaves_shared_clusters_out_of_both_means():
    (y, f, c), (z, g, d) = study(seed=1, clusters=5), study(seed=2, clusters=7)
    a, b = powered_mean(y, f, c), powered_mean(z, g, d)

    def value(k):
        return plain(y[c != k], f[c != k])[1] - plain(z[d != k], g[d != k])[1]

    names = sorted({*c, *d})
    difference = value(-1)
    error = jackknife([value(k) for k in names], difference)
    df = min(len(set(c[:6])), len(set(d[:6]))) - 1
    t = stats.t.ppf(0.975, df)
    e = difference_of(a, b).powered
    assert e.value == pytest.approx(difference)
    assert e.low == pytest.approx(difference - t * error)
    assert e.high == pytest.approx(difference + t * error)


def test_rated_texts_that_are_not_drawn_at_random_are_far_from_the_others():
    rng = np.random.default_rng(0)
    f = np.sort(rng.normal(size=400))
    best = np.where(np.arange(400) >= 340, f, np.nan)
    ratings = np.where(rng.random(400) < 0.15, f, np.nan)
    assert abs(powered_mean(best, f, np.arange(400)).imbalance) > 6
    assert abs(powered_mean(ratings, f, np.arange(400)).imbalance) < 3


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.floats(0.1, 5)), min_size=1,
             max_size=3),
    st.integers(0, 8),
)  # fmt: skip
def test_no_allocation_has_a_smaller_variance(strata, draws):
    N = np.array([n for n, _, _ in strata], dtype=np.intp)
    done = np.minimum(N, np.array([r for _, r, _ in strata]))
    spreads = N * np.array([s for _, _, s in strata])
    drawn = allocation(N, done, spreads, draws)
    left = N - done
    assert (drawn <= left).all()
    assert drawn.sum() == min(draws, left.sum())

    def variance(d):
        n = done + d
        return sum(s**2 / max(k, 1e-9) for s, k in zip(spreads, n, strict=True) if s)

    for i in range(len(N)):
        for j in range(len(N)):
            moved = drawn.copy()
            moved[i] -= 1
            moved[j] += 1
            if moved[i] >= 0 and moved[j] <= left[j]:
                assert variance(drawn) <= variance(moved) * (1 + 1e-9)


def test_without_ratings_strata_are_drawn_in_proportion():
    assert allocation(
        np.array([60, 30, 10]), np.zeros(3, int), np.array([0.6, 0.3, 0.1]), 20
    ).tolist() == [12, 6, 2]
