from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import formality_study
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rating_study import small_study
from simulated_raters import Rule, clipped, direct_study, opened, rate, rater_of, say

from levelfield.rating.answers import NEITHER, standard_ranks
from levelfield.rating.model import Frozen, Item, RatingCriterion
from levelfield.rating.results.agreement import reliability, system_means
from levelfield.rating.results.negatives import verdict
from levelfield.rating.results.raters import counted, progress, spreads, time_spent
from levelfield.rating.results.ratings import sample_ratings, scores
from levelfield.rating.store import RatingStore
from levelfield.rating.store.records import LogRow, RaterState
from levelfield.stats.resampling import Resampling

SYSTEMS = {"owl": 80.0, "fox": 60.0, "elk": 35.0}
FAST = Resampling(resamples=400)
PAIR = RatingCriterion("better", "Better", "Which?", "pairwise")
ORDER = RatingCriterion("order", "Order", "Best first.", "ranking")
SLIDER = RatingCriterion("content", "Content", "Same.", "slider")


def quality_of(frozen: Frozen) -> dict[tuple[str, str], float]:
    """(item, criterion) -> what it is worth: its system's level and something of its own."""
    rng = np.random.default_rng(5)
    worth = {}
    for item in frozen.items.values():
        if not item.control:
            level = SYSTEMS[item.candidates[0].samples[0].split(":")[0]]
            for criterion in frozen.criteria:
                worth[item.key, criterion.id] = level + rng.normal(scale=8)
    return worth


def noisy(frozen: Frozen, seed: int, *, bias: float = 0, noise: float = 6, bad: float = 4) -> Rule:
    """A rater who sees what a text is worth, with a bias and noise of their own."""
    rng = np.random.default_rng(seed)
    worth = quality_of(frozen)

    def rule(item: Item, criterion: RatingCriterion) -> int:
        if item.control:
            return clipped(bad)
        return clipped(worth[item.key, criterion.id] + bias + rng.normal(scale=noise))

    return rule


@pytest.fixture
def rated(tmp_path: Path) -> RatingStore:
    frozen = direct_study(SYSTEMS, sources=40)
    store = opened(tmp_path, frozen)
    for slot, bias in enumerate((-5, 5, -5, 5)):
        rate(store, slot, noisy(frozen, slot, bias=bias))
    return store


def test_planted_means_of_systems_come_back_within_their_intervals(rated: RatingStore):
    means = system_means(rated.frozen, counted(rated))
    assert len(means) == 6
    for found in means:
        # biases of −5 and +5 cancel; clipping at 100 costs the best system little
        low, high = found.mean.low - 1.5, found.mean.high + 1.5
        assert low < SYSTEMS[found.system] < high, found
        assert found.mean.n == 40
        assert found.mean.clusters == 40
        assert found.ratings == 80
    assert [m.system for m in sorted(means[:3], key=lambda m: -m.z)] == ["owl", "fox", "elk"]


def test_planted_agreement_comes_back_within_its_intervals(rated: RatingStore):
    # Within an item: noise and bias. Between: systems, and 8 of each item's own.
    between = statistics.pvariance(SYSTEMS.values()) + 64
    within = 36 + 25
    found = reliability(rated.frozen, counted(rated), resampling=FAST)
    assert found.level == "interval"
    assert found.raw is not None
    assert found.standardised is not None
    whole = next(g for g in found.raw.groups if (g.aspect, g.part) == ("content", "all"))
    truth = between / (between + within)
    for e in (whole.alpha, whole.icc["ICC(1,1)"]):
        assert e.low - 0.02 < truth < e.high + 0.02
        assert e.n == 120
    scaled = next(g for g in found.standardised.groups if (g.aspect, g.part) == ("content", "all"))
    unbiased = between / (between + 36)
    assert scaled.alpha.low - 0.02 < unbiased < scaled.alpha.high + 0.02
    assert scaled.alpha.value > whole.alpha.value + 0.02


