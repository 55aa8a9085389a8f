"""Which metric agrees better: Williams' test, swapping values, corrections, clusters."""

import itertools
import math
import time

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from levelfield.stats import dependent
from levelfield.stats.correlation import pearson
from levelfield.stats.dependent import swap_test, swap_tests, williams
from levelfield.stats.multiplicity import adjusted, bonferroni, rank_clusters
from levelfield.stats.system_difference import corrected_difference, swap_systems


def test_williams_of_an_example_worked_by_hand():
    # r_a = .5, r_b = .3, r_ab = .6, n = 23:
    # K = 1 − .25 − .09 − .36 + 2·.5·.3·.6 = .48
    # t = .2 √(22·1.6 / (2·.48·22/20 + .16·.064)) = .2 √(35.2 / 1.06624) = 1.149142
    test = williams(0.5, 0.3, 0.6, 23)
    assert test.t == pytest.approx(1.149142, abs=2e-6)
    assert test.p == pytest.approx(2 * scipy.stats.t.sf(1.149142, 20), abs=1e-6)
    assert test.p_greater == pytest.approx(test.p / 2)


@given(st.floats(-0.9, 0.9), st.floats(-0.9, 0.9), st.floats(-0.5, 0.5), st.integers(4, 500))
def test_williams_turns_its_sign_with_the_metrics(r_a, r_b, r_ab, n):
    there, back = williams(r_a, r_b, r_ab, n), williams(r_b, r_a, r_ab, n)
    assert there.t == pytest.approx(-back.t)
    assert there.p == pytest.approx(back.p)
    assert there.p_greater == pytest.approx(1 - back.p_greater)


def test_identical_metrics_are_never_called_different():
    rng = np.random.default_rng(0)
    a, y = rng.normal(size=80), rng.normal(size=80)
    for b in (a, 3 * a + 7):
        test = swap_test(a, b, y, np.arange(80), permutations=500)
        assert test.difference == 0
        assert test.p == 1
        assert williams(pearson(a, y), pearson(b, y), pearson(a, b), 80).p == 1
    groups = np.arange(80) % 5
    assert swap_test(a, a, y, np.arange(80), groups, permutations=100).p == 1
    assert swap_systems(a, a, y, np.arange(80) % 8, permutations=100).p == 1
    y, a = y + groups, a + groups
    assert corrected_difference(a, a, y, np.arange(80) // 5, groups).p == 1


def test_williams_needs_four_samples_and_defined_correlations():
    assert "4 or more" in williams(0.5, 0.2, 0.1, 3).why_undefined
    assert math.isnan(williams(math.nan, 0.2, 0.1, 30).p)
    assert williams(0.9, -0.9, -0.98, 50).p < 0.001


def slow_swap(a, b, y, clusters, permutations, seed):
    """Returns the p of the same swaps, with every correlation computed again."""
    a, b = (scipy.stats.zscore(v) for v in (a, b))
    names, code = np.unique(clusters, return_inverse=True)
    observed = pearson(a, y) - pearson(b, y)
    swaps = np.random.default_rng(seed).integers(
        0, 2, size=(permutations, names.size), dtype=np.uint8
    )
    extreme = greater = 0
    for row in swaps:
        swap = row[code] == 1
        d = pearson(np.where(swap, b, a), y) - pearson(np.where(swap, a, b), y)
        extreme += abs(d) >= abs(observed) - 1e-9
        greater += d >= observed - 1e-9
    return (extreme + 1) / (permutations + 1), (greater + 1) / (permutations + 1)


@pytest.mark.parametrize("seed", range(3))
def test_swaps_equal_the_slow_loop(seed):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=40)
    a, b = y + rng.normal(size=40), y + 2 * rng.normal(size=40)
    clusters = rng.integers(0, 15, 40)
    test = swap_test(a, b, y, clusters, permutations=200, seed=seed)
    assert (test.p, test.p_greater) == slow_swap(a, b, y, clusters, 200, seed)
    assert test.difference == pytest.approx(pearson(a, y) - pearson(b, y))
    assert test.clusters == np.unique(clusters).size


