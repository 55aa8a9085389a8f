"""Gwet's AC1 and AC2 against the plain loop and against published values."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelfield.stats.gwet import MOST_VALUES, gwet_ac
from levelfield.stats.resampling import Resampling

NAN = math.nan
QUICK = Resampling(resamples=200)
FOUR_RATERS = [
    [1, 1, NAN, 1], [2, 2, 3, 2], [3, 3, 3, 3], [3, 3, 3, 3], [2, 2, 2, 2], [1, 2, 3, 4],
    [4, 4, 4, 4], [1, 1, 2, 1], [2, 2, 2, 2], [NAN, 5, 5, 5], [NAN, NAN, 1, 1], [NAN, NAN, 3, NAN],
]  # fmt: skip
"""The example with missing ratings of Gwet's handbook, which Krippendorff's papers have, too."""


def agreement(k: float, j: float, categories: list[float], level: str) -> float:
    """Returns how far two categories agree, by the definition."""
    if level == "nominal":
        return float(k == j)
    if level == "ordinal":
        places = sorted((categories.index(k), categories.index(j)))
        q = len(categories)
        return 1 - math.comb(places[1] - places[0] + 1, 2) / math.comb(q, 2)
    return 1 - ((k - j) / (categories[-1] - categories[0])) ** 2


def plain(ratings: list[list[float]], level: str) -> float:
    """Returns AC by pairs of ratings, item by item."""
    items = [[x for x in row if not math.isnan(x)] for row in ratings]
    items = [row for row in items if row]
    categories = sorted({x for row in items for x in row})
    q = len(categories)
    p_a = []
    for row in items:
        if len(row) > 1:
            pairs = list(itertools.permutations(row, 2))
            p_a.append(sum(agreement(k, j, categories, level) for k, j in pairs) / len(pairs))
    pi = [sum(row.count(k) / len(row) for row in items) / len(items) for k in categories]
    total = sum(agreement(k, j, categories, level) for k in categories for j in categories)
    p_e = total / (q * (q - 1)) * sum(p * (1 - p) for p in pi)
    return (sum(p_a) / len(p_a) - p_e) / (1 - p_e)


def test_the_published_example_has_its_published_value():
    estimate = gwet_ac(FOUR_RATERS, resampling=QUICK)
    assert estimate.value == pytest.approx(0.77544, abs=5e-6)
    assert (estimate.n, estimate.clusters) == (11, 11)
    assert estimate.low < estimate.value < estimate.high


@settings(max_examples=60)
@given(
    st.lists(
        st.lists(st.sampled_from([1.0, 2.0, 4.0, 7.0, NAN]), min_size=3, max_size=3),
        min_size=3,
        max_size=12,
    ),
    st.sampled_from(["nominal", "ordinal", "interval"]),
)
def test_values_are_those_of_the_plain_loop(ratings: list[list[float]], level: str):
    estimate = gwet_ac(ratings, level=level, resampling=QUICK)  # type: ignore[arg-type]
    if not estimate.why_undefined:
        assert estimate.value == pytest.approx(plain(ratings, level), abs=1e-12)


def test_a_rare_label_does_not_lower_agreement():
    ratings = np.ones((100, 2))
    ratings[0] = 1, 2
    ratings[1] = 2, 1
    assert gwet_ac(ratings, resampling=QUICK).value == pytest.approx(0.9796, abs=1e-4)


@pytest.mark.parametrize(
    ("ratings", "reason"),
    [
        ([[1.0], [2.0]], "one rater only"),
        ([[1.0, NAN], [NAN, 2.0]], "no item was rated by two raters"),
        ([[1.0, 1.0], [1.0, 1.0]], "all ratings are 1"),
        ([[k, k + 0.5] for k in range(MOST_VALUES)], "200 different ratings, expected at most 100"),
    ],
)
def test_it_says_why_it_is_undefined(ratings: list[list[float]], reason: str):
    assert gwet_ac(ratings, resampling=QUICK).why_undefined.startswith(reason)


def test_intervals_hold_the_value_of_many_items():
    rng = np.random.default_rng(3)

    def draw(n: int) -> np.ndarray:
        truth = rng.random(n) < 0.1
        seen = [np.where(rng.random(n) < 0.9, truth, rng.random(n) < 0.1) for _ in range(3)]
        return np.column_stack(seen).astype(float)

    truth = gwet_ac(draw(200_000), resampling=QUICK).value
    estimates = [gwet_ac(draw(60), resampling=Resampling(resamples=500)) for _ in range(200)]
    held = [e.low <= truth <= e.high for e in estimates if not e.why_no_interval]
    assert np.mean(held) >= 0.9
