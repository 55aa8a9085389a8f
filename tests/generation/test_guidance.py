"""Techniques that compare the base with itself behind a request, against their formulas."""

from __future__ import annotations

import math

import pytest
import torch
from plain import assert_same, logits, steered

import technique_cases as cases
from levelfield.core.errors import UserError
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.control_text import control_text, opposite
from levelfield.generation.techniques.cfg.technique import ClassifierFreeGuidance
from levelfield.generation.techniques.preadd.technique import PREADD
from levelfield.generation.techniques.self_debiasing.technique import SelfDebiasing
from levelfield.models.torch.draws import penalised

LAKE = "The lake"
POSITIVE = {"sentiment": "positive"}
NEGATIVE = {"sentiment": "negative"}


def cfg(**options) -> ClassifierFreeGuidance:
    return ClassifierFreeGuidance(model=cases.model(), **options)


@pytest.mark.parametrize("strength", [-1.0, 0.5, 1.0, 3.0])
def test_the_base_goes_towards_the_prompted_base(strength):
    technique = cfg(strength=strength)
    base = logits(technique, LAKE).log_softmax(-1)
    asked = logits(technique, LAKE, control_text(POSITIVE)).log_softmax(-1)
    assert_same(steered(technique, LAKE, POSITIVE), base + strength * (asked - base))


def test_strength_1_is_the_prompted_base():
    asked = logits(cfg(), LAKE, control_text(POSITIVE))
    assert_same(steered(cfg(strength=1.0), LAKE, POSITIVE), asked)


def test_against_the_opposite_three_texts_are_weighed():
    technique = cfg(strength=2.0, against="opposite")
    asked, anti = (logits(technique, LAKE, control_text(c)) for c in (POSITIVE, NEGATIVE))
    expected = logits(technique, LAKE) + 2 * (asked - anti)
    assert_same(steered(technique, LAKE, POSITIVE), expected)


def test_against_a_negative_prompt_that_text_takes_the_place_of_the_base():
    technique = cfg(strength=2.0, negative="Not {sentiment}: ")
    asked, anti = (logits(technique, LAKE, t) for t in (control_text(POSITIVE), "Not positive: "))
    expected = logits(technique, LAKE) + 2 * (asked - anti)
    assert_same(steered(technique, LAKE, POSITIVE), expected)
    assert "negative:Not {sentiment}: " in technique.signature


@pytest.mark.parametrize("strength", [-1.0, 0.5, 2.0])
def test_preadd_takes_away_what_a_request_for_the_opposite_changes(strength):
    technique = PREADD(model=cases.model(), strength=strength)
    base, undesired = logits(technique, LAKE), logits(technique, LAKE, control_text(NEGATIVE))
    expected = base.log_softmax(-1) - strength * (undesired.log_softmax(-1) - base.log_softmax(-1))
    assert_same(steered(technique, LAKE, POSITIVE), expected)


@pytest.mark.parametrize(("strength", "floor"), [(50.0, 0.01), (3000.0, 0.2)])
def test_self_debiasing_scales_down_what_a_request_for_the_opposite_makes_likelier(strength, floor):
    technique = SelfDebiasing(model=cases.model(), strength=strength, floor=floor)
    p = logits(technique, LAKE).softmax(-1).tolist()
    undesired = logits(technique, LAKE, control_text(NEGATIVE)).softmax(-1).tolist()
    scaled = [
        one * max(math.exp(strength * (one - other)), floor) if one < other else one
        for one, other in zip(p, undesired, strict=True)
    ]
    assert any(one < other for one, other in zip(p, undesired, strict=True))
    assert_same(steered(technique, LAKE, POSITIVE), torch.tensor(scaled).double().log())


@pytest.mark.parametrize("technique", [PREADD, SelfDebiasing])
def test_an_attribute_without_an_opposite_is_refused(technique):
    assert "no opposite of topic 'science'" in technique(model="no/model").refusal(
        {"topic": "science"}
    )


def test_opposite_controls_pull_in_opposite_directions():
    technique = cfg(strength=1.5, against="opposite")
    base = logits(technique, LAKE).log_softmax(-1)
    up, down = (steered(technique, LAKE, control) - base for control in (POSITIVE, NEGATIVE))
    total = up + down
    assert_same(total, 0 * total)
    assert up.std() > 0.01


