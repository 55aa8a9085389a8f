"""Who counts, how far raters are, how they use scales, and what their answers are as numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield_rating.answers import NEITHER, standard_ranks
from levelfield_rating.model import Item, RatingCriterion
from levelfield_rating.results.agreement import system_means
from levelfield_rating.results.raters import counted, progress, spreads, time_spent
from levelfield_rating.results.ratings import sample_ratings, scores
from levelfield_rating.store.records import LogRow
from planted_raters import ORDER, PAIR, SLIDER, SYSTEMS, noisy, state_of
from rating_study import small_study
from simulated_raters import direct_study, opened, rate, rater_of, say


def test_excluded_replaced_and_withdrawn_raters_do_not_count(tmp_path: Path):
    frozen = direct_study(SYSTEMS, sources=6)
    store = opened(tmp_path, frozen)
    names = [rate(store, slot, noisy(frozen, slot)) for slot in range(4)]
    store.exclude(names[0], "asleep")
    store.withdraw(names[1])
    store.reassign(2)
    assert {s.rater for s in counted(store)} == {names[3], "r5"}
    assert {s.rater for s in counted(store, excluded=True)} == {names[0], names[2], names[3], "r5"}
    store.include(names[0], "was awake")
    assert names[0] in {s.rater for s in counted(store)}
    assert not {r.rater for r in sample_ratings(frozen, counted(store))} & {names[1], names[2]}


def test_previews_count_nowhere(tmp_path: Path):
    frozen = direct_study(SYSTEMS, sources=4)
    store = opened(tmp_path, frozen)
    rater = store.session(store.preview(0))
    assert rater is not None
    store.consent(rater, "1")
    store.enter(rater, "instructions")
    store.enter(rater, "rating")
    say(store, rater, 0, noisy(frozen, 1))
    assert counted(store, excluded=True) == []
    assert system_means(frozen, counted(store)) == []


def test_somebody_who_always_answers_the_same_is_seen(tmp_path: Path):
    frozen = direct_study(SYSTEMS, sources=12)
    store = opened(tmp_path, frozen)
    rng = np.random.default_rng(1)

    def straight(_item: Item, criterion: RatingCriterion) -> int:
        return 50 if criterion.id == "content" else int(rng.integers(48, 53))

    rate(store, 0, straight)
    rate(store, 1, noisy(frozen, 3))
    lazy, honest = counted(store)
    used = spreads(frozen, lazy)
    assert used["content"].same == 1
    assert used["content"].sd == 0
    assert used["content"].straight
    assert used["style"].straight
    assert not any(spread.straight for spread in spreads(frozen, honest).values())


def test_always_the_left_of_two_is_seen_as_the_same_answer():
    frozen = small_study(scale="pairwise", items=12, control=False, raters=1)
    left = {placed.item: placed.order[0] for placed in frozen.slots[0].items}
    assert set(left.values()) == {0, 1}
    used = spreads(frozen, state_of(frozen, left, "style"))["style"]
    assert used.same == 1
    assert used.straight
    assert math.isnan(used.sd)


def test_progress_counts_items_with_all_answers(tmp_path: Path):
    frozen = direct_study(SYSTEMS, sources=4, surveys=1)
    store = opened(tmp_path, frozen)
    rater = rater_of(store, 0)

    def half(item: Item, criterion: RatingCriterion) -> int | None:
        return None if criterion.id == "style" and item.key.endswith("owl") else 50

    say(store, rater, 0, half)
    state = progress(frozen, store.state(rater))
    assert (state.done, state.items, state.answers, state.questions) == (9, 13, 22, 26)


def test_time_is_the_servers_and_breaks_are_cut():
    start = datetime(2026, 1, 1, tzinfo=UTC)

    def row(seconds: int, rater: str, kind: str = "rating") -> LogRow:
        return LogRow(seconds, start + timedelta(seconds=seconds), kind, 0, rater)

    rows = [
        row(0, "r1"), row(30, "r2"), row(60, "r1"), row(90, "r1", "opened"), row(3600, "r1"),
        row(3610, "r1"), row(3611, "", "closed"),
    ]  # fmt: skip
    spent = time_spent(rows)
    assert spent["r1"] == timedelta(seconds=60 + 300 + 10)
    assert "r2" not in spent  # one event takes no time


def test_a_choice_and_a_ranking_of_two_are_the_same_number():
    assert scores(PAIR, 0, 2) == scores(ORDER, (1, 2), 2) == (1, 0)
    assert scores(PAIR, 1, 2) == scores(ORDER, (2, 1), 2) == (0, 1)
    assert scores(PAIR, NEITHER, 2) == scores(ORDER, (1, 1), 2) == (0.5, 0.5)
    assert scores(SLIDER, 7, 1) == (7.0,)


@given(st.lists(st.integers(1, 5), min_size=2, max_size=8))
def test_a_rank_becomes_the_share_of_the_others_that_it_precedes(order: list[int]):
    ranks = standard_ranks(order)
    shares = scores(ORDER, ranks, len(ranks))
    others = len(ranks) - 1
    assert sum(shares) == pytest.approx(len(ranks) / 2)
    for a, score in enumerate(shares):
        beaten = sum(ranks[a] < r for b, r in enumerate(ranks) if b != a)
        tied = sum(ranks[a] == r for b, r in enumerate(ranks) if b != a)
        assert score == pytest.approx((beaten + tied / 2) / others)
        if len(set(ranks)) == len(ranks):
            assert score == pytest.approx((len(ranks) - ranks[a]) / others)


def test_a_sample_of_several_pairs_has_the_mean_of_them():
    frozen = small_study(scale="pairwise", items=2, control=False, raters=1)
    shared = next(iter(frozen.items.values())).candidates[0].samples
    items = {}
    for key, item in frozen.items.items():
        left, right = item.candidates
        items[key] = replace(item, candidates=(replace(left, samples=shared), right))
    frozen = replace(frozen, items=items)
    first, second = items
    state = state_of(frozen, {first: 0, second: NEITHER}, "style")
    values = {r.id: r.value for r in sample_ratings(frozen, [state]) if r.aspect == "style"}
    assert values[shared[0]] == 0.75
    assert values[items[first].candidates[1].samples[0]] == 0
    assert values[items[second].candidates[1].samples[0]] == 0.5