def test_a_text_shown_once_for_two_systems_counts_once_for_agreement_and_for_both_means(
    tmp_path: Path,
):
    frozen = direct_study(SYSTEMS, sources=10, merged=4)
    store = opened(tmp_path, frozen)
    for slot in range(4):
        rate(store, slot, noisy(frozen, slot))
    states = counted(store)
    ratings = {(r.id, r.aspect, r.rater): r.value for r in sample_ratings(frozen, states)}
    assert len({id for id, _, _ in ratings}) == 30
    for n in range(4):
        for aspect in ("content", "style"):
            fox = {k[2]: v for k, v in ratings.items() if k[:2] == (f"fox:{n}", aspect)}
            elk = {k[2]: v for k, v in ratings.items() if k[:2] == (f"elk:{n}", aspect)}
            assert fox == elk != {}
    found = reliability(frozen, states, worst=3, resampling=FAST)
    assert found.raw is not None
    content = next(g for g in found.raw.groups if (g.aspect, g.part) == ("content", "all"))
    assert content.items == 26
    assert {d.id for d in found.raw.worst} <= frozen.items.keys()


def test_negative_samples_are_in_no_result(tmp_path: Path):
    frozen = direct_study(SYSTEMS, sources=6)
    store = opened(tmp_path, frozen)
    rate(store, 0, noisy(frozen, 1))
    states = counted(store)
    assert not {r.id for r in sample_ratings(frozen, states)} - frozen.samples.keys()
    found = reliability(frozen, states, resampling=FAST)
    assert not {unit for unit in found.texts if frozen.items[unit].control}
    assert spreads(frozen, states[0])["content"].n == 9


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
    found = verdict(frozen, counted(store)[0])
    assert found.failed is failed
    assert str(bad) in found.why
    assert "60" in found.why


def test_one_of_two_negative_samples_is_enough_to_fail():
    frozen = direct_study(SYSTEMS, sources=6, surveys=1)
    second = replace(frozen.items["c1"], key="c1b")
    placed = tuple(
        replace(slot, items=(*slot.items, replace(slot.items[-1], item="c1b", opaque=f"x{n}")))
        for n, slot in enumerate(frozen.slots)
    )
    frozen = replace(frozen, items={**frozen.items, "c1b": second}, slots=placed)
    state = _state(frozen, dict.fromkeys(frozen.items, 50) | {"c1": 1, "c1b": 50})
    assert verdict(frozen, state).failed is True
    state = _state(frozen, dict.fromkeys(frozen.items, 50) | {"c1": 1, "c1b": 49})
    assert verdict(frozen, state).failed is False


def test_what_cannot_be_judged_yet_says_why():
    frozen = direct_study(SYSTEMS, sources=6, surveys=1)
    assert verdict(frozen, _state(frozen, {})).why == "not rated yet"
    assert verdict(frozen, _state(frozen, {"c1": 9})).why == "too few real texts rated yet"
    assert verdict(frozen, _state(frozen, {"c1": 9})).failed is None
    no_rule = replace(frozen, fail_rule="none")
    assert verdict(no_rule, _state(frozen, dict.fromkeys(frozen.items, 50))).failed is None
    items = {key: item for key, item in frozen.items.items() if not item.control}
    slots = tuple(
        replace(s, items=tuple(p for p in s.items if p.item in items)) for s in frozen.slots
    )
    without = replace(frozen, items=items, slots=slots)
    assert verdict(without, _state(without, dict.fromkeys(items, 9))).why == "no negative sample"


@pytest.mark.parametrize(("answer", "failed"), [(0, False), (NEITHER, True), (1, True)])
def test_of_a_pair_the_real_text_has_to_be_chosen(answer: int, failed: bool):
    frozen = small_study(scale="pairwise")
    control = next(key for key, item in frozen.items.items() if item.control)
    assert verdict(frozen, _state(frozen, {control: answer}, "style")).failed is failed


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
def test_in_a_ranking_the_negative_sample_has_to_be_behind_the_median(
    answer: tuple[int, ...], failed: bool
):
    frozen = small_study(scale="ranking")
    control = next(key for key, item in frozen.items.items() if item.control)
    assert verdict(frozen, _state(frozen, {control: answer}, "style")).failed is failed


