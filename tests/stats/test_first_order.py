"""Resamples of first order against resamples that are computed exactly."""

import numpy as np
import pytest

from levelfield.stats import correlation, first_order
from levelfield.stats.correlation import estimates, mean_over_groups, shared_estimates
from levelfield.stats.first_order import FirstOrder
from levelfield.stats.measures import CORRELATIONS
from levelfield.stats.resampling import Resampling
from levelfield.stats.reweighted import Reweighted

PLAIN = (*CORRELATIONS, "accuracy")
FEW = Resampling(resamples=300, seed=2)


def rated(n, K, seed=0):
    """Values, ratings with ties, and clusters of unequal sizes with effects of their own."""
    rng = np.random.default_rng(seed)
    code = np.sort(np.r_[np.arange(K), rng.integers(K, size=n - K)])
    x = rng.normal(size=n) + rng.normal(size=K)[code]
    y = np.clip(np.round(0.6 * x + rng.normal(size=n) + 3), 1, 5)
    return np.where(rng.random(n) < 0.2, np.round(x), x), y, code


@pytest.mark.parametrize("swapped", [False, True])
def test_without_resampling_values_are_exact(swapped):
    x, y, code = rated(90, 30)
    x, y = (y, x) if swapped else (x, y)
    once = np.ones((1, 30))
    values = FirstOrder(x, y, code, PLAIN).values(once, PLAIN)
    exact = Reweighted(x, y, code).values(once, PLAIN)
    for s in PLAIN:
        assert values[s] == pytest.approx(exact[s], rel=1e-12)


@pytest.mark.parametrize("swapped", [False, True])
def test_slopes_are_those_of_exact_resamples(swapped):
    x, y, code = rated(90, 30, seed=1)
    x, y = (y, x) if swapped else (x, y)
    expanded, exact = FirstOrder(x, y, code, PLAIN), Reweighted(x, y, code)
    step = 1e-4
    for k in range(30):
        up, down = np.ones((1, 30)), np.ones((1, 30))
        up[0, k] += step
        down[0, k] -= step
        for s in ("pearson", "spearman"):
            slopes = [
                (w.values(up, (s,))[s][0] - w.values(down, (s,))[s][0]) / (2 * step)
                for w in (expanded, exact)
            ]
            assert slopes[0] == pytest.approx(slopes[1], abs=1e-7)


@pytest.mark.parametrize("swapped", [False, True])
def test_each_sample_is_counted_in_the_pairs_that_it_is_part_of(swapped):
    x, y, code = rated(60, 60, seed=2)
    x, y = (y, x) if swapped else (x, y)
    dx, dy = np.sign(x[:, None] - x), np.sign(y[:, None] - y)
    other = ~np.eye(60, dtype=bool)
    kinds = [
        dx * dy > 0, dx * dy < 0, (dx == 0) & (dy != 0), (dx != 0) & (dy == 0),
        (dx == 0) & (dy == 0) & other,
    ]  # fmt: skip
    counts = np.stack([kind.sum(axis=1) for kind in kinds], axis=1)
    assert np.array_equal(FirstOrder(x, y, code, ("kendall",)).gradients[:, 6:], counts)


def test_intervals_are_near_those_of_exact_resamples(monkeypatch):
    x, y, code = rated(4000, 1500, seed=3)
    exact = estimates(x, y, code, resampling=FEW)
    monkeypatch.setattr(first_order, "MOST_EXACT", 3999)
    monkeypatch.setattr(first_order, "FEWEST_CLUSTERS", 1500)
    expanded = estimates(x, y, code, resampling=FEW)
    for s in PLAIN:
        width = exact[s].high - exact[s].low
        assert expanded[s].value == exact[s].value
        error = 1e-12 if s == "pearson" else 0.05 * width
        assert expanded[s].low == pytest.approx(exact[s].low, abs=error)
        assert expanded[s].high == pytest.approx(exact[s].high, abs=error)
        assert (first_order.NOTE in expanded[s].note) == (s != "pearson")
        assert first_order.NOTE not in exact[s].note
    assert expanded["calibrated"] == exact["calibrated"]


@pytest.mark.parametrize(("most", "fewest"), [(4000, 10), (3999, 1501)])
def test_few_samples_or_few_clusters_have_exact_resamples(monkeypatch, most, fewest):
    x, y, code = rated(4000, 1500, seed=3)
    exact = estimates(x, y, code, wanted=("kendall",), resampling=Resampling(resamples=5))
    monkeypatch.setattr(first_order, "MOST_EXACT", most)
    monkeypatch.setattr(first_order, "FEWEST_CLUSTERS", fewest)
    again = estimates(x, y, code, wanted=("kendall",), resampling=Resampling(resamples=5))
    assert again == exact


def test_metrics_on_the_same_samples_share_draws(monkeypatch):
    monkeypatch.setattr(first_order, "MOST_EXACT", 100)
    monkeypatch.setattr(first_order, "FEWEST_CLUSTERS", 50)
    x, y, code = rated(300, 80, seed=4)
    pairs = [(x, y), (y, x), (x + y, y), (-x, x * y)]
    alone = [estimates(*pair, code, resampling=FEW) for pair in pairs]
    drawn = []
    draws = correlation.shared_draws
    monkeypatch.setattr(
        correlation, "shared_draws", lambda *args: drawn.append(args) or draws(*args)
    )
    together = shared_estimates(pairs, code, resampling=FEW)
    assert len(drawn) == 1
    for expected, other in zip(alone, together, strict=True):
        for s, e in expected.items():
            assert (other[s].value, other[s].low) == pytest.approx((e.value, e.low), rel=1e-9)
            assert other[s].high == pytest.approx(e.high, rel=1e-9)


def test_means_over_groups_are_near_the_exact_ones(monkeypatch):
    x, y, code = rated(3000, 600, seed=5)
    groups = np.random.default_rng(6).integers(2, size=3000)
    exact = mean_over_groups(x, y, code, groups, kinds=("kendall", "pearson"), resampling=FEW)
    monkeypatch.setattr(first_order, "MOST_EXACT", 1000)
    monkeypatch.setattr(first_order, "FEWEST_CLUSTERS", 100)
    expanded = mean_over_groups(x, y, code, groups, kinds=("kendall", "pearson"), resampling=FEW)
    assert expanded["pearson"] == pytest.approx(exact["pearson"], rel=1e-9)
    errors = np.abs(expanded["kendall"] - exact["kendall"])
    assert 0 < errors.max() < 0.5 * exact["kendall"].std()
