"""The sign-flip test against enumeration, and its interval against its own p."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest
import scipy.stats
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flips import clustered, flips, p_of
from levelfield.stats.resampling import Resampling
from levelfield.stats.sign_flip import sign_flips

NAN = float("nan")


def enumerated_p(differences, clusters, delta=0.0):
    differences = np.asarray(differences) - delta
    names = sorted(set(clusters.tolist()))
    observed = abs(np.mean(differences))
    reached = 0
    for signs in itertools.product((1, -1), repeat=len(names)):
        sign_of = dict(zip(names, signs, strict=True))
        flipped = [d * sign_of[c] for d, c in zip(differences, clusters.tolist(), strict=True)]
        reached += abs(np.mean(flipped)) >= observed - 1e-9 * max(1.0, observed)
    return reached / 2 ** len(names)


@given(clustered())
def test_few_clusters_are_enumerated_exactly(data):
    differences, clusters = data
    assert p_of(differences, clusters) == pytest.approx(enumerated_p(differences, clusters))


def test_single_clusters_agree_with_scipy_permutation_test():
    differences = np.random.default_rng(2).normal(0.4, 1, size=40)
    reference = scipy.stats.permutation_test(
        (differences,),
        lambda d: abs(d.mean()),
        permutation_type="samples",
        n_resamples=20_000,
        alternative="greater",
        rng=np.random.default_rng(3),
    ).pvalue
    assert p_of(differences, permutations=20_000) == pytest.approx(reference, abs=0.006)


def test_random_flips_agree_with_enumeration():
    rng = np.random.default_rng(8)
    differences, clusters = rng.normal(0.3, 1, size=36), np.repeat(np.arange(12), 3)
    exact = p_of(differences, clusters, permutations=2**12)
    assert exact == pytest.approx(enumerated_p(differences, clusters))
    drawn = p_of(differences, clusters, permutations=2**12 - 1)
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 2**12))


def distribution(sums):
    """Sum -> its probability under random signs, for whole numbers."""
    probabilities = {0.0: 1.0}
    for s in sums:
        moved = {}
        for total, p in probabilities.items():
            for sign in (1, -1):
                moved[total + sign * s] = moved.get(total + sign * s, 0.0) + p / 2
        probabilities = moved
    return probabilities


@pytest.mark.parametrize("shift", [1.0, 1.5, 3.0])
def test_a_p_far_below_one_permutation_is_within_a_few_percent(shift):
    sums = np.round(4 * np.random.default_rng(0).normal(shift, 1, 40))
    reached = abs(sums.sum())
    exact = sum(p for total, p in distribution(sums).items() if abs(total) >= reached)
    assert exact < 1e-4
    assert exact <= p_of(sums) <= 1.25 * exact


@pytest.mark.slow
def test_one_huge_cluster_does_not_make_p_too_small():
    rng = np.random.default_rng(3)
    d = np.r_[1e5, rng.normal(size=60)]
    d[1:] += 0.47 - d[1:].mean()
    # the huge one decides the sign, so the others have to reach their own sum on one side
    signs = rng.integers(0, 2, (400_000, 60)) * 2.0 - 1
    expected = float(np.mean(signs @ d[1:] >= d[1:].sum()))
    assert expected < 0.003
    assert p_of(d) == pytest.approx(expected, rel=0.3)


def test_few_active_clusters_among_many_take_little_memory():
    d = np.zeros(20_000)
    d[:13] = np.arange(1.0, 14)
    tracemalloc.start()
    assert p_of(d, permutations=10_000) == 2 / 2**13
    assert tracemalloc.get_traced_memory()[1] < 300e6
    tracemalloc.stop()


def test_ties_of_shares_count_in_a_small_p():
    differences = np.r_[np.ones(30), -np.ones(3), np.zeros(67)]
    exact = 2 * scipy.stats.binom.cdf(3, 33, 0.5)
    assert exact <= p_of(differences) <= 1.25 * exact


def test_no_p_is_below_the_least_of_its_number_of_clusters():
    assert p_of(np.ones(50)) == pytest.approx(2.0**-49, rel=0.01)
    assert p_of(np.ones(50)) >= 2.0**-49


@settings(max_examples=30, deadline=None)
@given(clustered(), st.sampled_from([64, 500]))
def test_p_is_the_same_for_a_minus_b_and_b_minus_a(data, permutations):
    differences, clusters = data
    p = p_of(differences, clusters, permutations=permutations)
    assert p == p_of(-differences, clusters, permutations=permutations)
    assert 0 < p <= 1


@pytest.mark.parametrize("n", [1, 5, 200])
def test_equal_systems_have_p_one(n):
    assert p_of(np.zeros(n)) == 1


def test_differences_that_cancel_in_every_cluster_have_p_one():
    assert p_of([0.1, 0.2, -0.3, 5.0, -5.0], [0, 0, 0, 1, 1]) == 1


def test_rounding_does_not_break_ties():
    # 0.1 + 0.2 and 0.3 differ in the last bit; all sign patterns but two lie below
    assert p_of([0.1, 0.2, 0.3]) == 2 / 8
    assert p_of([0.1, 0.2, -0.3, 1e-17]) == 1


def test_undefined_differences_are_left_out():
    assert p_of([1.0, NAN, 2.0], [0, 1, 2]) == p_of([1, 2], [0, 2])
    assert math.isnan(p_of([NAN]))


def test_the_test_keeps_its_level():
    rng = np.random.default_rng(13)
    d = rng.standard_t(3, size=(15, 1000)) * 3 + rng.normal(size=(3, 15, 1000)).sum(axis=0)
    tests = sign_flips(d, np.full(d.shape, 3.0), resampling=Resampling(permutations=1999))
    rejected = (tests.p <= 0.05).mean()
    assert rejected == pytest.approx(0.05, abs=3 * math.sqrt(0.05 * 0.95 / 1000))


@given(st.integers(1, 9))
def test_the_smallest_p_is_reached_when_all_clusters_agree(k):
    tests = flips(np.arange(1.0, k + 1))
    assert tests.p == tests.least == 2 / 2**k


# -- the interval


@example(([0.0, 2.0, 2.0, -1.0, 2.0], [3, 0, 1, 2, 4]), 0.8, 0, 8)  # no pattern of 8 reaches it
@given(clustered(), st.sampled_from([0.5, 0.8, 0.95]), st.integers(0, 3), st.sampled_from([8, 300]))
def test_the_interval_excludes_zero_exactly_where_the_test_rejects(data, level, seed, permutations):
    tests = flips(*data, level=level, seed=seed, permutations=permutations)
    rejected = bool(tests.p[0] <= 1 - level + 1e-12)
    assert rejected == bool(tests.low[0] > 0 or tests.high[0] < 0)


@settings(max_examples=30, deadline=None)
@given(clustered(most=8))
def test_the_interval_holds_what_the_test_does_not_reject(data):
    differences, clusters = data
    tests = flips(differences, clusters, level=0.8)
    low, high = tests.low[0], tests.high[0]
    if math.isnan(low):
        assert 2 / 2 ** np.unique(clusters).size > 0.2
        return
    step = 1e-4 + 1e-4 * (high - low)
    for delta, inside in (
        (low + step, True),
        (high - step, True),
        (low - step, False),
        (high + step, False),
    ):
        if inside and not low + step < high - step:
            continue
        assert (enumerated_p(differences, clusters, delta) > 0.2 + 1e-12) == inside


def test_the_interval_of_many_clusters_is_about_that_of_student():
    d = np.random.default_rng(4).normal(1, 1, 200)
    tests = flips(d)
    half = scipy.stats.t.ppf(0.975, 199) * d.std(ddof=1) / math.sqrt(200)
    assert tests.low[0] == pytest.approx(d.mean() - half, abs=0.01)
    assert tests.high[0] == pytest.approx(d.mean() + half, abs=0.01)


def test_six_null_clusters_exclude_zero_in_five_percent_at_most():
    d = np.random.default_rng(6).normal(size=(6, 2000))
    tests = sign_flips(d, np.ones(d.shape))
    assert ((tests.low > 0) | (tests.high < 0)).mean() <= 0.05


def test_fewer_than_six_clusters_have_no_interval_of_95_percent():
    assert math.isnan(flips([1.0, 2.0, 3.0, 4.0, 5.0]).low[0])
    assert not math.isnan(flips([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).low[0])


# -- many comparisons at once


def test_a_column_does_not_depend_on_the_others():
    S = np.random.default_rng(2).normal(0.2, 1, size=(100, 4))
    S[:3, 2] = 0
    W = np.ones(S.shape)
    few = Resampling(permutations=500)
    together = sign_flips(S, W, resampling=few)
    for j in range(4):
        alone = sign_flips(S[:, [j]], W[:, [j]], resampling=few)
        assert alone.p[0] == pytest.approx(together.p[j])
        assert alone.low[0] == pytest.approx(together.low[j])
        assert alone.high[0] == pytest.approx(together.high[j])


@pytest.mark.slow
def test_820_comparisons_of_clear_differences_are_all_shown():
    from levelfield.stats.multiplicity import holm

    values = np.random.default_rng(3).normal(size=(40, 41)) + 3 * np.arange(41)
    pairs = list(itertools.combinations(range(41), 2))
    D = np.stack([values[:, a] - values[:, b] for a, b in pairs], axis=1)
    assert len(pairs) == 820
    assert (holm(sign_flips(D, np.ones(D.shape)).p) <= 0.05).all()


@pytest.mark.parametrize(
    ("more", "fewer"), [(5, 0), (9, 2), (7, 7), (30, 14), (3, 1), (1, 1), (0, 0)]
)
def test_mid_p_of_0_and_1_is_mcnemars(more: int, fewer: int):
    d = np.r_[np.ones(more), -np.ones(fewer), np.zeros(20)][:, None]
    tests = sign_flips(
        d, np.ones_like(d), mid=np.array([True]), resampling=Resampling(permutations=200_000)
    )
    n, k = more + fewer, min(more, fewer)
    # twice the mid-p of the rarer side: 1 where both are equal
    expected = 2 * scipy.stats.binom.cdf(k, n, 0.5) - scipy.stats.binom.pmf(k, n, 0.5)
    assert tests.p[0] == pytest.approx(expected, rel=1e-9 if n < 17 else 0.1)
    if not np.isnan(tests.low[0]):
        assert (tests.low[0] < 0 < tests.high[0]) == (tests.p[0] > 0.05)


def test_mid_p_of_0_and_1_rejects_true_nulls_as_often_as_it_should():
    rng = np.random.default_rng(3)
    p = np.where(rng.random((40, 1, 1)) < 0.5, 0.8, 0.4)  # hard and easy inputs
    x, y = (rng.random((40, 1, 2000)) < p for _ in range(2))
    d = (x.astype(float) - y)[:, 0]
    few = Resampling(permutations=500)
    with_ties, mid_p = (
        (sign_flips(d, np.ones_like(d), mid=np.full(2000, mid), resampling=few).p <= 0.05).mean()
        for mid in (False, True)
    )
    assert with_ties < 0.04
    assert with_ties < mid_p < 0.065
