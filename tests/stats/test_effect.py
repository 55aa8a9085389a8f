"""Effect sizes of paired differences, with and without weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield.stats.effect import cohen_dz
from levelfield.stats.sign_flip import paired_differences


@given(st.lists(st.integers(-9, 9), max_size=12))
def test_equal_weights_change_nothing(values):
    d = np.array(values, dtype=np.float64)
    weights = np.full(d.size, 1 / max(1, d.size))
    assert cohen_dz(d, weights) == pytest.approx(cohen_dz(d), nan_ok=True)


def test_a_weight_of_two_counts_in_mean_and_deviation():
    d, w = np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.25, 0.25])
    m = (w * d).sum()
    s = math.sqrt((w * (d - m) ** 2).sum() * 3 / 2)
    assert cohen_dz(d, w) == pytest.approx(m / s)


def test_values_that_differ_by_rounding_only_are_equal():
    x, y = np.array([0.1 + 0.2, 5.0, 0.0]), np.array([0.3, 4.0, 0.0])
    assert paired_differences(x, y).tolist() == [0.0, 1.0, 0.0]
