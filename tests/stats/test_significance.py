"""Adjusted p and effect sizes against slow oracles written plainly from their formulas."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield.stats.effect import cohen_dz
from levelfield.stats.multiplicity import holm

NAN = float("nan")


@given(st.lists(st.one_of(st.just(NAN), st.floats(0, 1)), max_size=8))
def test_holm_is_the_plain_recipe(p_values):
    adjusted = holm(p_values)
    rest = sorted((p, i) for i, p in enumerate(p_values) if not math.isnan(p))
    running, expected = 0.0, [NAN] * len(p_values)
    for rank, (p, i) in enumerate(rest):
        running = max(running, min(1.0, (len(rest) - rank) * p))
        expected[i] = running
    assert adjusted.tolist() == pytest.approx(expected, nan_ok=True)


def test_holm_on_a_worked_example():
    assert holm([0.01, 0.04, NAN, 0.03]).tolist() == pytest.approx(
        [0.03, 0.06, NAN, 0.06], nan_ok=True
    )


def test_effect_size_is_mean_over_standard_deviation():
    assert cohen_dz([1.0, 2.0, 3.0, NAN]) == pytest.approx(2.0)
    assert cohen_dz([-1.0, -2.0, -3.0]) == pytest.approx(-2.0)


@pytest.mark.parametrize("differences", [[], [0.5], [0.1, 0.1, 0.1], [NAN]])
def test_effect_size_without_spread_is_undefined(differences):
    assert math.isnan(cohen_dz(differences))
