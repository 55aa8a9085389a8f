"""Training of poolers against planted weights and the optimality of what it finds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from levelfield.core.errors import UserError
from levelfield.metrics.pooling import resample
from levelfield.train.pooler import fit, select


def drawn(n: int, *, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=rng.integers(1, 60)) for _ in range(n)]


def test_ridge_recovers_planted_weights():
    rng = np.random.default_rng(3)
    planted, bias = rng.normal(size=8), 1.5
    m = [rng.normal(size=8) for _ in range(400)]
    ratings = [float(planted @ momentum + bias) for momentum in m]
    pooler = fit(m, ratings, kind="ridge", length=8, penalty=1e-9)
    np.testing.assert_allclose(pooler.weights / pooler.scale, planted, atol=1e-5)
    np.testing.assert_allclose(pooler.predict(m), ratings, atol=1e-5)


def test_logistic_recovers_the_direction_of_planted_weights():
    rng = np.random.default_rng(4)
    planted = np.array([3.0, -2.0, 0.0, 1.0])
    m = [rng.normal(size=4) for _ in range(4000)]
    labels = [float(rng.random() < 1 / (1 + math.exp(-(planted @ momentum)))) for momentum in m]
    pooler = fit(m, labels, kind="logistic", length=4, penalty=1e-4)
    np.testing.assert_allclose(pooler.weights / pooler.scale, planted, atol=0.3)
    assert ((pooler.predict(m) > 0) & (pooler.predict(m) < 1)).all()


@pytest.mark.parametrize("kind", ["ridge", "logistic"])
@pytest.mark.parametrize("penalty", [0.01, 1.0])
def test_no_nearby_weights_have_a_lower_penalised_loss(kind, penalty):
    m = drawn(50)
    y = np.array([float(momentum.mean() > 0) for momentum in m])
    pooler = fit(m, y.tolist(), kind=kind, length=4, penalty=penalty)
    Z = (np.stack([resample(momentum, 4) for momentum in m]) - pooler.mean) / pooler.scale

    def objective(w: Any, b: float) -> float:
        z = Z @ w + b
        if kind == "ridge":
            loss = 0.5 * ((z - y) ** 2).mean()
        else:
            p = 1 / (1 + np.exp(-z))
            loss = -(y * np.log(p) + (1 - y) * np.log(1 - p)).mean()
        return float(loss + penalty / 2 * (w**2).sum())

    best = objective(pooler.weights, pooler.bias)
    for step in np.vstack([np.eye(5), -np.eye(5)]) * 1e-2:
        assert objective(pooler.weights + step[:4], pooler.bias + step[4]) > best


def test_features_that_never_change_get_no_weight_and_do_no_harm():
    m = [np.array([5.0, float(i)]) for i in range(10)]
    pooler = fit(m, list(range(10)), kind="ridge", length=2, penalty=1e-9)
    assert pooler.weights[0] == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(pooler.predict(m), np.arange(10), atol=1e-5)


@pytest.mark.parametrize("targets", [[], [1.0], [2.0, 2.0], [1.0, math.nan]])
def test_ratings_that_teach_nothing_are_refused(targets):
    with pytest.raises(UserError, match="at least two rated sequences"):
        fit(drawn(len(targets)), targets, kind="ridge")


def test_a_logistic_pooler_wants_labels():
    with pytest.raises(UserError, match="labels 0 and 1"):
        fit(drawn(2), [0.0, 0.5], kind="logistic")


def test_what_is_held_out_is_drawn_by_the_seed_and_by_group():
    m = drawn(60)
    y = [float(momentum.max()) for momentum in m]
    groups = [i // 6 for i in range(60)]
    first, again, other = (
        select(m, y, kind="ridge", groups=groups, seed=seed) for seed in (1, 1, 2)
    )
    assert first.held_out == 12
    assert first.pooler.digest == again.pooler.digest
    assert (first.spearman, first.penalty) == (again.spearman, again.penalty)
    assert other.spearman != first.spearman


def test_noise_gets_the_strongest_penalty_and_signal_a_weak_one():
    m = drawn(300)
    noise = np.random.default_rng(9).normal(size=300).tolist()
    planted = np.linspace(-1, 1, 4)
    signal = [float(planted @ resample(momentum, 4)) for momentum in m]
    assert select(m, noise, kind="ridge", length=4).penalty == 10.0
    selected = select(m, signal, kind="ridge", length=4)
    assert selected.penalty == 0.001
    assert selected.spearman > 0.99


def test_one_group_can_not_be_held_out_of_itself():
    with pytest.raises(UserError, match="too few"):
        select(drawn(4), [1, 2, 3, 4], kind="ridge", groups=["a"] * 4)