def test_few_clusters_are_swapped_in_every_way():
    rng = np.random.default_rng(8)
    y = rng.normal(size=12)
    a, b = y + rng.normal(size=12), y + 2 * rng.normal(size=12)
    clusters = np.arange(12) // 2
    test = swap_test(a, b, y, clusters, permutations=64)
    a, b = (scipy.stats.zscore(v) for v in (a, b))
    differences = []
    for swaps in itertools.product((False, True), repeat=6):
        swap = np.array(swaps)[clusters]
        differences.append(pearson(np.where(swap, b, a), y) - pearson(np.where(swap, a, b), y))
    assert test.p == np.mean(np.abs(differences) >= abs(differences[0]) - 1e-9)
    assert test.p_greater == np.mean(np.array(differences) >= differences[0] - 1e-9)
    assert swap_test(a, b, y, clusters, permutations=64, seed=5).p == test.p


@pytest.mark.parametrize("clusters", [18, 40])
def test_a_p_below_one_permutation_is_estimated(clusters):
    rng = np.random.default_rng(1)
    y = rng.normal(size=clusters)
    a, b = y + 1e-3 * rng.normal(size=clusters), rng.normal(size=clusters)
    test = swap_test(a, b, y, np.arange(clusters))
    assert 2.0 ** (1 - clusters) <= test.p < 5e-5


def test_swaps_do_not_depend_on_order_or_on_scale():
    rng = np.random.default_rng(4)
    a, b, y = rng.normal(size=(3, 50))
    clusters, order = np.arange(50) // 2, rng.permutation(50)
    first = swap_test(a, b, y, clusters, permutations=300)
    second = swap_test(9 * a[order] - 3, b[order], y[order], clusters[order], permutations=300)
    assert second.p == first.p
    mirrored = swap_test(b, a, y, clusters, permutations=300)
    assert mirrored.p == first.p
    assert mirrored.difference == pytest.approx(-first.difference)


def test_a_clear_difference_is_found_by_samples_groups_systems_and_ranks():
    rng = np.random.default_rng(5)
    source, system = np.repeat(np.arange(40), 6), np.tile(np.arange(6), 40)
    y = system + rng.normal(size=240)
    a, b = y + 0.3 * rng.normal(size=240), rng.normal(size=240)
    for more in ({}, {"groups": source}, {"groups": system}, {"ranks": True}):
        assert swap_test(a, b, y, source, permutations=500, **more).p < 0.01
    assert swap_systems(a, b, y, system).difference > 0.1
    corrected = corrected_difference(a, b, y, source, system)
    assert "true means of the metric B can't be told apart" in corrected.why_undefined


def test_groups_in_which_something_is_constant_are_left_out():
    y = np.array([1.0, 2, 3, 5, 5, 5])
    a, b = np.array([1.0, 2, 4, 1, 2, 3]), np.array([2.0, 1, 3, 1, 2, 3])
    test = swap_test(a, b, y, np.arange(6), [0, 0, 0, 1, 1, 1], permutations=50)
    assert test.groups == 1
    assert test.difference == pytest.approx(pearson(a[:3], y[:3]) - pearson(b[:3], y[:3]))


@pytest.mark.parametrize(
    ("a", "y", "reason"),
    [
        ([], [], "no samples"),
        ([1], [1], "one sample"),
        ([1, 2, 3], [4, 4, 4], "constant rating"),
        ([2, 2, 2], [1, 2, 3], "constant metric"),
    ],
)
def test_what_can_not_be_compared_says_why(a, y, reason):
    test = swap_test(a, np.arange(len(a)), y, np.arange(len(a)))
    assert math.isnan(test.p)
    assert test.why_undefined == reason


