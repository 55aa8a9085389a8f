"""Weighted means and printed ranks."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield.stats.weighted import mean_and_deviation, printed_ranks

NAN = float("nan")
VALUES = st.floats(-1e3, 1e3)
WEIGHTS = st.floats(0.1, 1e4)


@given(st.lists(st.tuples(VALUES, WEIGHTS), min_size=1))
def test_mean_and_deviation_are_the_formula(pairs):
    total = sum(w for _, w in pairs)
    m = sum(w * v for v, w in pairs) / total
    s = math.sqrt(sum(w * (v - m) ** 2 for v, w in pairs) / total)
    result = mean_and_deviation(*zip(*pairs, strict=True))
    assert result.mean == pytest.approx(m, abs=1e-6)
    assert result.deviation == pytest.approx(s, abs=1e-4)


@given(st.lists(st.tuples(VALUES, st.integers(1, 5)), min_size=1, max_size=8))
def test_a_weight_is_as_good_as_repeating_the_value(pairs):
    repeated = [v for v, w in pairs for _ in range(w)]
    result = mean_and_deviation(*zip(*pairs, strict=True))
    assert result.mean == pytest.approx(np.mean(repeated), abs=1e-9)
    assert result.deviation == pytest.approx(np.std(repeated), abs=1e-9)


def test_an_undefined_value_takes_its_weight_with_it():
    assert mean_and_deviation([1.0, NAN, 3.0], [1, 100, 1]) == (2.0, 1.0)
    assert all(math.isnan(x) for x in mean_and_deviation([NAN], [1]))
    assert all(math.isnan(x) for x in mean_and_deviation([], []))


def test_what_is_printed_alike_shares_the_better_rank_and_nan_has_none():
    values = {"a": 12.961, "b": 12.958, "c": 13.0, "d": NAN}
    assert printed_ranks(values, 2, direction="higher") == {"a": 2, "b": 2, "c": 1}
    assert printed_ranks(values, 3, direction="lower") == {"a": 2, "b": 1, "c": 3}
