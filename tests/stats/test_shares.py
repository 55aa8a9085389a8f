"""Intervals of shares hold them where a bootstrap has nothing to draw from."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from levelfield.stats.means import cluster_mean
from levelfield.stats.shares import equal_difference_ends, share_ends, votes_of


def coverage(p, correlation, clusters, size, *, runs=400, seed=0):
    """The share of runs whose interval holds p, and of intervals without a width."""
    rng = np.random.default_rng(seed)
    code = np.repeat(np.arange(clusters), size)
    a, b = (share * (1 - correlation) / correlation for share in (p, 1 - p))
    hits = empty = 0
    for _ in range(runs):
        values = (rng.random(code.size) < rng.beta(a, b, clusters)[code]).astype(float)
        interval = cluster_mean(values, code, votes=1)
        hits += interval.low <= p <= interval.high
        empty += interval.low == interval.high
    return hits / runs, empty / runs


@pytest.mark.parametrize("correlation", [0.05, 0.4])
def test_shares_near_one_are_covered_also_in_clusters(correlation):
    covered, empty = coverage(0.98, correlation, 20, 5)
    assert covered >= 0.92
    assert empty == 0


def test_single_values_have_wilsons_interval():
    # Newcombe 1998, Table I, case 81 of 263 and 0 of 20, without correction
    assert share_ends(81 / 263, 0, n=263, clusters=263, level=0.95) == pytest.approx(
        (0.2553, 0.3662), abs=5e-5
    )
    assert share_ends(0.0, 0, n=20, clusters=20, level=0.95) == pytest.approx((0, 0.1611), abs=5e-5)


@given(
    st.integers(2, 30).flatmap(
        lambda n: st.tuples(st.integers(0, n).map(lambda k: k / n), st.just(n), st.integers(2, n))
    ),
    st.floats(0, 1),
)
def test_ends_hold_the_share_inside_zero_and_one(share, variance):
    p, n, clusters = share
    low, high = share_ends(p, variance, n=n, clusters=clusters, level=0.95)
    assert 0 <= low <= p <= high <= 1
    assert low < high


def test_clusters_that_agree_within_widen_the_interval():
    values, clusters = np.repeat([1.0, 0.0, 1.0, 1.0, 0.0, 1.0], 5), np.repeat(np.arange(6), 5)
    together = cluster_mean(values, clusters, votes=1)
    alone = cluster_mean(values, np.arange(30), votes=1)
    assert together.high - together.low > 1.5 * (alone.high - alone.low)


@pytest.mark.parametrize("votes", [1, 2, 3, 5])
def test_votes_of_equally_many_judges_are_shares(votes):
    assert votes_of(np.arange(votes + 1) / votes) == votes


def test_other_values_are_not_shares():
    assert not votes_of(np.array([0.0, 2.0]))
    assert not votes_of(np.array([0.5, -0.5]))
    assert not votes_of(np.random.default_rng(0).random(30))


def test_votes_of_several_judges_count_each():
    rng = np.random.default_rng(3)
    hits, widths = 0, []
    for _ in range(400):
        values = rng.binomial(4, 0.5, 200) / 4
        interval = cluster_mean(values, np.arange(200), votes=4)
        hits += interval.low <= 0.5 <= interval.high
        widths.append(interval.high - interval.low)
    assert 0.92 <= hits / 400 <= 0.98
    assert np.mean(widths) == pytest.approx(2 * 1.96 * 0.5 / np.sqrt(800), rel=0.05)


def tango_statistic(b, c, n, delta):
    """The score statistic of Tango (1998), from the formula."""
    A, B, C = 2 * n, -b - c + (2 * n - b + c) * delta, -c * delta * (1 - delta)
    q = (math.sqrt(max(B * B - 4 * A * C, 0.0)) - B) / (2 * A)
    return (b - c - n * delta) / math.sqrt(n * (2 * q + delta * (1 - delta)))


@pytest.mark.parametrize("n", [5, 8, 40])
@pytest.mark.parametrize("d", [-1.0, 0.0, 1.0])
def test_equal_differences_have_tangos_interval(n: int, d: float):
    low, high = equal_difference_ends(d, n=n, clusters=n, level=0.95)
    assert -1 <= low < high <= 1
    b, c = n * (d == 1), n * (d == -1)
    z = scipy.stats.norm.ppf(0.975)
    for end in (low, high):
        if abs(end) < 1:
            # the statistic is not differentiable in the other direction: mirror b and c
            size = tango_statistic(*((b, c) if end > 0 else (c, b)), n, abs(end))
            assert abs(size) == pytest.approx(z)


def test_where_no_input_differs_a_difference_has_the_width_of_one_share():
    low, high = equal_difference_ends(0.0, n=24, clusters=8, level=0.95)
    assert high == pytest.approx(1 - share_ends(1.0, 0.0, n=24, clusters=8, level=0.95)[0])
    assert low == -high
