"""Claims about systems like these: the jackknife against slow loops, its coverage and its level."""

import math

import numpy as np
import pytest
from scipy import stats

from levelfield.stats import two_way
from levelfield.stats.correlation import statistics
from levelfield.stats.grouped import r_within, ranked_within
from levelfield.stats.two_way import (
    Crossed,
    crossed_estimates,
    crossed_tests,
    deletions,
    spread_shift,
)

KINDS = ("pearson", "spearman", "kendall", "tau-like", "accuracy")


def data(seed, *, S=7, K=5, places=1, share=0.8):
    """Values, ratings, systems and sources of an incomplete table."""
    rng = np.random.default_rng(seed)
    system, source = np.repeat(np.arange(S), K), np.tile(np.arange(K), S)
    there = rng.random(S * K) < share
    system, source = system[there], source[there]
    x = np.round(rng.normal(size=system.size) + 0.2 * system, places)
    return x, np.round(x + rng.normal(size=x.size), 1), system, source


def slow_z(x, y, kind, groups):
    """atanh of the mean over groups, by a loop."""
    values = [statistics(x[groups == g], y[groups == g], (kind,))[kind] for g in np.unique(groups)]
    defined = [v for v in values if not math.isnan(v)]
    if not defined:
        return math.nan
    return np.mean(defined)


def bounded(v, kind, n):
    most = 1 - 1e-12 if kind in ("pearson", "spearman") else 1 - 2 / (n * (n - 1))
    return math.atanh(np.clip(2 * v - 1 if kind == "accuracy" else v, -most, most))


@pytest.mark.parametrize("by", ["all", "source", "system", "half"])
def test_statistics_without_a_unit_are_those_of_the_other_samples(by):
    x, y, system, source = data(1)
    n = x.size
    groups = {"all": np.zeros(n, int), "source": source, "system": system, "half": source % 2}[by]
    deleted = deletions(x, y, Crossed.of(system, source), KINDS, None if by == "all" else groups)
    for kind in KINDS:
        assert deleted[kind].value == pytest.approx(slow_z(x, y, kind, groups))
        for axis, without in (
            (system, deleted[kind].systems),
            (source, deleted[kind].sources),
            (system * 100 + source, deleted[kind].cells),
        ):
            units = np.unique(axis)
            few = units[:: max(1, units.size // 7)]
            loop = [
                bounded(slow_z(x[axis != u], y[axis != u], kind, groups[axis != u]), kind, n)
                for u in few
            ]
            np.testing.assert_allclose(without[np.isin(units, few)], loop, atol=1e-9)


def test_many_units_are_left_out_to_first_order_and_pairs_exactly(monkeypatch):
    x, y, system, source = data(2, S=6, K=30)
    crossed = Crossed.of(system, source)
    exact = deletions(x, y, crossed, KINDS)
    monkeypatch.setattr(two_way, "_EXACT", 6)
    first = deletions(x, y, crossed, KINDS)
    for kind in KINDS:
        tolerance = 1e-9 if kind != "spearman" else 1e-3
        np.testing.assert_allclose(first[kind].cells, exact[kind].cells, atol=tolerance)
        moved = np.std(first[kind].sources - exact[kind].sources)
        assert moved < 0.1 * np.std(exact[kind].sources)


def test_the_variance_is_that_of_systems_and_sources_less_that_of_cells():
    x, y, system, source = data(3)
    deleted = deletions(x, y, Crossed.of(system, source), ("pearson",))["pearson"]
    V, df = deleted.variance()
    parts = []
    for axis in (system, source, system * 100 + source):
        z = [np.arctanh(np.corrcoef(x[axis != u], y[axis != u])[0, 1]) for u in np.unique(axis)]
        parts.append((len(z) - 1) / len(z) * np.sum((np.array(z) - np.mean(z)) ** 2))
    V_systems, V_sources, V_cells = parts
    expected = max(V_systems + V_sources - V_cells, max(V_systems, V_sources) / 4)
    assert pytest.approx(expected) == V
    assert df == pytest.approx(max(V**2 / (V_systems**2 / 6 + V_sources**2 / 4), 4))


def test_samples_that_share_no_source_have_the_jackknife_over_systems():
    x, y, system, _ = data(4, S=8, K=6)
    deleted = deletions(x, y, Crossed.of(system, np.arange(x.size)), ("pearson",))["pearson"]
    z = [np.arctanh(np.corrcoef(x[system != s], y[system != s])[0, 1]) for s in range(8)]
    assert deleted.variance().value == pytest.approx(7 / 8 * np.sum((z - np.mean(z)) ** 2))


def test_the_spread_of_systems_moves_r_towards_that_of_their_means():
    rng = np.random.default_rng(5)
    system, source = np.repeat(np.arange(6), 50), np.tile(np.arange(50), 6)
    quality = np.repeat(rng.normal(size=6), 50)
    x, y = (quality + rng.normal(size=300) for _ in range(2))
    now, spread = spread_shift(x, y, Crossed.of(system, source))
    assert now == pytest.approx(np.corrcoef(x, y)[0, 1])
    means = np.array([[v[system == s].mean() for s in range(6)] for v in (x, y)])
    C = np.cov(np.repeat(means, 50, axis=1), ddof=0)
    larger = np.cov(x, y, ddof=0) + (6 / stats.chi2.ppf(0.025, 5) - 1) * C
    assert spread == pytest.approx(larger[0, 1] / math.sqrt(larger[0, 0] * larger[1, 1]))
    within = spread_shift(x, y, Crossed.of(system, source), system)
    assert within[0] == pytest.approx(within[1])


def drawn(rng, S, K, *, quality, bias):
    """Ratings and two metrics that agree equally well over the population; and their r."""
    u, v = quality * rng.normal(size=(S, 1)), 0.5 * rng.normal(size=(1, K))
    y = u + v + rng.normal(size=(S, K))
    a, b = (y + bias * rng.normal(size=(S, 1)) + rng.normal(size=(S, K)) for _ in range(2))
    variance_y = quality**2 + 1.25
    return y.ravel(), a.ravel(), b.ravel(), math.sqrt(variance_y / (variance_y + bias**2 + 1))


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("S", "K", "quality", "bias"), [(6, 60, 0.5, 0.3), (12, 100, 1.0, 0.3), (6, 100, 0.0, 0.3)]
)
def test_intervals_cover_and_tests_keep_their_level_for_systems_like_these(S, K, quality, bias):
    # resampling sources alone covers 35 to 80 % here, and calls 15 to 40 % different
    rng = np.random.default_rng(6)
    system, source = np.repeat(np.arange(S), K), np.tile(np.arange(K), S)
    inside, rejected = [], []
    for _ in range(200):
        y, a, b, r = drawn(rng, S, K, quality=quality, bias=bias)
        e = crossed_estimates(a, y, system, source, ("pearson",))["pearson"]
        inside.append(e.low <= r <= e.high)
        (test,) = crossed_tests([a, b], [(0, 1)], y, system, source)
        rejected.append(test.p <= 0.05)
    assert np.mean(inside) >= 0.95 - 2.5 * math.sqrt(0.05 * 0.95 / 200)
    assert np.mean(rejected) <= 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / 200)


