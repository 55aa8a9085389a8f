"""Draws that many columns share are the draws that each would have alone."""

import dataclasses
import math

import numpy as np
import pytest

from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.scoring import comparison
from levelfield.scoring.run_table import RunTable
from levelfield.scoring.summary import summarise
from levelfield.stats import clusters, sign_flip
from levelfield.stats.clusters import bits_times, coded, held_together, shared_draws
from levelfield.stats.resampling import Resampling
from levelfield.stats.tilting import saddlepoint_p, small_p_of_sum, tilted_p

FEW = Resampling(resamples=50, permutations=400, seed=4)


@pytest.fixture
def sharing(monkeypatch):
    """Every number of clusters is many."""
    for module in (sign_flip, comparison):
        monkeypatch.setattr(module, "MANY", 1)
    monkeypatch.setattr(clusters, "_HELD", 200)
    monkeypatch.setattr(clusters, "BLOCK", 7)


def numbers(estimate):
    return estimate.value, estimate.low, estimate.high, estimate.n, estimate.clusters


@pytest.mark.usefixtures("sharing")
def test_many_tests_by_sign_flips_are_those_of_each_alone(monkeypatch):
    rng = np.random.default_rng(1)
    S = rng.normal(size=(60, 5)) + 0.2 * np.arange(5)
    W = np.ones((60, 5))
    W[:30, 3] = 2.0
    together = sign_flip.sign_flips(S, W, resampling=FEW)
    monkeypatch.setattr(sign_flip, "MANY", 1000)
    for j in range(5):
        alone = sign_flip.sign_flips(S[:, [j]], W[:, [j]], resampling=FEW)
        for name in ("p", "low", "high", "least"):
            assert getattr(together, name)[j] == pytest.approx(getattr(alone, name)[0], rel=1e-12)


def exact_p(a: np.ndarray) -> float:
    """Two-sided p of |Σ a_k g_k| for whole a_k."""
    sizes = np.abs(a).astype(int)
    chances = np.array([1.0])  # of sums from −Σ |a_k| on
    for size in sizes:
        step = np.zeros(2 * size + 1)
        step[[0, -1]] = 0.5
        chances = np.convolve(chances, step)
    return 2 * float(chances[int(a.sum()) + sizes.sum() :].sum())


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("more", [2.6, 5, 8])
def test_p_of_a_sum_on_a_grid_is_that_of_all_patterns(most, more):
    a = np.random.default_rng(4).integers(1, most, size=2500, endpoint=True).astype(float)
    square = float(np.sqrt((a * a).sum()))
    minus = np.cumsum(a) < (a.sum() - more * square) / 2
    a[minus] *= -1
    assert saddlepoint_p(a) == pytest.approx(exact_p(a), rel=0.02)


def clear_sum(kind, rng, K):
    """Whole coefficients whose sum is 2.8 to 7 of its deviations."""
    while True:
        minus = rng.random(K) < rng.uniform(0.0, 0.4)
        sizes = {
            "0 or 1": np.ones(K),
            "1 to 3": rng.integers(1, 4, size=K),
            "normal": np.rint(300 * np.abs(rng.normal(1, 0.4, size=K))) + 1,
        }[kind]
        a = np.where(minus, -1.0, 1.0) * sizes
        if 2.8 <= a.sum() / math.sqrt((a * a).sum()) <= 7:
            return a


@pytest.mark.thinned
@pytest.mark.parametrize("K", [20, 40, 65, 120])
@pytest.mark.parametrize("kind", ["0 or 1", "1 to 3", "normal"])
def test_a_small_p_of_a_sum_is_that_of_all_patterns_or_a_little_more(kind, K):
    rng = np.random.default_rng(0)
    for _ in range(10):
        a = clear_sum(kind, rng, K)
        p = small_p_of_sum(a, 1e-10, seed=0)
        exact = exact_p(a)
        assert 0.97 * exact <= max(p, 2.0 ** (1 - K)) <= 1.3 * exact
        assert p == small_p_of_sum(-a, 1e-10, seed=0)


def test_a_drawn_p_is_that_of_all_patterns_where_few_coefficients_dominate():
    a = np.array([40, 35, 30, 20, 15, 12, 9, 7, 6, 5, 4, 3, 2, -1, 1, 1], float)
    assert saddlepoint_p(a) is None
    assert small_p_of_sum(a, 1e-10, seed=0) == pytest.approx(exact_p(a), rel=0.15)


def test_p_of_a_sum_with_a_dominant_coefficient_is_that_of_the_others():
    even = np.random.default_rng(4).normal(size=2000) + 0.1
    assert saddlepoint_p(np.append(even, even.sum())) == pytest.approx(
        saddlepoint_p(even) / 2, 0.01
    )


