"""Bradley-Terry strengths against the likelihood and the sandwich written plainly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats

from levelfield.stats.bradley_terry import bradley_terry
from levelfield.stats.estimate import ONE_CLUSTER


def played(systems=4, n=120, clusters=20, seed=0, ties=0.1):
    rng = np.random.default_rng(seed)
    a = rng.integers(systems, size=n)
    b = (a + rng.integers(1, systems, size=n)) % systems
    outcomes = (rng.random(n) < 1 / (1 + np.exp((a - b) / 2))).astype(float)
    outcomes[rng.random(n) < ties] = 0.5
    return a, b, outcomes, rng.integers(clusters, size=n)


def probability(theta, i, j):
    return 1 / (1 + math.exp(theta[j] - theta[i]))


def loss(rest, a, b, outcomes):
    theta = [0.0, *rest]
    total = 0.0
    for i, j, s in zip(a, b, outcomes, strict=True):
        p = probability(theta, i, j)
        total -= s * math.log(p) + (1 - s) * math.log(1 - p)
    return total


def test_strengths_have_the_largest_likelihood_and_intervals_are_of_the_sandwich():
    a, b, outcomes, clusters = played()
    fit = bradley_terry(a, b, outcomes, clusters, 4)
    best = optimize.minimize(loss, np.zeros(3), args=(a, b, outcomes), tol=1e-10).x
    theta = np.array([0.0, *best])
    assert fit.values == pytest.approx(theta - theta.mean(), abs=1e-4)
    assert set(fit.groups) == {fit.groups[0]}

    theta = fit.values
    information = np.zeros((4, 4))
    scores = {k: np.zeros(4) for k in set(clusters)}
    for i, j, s, k in zip(a, b, outcomes, clusters, strict=True):
        p = probability(theta, i, j)
        e = np.zeros(4)
        e[i], e[j] = 1, -1
        information += p * (1 - p) * np.outer(e, e)
        scores[k] += (s - p) * e
    middle = sum(np.outer(g, g) for g in scores.values())
    # the last strength is fixed at 0, instead of the mean: differences do not depend on it
    inverse = np.linalg.inv(information[:3, :3])
    V = 20 / 19 * inverse @ middle[:3, :3] @ inverse
    e, p = fit.difference(0, 2)
    error = math.sqrt(V[0, 0] + V[2, 2] - 2 * V[0, 2])
    t = stats.t.ppf(0.975, 19)
    assert e.value == pytest.approx(theta[0] - theta[2])
    assert (e.low, e.high) == pytest.approx((e.value - t * error, e.value + t * error))
    assert p == pytest.approx(2 * stats.t.sf(abs(e.value) / error, 19))
    centre = np.eye(4)[1] - 1 / 4
    full = np.zeros((4, 4))
    full[:3, :3] = V
    alone = fit.strength(1)
    assert (alone.high - alone.low) / 2 == pytest.approx(t * math.sqrt(centre @ full @ centre))


def test_two_systems_have_the_odds_of_their_wins():
    outcomes = np.array([1.0] * 9 + [0.0] * 2 + [0.5] * 2)
    zeros = np.zeros(13, dtype=np.intp)
    fit = bradley_terry(zeros, zeros + 1, outcomes, np.arange(13), 2)
    assert fit.values[0] - fit.values[1] == pytest.approx(math.log(10 / 3))


def test_an_undefeated_system_has_a_reason_and_the_others_have_strengths():
    a, b, outcomes, clusters = played(3)
    a, b = np.append(a, [3, 3, 0]), np.append(b, [0, 1, 3])
    outcomes, clusters = np.append(outcomes, [1, 1, 0]), np.append(clusters, [0, 1, 2])
    fit = bradley_terry(a, b, outcomes, clusters, 5)
    assert fit.strength(3).why_undefined == "never beaten"
    assert fit.strength(4).why_undefined == "not compared"
    assert np.isfinite(fit.values[:3]).all()
    assert fit.difference(0, 3)[0].why_undefined == "not on one scale"
    without = bradley_terry(*(x[:-3] for x in (a, b, outcomes, clusters)), 3)
    assert fit.values[:3] == pytest.approx(without.values)
    turned = bradley_terry(a, b, 1 - outcomes, clusters, 5)
    assert turned.strength(3).why_undefined == "never better"


def test_groups_that_were_never_compared_have_scales_of_their_own():
    a, b, outcomes, clusters = played(2)
    fit = bradley_terry(
        np.concatenate([a, a + 2]), np.concatenate([b, b + 2]), np.tile(outcomes, 2),
        np.tile(clusters, 2), 4,
    )  # fmt: skip
    assert fit.groups[0] == fit.groups[1] != fit.groups[2] == fit.groups[3]
    assert fit.values[:2] == pytest.approx(fit.values[2:])


def test_far_apart_strengths_converge():
    a = np.array([0] * 1000 + [0] * 1000 + [1] * 1000)
    b = np.array([1] * 1000 + [2] * 1000 + [2] * 1000)
    outcomes = np.array(([1.0] * 999 + [0.0]) * 3)
    fit = bradley_terry(a, b, outcomes, np.arange(3000), 3)
    assert fit.difference(0, 1)[0].value == pytest.approx(fit.difference(1, 2)[0].value)
    assert fit.difference(0, 1)[0].value > 6


def test_what_has_no_interval_has_a_reason():
    a, b, outcomes, clusters = played(2)
    strength = bradley_terry(a, b, outcomes, np.zeros_like(clusters), 2).strength(0)
    assert strength.why_no_interval == ONE_CLUSTER
    zeros = np.zeros(8, dtype=np.intp)
    same = bradley_terry(zeros, zeros + 1, np.tile([1.0, 0.0], 4), np.arange(8) // 2, 2)
    assert same.strength(0).why_no_interval == "clusters do not differ"
    assert math.isnan(same.difference(0, 1)[1])
