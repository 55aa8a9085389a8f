"""Strengths by budgets: the search by functions that are known, and techniques on tiny models."""

from __future__ import annotations

import math

import pytest

import levelfield
import technique_cases as cases
from contract_cases import CASES
from levelfield.core.errors import UserError
from levelfield.generation import Decoding, Request
from levelfield.generation.calibration import search
from levelfield.generation.divergence import divergence
from levelfield.stats.estimate import Estimate

PROMPTS = [f"{a} {b}" for a in ("The lake", "My old", "Once") for b in ("was", "and", "of", "in")]
GLAD = {"sentiment": "positive"}
TWELVE = {"max_new_tokens": 12}


def nats(value: float) -> Estimate:
    return Estimate(value, math.nan, math.nan, 1, 1)


@pytest.mark.parametrize("start", [1e-3, 1.0, 20.0, 5e3])
@pytest.mark.parametrize(
    "curve",
    [
        lambda s: 0.03 * s**2,
        lambda s: 0.5 * s,
        lambda s: 2 * (1 - math.exp(-s / 7)),
        lambda s: 0.1 + 0.01 * s**1.5,
        lambda s: math.log1p(s) ** 3,
    ],
)
def test_the_search_finds_the_strength_of_any_rising_curve(curve, start):
    tried = search(lambda s: nats(curve(s)), start, 0.5, 0.01, 30)
    assert curve(tried[-1].strength) == pytest.approx(0.5, rel=0.01)
    assert len(tried) <= 20


def test_the_search_takes_long_steps_where_the_strength_does_little():
    tried = search(lambda s: nats(0.24 * (s / 30) ** 0.15), 30.0, 0.3, 0.05, 30)
    assert tried[-1].divergence.value == pytest.approx(0.3, rel=0.05)
    assert len(tried) <= 4


@pytest.mark.parametrize(
    ("curve", "nearest"), [(lambda s: 0.3 * s / (1 + s), "0.3"), (lambda s: 0.8 + s, "0.8")]
)
def test_a_budget_out_of_reach_is_said(curve, nearest):
    with pytest.raises(UserError, match=f"out of reach: .* reaches {nearest}, at"):
        search(lambda s: nats(curve(s)), 1.0, 0.5, 0.02, 30)


def test_a_technique_without_any_effect_ends():
    with pytest.raises(UserError, match="the nearest reaches 0, at"):
        search(lambda _: nats(0.0), 1.0, 0.5, 0.02, 30)


def test_no_more_strengths_are_tried_than_allowed():
    assert len(search(lambda s: nats(s**1.1), 1.0, 0.5, 1e-99, 4)) == 4


@pytest.mark.thinned
@pytest.mark.parametrize("name", ["cfg", "caa", "gedi", "pplm", "fudge", "cat-paw"])
def test_the_technique_that_is_found_goes_as_far_as_the_budget(name):
    technique, budget = CASES[name].make(), 0.02 if name == "pplm" else 0.2
    found = levelfield.calibrate_strength(
        PROMPTS, technique, control=GLAD, budget=budget, tolerance=0.03, **TWELVE
    )
    assert found.is_within
    assert found.knob == "strength"
    asked = [Request(str(n + 1), text, GLAD) for n, text in enumerate(PROMPTS)]
    again = divergence(found.technique, asked, decoding=Decoding(**TWELVE)).mean
    assert again.value == found.found.divergence.value == pytest.approx(budget, rel=0.03)
    assert f"strength:{found.found.strength:g}"[:12] in found.signature
    assert found.to_dict()["tried"][-1]["strength"] == found.tried[-1].strength


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("best-of-n", "no token probabilities"),
        ("cbart", "no token probabilities"),
        ("prompting", "has no strength option"),
        ("base", "has no strength option"),
    ],
)
def test_what_has_no_strength_is_not_calibrated(name, why):
    with pytest.raises(UserError, match=why):
        levelfield.calibrate_strength(PROMPTS, CASES[name].make(), control=CASES[name].controls[0])


def test_a_wide_interval_says_how_many_requests_would_do():
    technique = CASES["cfg"].make()
    found = levelfield.calibrate_strength(PROMPTS, technique, control=GLAD, budget=0.2, **TWELVE)
    nats = found.found.divergence
    share = (nats.high - nats.value) / nats.value
    assert share > 0.05
    assert found.note.startswith(
        f"{len(PROMPTS)} requests determine the divergence to ±{share:.0%}"
    )
    assert found.to_dict()["note"] == found.note
    alone = levelfield.calibrate_strength(
        PROMPTS[:1], technique, control=GLAD, budget=0.2, **TWELVE
    )
    assert alone.note == "no interval: one cluster; give more prompts"


def test_requests_that_are_refused_are_named():
    with pytest.raises(UserError, match="keywords"):
        levelfield.calibrate_strength(
            PROMPTS, "gedi", model=cases.model(), control={"keywords": "lake"}
        )