def test_only_what_the_base_may_say_is_reweighted():
    decoding = Decoding(top_k=5, top_p=1.0)
    scores = steered(cfg(strength=4.0), LAKE, POSITIVE, decoding)
    assert set(scores.isfinite().nonzero()[:, 0].tolist()) == set(
        logits(cfg(), LAKE).topk(5).indices.tolist()
    )


def test_the_repetition_penalty_stays_as_it_is():
    """Guidance subtracts the base without the penalty."""
    technique = cfg(strength=2.0)
    decoding = Decoding(top_p=1.0, repetition_penalty=1.7)
    ids = torch.tensor([technique._prompted(Request("1", LAKE), 20).ids])
    plain = logits(technique, LAKE)
    base = penalised(plain[None].float(), ids, torch.ones_like(ids), 1.7)[0].double()
    asked = logits(technique, LAKE, control_text(POSITIVE))
    assert_same(steered(technique, LAKE, POSITIVE, decoding), base + 2 * (asked - plain))


def test_several_attributes_are_asked_for_in_one_text():
    control = {"topic": "science", "sentiment": "Positive"}
    text = control_text(control)
    assert text == "Here is a text with a very positive sentiment and about science:\n\n"
    technique = cfg(strength=1.0)
    assert_same(steered(technique, LAKE, control), logits(technique, LAKE, text))


def test_rows_of_a_batch_have_requests_of_their_own():
    technique = cfg(strength=2.0)
    asked = [Request("p", LAKE, POSITIVE), Request("n", "Once upon a time", NEGATIVE)]
    texts = [" was green", " it"]
    for n, log_p in enumerate(technique.log_probs(asked, texts)):
        (alone,) = technique.log_probs(asked[n : n + 1], texts[n : n + 1])
        assert log_p == pytest.approx(alone, abs=1e-5)


def test_a_template_of_ones_own_is_read_before_the_prompt():
    technique = cfg(strength=1.0, template="A {sentiment} review: ")
    expected = logits(technique, LAKE, "A positive review: ")
    assert_same(steered(technique, LAKE, POSITIVE), expected)


def test_without_a_control_it_is_the_base():
    assert_same(steered(cfg(strength=5.0), LAKE, {}), logits(cfg(), LAKE))


@pytest.mark.parametrize(
    ("options", "control", "why"),
    [
        ({}, {"topic": ("science", "space")}, "2 values"),
        ({}, {"sentiment": " "}, "no value"),
        ({"negative": "Not {sentiment}: "}, {"topic": "science"}, "shows sentiment, which is not"),
        ({"against": "opposite"}, {"topic": "science"}, "no opposite of topic 'science'"),
        ({"against": "opposite"}, {"sentiment": "mixed"}, "no opposite"),
        ({"template": "A {sentiment} text: "}, {"topic": "science"}, "the control has topic"),
        (
            {"template": "A {sentiment} text: "},
            {"topic": "science", "sentiment": "positive"},
            "the template shows sentiment",
        ),
    ],
)
def test_what_cannot_be_asked_for_is_refused(options, control, why):
    assert why in ClassifierFreeGuidance(model="no/model", **options).refusal(control)


@pytest.mark.parametrize("template", ["A text: ", "A {} text", "A {0} text", "A {sentiment text"])
def test_a_template_without_a_place_for_a_value_is_refused(template):
    with pytest.raises(UserError, match="template"):
        cfg(template=template)


@pytest.mark.parametrize("negative", ["A {} text", "A {sentiment text"])
def test_a_negative_prompt_with_other_braces_is_refused(negative):
    with pytest.raises(UserError, match="negative"):
        cfg(negative=negative)


def test_a_negative_prompt_beside_the_opposite_is_refused():
    with pytest.raises(UserError, match="not both"):
        cfg(negative="A text: ", against="opposite")


@pytest.mark.parametrize(
    ("attribute", "value", "other"),
    [
        ("sentiment", "Negative", "positive"),
        ("sentiment", "mixed", None),
        ("topic", "science", None),
        ("formality", "formal", None),
    ],
)
def test_only_an_attribute_of_two_values_has_opposites(attribute, value, other):
    assert opposite(attribute, value) == other


def test_an_attribute_that_nothing_is_known_of_has_a_text_too():
    assert control_text({"formality": "low"}) == "Here is a text whose formality is low:\n\n"
    assert "the words court, culture:" in control_text({"keywords": ("court", "culture")})