def test_under_the_null_the_permutation_test_keeps_its_level():
    # 1,000 data sets in which two metrics are equally noisy; 5 % ± 2.5 standard errors
    rng = np.random.default_rng(11)
    p = []
    for _ in range(1000):
        y = rng.normal(size=24)
        shared = rng.normal(size=24)
        a, b = (y + shared + rng.normal(size=24) for _ in range(2))
        p.append(swap_test(a, b, y, np.arange(24) // 2, permutations=199, seed=1).p)
    rejected = np.mean(np.array(p) <= 0.05)
    assert 0.033 <= rejected <= 0.067


@pytest.mark.slow
def test_under_the_null_williams_keeps_its_level_roughly():
    rng = np.random.default_rng(12)
    rejected = 0
    for _ in range(1000):
        y, shared = rng.normal(size=(2, 40))
        a, b = (y + shared + rng.normal(size=40) for _ in range(2))
        rejected += williams(pearson(a, y), pearson(b, y), pearson(a, b), 40).p <= 0.05
    assert 0.03 <= rejected / 1000 <= 0.08


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_bonferroni_is_never_below_holm(p):
    assert np.all(bonferroni(p) >= adjusted(p, "holm") - 1e-15)
    assert np.all(adjusted(p, "holm") >= np.array(p) - 1e-15)


def test_undefined_p_values_are_not_comparisons():
    assert bonferroni([0.01, math.nan, 0.5]).tolist()[0] == pytest.approx(0.02)
    assert math.isnan(bonferroni([0.01, math.nan])[1])


@given(st.integers(0, 6), st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5))))
def test_metrics_of_two_clusters_always_differ(n, shown):
    names = list(map(str, range(n)))
    ranks = rank_clusters(names, lambda a, b: (int(a), int(b)) in shown)
    assert [m for cluster in ranks for m in cluster] == names
    for above, below in itertools.combinations(ranks, 2):
        assert all((int(a), int(b)) in shown for a in above for b in below)
    for cluster in ranks:  # no cluster could be split further
        for cut in range(1, len(cluster)):
            later = [*cluster[cut:], *names[names.index(cluster[-1]) + 1 :]]
            assert not all((int(a), int(b)) in shown for a in cluster[:cut] for b in later)


def test_pairs_that_share_swaps_are_tested_as_each_is_alone():
    rng = np.random.default_rng(11)
    y = np.round(rng.normal(size=80))
    metrics = [y * share + rng.normal(size=80) for share in (0.0, 0.2, 0.9)] + [np.ones(80)]
    clusters, groups = rng.integers(40, size=80), rng.integers(2, size=80)
    pairs = [(0, 1), (2, 0), (1, 2), (2, 3)]
    together = swap_tests(metrics, pairs, y, clusters, groups, permutations=300)
    for (a, b), tested in zip(pairs, together, strict=True):
        alone = swap_test(metrics[a], metrics[b], y, clusters, groups, permutations=300)
        assert repr(tested) == repr(alone)
    assert together[3].groups == 0


def test_clusters_are_swapped_once_for_all_pairs(monkeypatch):
    drawn = []
    swaps = dependent._swaps
    monkeypatch.setattr(
        dependent, "_swaps", lambda *args, **how: drawn.append(args) or swaps(*args, **how)
    )
    rng = np.random.default_rng(12)
    metrics = rng.normal(size=(4, 30))
    swap_tests(metrics, [(0, 1), (0, 2), (1, 3)], rng.normal(size=30), range(30), permutations=99)
    assert len(drawn) == 1


@pytest.mark.parametrize("ranks", [False, True])
def test_groups_that_are_clusters_turn_the_sign_of_their_difference(ranks):
    rng = np.random.default_rng(14)
    group = np.repeat(np.arange(10), 5)
    y = np.round(rng.normal(size=50), 1)
    a, b = y + rng.normal(size=50), y + 2 * rng.normal(size=50)
    y[group == 3] = 2.0
    (flipped,) = swap_tests([a, b], [(0, 1)], y, group, group, ranks=ranks)
    correlation = scipy.stats.spearmanr if ranks else scipy.stats.pearsonr
    d = [
        correlation(a[mine], y[mine])[0] - correlation(b[mine], y[mine])[0]
        for mine in (group == g for g in range(10) if g != 3)
    ]
    signs = np.array(list(itertools.product((1, -1), repeat=9)))
    reached = np.abs(signs @ d) >= abs(np.sum(d)) - 1e-9
    assert flipped.p == pytest.approx(reached.mean())
    assert flipped.difference == pytest.approx(np.mean(d))
    assert flipped.groups == 9
    # two groups in a cluster turn together
    pair = group // 2
    (together,) = swap_tests([a, b], [(0, 1)], y, pair, group, ranks=ranks)
    d = np.insert(d, 3, 0.0).reshape(5, 2).sum(axis=1)
    signs = np.array(list(itertools.product((1, -1), repeat=5)))
    reached = np.abs(signs @ d) >= abs(np.sum(d)) - 1e-9
    assert together.p == pytest.approx(reached.mean())