def test_p_of_a_sum_of_few_large_coefficients_is_drawn():
    even = np.random.default_rng(4).normal(size=2000) + 0.1
    uneven = np.append(0.001 * even, np.repeat([1.0, -1.0], [11, 1]))
    assert saddlepoint_p(uneven) is None
    drawn = small_p_of_sum(uneven, 1e-10, seed=3)
    assert drawn == pytest.approx(2 * 0.5**12, rel=0.2)  # the small ones hardly ever reach theirs


def test_an_approximate_p_is_never_0():
    least = np.finfo(np.float64).tiny
    assert saddlepoint_p(np.random.default_rng(4).normal(size=20_000) + 1) == least
    assert saddlepoint_p(np.ones(20_000)) == least
    assert saddlepoint_p(np.append(np.ones(20_000), 1e-9)) is None


def test_a_tilt_is_found_where_the_aim_is_the_whole_sum_but_for_rounding():
    rng = np.random.default_rng(0)
    draws = (np.append(rng.random(1000), 1e-30) for _ in range(1000))
    a = next(a for a in draws if a @ np.ones(a.size) < a.sum())
    assert tilted_p(lambda plus: plus.all(axis=1), a, float(a.sum()), seed=0) is not None


def test_shared_draws_count_how_often_each_cluster_is_drawn(monkeypatch):
    monkeypatch.setattr(clusters, "_HELD", 100)
    rng = np.random.default_rng(5)
    expected = [np.bincount(rng.integers(30, size=30), minlength=30) for _ in range(8)]
    assert np.array_equal(np.concatenate(list(shared_draws(30, 8, 5))), expected)


@pytest.mark.usefixtures("sharing")
def test_bits_are_multiplied_in_blocks_and_rows_put_together():
    rng = np.random.default_rng(6)
    bits = rng.integers(2, size=(40, 50), dtype=np.uint8)
    X = rng.normal(size=(50, 3))
    chunks = list(held_together(iter(np.split(bits, 20)), 100))
    assert [len(chunk) for chunk in held_together(iter(np.split(bits, 20)), 6)][:2] == [6, 6]
    assert 1 < len(chunks) < 20
    assert max(map(np.size, chunks)) <= 800
    products = np.concatenate([bits_times(chunk, X) for chunk in chunks])
    assert products == pytest.approx(bits @ X, rel=1e-12)


def test_codes_are_coded_as_names_are():
    rng = np.random.default_rng(7)
    codes = rng.integers(30_000, size=20_000)
    K, code = coded(codes)
    names, expected = np.unique(codes, return_inverse=True)
    assert names.size == K
    assert np.array_equal(code, expected)


def test_a_summary_is_the_same_whether_metrics_share_draws(monkeypatch):
    rng = np.random.default_rng(8)
    prompts, systems = 30, 3
    tally = RunTable()
    ids = [f"{p}/{s}" for p in range(prompts) for s in range(systems)]
    for i, id in enumerate(ids):
        system = f"s{i % systems}"
        sample = Sample(id=id, text="x", prompt=f"p{i // systems // 2}", system=system)
        tally.add([sample], [system])
    for m in range(4):
        v = rng.normal(size=len(ids)) + 0.3 * (np.arange(len(ids)) % systems)
        v[rng.random(v.size) < 0.05 * m] = np.nan
        undefined = {ids[i]: "empty text" for i in np.flatnonzero(np.isnan(v))}
        tally.add_scores(Scores(f"m{m}", tuple(ids), v, undefined, f"m{m}|v:1", True))
    alone = summarise(tally, resampling=FEW)
    for module in (sign_flip, comparison):
        monkeypatch.setattr(module, "MANY", 1)
    for expected, other in zip(alone, summarise(tally, resampling=FEW), strict=True):
        rows = zip(
            (expected.overall, *expected.groups), (other.overall, *other.groups), strict=True
        )
        for a, b in rows:
            assert numbers(a.mean) == pytest.approx(numbers(b.mean))
        for a, b in zip(expected.comparisons, other.comparisons, strict=True):
            assert (a.p, a.low, a.high) == pytest.approx((b.p, b.low, b.high))
            assert (a.note, a.bounds is None) == (b.note, b.bounds is None)
            if a.bounds and b.bounds:
                (*bounds, line), (*other_bounds, _) = map(dataclasses.astuple, (a.bounds, b.bounds))
                assert line is not None
                assert bounds == pytest.approx(other_bounds)