def test_a_better_metric_is_shown_and_the_same_one_is_not():
    rng = np.random.default_rng(7)
    system, source = np.repeat(np.arange(8), 60), np.tile(np.arange(60), 8)
    y, a, _, _ = drawn(rng, 8, 60, quality=0.5, bias=0.1)
    noisy = a + 2 * rng.normal(size=a.size)
    better, same = crossed_tests([a, noisy, 3 * a + 1], [(0, 1), (0, 2)], y, system, source)
    assert better.p < 1e-3
    assert better.p_greater == pytest.approx(better.p / 2)
    assert better.difference > 0
    assert (same.p, same.difference) == (1.0, 0.0)
    (grouped,) = crossed_tests([a, noisy], [(0, 1)], y, system, source, source, ranks=True)
    assert grouped.p < 1e-3


def test_what_allows_no_claim_says_why():
    x, y, system, source = data(8, S=5)
    (test,) = crossed_tests([x, y + x], [(0, 1)], y, system, source)
    e = crossed_estimates(x, y, system, source, KINDS)
    reason = "5 systems, and a claim about systems like these needs 6"
    assert test.why_undefined == reason
    assert {v.why_no_interval for v in e.values()} == {reason}
    x, y, system, source = data(8, S=7)
    e = crossed_estimates(x, y, system, np.zeros(x.size), ("pearson",))["pearson"]
    assert e.why_no_interval == "one source"
    only = np.where(system == 0, y, 1.0)
    e = crossed_estimates(x, only, system, source, ("kendall",))["kendall"]
    assert e.why_no_interval == "undefined without one system"
    e = crossed_estimates(x, np.ones(x.size), system, source, ("kendall",))["kendall"]
    assert e.why_undefined == "constant rating"
    (test,) = crossed_tests([x, x + y], [(0, 1)], np.ones(x.size), system, source)
    assert test.why_undefined == "constant rating"


def test_the_order_of_samples_does_not_matter():
    x, y, system, source = data(9)
    order = np.random.default_rng(0).permutation(x.size)
    first = crossed_estimates(x, y, system, source, KINDS)
    second = crossed_estimates(x[order], y[order], system[order], source[order], KINDS)
    for kind in KINDS:
        assert first[kind].low == pytest.approx(second[kind].low)
        assert first[kind].high == pytest.approx(second[kind].high)
        assert first[kind].low <= first[kind].value <= first[kind].high


def test_a_metric_that_is_the_rating_has_no_interval():
    x, _, system, source = data(10, places=6)
    for e in crossed_estimates(x, x, system, source, ("pearson", "spearman")).values():
        assert e.value == pytest.approx(1)
        assert np.isnan([e.low, e.high]).all()
        assert e.why_no_interval


def test_ranks_and_r_within_groups_are_those_of_scipy():
    rng = np.random.default_rng(11)
    group = rng.integers(0, 6, 80)
    x, y = (np.round(rng.normal(size=80) + 1e8, 1) for _ in range(2))
    y[group == 2] = 3.0
    ranks, r = ranked_within(x, group), r_within(x, y, group, 6)
    for g in range(6):
        mine = group == g
        np.testing.assert_array_equal(ranks[mine], stats.rankdata(x[mine]))
        expected = math.nan if g == 2 else np.corrcoef(x[mine] - 1e8, y[mine] - 1e8)[0, 1]
        assert r[g] == pytest.approx(expected, abs=1e-7, nan_ok=True)
