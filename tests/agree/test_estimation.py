"""Mean ratings from files: joins, draws and what is said of them."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import levelfield
from levelfield.agree.draw import strata_of
from levelfield.agree.estimate import ALL_TEXTS, estimate
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.io import ScoreColumn, load_samples
from levelfield.stats.prediction_powered import estimate_of, powered_mean

N = 60
RNG = np.random.default_rng(0)
QUALITY = {f"{s}{i}": float(RNG.normal(loc=s == "b")) for s in "ab" for i in range(N)}
JUDGE = ScoreColumn("judge", "judge|v:1", {id: 2 * q + RNG.normal() for id, q in QUALITY.items()})
NOISE = ScoreColumn("noise", "noise|v:1", {id: RNG.normal() for id in QUALITY})
TEXTS = [Sample(id, f"text {id}", prompt=f"p{id[1:]}", system=id[0]) for id in QUALITY]


def rated(ids, **extra):
    return [
        dataclasses.replace(t, ratings={"quality": {"x": QUALITY[t.id]}}, extra=extra)
        for t in TEXTS
        if t.id in ids
    ]


PILOT = {f"{s}{i}" for s in "ab" for i in range(0, N, 3)}


def test_means_are_over_the_scored_texts_by_system_and_together():
    result = levelfield.estimate(JUDGE, rated(PILOT), samples=TEXTS)
    assert [(m.system, m.rated, m.texts) for m in result.means] == [
        ("a", 20, 60), ("b", 20, 60), (ALL_TEXTS, 40, 120),
    ]  # fmt: skip
    ids = sorted(id for id in QUALITY if id[0] == "a")
    y = np.array([QUALITY[id] if id in PILOT else math.nan for id in ids])
    f = np.array([JUDGE.values[id] for id in ids])
    expected = estimate_of(powered_mean(y, f, np.arange(N)))
    assert result.means[0].estimate.powered.low == pytest.approx(expected.powered.low)
    (difference,) = result.differences
    a, b = (m.estimate.powered.value for m in result.means[:2])
    assert difference.estimate.powered.value == pytest.approx(a - b)
    assert difference.p_adjusted == difference.estimate.p


def test_a_judge_is_worth_ratings_and_noise_is_said_to_add_little():
    result = estimate([JUDGE, NOISE], rated(PILOT), samples=TEXTS)
    by_metric = {m.metric: m for m in result.means if m.system == ALL_TEXTS}
    assert by_metric["judge"].gain > 1.5
    assert by_metric["noise"].gain < 1.1
    (note,) = [n for n in result.notes if "adds little" in n]
    assert note.startswith("quality: noise adds little (λ = ")


def test_unrated_texts_and_systems_may_stand_in_the_file_of_ratings():
    texts = [t for t in TEXTS if t.id not in PILOT]
    result = estimate(JUDGE, [*rated(PILOT), *texts])
    assert result.means[0].texts == 60
    (row,) = estimate(JUDGE, [dataclasses.replace(t, system="") for t in rated(PILOT)]).means
    assert (row.system, row.texts) == (ALL_TEXTS, 120)


def test_texts_without_a_score_or_a_rating_are_said():
    holes = ScoreColumn("judge", "v", {**JUDGE.values, "a0": math.nan, "b1": math.inf})
    only_a = {id for id in PILOT if id[0] == "a"}
    result = estimate(holes, [*rated(only_a)], samples=TEXTS)
    assert "judge: 2 of 120 texts have no score; they count with the mean score" in result.notes
    assert "quality, b: no rated text" in result.notes
    assert math.isnan(result.differences[0].estimate.powered.value)
    document = result.to_dict()["means"][1]
    assert document["prediction_powered"]["value"] is None
    assert result.to_polars()["why_undefined"].to_list()[1] == "no rated text"


def test_rated_texts_that_are_no_random_draw_are_said():
    best = sorted(QUALITY, key=JUDGE.values.__getitem__)[-40:]
    notes = estimate(JUDGE, rated(set(best)), samples=TEXTS).notes
    assert any("they are not a random draw" in note for note in notes)
    assert not any("random" in n for n in estimate(JUDGE, rated(PILOT), samples=TEXTS).notes)


def test_known_probabilities_weight_the_ratings():
    ids = sorted(PILOT)
    few = [
        sample
        for n, id in enumerate(ids)
        for sample in rated({id}, inclusion_probability=0.5 if n % 2 else 0.25)
    ]
    people = estimate(JUDGE, few, samples=TEXTS).means[-1].estimate.people.value
    w = [2 if n % 2 else 4 for n in range(len(ids))]
    assert people == pytest.approx(np.average([QUALITY[id] for id in ids], weights=w))
    for wrong in (0, 1.5, "many", None):
        odd = [*few[1:], *rated({ids[0]}, inclusion_probability=wrong)]
        with pytest.raises(UserError, match="inclusion_probability is"):
            estimate(JUDGE, odd, samples=TEXTS)


def test_strata_are_quantiles_within_systems_and_keep_equal_scores_together():
    f = np.array([1, 2, 3, 4, 10, 20, 30, 40, math.nan, 5, 5, 5, 5])
    systems = np.array(["a"] * 4 + ["b"] * 5 + ["c"] * 4)
    assert strata_of(f, systems, 2).tolist() == [1, 1, 2, 2, 1, 1, 2, 2, 0, 1, 1, 1, 1]


def test_texts_to_rate_next_are_unrated_and_their_ratings_are_weighted():
    first = estimate(JUDGE, rated(PILOT), samples=TEXTS, next=30, seed=1)
    assert len(first.drawn) == 30
    assert not {t.sample.id for t in first.drawn} & PILOT
    assert first.drawn == estimate(JUDGE, rated(PILOT), samples=TEXTS, next=30, seed=1).drawn
    assert first.drawn != estimate(JUDGE, rated(PILOT), samples=TEXTS, next=30, seed=2).drawn
    answers = [
        dataclasses.replace(t, ratings={"quality": {"x": QUALITY[t.id]}})
        for t in load_samples([text.to_record() for text in first.drawn])
    ]
    ratings = [*rated(PILOT), *answers]
    result = estimate([JUDGE, NOISE], ratings, samples=TEXTS, metrics=["noise"])
    assert "strata of judge" in result.design
    cells = {}
    strata = strata_of(
        np.array([JUDGE.values[t.id] for t in TEXTS]), np.array([t.system for t in TEXTS]), 4
    )
    for text, stratum in zip(TEXTS, strata, strict=True):
        cells.setdefault((text.system, stratum), []).append(text.id)
    total = 0.0
    ids = {r.id for r in ratings}
    probability = {t.sample.id: t.inclusion_probability for t in first.drawn}
    for texts in cells.values():
        have = [id for id in texts if id in ids]
        total += len(texts) / 120 * np.mean([QUALITY[id] for id in have])
        for id in probability.keys() & set(texts):
            assert probability[id] == pytest.approx(len(have) / len(texts))
    assert result.means[-1].estimate.people.value == pytest.approx(total)


def test_scores_other_than_those_of_the_draw_are_refused():
    drawn = estimate(JUDGE, rated(PILOT), samples=TEXTS, next=30).drawn
    answers = [
        dataclasses.replace(t, ratings={"quality": {"x": 1.0}})
        for t in load_samples([text.to_record() for text in drawn])
    ]
    with pytest.raises(UserError, match="drawn by judge, and the scores have noise"):
        estimate(NOISE, answers, samples=TEXTS)
    turned = ScoreColumn("judge", "v", {id: -v for id, v in JUDGE.values.items()})
    with pytest.raises(UserError, match="and its score is in stratum"):
        estimate(turned, answers, samples=TEXTS)
    other = [
        dataclasses.replace(t, extra={**t.extra, "strata": 2}) if n else t
        for n, t in enumerate(answers)
    ]
    with pytest.raises(UserError, match="in 2 strata, judge in 4 strata"):
        estimate(JUDGE, other, samples=TEXTS)


def test_a_later_draw_is_by_the_same_strata():
    first = estimate(JUDGE, rated(PILOT), samples=TEXTS, next=20).drawn
    answers = [
        dataclasses.replace(t, ratings={"quality": {"x": QUALITY[t.id]}})
        for t in load_samples([text.to_record() for text in first])
    ]
    ratings = [*rated(PILOT), *answers]
    second = estimate(JUDGE, ratings, samples=TEXTS, next=20).drawn
    assert not {t.sample.id for t in second} & {r.id for r in ratings}
    with pytest.raises(UserError, match="with --metric judge --strata 4"):
        estimate(JUDGE, ratings, samples=TEXTS, next=20, strata=3)
    own = rated(PILOT, inclusion_probability=0.5)
    with pytest.raises(UserError, match="of their own"):
        estimate(JUDGE, own, samples=TEXTS, next=20)


def test_the_first_draw_needs_no_ratings_and_is_in_proportion():
    result = estimate(JUDGE, samples=TEXTS, next=24)
    assert result.means == ()
    assert {t.inclusion_probability for t in result.drawn} == {0.2}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"ratings": None}, "no ratings; give some with --ratings"),
        ({"scores": [JUDGE, NOISE], "next": 5}, "--next draws by one metric"),
        ({"next": 81}, "80 texts are not rated"),
        ({"samples": (), "next": 5}, "give the file of all texts with --samples"),
        ({"metrics": ["other"]}, "there is no metric 'other'"),
    ],
)
def test_what_cannot_be_is_said(words, message):
    with pytest.raises(UserError, match=message):
        estimate(**{"scores": JUDGE, "ratings": rated(PILOT), "samples": TEXTS, **words})


def test_tables_frames_and_documents_hold_the_same_numbers():
    result = estimate(JUDGE, rated(PILOT), samples=TEXTS, next=5)
    frame = result.to_polars()
    assert frame.height == 4
    assert frame["b"].to_list() == [None, None, None, "b"]
    assert frame["low"][0] == result.means[0].estimate.powered.low
    assert frame["p"][3] == result.differences[0].estimate.p
    means, differences, draw = result.tables()
    assert [row[0] for row in means.rows] == ["a", "b", ALL_TEXTS]
    assert differences.rows[0][0] == "a − b"
    assert sum(int(row[2]) for row in draw.rows) == 5
    assert result.to_latex().count("\\begin{table}") == 3
    assert len(result.to_dict()["next"]) == 5
