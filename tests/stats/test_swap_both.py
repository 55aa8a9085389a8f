"""PERM-BOTH: exchanges of whole systems and whole sources, against a plain loop."""

import math

import numpy as np
import pytest
import scipy.stats

from levelfield.stats.swap_both import swap_both


@pytest.mark.parametrize("ranks", [False, True])
def test_exchanges_are_those_of_a_loop_over_systems_and_sources(ranks):
    rng = np.random.default_rng(0)
    system, source = np.repeat(np.arange(4), 6), np.tile(np.arange(6), 4)
    system, source = system[1:], source[1:]  # one text is missing
    y = np.round(rng.normal(size=23), 1)
    a, b = y + rng.normal(size=23), y + 1.3 * rng.normal(size=23)
    test = swap_both(a, b, y, system, source, ranks=ranks, permutations=300, seed=5)
    if ranks:
        a, b, y = (scipy.stats.rankdata(v) for v in (a, b, y))
    a, b = scipy.stats.zscore(a), scipy.stats.zscore(b)

    def difference(a, b):
        return np.corrcoef(a, y)[0, 1] - np.corrcoef(b, y)[0, 1]

    draws = np.random.default_rng(5)
    system_swaps, source_swaps = (draws.integers(0, 2, (300, N)) for N in (4, 6))
    extreme = greater = 0
    for by_system, by_source in zip(system_swaps, source_swaps, strict=True):
        x_a, x_b = a.copy(), b.copy()
        for exchanged in (by_system[system] == 1, by_source[source] == 1):
            x_a, x_b = np.where(exchanged, x_b, x_a), np.where(exchanged, x_a, x_b)
        extreme += abs(difference(x_a, x_b)) >= abs(difference(a, b)) - 1e-9
        greater += difference(x_a, x_b) >= difference(a, b) - 1e-9
    assert test.difference == pytest.approx(difference(a, b))
    assert (test.p, test.p_greater) == ((extreme + 1) / 301, (greater + 1) / 301)


def test_the_same_metric_has_p_one_and_constants_say_why():
    rng = np.random.default_rng(1)
    a, y, units = rng.normal(size=12), rng.normal(size=12), np.arange(12) % 3
    assert swap_both(a, 2 * a + 1, y, units, np.arange(12) // 3).p == 1
    for x, ratings, reason in (
        (np.ones(12), y, "constant metric"),
        (a, np.ones(12), "constant rating"),
    ):
        test = swap_both(a, x, ratings, units, np.arange(12) // 3)
        assert math.isnan(test.p)
        assert test.why_undefined == reason