def _state(_frozen: Frozen, answers: Mapping[str, Any], criterion: str = "content") -> RaterState:
    given = {key: {criterion: value} for key, value in answers.items()}
    return RaterState(
        0, "r1", "rating", "1", given, {}, frozenset(), {}, 1, None, None, "", False
    )  # fmt: skip


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
    used = spreads(frozen, _state(frozen, left, "style"))["style"]
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
    found = progress(frozen, store.state(rater))
    assert (found.done, found.items, found.answers, found.asked) == (9, 13, 22, 26)


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
def test_a_rank_becomes_the_share_of_the_others_that_it_stands_before(order: list[int]):
    ranks = standard_ranks(order)
    found = scores(ORDER, ranks, len(ranks))
    others = len(ranks) - 1
    assert sum(found) == pytest.approx(len(ranks) / 2)
    for a, score in enumerate(found):
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
    state = _state(frozen, {first: 0, second: NEITHER}, "style")
    found = {r.id: r.value for r in sample_ratings(frozen, [state]) if r.aspect == "style"}
    assert found[shared[0]] == 0.75
    assert found[items[first].candidates[1].samples[0]] == 0
    assert found[items[second].candidates[1].samples[0]] == 0.5


def test_agreement_is_measured_on_what_raters_said_pairs_as_names_rankings_as_ranks():
    for scale, level, units in (("pairwise", "nominal", 3), ("ranking", "ordinal", 9)):
        frozen = small_study(scale=scale, items=4)
        rng = np.random.default_rng(2)
        answers = {
            key: int(rng.integers(-1, 2))
            if scale == "pairwise"
            else standard_ranks(rng.integers(1, 4, 3).tolist())
            for key in frozen.items
        }
        one = _state(frozen, answers, "style")
        two = replace(one, rater="r2", slot=1)
        found = reliability(frozen, [one, two], resampling=FAST)
        assert found.level == level
        assert found.standardised is None
        assert found.raw is not None
        assert found.raw.groups[0].alpha.value == pytest.approx(1)
        assert found.raw.groups[0].items == units


def test_raters_who_cancel_out_have_no_interval_and_a_reason():
    frozen = direct_study(SYSTEMS, sources=2, surveys=1)
    real = [key for key, item in frozen.items.items() if not item.control]
    up = _state(frozen, {key: 40 + n for n, key in enumerate(real)})
    down = replace(_state(frozen, {key: 45 - n for n, key in enumerate(real)}), rater="r2", slot=1)
    found = reliability(frozen, [up, down], resampling=FAST).raw
    assert found is not None
    icc = found.groups[0].icc["ICC(2,1)"]
    assert icc.value < 0
    assert icc.why_no_interval == "no variance between items or raters"


def test_nothing_rated_is_said_and_no_error():
    frozen = direct_study(SYSTEMS, sources=2)
    assert reliability(frozen, []).why == "nothing is rated yet"
    assert system_means(frozen, []) == []
    empty = _state(frozen, {})
    assert spreads(frozen, empty)["content"].n == 0
    assert math.isnan(spreads(frozen, empty)["content"].same)


def test_system_means_are_the_plain_means_of_samples(rated: RatingStore):
    frozen, states = rated.frozen, counted(rated)
    of_system: defaultdict[str, list[float]] = defaultdict(list)
    for item in frozen.items.values():
        if not item.control:
            given = [s.answers[item.key]["style"] for s in states if item.key in s.answers]
            of_system[item.candidates[0].samples[0].split(":")[0]].append(statistics.fmean(given))
    found = {m.system: m.mean.value for m in system_means(frozen, states) if m.criterion == "style"}
    assert found == pytest.approx({name: statistics.fmean(v) for name, v in of_system.items()})


def test_the_thesis_own_judgements_give_its_tables_10_and_11(rated_data: Path):  # noqa: ARG001
    judged = formality_study.judged()
    frozen = formality_study.study_of(judged)
    states = formality_study.exact_states(frozen, judged)
    means = system_means(frozen, states, resampling=Resampling(resamples=2))
    found = {(m.system, m.criterion): round(m.mean.value, 1) for m in means}
    printed = formality_study.published("11")
    assert printed.pop(("IBT", "content")) == 85.2  # the ratings' mean is 85.119
    assert found.pop(("IBT", "content")) == 85.1
    assert found == printed
    report = reliability(frozen, states, resampling=Resampling(resamples=2))
    assert report.raw is not None
    names = formality_study.survey_names(judged)
    r = {
        ("Pearson", names[g.part]): round(g.pairs[0].pearson.value, 2)
        for g in report.raw.groups
        if g.aspect == "all aspects" and g.part != "all"
    }
    assert r == formality_study.published("10")