def test_a_thousand_sources_are_compared_in_a_second():
    rng = np.random.default_rng(15)
    source = np.repeat(np.arange(1000), 4)
    y = rng.normal(size=4000)
    metrics = [y + noise * rng.normal(size=4000) for noise in (1, 1, 3)]
    start = time.process_time()
    equal, clear = swap_tests(metrics, [(0, 1), (0, 2)], y, source, source)
    assert time.process_time() - start < 2
    assert equal.p > 0.01
    assert clear.p < 1e-20


def test_sums_of_swaps_in_many_groups_are_bounded(monkeypatch):
    rng = np.random.default_rng(13)
    metrics, groups = rng.normal(size=(2, 400)), np.arange(400) // 4
    args = metrics, [(0, 1)], rng.normal(size=400), np.arange(400) // 2, groups
    whole = swap_tests(*args, permutations=500)
    rows = []
    monkeypatch.setattr(dependent, "_MOST_HELD", 6 * 2 * 100 * 50)
    monkeypatch.setattr(dependent, "_CHUNK", 200 * 25)
    bits_times = dependent.bits_times
    monkeypatch.setattr(
        dependent, "bits_times", lambda bits, X: rows.append(len(bits)) or bits_times(bits, X)
    )
    swap_tests(*args, permutations=500)
    assert max(rows) == 50
    assert whole[0].p > 0


@pytest.mark.parametrize("r", [0.0, 0.6])
def test_the_error_of_a_difference_is_how_far_differences_vary(r: float):
    rng = np.random.default_rng(11)
    C = np.array([[1, r, r], [r, 1, 0.7], [r, 0.7, 1]])
    L = np.linalg.cholesky(C)
    differences = []
    for _ in range(250):
        y, a, b = L @ rng.normal(size=(3, 60))
        differences.append(swap_test(a, b, y, np.arange(60), permutations=100))
    assert np.mean([s.se for s in differences]) == pytest.approx(
        np.std([s.difference for s in differences]), rel=0.12
    )


def test_the_error_of_a_difference_is_that_of_all_swaps_without_the_difference():
    rng = np.random.default_rng(12)
    y, a = rng.normal(size=8), rng.normal(size=8)
    b = y + a
    z = [(v - v.mean()) / v.std() for v in (a, b)]
    differences = []
    for swap in itertools.product([False, True], repeat=8):
        first, second = np.where(swap, z[1], z[0]), np.where(swap, z[0], z[1])
        differences.append(pearson(first, y) - pearson(second, y))
    noise = np.mean(np.square(differences)) - differences[0] ** 2 / 8
    test = swap_test(a, b, y, np.arange(8), permutations=1000)
    assert test.se == pytest.approx(math.sqrt(8 / 7 * noise))
    assert math.isnan(swap_test(a, b, y, np.zeros(8)).se)


def test_the_error_of_a_difference_of_systems_is_in_units_of_r():
    rng = np.random.default_rng(13)
    L = np.linalg.cholesky(np.array([[1, 0.8, 0.8], [0.8, 1, 0.7], [0.8, 0.7, 1]]))
    differences = []
    for _ in range(200):
        y, a, b = L @ rng.normal(size=(3, 30))
        differences.append(swap_systems(a, b, y, np.arange(30), permutations=100))
    assert np.mean([s.se for s in differences]) == pytest.approx(
        np.std([s.difference for s in differences]), rel=0.15
    )
