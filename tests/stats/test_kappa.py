"""Cohen's kappa of labels against the formula written out."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield.stats.kappa import cohen_kappa, kappa_of_labels

LABELS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), max_size=12)


@given(LABELS)
def test_labels_agree_beyond_chance_as_the_formula_says(pairs):
    x, y = [a for a, _ in pairs], [b for _, b in pairs]
    n = len(pairs)
    observed = sum(a == b for a, b in pairs) / n if n else math.nan
    by_chance = sum(x.count(c) / n * y.count(c) / n for c in "abc") if n else math.nan
    if n == 0 or len({*x, *y}) == 1:
        assert math.isnan(kappa_of_labels(x, y))
    else:
        expected = (observed - by_chance) / (1 - by_chance)
        assert kappa_of_labels(x, y) == pytest.approx(expected)


def test_it_is_the_value_of_the_estimate_without_weights():
    x, y = [0, 1, 1, 0, 2, 2], [0, 1, 0, 0, 2, 1]
    assert kappa_of_labels(x, y) == pytest.approx(cohen_kappa(x, y).value)
