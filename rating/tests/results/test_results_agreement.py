"""Means of systems and agreement come back as they were planted."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import formality_study
from levelfield_rating.answers import standard_ranks
from levelfield_rating.results.agreement import reliability, system_means, unit_ratings
from levelfield_rating.results.raters import counted, spreads
from levelfield_rating.results.ratings import sample_ratings
from levelfield_rating.store import RatingStore
from planted_raters import FAST, SYSTEMS, noisy, state_of
from rating_study import small_study
from simulated_raters import direct_study, opened, rate


def test_planted_means_of_systems_come_back_within_their_intervals(rated: RatingStore):
    means = system_means(rated.frozen, counted(rated))
    assert len(means) == 6
    for row in means:
        # biases of −5 and +5 cancel; clipping at 100 costs the best system little
        low, high = row.mean.low - 1.5, row.mean.high + 1.5
        assert low < SYSTEMS[row.system] < high, row
        assert row.mean.n == 40
        assert row.mean.clusters == 40
        assert row.ratings == 80
    assert [m.system for m in sorted(means[:3], key=lambda m: -m.z)] == ["owl", "fox", "elk"]


def test_planted_agreement_comes_back_within_its_intervals(rated: RatingStore):
    # Within an item: noise and bias. Between: systems, and 8 of each item's own.
    between = statistics.pvariance(SYSTEMS.values()) + 64
    within = 36 + 25
    measured = reliability(rated.frozen, counted(rated), resampling=FAST)
    assert measured.level == "interval"
    assert measured.raw is not None
    assert measured.standardised is not None
    whole = next(g for g in measured.raw.groups if (g.aspect, g.part) == ("content", "all"))
    truth = between / (between + within)
    for e in (whole.alpha, whole.icc["ICC(1,1)"]):
        assert e.low - 0.02 < truth < e.high + 0.02
        assert e.n == 120
    scaled = next(
        g for g in measured.standardised.groups if (g.aspect, g.part) == ("content", "all")
    )
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
    measured = reliability(frozen, states, worst=3, resampling=FAST)
    assert measured.raw is not None
    content = next(g for g in measured.raw.groups if (g.aspect, g.part) == ("content", "all"))
    assert content.items == 26
    assert {d.id for d in measured.raw.worst} <= frozen.items.keys()


def test_negative_samples_are_in_no_result(tmp_path: Path):
    frozen = direct_study(SYSTEMS, sources=6)
    store = opened(tmp_path, frozen)
    rate(store, 0, noisy(frozen, 1))
    states = counted(store)
    assert not {r.id for r in sample_ratings(frozen, states)} - frozen.samples.keys()
    measured = reliability(frozen, states, resampling=FAST)
    assert not {unit for unit in measured.texts if frozen.items[unit].control}
    assert spreads(frozen, states[0])["content"].n == 9


def test_agreement_is_measured_on_answers_pairs_as_names_rankings_as_ranks():
    for scale, level, units in (("pairwise", "nominal", 3), ("ranking", "ordinal", 9)):
        frozen = small_study(scale=scale, items=4)
        rng = np.random.default_rng(2)
        answers = {
            key: int(rng.integers(-1, 2))
            if scale == "pairwise"
            else standard_ranks(rng.integers(1, 4, 3).tolist())
            for key in frozen.items
        }
        first = state_of(frozen, answers, "style")
        two = replace(first, rater="r2", slot=1)
        measured = reliability(frozen, [first, two], resampling=FAST)
        assert measured.level == level
        assert measured.standardised is None
        assert measured.raw is not None
        assert measured.raw.groups[0].alpha.value == pytest.approx(1)
        assert measured.raw.groups[0].items == units


def test_raters_who_cancel_out_have_no_interval_and_a_reason():
    frozen = direct_study(SYSTEMS, sources=2, surveys=1)
    real = [key for key, item in frozen.items.items() if not item.control]
    up = state_of(frozen, {key: 40 + n for n, key in enumerate(real)})
    down = replace(
        state_of(frozen, {key: 45 - n for n, key in enumerate(real)}), rater="r2", slot=1
    )
    measured = reliability(frozen, [up, down], resampling=FAST).raw
    assert measured is not None
    icc = measured.groups[0].icc["ICC(2,1)"]
    assert icc.value < 0
    assert icc.why_no_interval == "no variance between items or raters"


def test_a_study_without_ratings_has_a_gap_and_no_error():
    frozen = direct_study(SYSTEMS, sources=2)
    assert reliability(frozen, []).gap == "nothing has been rated yet"
    assert system_means(frozen, []) == []
    empty = state_of(frozen, {})
    assert spreads(frozen, empty)["content"].n == 0
    assert math.isnan(spreads(frozen, empty)["content"].same)


def test_system_means_are_the_plain_means_of_samples(rated: RatingStore):
    frozen, states = rated.frozen, counted(rated)
    expected: defaultdict[str, list[float]] = defaultdict(list)
    for item in frozen.items.values():
        if not item.control:
            values = [s.answers[item.key]["style"] for s in states if item.key in s.answers]
            expected[item.candidates[0].samples[0].split(":")[0]].append(statistics.fmean(values))
    means_by_system = {
        m.system: m.mean.value for m in system_means(frozen, states) if m.criterion == "style"
    }
    assert means_by_system == pytest.approx(
        {name: statistics.fmean(v) for name, v in expected.items()}
    )


def test_the_thesis_own_judgements_give_its_tables_10_and_11(rated_data: Path):  # noqa: ARG001
    judged = formality_study.judged()
    frozen = formality_study.study_of(judged)
    states = formality_study.exact_states(frozen, judged)
    means = system_means(frozen, states)
    rounded = {(m.system, m.criterion): round(m.mean.value, 1) for m in means}
    printed = formality_study.published("11")
    assert printed.pop(("IBT", "content")) == 85.2  # the ratings' mean is 85.119
    assert rounded.pop(("IBT", "content")) == 85.1
    assert rounded == printed
    names = formality_study.survey_names(judged)
    pooled = formality_study.pooled_pearson(unit_ratings(frozen, states)[0])
    r = {("Pearson", names[survey]): round(value, 2) for survey, value in pooled.items()}
    assert r == formality_study.published("10")
