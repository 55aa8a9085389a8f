from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield_rating.answers import (
    NEITHER,
    BadAnswer,
    checked,
    passes,
    standard_ranks,
)
from levelfield_rating.model import RatingCriterion

SLIDER = RatingCriterion("style", "Style", "It is formal.", "slider")
LIKERT = RatingCriterion("fluency", "Fluency", "It reads well.", "likert", points=7)
PAIR = RatingCriterion("better", "Better", "Which is better?", "pairwise")
ORDER = RatingCriterion("order", "Order", "Order them.", "ranking")
EVERY_SCALE = pytest.mark.parametrize("criterion", [SLIDER, LIKERT, PAIR, ORDER])


@pytest.mark.parametrize(
    ("criterion", "candidates", "lowest", "highest"),
    [(SLIDER, 1, 1, 100), (LIKERT, 1, 1, 7), (PAIR, 2, NEITHER, 1)],
)
@given(value=st.integers(-200, 200))
def test_whole_numbers_from_end_to_end_are_answers_and_no_others(
    criterion: RatingCriterion, candidates: int, lowest: int, highest: int, value: int
) -> None:
    if lowest <= value <= highest:
        assert checked(criterion, candidates, value) == value
    else:
        with pytest.raises(BadAnswer):
            checked(criterion, candidates, value)


@EVERY_SCALE
@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, 1.0, True, False, "1", "", b"1", None, [], (), {}, [1], 2**80],
)
def test_only_whole_numbers_are_answers_on_any_scale(
    criterion: RatingCriterion, value: object
) -> None:
    with pytest.raises(BadAnswer):
        checked(criterion, 2, value)


@pytest.mark.parametrize("value", [(1, True), (1, 2.0), (1, "2"), (1, None), (1, (2,)), (1, -1)])
def test_a_ranking_with_something_else_among_its_ranks_is_refused(value: object) -> None:
    with pytest.raises(BadAnswer):
        checked(ORDER, 2, value)


@given(st.lists(st.integers(-1, 6), min_size=1, max_size=5))
def test_ranks_are_an_answer_exactly_if_each_is_one_more_than_the_number_before_it(
    ranks: list[int],
) -> None:
    right = all(rank == 1 + sum(other < rank for other in ranks) for rank in ranks)
    if right:
        assert checked(ORDER, len(ranks), ranks) == tuple(ranks)
    else:
        with pytest.raises(BadAnswer):
            checked(ORDER, len(ranks), ranks)


@pytest.mark.parametrize("ranks", [(1, 2, 3), (3, 1, 2), (1, 1, 3), (1, 2, 2), (1, 1, 1)])
def test_rankings_with_and_without_ties_are_answers(ranks: tuple[int, ...]) -> None:
    assert checked(ORDER, 3, list(ranks)) == ranks


@pytest.mark.parametrize(
    "ranks", [(2, 2, 2), (1, 1, 2), (1, 3, 3), (0, 1, 2), (1, 2), (1, 2, 3, 4)]
)
def test_dense_shifted_or_incomplete_ranks_are_refused(ranks: tuple[int, ...]) -> None:
    with pytest.raises(BadAnswer):
        checked(ORDER, 3, ranks)


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=6))
def test_any_order_has_ranks_that_are_an_answer_and_keep_the_order(order: list[int]) -> None:
    ranks = standard_ranks(order)
    assert checked(ORDER, len(order), ranks) == ranks
    for a, rank_a in zip(order, ranks, strict=True):
        for b, rank_b in zip(order, ranks, strict=True):
            assert (a < b) == (rank_a < rank_b)


def test_practice_passes_if_every_answer_asked_for_is_in_its_range_ends_included() -> None:
    accept = {"style": (60, 100), "better": (1, 1)}
    assert passes(accept, {"style": 60, "better": 1, "other": 3})
    assert passes(accept, {"style": 100, "better": 1})
    assert not passes(accept, {"style": 59, "better": 1})
    assert not passes(accept, {"style": 60, "better": 0})
    assert not passes(accept, {"style": 60, "better": NEITHER})
    assert not passes(accept, {"style": 60})


def test_practice_of_a_ranking_passes_if_the_wanted_text_is_among_the_best() -> None:
    accept = {"order": (2, 2)}
    assert passes(accept, {"order": (2, 3, 1)})
    assert passes(accept, {"order": (1, 3, 1)})
    assert not passes(accept, {"order": (1, 2, 3)})
    assert not passes({"order": (5, 5)}, {"order": (1, 2, 3)})
