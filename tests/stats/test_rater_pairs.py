"""All pairs of raters together against every pair by itself."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from levelfield.stats import rater_pairs as module
from levelfield.stats.correlation import estimates
from levelfield.stats.kappa import cohen_kappa
from levelfield.stats.rater_pairs import rater_pairs
from levelfield.stats.resampling import Resampling

FEW = Resampling(resamples=60, seed=3)
ITEMS, RATERS = 40, 5


def one_by_one(v, clusters, weights):
    """The pairs in turn; a correlation of constant ratings is told apart by its reason only."""
    for a, b in itertools.combinations(range(v.shape[1]), 2):
        common = ~np.isnan(v[:, [a, b]]).any(axis=1)
        if common.any():
            x, y, c = v[common, a], v[common, b], clusters[common]
            r = estimates(x, y, c, wanted=("pearson", "spearman"), resampling=FEW)
            kappa = cohen_kappa(x, y, weights=weights, clusters=c, resampling=FEW)
            yield a, b, x.size, (r["pearson"], r["spearman"], kappa)


def numbers(estimate):
    return estimate.value, estimate.low, estimate.high


def facts(estimate):
    undefined = estimate.why_undefined.startswith("constant") or estimate.why_undefined
    no_interval = estimate.why_no_interval.startswith("constant") or estimate.why_no_interval
    return estimate.n, estimate.clusters, undefined, no_interval, estimate.note


def check(v, clusters, weights):
    pairs = rater_pairs(v, weights=weights, clusters=clusters, resampling=FEW)
    expected = list(one_by_one(v, clusters, weights))
    assert [pair[:3] for pair in pairs] == [row[:3] for row in expected]
    for pair, (*_, reference) in zip(pairs, expected, strict=True):
        for estimate, plain in zip(pair[3:], reference, strict=True):
            assert facts(estimate) == facts(plain)
            assert numbers(estimate) == pytest.approx(numbers(plain), abs=1e-9, nan_ok=True)
    return pairs


def ratings(kind, share, seed=0):
    """Ratings of which a share is missing: on five points, or on a continuous scale."""
    rng = np.random.default_rng(seed)
    v = rng.normal(size=(ITEMS, 1)) + rng.normal(size=(ITEMS, RATERS))
    v = np.clip(np.round(v + 3), 1, 5) if kind == "points" else 50 + 10 * v
    v[rng.random(v.shape) < share] = np.nan
    return v


@pytest.fixture(params=["by default", "tables", "ranks"])
def path(request, monkeypatch):
    if request.param != "by default":
        most = 5 if request.param == "tables" else 0
        monkeypatch.setattr(module, "_prefer_tables", lambda _, values: values <= most)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("weights", ["none", "quadratic"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.85])
@pytest.mark.parametrize("kind", ["points", "continuous"])
def test_every_pair_has_the_numbers_that_it_has_alone(kind, share, weights):
    v = ratings(kind, share)
    check(v, np.arange(ITEMS), weights)
    check(v, np.array([f"source {i // 3}" for i in range(ITEMS)]), weights)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("weights", ["none", "quadratic"])
def test_raters_without_variance_have_the_same_reasons(weights):
    v = ratings("points", 0.0)
    v[:, 0] = v[:, 1] = 4
    v[3:, 2] = np.nan
    v[2:, 3] = np.nan
    v[1:, 4] = np.nan
    pairs = check(v, np.arange(ITEMS), weights)
    assert pairs[0].kappa.why_undefined == "all ratings are 4"
    check(v, np.zeros(ITEMS), weights)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("v", [1e-300, 1e-9, 1e9, 1e300])
def test_the_unit_of_the_scale_is_of_no_account(v):
    check(v * ratings("points", 0.2), np.arange(ITEMS), "quadratic")


@pytest.mark.usefixtures("path")
def test_a_large_mean_takes_no_digits():
    v = ratings("points", 0.2)
    moved = rater_pairs(v + 2**40, resampling=FEW)
    for pair, far in zip(rater_pairs(v, resampling=FEW), moved, strict=True):
        for estimate, there in zip(pair[3:], far[3:], strict=True):
            assert numbers(there) == pytest.approx(numbers(estimate), abs=1e-9)


def test_numbers_do_not_depend_on_how_many_are_held_at_a_time(monkeypatch):
    v = ratings("points", 0.3)
    whole = rater_pairs(v, resampling=FEW)
    ranked = rater_pairs(v + np.pi * np.arange(ITEMS)[:, None], resampling=FEW)
    for name, value in (("_HELD", 600), ("_SUMS", 3000), ("_MOST_PAIRS", 3), ("_EXACT", 0)):
        monkeypatch.setattr(module, name, value)
    small = rater_pairs(v, resampling=FEW)
    for pair, again in zip(whole, small, strict=True):
        for estimate, same in zip(pair[3:], again[3:], strict=True):
            assert numbers(same) == pytest.approx(numbers(estimate), abs=1e-12)
    again = rater_pairs(v + np.pi * np.arange(ITEMS)[:, None], resampling=FEW)
    assert [p[:3] for p in again] == [p[:3] for p in ranked]
    assert again[0].pearson.low == ranked[0].pearson.low
    assert repr(again[0].spearman) == repr(ranked[0].spearman)


def test_very_many_items_are_resampled_to_first_order(monkeypatch):
    monkeypatch.setattr(module, "first_order", lambda *_: True)
    check(ratings("points", 0.3), np.arange(ITEMS), "quadratic")


def test_raters_without_an_item_in_common_are_not_a_pair():
    v = np.full((6, 3), math.nan)
    v[:3, 0], v[3:, 1], v[:, 2] = (1, 2, 3), (3, 1, 2), (1, 2, 3, 1, 2, 3)
    assert [pair[:3] for pair in rater_pairs(v, resampling=FEW)] == [(0, 2, 3), (1, 2, 3)]
    assert rater_pairs(np.ones((3, 1))) == rater_pairs(np.full((3, 2), math.nan)) == []
