"""Correlations of means of systems: noise taken out, coverage, level, and what can't be said."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from levelfield.core.errors import UserError
from levelfield.stats.correlation import pearson
from levelfield.stats.resampling import Resampling
from levelfield.stats.system_difference import corrected_difference, corrected_r, swap_systems
from levelfield.stats.system_level import system_correlations
from levelfield.stats.system_means import means_of, system_means

QUICK = Resampling(resamples=300)


def systems_of(S, K):
    """The cluster and the system of S × K samples, one a cell."""
    return np.repeat(np.arange(K), S), np.tile(np.arange(S), K)


def true_means(rng, S, R, exactly):
    """(S, v) true means with correlations R, exactly or over the population."""
    Z = rng.normal(size=(S, len(R)))
    if exactly:
        U, _, V = np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)
        Z = U @ V * math.sqrt(S - 1)
    return Z @ np.linalg.cholesky(R).T


def observed(rng, means, K, reliability):
    """(v, K × S) values around true means of variance 1; the noise of two variables shares half."""
    S, v = means.shape
    noise = rng.normal(size=(K, S, v)) + rng.normal(size=(K, S, 1)) + rng.normal(size=(K, 1, v))
    sd = math.sqrt(K * (1 - reliability) / reliability / 2)
    return (means + sd * noise).reshape(-1, v).T


def matrix(r):
    return np.array([[1, r], [r, 1]])


def test_the_noise_of_means_is_what_the_bootstrap_shows():
    rng = np.random.default_rng(0)
    K, S = 60, 5
    cluster, system = systems_of(S, K)
    kept = rng.random(K * S) < 0.8  # not every system has every source
    x, y = observed(rng, true_means(rng, S, matrix(0.5), True), K, 0.7)[:, kept]
    cluster, system = cluster[kept], system[kept]
    means = system_means((x, y), cluster, system)
    scale = [np.std([v[system == s].mean() for s in range(S)], ddof=1) for v in (x, y)]
    drawn = []
    for _ in range(1500):
        rows = np.concatenate([np.flatnonzero(cluster == k) for k in rng.integers(K, size=K)])
        m = np.array([[v[rows][system[rows] == s].mean() for s in range(S)] for v in (x, y)])
        drawn.append(m / np.array(scale)[:, None])
    noise = np.array(drawn) - np.mean(drawn, axis=0)
    noise -= noise.mean(axis=2, keepdims=True)
    E = np.einsum("bvs,bws->vw", noise, noise) / 1500 / (S - 1) * K / (K - 1)
    assert pytest.approx(E, rel=0.1, abs=0.02) == means.E
    assert np.diag(means.C) == pytest.approx([1, 1])


def test_r_without_noise_is_of_the_covariance_without_that_of_the_noise():
    rng = np.random.default_rng(1)
    cluster, system = systems_of(6, 30)
    x, y = observed(rng, true_means(rng, 6, matrix(0.8), True), 30, 0.9)
    means = system_means((x, y), cluster, system)
    V = means.C - means.E
    correlations = system_correlations(x, y, cluster, system, ("pearson",), resampling=QUICK)
    assert correlations.corrected == pytest.approx(V[0, 1] / math.sqrt(V[0, 0] * V[1, 1]))
    assert correlations.estimates["pearson"].value == pytest.approx(
        pearson(means_of(x, system), means_of(y, system))
    )


@pytest.mark.thinned
@pytest.mark.parametrize("systems", ["these", "like-these"])
@pytest.mark.parametrize(("S", "r"), [(6, 0.5), (8, 0.99), (20, 0.9)])
def test_intervals_hold_the_correlation_of_true_means(systems, S, r):
    # the bootstrap of sources around the observed means covers 0 to 90 % of these
    rng = np.random.default_rng(2)
    cluster, system = systems_of(S, 25)
    inside = []
    for _ in range(200):
        x, y = observed(rng, true_means(rng, S, matrix(r), systems == "these"), 25, 0.85)
        e = system_correlations(
            x, y, cluster, system, ("pearson",), systems=systems, resampling=QUICK
        ).estimates["pearson"]
        if not e.why_no_interval:
            inside.append(e.low <= r <= e.high)
    assert len(inside) > 100
    assert np.mean(inside) >= 0.95 - 2.5 * math.sqrt(0.05 * 0.95 / len(inside))


@pytest.mark.parametrize("S", [8, 12])
def test_intervals_of_ranks_hold_those_of_systems_like_these(S):
    rng = np.random.default_rng(3)
    cluster, system = systems_of(S, 40)
    τ = 2 / math.pi * math.asin(0.9)
    targets = {
        "spearman": 6 / math.pi * math.asin(0.45), "kendall": τ, "tau-like": τ,
        "accuracy": (1 + τ) / 2,
    }  # fmt: skip
    inside = {s: [] for s in targets}
    for _ in range(150):
        x, y = observed(rng, true_means(rng, S, matrix(0.9), False), 40, 0.95)
        correlations = system_correlations(x, y, cluster, system, tuple(targets), resampling=QUICK)
        for s, e in correlations.estimates.items():
            if not e.why_no_interval:
                inside[s].append(e.low <= targets[s] <= e.high)
    assert all(len(held) > 100 and np.mean(held) >= 0.9 for held in inside.values())


def test_many_systems_have_intervals_of_ranks_as_narrow_as_fishers_z_says():
    rng = np.random.default_rng(13)
    S = 400
    cluster, system = systems_of(S, 3)
    x, y = observed(rng, true_means(rng, S, matrix(0.6), True), 3, 1 - 1e-9)
    e = system_correlations(x, y, cluster, system, ("kendall",)).estimates["kendall"]
    z = np.arctanh(e.value) + 1.96 * math.sqrt(0.437 / (S - 4)) * np.array([-1, 1])
    assert (e.low, e.high) == pytest.approx(np.tanh(z), abs=0.05)  # of a grid


def test_without_noise_the_interval_of_r_is_that_of_fishers_z_nearly():
    rng = np.random.default_rng(4)
    cluster, system = systems_of(30, 20)
    x, y = observed(rng, true_means(rng, 30, matrix(0.6), True), 20, 1 - 1e-9)
    e = system_correlations(x, y, cluster, system, ("pearson",)).estimates["pearson"]
    z = np.arctanh(0.6) + 1.96 / math.sqrt(27) * np.array([-1, 1])
    assert (e.low, e.high) == pytest.approx(np.tanh(z), abs=0.03)


@pytest.mark.parametrize("systems", ["these", "like-these"])
def test_noise_that_hides_the_systems_gives_a_reason_and_no_interval(systems):
    rng = np.random.default_rng(5)
    cluster, system = systems_of(6, 20)
    x, y = rng.normal(size=(2, 120))
    correlations = system_correlations(
        x, y, cluster, system, ("pearson", "kendall"), systems=systems
    )
    for e in correlations.estimates.values():
        assert "can't be told apart" in e.why_no_interval
        assert math.isnan(e.low)
        assert not math.isnan(e.value)
    assert math.isnan(correlations.corrected)


def test_what_has_no_interval_says_why():
    rng = np.random.default_rng(6)
    for S, K, systems, reason in (
        (2, 20, "these", "two systems"),
        (3, 20, "these", "fewer than 4"),
        (5, 1, "these", "one cluster"),
        (5, 20, "like-these", "5 systems, and a claim about systems like these needs 6"),
    ):
        cluster, system = systems_of(S, K)
        x, y = observed(rng, true_means(rng, S, np.eye(2), False), K, 0.99)
        correlations = system_correlations(x, y, cluster, system, ("pearson",), systems=systems)
        assert reason in correlations.estimates["pearson"].why_no_interval
    cluster, system = systems_of(6, 20)
    x, y = observed(rng, true_means(rng, 6, matrix(0.5), True), 20, 0.99)
    correlations = system_correlations(
        x, y, cluster, system, ("kendall",), systems="these"
    ).estimates
    assert correlations["kendall"].why_no_interval == "noise can't be taken out of ranks"
    assert correlations["kendall"].note == "6 systems: little can be said"
    like = system_correlations(x, y, cluster, system, ("kendall", "pearson")).estimates
    assert like["kendall"].why_no_interval == "6 systems, and ranks need 8"
    constant = system_correlations(np.ones(120), y, cluster, system, ("pearson", "calibrated"))
    assert [e.why_undefined for e in constant.estimates.values()] == [
        "constant means", "not calibrated at system level",
    ]  # fmt: skip
    accuracy = system_correlations(np.ones(120), y, cluster, system, ("accuracy",)).estimates
    assert accuracy["accuracy"].value == 0
    assert accuracy["accuracy"].why_no_interval == "constant means"


@pytest.mark.parametrize("systems", ["these", "like-these"])
def test_a_metric_that_is_the_rating_has_r_one_and_no_warning(systems):
    rng = np.random.default_rng(7)
    cluster, system = systems_of(6, 20)
    y = observed(rng, true_means(rng, 6, matrix(0.5), True), 20, 0.9)[0]
    correlations = system_correlations(3 * y - 1, y, cluster, system, ("pearson",), systems=systems)
    e = correlations.estimates["pearson"]
    assert (e.value, correlations.corrected) == pytest.approx((1, 1))
    assert (e.low, e.high) == pytest.approx((1, 1), abs=1e-3)


def test_order_unit_and_origin_do_not_matter():
    rng = np.random.default_rng(8)
    cluster, system = systems_of(7, 15)
    x, y = observed(rng, true_means(rng, 7, matrix(0.7), True), 15, 0.9)
    order = rng.permutation(x.size)
    for systems in ("these", "like-these"):
        first, second = (
            system_correlations(*data, ("pearson",), systems=systems, resampling=QUICK)
            for data in (
                (x, y, cluster, system),
                (1e6 * x[order] + 3, y[order], cluster[order], system[order]),
            )
        )
        a, b = first.estimates["pearson"], second.estimates["pearson"]
        assert (a.low, a.high) == pytest.approx((b.low, b.high), abs=1e-6)


def test_swapped_systems_are_every_exchange_of_two_standardised_means():
    rng = np.random.default_rng(9)
    cluster, system = systems_of(6, 10)
    a, b, y = rng.normal(size=(3, cluster.size)) + system * np.array([[0.5], [0.1], [0.6]])
    test = swap_systems(a, b, y, system)
    A, B = (stats.zscore(means_of(v, system)) for v in (a, b))
    differences = [
        np.arctanh(pearson(np.where(swap, B, A), means_of(y, system)))
        - np.arctanh(pearson(np.where(swap, A, B), means_of(y, system)))
        for swap in itertools.product((False, True), repeat=6)
    ]
    assert test.p == np.mean(np.abs(differences) >= abs(differences[0]) - 1e-9)
    assert (test.n, test.clusters) == (6, 6)
    assert test.difference == pytest.approx(
        pearson(A, means_of(y, system)) - pearson(B, means_of(y, system))
    )


@pytest.mark.slow
@pytest.mark.parametrize("r_ab", [0.9, 0.7])
def test_metrics_that_agree_equally_well_are_rarely_called_different(r_ab):
    # swapping inputs calls 40 to 60 % of these pairs different, for either question
    R = np.array([[1, 0.9, 0.9], [0.9, 1, r_ab], [0.9, r_ab, 1]])
    rng = np.random.default_rng(10)
    cluster, system = systems_of(8, 30)
    p = {True: [], False: []}
    for _, these in itertools.product(range(200), p):
        y, a, b = observed(rng, true_means(rng, 8, R, these), 30, 0.97)
        test = (
            corrected_difference(a, b, y, cluster, system, draws=400)
            if these
            else swap_systems(a, b, y, system)
        )
        p[these].append(test.p)
    for values in p.values():
        assert np.mean(np.array(values) <= 0.05) <= 0.1


def test_a_better_metric_of_these_systems_is_shown():
    R = np.array([[1, 0.95, 0.5], [0.95, 1, 0.5], [0.5, 0.5, 1]])
    rng = np.random.default_rng(11)
    cluster, system = systems_of(6, 100)
    y, a, b = observed(rng, true_means(rng, 6, R, True), 100, 0.98)
    there, back = (corrected_difference(*m, y, cluster, system) for m in ((a, b), (b, a)))
    assert there.difference == pytest.approx(0.45, abs=0.15)
    assert there.p < 0.001
    assert there.p == pytest.approx(back.p, rel=1, abs=1e-4)
    assert there.p_greater < 0.001
    assert back.p_greater > 0.999


def test_a_difference_of_true_means_that_can_not_be_tested_says_why():
    rng = np.random.default_rng(12)
    for S, K, reason in (
        (3, 9, "fewer than 4 systems"),
        (6, 1, "one cluster"),
        (6, 9, "told apart"),
    ):
        cluster, system = systems_of(S, K)
        test = corrected_difference(*rng.normal(size=(3, S * K)), cluster, system)
        assert reason in test.why_undefined
        assert math.isnan(test.p)


def nested(S, sizes):
    """The cluster and the system of S systems with clusters of their own, two samples a cluster."""
    K_s = np.resize(sizes, S)
    return np.repeat(np.arange(K_s.sum()), 2), np.repeat(np.arange(S), 2 * K_s)


def test_one_cluster_in_a_system_gives_a_reason_and_neither_interval_nor_test():
    rng = np.random.default_rng(14)
    system = np.arange(8)
    y, a, b = observed(rng, true_means(rng, 8, np.eye(3), True), 1, 0.9)
    for systems in ("these", "like-these"):
        correlations = system_correlations(
            a, y, system, system, ("pearson", "kendall"), systems=systems
        )
        for e in correlations.estimates.values():
            assert e.why_no_interval == "one cluster in a system"
            assert math.isnan(e.low)
        assert math.isnan(correlations.corrected)
    tested = corrected_difference(a, b, y, system, system)
    assert tested.why_undefined == "one cluster in a system"
    assert math.isnan(tested.p)
    assert math.isnan(corrected_r(a, y, system, system))
    assert np.isnan(system_means((a, y), system, system).E).all()


def test_the_noise_of_systems_with_clusters_of_their_own_is_unbiased():
    rng = np.random.default_rng(15)
    sizes = (2, 3, 5)
    cluster, system = nested(6, sizes)
    true = 10.0 * np.arange(6)
    noise = []
    for _ in range(2000):
        x = true[system] + rng.normal(size=cluster.max() + 1)[cluster]
        means = system_means((x,), cluster, system)
        noise.append(means.E[0, 0] * np.var(means_of(x, system), ddof=1))
    assert np.mean(noise) == pytest.approx(np.mean(1 / np.array(sizes)), rel=0.05)


def test_equal_true_means_of_systems_with_separate_clusters_rarely_differ():
    rng = np.random.default_rng(16)
    cluster, system = nested(8, (3, 4))
    apart = [
        not system_means(
            (rng.normal(size=cluster.max() + 1)[cluster],), cluster, system
        ).indistinct(("x",), 0.95)
        for _ in range(1000)
    ]
    assert np.mean(apart) <= 0.04


def test_degrees_of_freedom_are_of_the_system_with_the_fewest_clusters():
    rng = np.random.default_rng(17)
    for (cluster, system), df in (
        (systems_of(5, 12), 11), (nested(5, (12,)), 11), (nested(6, (3, 30)), 2),
    ):  # fmt: skip
        assert system_means((rng.normal(size=cluster.size),), cluster, system).df == df


def test_metrics_are_the_same_only_if_their_means_are_but_for_rounding():
    rng = np.random.default_rng(18)
    cluster, system = systems_of(6, 20)
    y, a = observed(rng, true_means(rng, 6, matrix(0.5), True), 20, 0.95)
    almost = a + 1e-7 * y
    assert corrected_difference(a, 2 * a + 1, y, cluster, system).difference == 0
    assert corrected_difference(a, almost, y, cluster, system).difference < 0


def test_the_reason_names_the_metric_that_can_not_tell_systems_apart():
    rng = np.random.default_rng(19)
    cluster, system = systems_of(6, 20)
    y, a = observed(rng, true_means(rng, 6, matrix(0.5), True), 20, 0.95)
    noise = rng.normal(size=y.size)
    for metrics, name in (((a, noise), "metric B"), ((noise, a), "metric A")):
        reason = corrected_difference(*metrics, y, cluster, system).why_undefined
        assert f"true means of the {name} can't be told apart" in reason


@pytest.mark.parametrize("name", ["resamples", "permutations"])
def test_more_draws_than_memory_and_time_allow_are_refused(name):
    with pytest.raises(UserError) as refused:
        Resampling(**{name: 100_000_000})

    assert str(refused.value) == f"{name}=100000000: expected a whole number from 1 to 1,000,000"
