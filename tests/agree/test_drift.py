"""Drift by quality and by number of evaluators, CTRLEval sections 4.6 and 4.7."""

import json
import math

import numpy as np
import polars as pl
import pytest

from levelfield.agree.drift import (
    evaluator_drift,
    load_parts,
    quality_drift,
    quarters,
    spread,
)
from levelfield.core.errors import UserError
from levelfield.stats.correlation import pearson


def test_quarters_are_equal_and_ordered_and_ties_fall_to_either_side():
    y = np.array([1, 1, 1, 1, 2, 2, 3, 3.0])
    found = quarters(y, np.random.default_rng(0))
    assert sorted(found.tolist()) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert np.all(np.diff([y[found == i].max() for i in range(4)]) >= 0)
    sides = {tuple(quarters(y, np.random.default_rng(s))[:4].tolist()) for s in range(20)}
    assert len(sides) > 1


def test_subsets_are_drawn_with_the_papers_probabilities():
    y = np.arange(4000.0)
    found = quality_drift(y, y, draws=20)
    for j in range(4):
        for i in range(4):
            assert found.shares[j][i] == pytest.approx(1000 / (abs(j - i) + 1), rel=0.03)
        assert found.shares[j][j] == 1000
    assert found.bounds == ((0, 999), (1000, 1999), (2000, 2999), (3000, 3999))


def test_a_metric_that_only_knows_bad_texts_drifts():
    rng = np.random.default_rng(0)
    y = rng.uniform(0, 1, 800)
    x = np.minimum(y, 0.25) + 0.02 * rng.normal(size=800)
    found = quality_drift(x, y)
    means = [s.mean for s in found.subsets]
    assert means[0] > means[3] + 0.1
    assert found.between.deviation > 0.05
    assert all(s.total == 20 and s.deviation > 0 for s in found.subsets)


def test_draws_take_a_seed():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 80))
    one, two, other = (quality_drift(x, y, seed=seed).subsets for seed in (3, 3, 4))
    assert one == two
    assert one != other


def test_too_few_samples_are_undefined_and_counted():
    found = quality_drift([1.0], [2.0])
    assert all(math.isnan(s.mean) and s.defined == 0 for s in found.subsets)
    assert math.isnan(quality_drift([], []).bounds[0][0])


def parts_of(scores, weights):
    """(n, m) scores and weights as rows of parts."""
    n, m = scores.shape
    return pl.DataFrame(
        {
            "id": [f"s{i:03}" for i in range(n) for _ in range(m)],
            "part": [f"e{j:02}" for _ in range(n) for j in range(m)],
            "score": scores.ravel(),
            "weight": weights.ravel(),
        }
    )


def test_all_evaluators_give_the_metric_and_fewer_give_less():
    rng = np.random.default_rng(1)
    y = rng.normal(size=150)
    scores = y[:, None] + 2 * rng.normal(size=(150, 8))
    weights = rng.dirichlet(np.ones(8), size=150)
    rated = {f"s{i:03}": v for i, v in enumerate(y)}
    found = evaluator_drift("m", parts_of(scores, weights), rated)
    assert found.shared
    assert found.k == tuple(range(1, 9))
    whole = found.spreads[-1]
    assert whole.mean == pytest.approx(pearson((scores * weights).sum(axis=1), y))
    assert whole.deviation == pytest.approx(0, abs=1e-12)
    assert found.spreads[0].mean < found.spreads[3].mean < whole.mean
    assert found.spreads[0].total == 20


def test_weights_of_the_drawn_are_scaled_to_sum_to_one():
    # one evaluator: its score is the value, whatever its weight
    scores = np.array([[1.0, 9.0], [2.0, 8.0], [4.0, 6.0], [3.0, 5.0]])
    weights = np.tile([0.001, 0.999], (4, 1))
    y = {f"s{i:03}": v for i, v in enumerate([1.0, 2.0, 4.0, 3.0])}
    one = evaluator_drift("m", parts_of(scores, weights), y, draws=40).spreads[0]
    assert one.high == pytest.approx(1)
    assert one.low == pytest.approx(pearson([9, 8, 6, 5], [1, 2, 4, 3]))


def test_samples_with_evaluators_of_their_own_draw_each_for_itself():
    rows = [(f"s{i}", f"{i}: sentence {j}", float(i + j), 1.0) for i in range(6)
            for j in range(1 + i % 3)]  # fmt: skip
    parts = pl.DataFrame(rows, schema=["id", "part", "score", "weight"], orient="row")
    y = {f"s{i}": float(i) for i in range(6)}
    found = evaluator_drift("m", parts, y)
    assert not found.shared
    assert found.k == (1, 2, 3)
    means = [np.mean([i + j for j in range(1 + i % 3)]) for i in range(6)]
    assert found.spreads[-1].mean == pytest.approx(pearson(means, range(6)))


def test_evaluators_without_weight_leave_the_sample_out_of_that_draw():
    scores, weights = np.arange(10.0).reshape(5, 2), np.tile([0.0, 1.0], (5, 1))
    y = {f"s{i:03}": float(i) for i in range(5)}
    one = evaluator_drift("m", parts_of(scores, weights), y).spreads[0]
    assert one.defined < one.total
    assert one.n < 5


def test_many_evaluators_are_tried_in_growing_steps_and_none_give_nothing():
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(20, 72))
    y = {f"s{i:03}": float(i) for i in range(20)}
    found = evaluator_drift("m", parts_of(scores, np.ones_like(scores)), y, draws=2)
    assert found.k[0] == 1
    assert found.k[-1] == 72
    assert len(found.k) <= 16
    assert evaluator_drift("m", parts_of(scores, scores), {"elsewhere": 1.0}).k == ()


def test_a_spread_counts_what_is_undefined():
    found = spread([0.5, math.nan, 0.7], [4, 6, 8])
    assert (found.defined, found.total, found.n) == (2, 3, 6)
    assert found.mean == pytest.approx(0.6)
    assert math.isnan(spread([0.5]).deviation)


def test_parts_are_read_by_metric_and_anything_else_is_refused(tmp_path):
    good = tmp_path / "parts.jsonl"
    rows = [{"metric": m, "id": "1", "part": "p", "score": 1.0, "weight": 1.0} for m in "ab"]
    good.write_text("".join(json.dumps(r) + "\n" for r in rows))
    assert sorted(load_parts(str(good))) == ["a", "b"]
    for text in ("", "no json", '{"id": "1"}\n'):
        bad = tmp_path / "bad.jsonl"
        bad.write_text(text)
        with pytest.raises(UserError, match="bad"):
            load_parts(str(bad))
    with pytest.raises(UserError, match="none"):
        load_parts(str(tmp_path / "none.jsonl"))
