"""Who fails by the negative samples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from levelfield_rating.answers import NEITHER
from levelfield_rating.model import Item, RatingCriterion
from levelfield_rating.results.negatives import verdict
from levelfield_rating.results.raters import counted
from planted_raters import SYSTEMS, state_of
from rating_study import small_study
from simulated_raters import direct_study, opened, rate


@pytest.mark.parametrize(
    ("bad", "failed"), [(1, False), (59, False), (60, True), (61, True), (100, True)]
)
def test_who_does_not_put_the_negative_sample_below_the_median_fails(
    tmp_path: Path, bad: int, failed: bool
):
    frozen = direct_study(SYSTEMS, sources=6)
    store = opened(tmp_path, frozen)

    def rule(item: Item, criterion: RatingCriterion) -> int:
        if item.control:
            return bad if criterion.id == "content" else 100  # the first criterion decides
        return int(SYSTEMS[item.candidates[0].samples[0].split(":")[0]])  # the median is 60

    rate(store, 0, rule)
    outcome = verdict(frozen, counted(store)[0])
    assert outcome.failed is failed
    assert str(bad) in outcome.details
    assert "60" in outcome.details


def test_one_of_two_negative_samples_is_enough_to_fail():
    frozen = direct_study(SYSTEMS, sources=6, surveys=1)
    second = replace(frozen.items["c1"], key="c1b")
    placed = tuple(
        replace(slot, items=(*slot.items, replace(slot.items[-1], item="c1b", opaque=f"x{n}")))
        for n, slot in enumerate(frozen.slots)
    )
    frozen = replace(frozen, items={**frozen.items, "c1b": second}, slots=placed)
    state = state_of(frozen, dict.fromkeys(frozen.items, 50) | {"c1": 1, "c1b": 50})
    assert verdict(frozen, state).failed is True
    state = state_of(frozen, dict.fromkeys(frozen.items, 50) | {"c1": 1, "c1b": 49})
    assert verdict(frozen, state).failed is False


def test_what_cannot_be_judged_yet_says_why():
    frozen = direct_study(SYSTEMS, sources=6, surveys=1)
    assert verdict(frozen, state_of(frozen, {})).details == "not rated yet"
    assert verdict(frozen, state_of(frozen, {"c1": 9})).details == "too few real texts rated so far"
    assert verdict(frozen, state_of(frozen, {"c1": 9})).failed is None
    no_rule = replace(frozen, fail_rule="none")
    assert verdict(no_rule, state_of(frozen, dict.fromkeys(frozen.items, 50))).failed is None
    items = {key: item for key, item in frozen.items.items() if not item.control}
    slots = tuple(
        replace(s, items=tuple(p for p in s.items if p.item in items)) for s in frozen.slots
    )
    without = replace(frozen, items=items, slots=slots)
    assert (
        verdict(without, state_of(without, dict.fromkeys(items, 9))).details == "no negative sample"
    )


@pytest.mark.parametrize(("answer", "failed"), [(0, False), (NEITHER, True), (1, True)])
def test_of_a_pair_the_real_text_has_to_be_chosen(answer: int, failed: bool):
    frozen = small_study(scale="pairwise")
    control = next(key for key, item in frozen.items.items() if item.control)
    assert verdict(frozen, state_of(frozen, {control: answer}, "style")).failed is failed


@pytest.mark.parametrize(
    ("answer", "failed"),
    [
        ((1, 2, 3), False),
        ((1, 1, 3), False),
        ((1, 2, 2), False),
        ((1, 3, 2), True),
        ((1, 1, 1), True),
    ],
)
def test_in_a_ranking_the_negative_sample_must_be_below_the_median(
    answer: tuple[int, ...], failed: bool
):
    frozen = small_study(scale="ranking")
    control = next(key for key, item in frozen.items.items() if item.control)
    assert verdict(frozen, state_of(frozen, {control: answer}, "style")).failed is failed
