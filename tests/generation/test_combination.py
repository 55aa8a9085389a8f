"""Combinations against the sums that they stand for."""

from __future__ import annotations

import pickle

import pytest
import torch
from plain import assert_same, logits, steered

import technique_cases as cases
from levelfield.core.errors import UserError
from levelfield.generation import (
    Combination,
    ContrastiveDecoding,
    ModelTerm,
    TechniqueTerm,
)
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.technique import UncontrolledBase
from levelfield.generation.techniques.cfg.technique import ClassifierFreeGuidance
from levelfield.generation.techniques.combination.technique import weights
from levelfield.models.torch.draws import penalised
from levelfield.models.torch.language_model import language_model

LAKE = "The lake"
GLAD = ModelTerm("What a wonderful day! ")
SAD = ModelTerm("What a sad day! ")
BOTH = {"sentiment": "positive", "topic": "science"}


def combination(formula, terms=None, **options) -> Combination:
    return Combination(model=cases.model(), formula=formula, terms=terms or {}, **options)


def log_p(technique, text=LAKE, before="", model=None):
    return logits(technique, text, before, model).log_softmax(-1)


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("a", {"a": 1}),
        ("-a + +b", {"a": -1, "b": 1}),
        ("a + 2*b - b/4", {"a": 1, "b": 1.75}),
        ("a + s * (b - (a - 1.5 * b))", {"a": -1, "b": 5}),
        ("2 * (3 - 1) * a", {"a": 4}),
        ("(a - b) / s + 1e-1 * a", {"a": 0.6, "b": -0.5}),
        ("a - s * union( a,b )", {"a": 1, "union(a, b)": -2}),
        (
            "union(a, b) + union(a, intersection(a, b))/2 - union(a, b)",
            {"union(a, b)": 0, "union(a, intersection(a, b))": 0.5},
        ),
    ],
)
def test_a_formula_is_a_sum_of_weights(formula, expected):
    assert weights(formula, {"s": 2.0}, ["a", "b"]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("formula", "why"),
    [
        ("", "expected a sum"),
        ("a +", "expected a sum"),
        ("a + c", "there is no c; there are a, b, s"),
        ("a * b", "two names are multiplied"),
        ("s / a", "only"),
        ("a / 0", "zero"),
        ("a + 1", "not a bare number"),
        ("2 ** a", "only"),
        ("1e999 * a", "not a bare number"),
        ("__import__('os').system('true')", "more than sums"),
        ("a.b", "more than sums"),
        ("True * a", "more than sums"),
        ("union(a)", "two formulas or more"),
        ("union(a, b=b)", "two formulas or more"),
        ("union(a, 2)", "not a bare number"),
        ("union(a, c)", "there is no c"),
        ("a + intersection(b, union(a, 1))", "not a bare number"),
        ("a * union(a, b)", "two names are multiplied"),
        ("(" * 10_000 + "a", "expected a sum"),
        ("-" * 50_000 + "a", "expected a sum"),
    ],
)
def test_anything_else_is_refused(formula, why):
    with pytest.raises(UserError, match=why) as error:
        weights(formula, {"s": 2.0}, ["a", "b"])
    assert len(str(error.value)) < 300


def test_experts_with_texts_are_weighed_as_the_formula_says():
    technique = combination("base + 1.5 * (glad - sad) / 2", {"glad": GLAD, "sad": SAD})
    glad, sad = log_p(technique, before=GLAD.text), log_p(technique, before=SAD.text)
    assert_same(steered(technique, LAKE, {}), log_p(technique) + 0.75 * (glad - sad))


@pytest.mark.parametrize(
    ("operator", "pick"), [("union", torch.maximum), ("intersection", torch.minimum)]
)
def test_unions_and_intersections_pick_among_normalised_formulas(operator, pick):
    technique = combination(
        f"base + strength * {operator}(2 * glad - base, sad)",
        {"glad": GLAD, "sad": SAD},
        strength=0.5,
    )
    base, glad, sad = (
        log_p(technique),
        log_p(technique, before=GLAD.text),
        log_p(technique, before=SAD.text),
    )
    expected = base + 0.5 * pick((2 * glad - base).log_softmax(-1), sad)
    assert_same(steered(technique, LAKE, {}), expected)


def test_terms_within_a_union_count_as_terms_of_the_formula():
    terms = {
        "a": ModelTerm("{sentiment}: "),
        "b": TechniqueTerm(ClassifierFreeGuidance(strength=2.0), "topic"),
        "c": GLAD,
    }
    technique = combination("union(base + b, intersection(a, base))", terms)
    assert "sentiment, topic" in technique.refusal({"sentiment": "positive"})
    assert technique.refusal(BOTH) == ""
    assert {"a", "b"} == technique.choices.keys() - {"formula", "strength"}
    inner = ClassifierFreeGuidance(model=cases.model(), strength=2.0)
    base, a = log_p(technique), log_p(technique, before="positive: ")
    changed = steered(inner, LAKE, {"topic": BOTH["topic"]}).log_softmax(-1)
    assert_same(
        steered(technique, LAKE, BOTH),
        torch.maximum(changed, torch.minimum(a, base).log_softmax(-1)),
    )


def test_other_models_take_part_with_a_temperature_of_their_own():
    name = cases.amateur(cases.model())
    technique = combination("2 * base - other", {"other": ModelTerm(model=name, temperature=0.5)})
    other = language_model(name, technique.loading)
    expected = 2 * log_p(technique) - 2 * log_p(technique, model=other)
    assert_same(steered(technique, LAKE, {}), expected)


def test_a_formula_without_the_base_has_none_of_it():
    technique = combination("glad", {"glad": GLAD})
    assert_same(steered(technique, LAKE, {}), log_p(technique, before=GLAD.text))


def test_values_of_the_control_stand_in_the_texts():
    terms = {"a": ModelTerm("{sentiment}: "), "b": ModelTerm("{topic}, {sentiment}: ")}
    technique = combination("base + a + 0.5 * b", terms)
    a = log_p(technique, before="positive: ")
    b = log_p(technique, before="science, positive: ")
    assert_same(steered(technique, LAKE, BOTH), log_p(technique) + a + 0.5 * b)


def test_techniques_take_part_with_what_they_change_each_for_its_attribute():
    feeling = ClassifierFreeGuidance(strength=1.5, against="opposite")
    subject = ClassifierFreeGuidance(strength=2.0)
    terms = {
        "feeling": TechniqueTerm(feeling, "sentiment"),
        "subject": TechniqueTerm(subject, "topic"),
    }
    technique = combination("base + feeling + strength * subject", terms, strength=0.5)
    base = log_p(technique)
    alone = {
        name: steered(
            ClassifierFreeGuidance(model=cases.model(), strength=one.strength, against=one.against),
            LAKE,
            {attribute: BOTH[attribute]},
        )
        for name, one, attribute in (
            ("feeling", feeling, "sentiment"),
            ("subject", subject, "topic"),
        )
    }
    expected = base + (alone["feeling"] - base) + 0.5 * (alone["subject"] - base)
    assert_same(steered(technique, LAKE, BOTH), expected)


def test_tokens_that_a_technique_leaves_out_are_left_out():
    amateur = cases.amateur(cases.model())
    contrast = ContrastiveDecoding(strength=1.0, form="plain", amateur=amateur, alpha=0.2)
    terms = {"contrast": TechniqueTerm(contrast), "glad": GLAD}
    technique = combination("base + contrast + glad", terms)
    inner = ContrastiveDecoding(
        model=cases.model(), strength=1.0, form="plain", amateur=amateur, alpha=0.2
    )
    expected = steered(inner, LAKE, {}) + log_p(technique, before=GLAD.text)
    assert 1 < expected.isfinite().sum() < expected.numel()
    assert_same(steered(technique, LAKE, {}), expected)


@pytest.mark.thinned
@pytest.mark.parametrize(
    "formula",
    ["base", "base + strength * (glad - sad)", "base + glad - glad", "base + strength * tone"],
)
def test_a_formula_of_which_the_base_is_left_is_the_base(formula):
    tone = TechniqueTerm(ClassifierFreeGuidance(strength=0.0), "sentiment")
    technique = combination(formula, {"glad": GLAD, "sad": SAD, "tone": tone}, strength=0.0)
    control = {"sentiment": "positive"} if "tone" in formula else {}
    requests = [Request("1", LAKE, control)]
    (answer,) = technique.generate(requests)
    (expected,) = UncontrolledBase(model=cases.model()).generate(requests)
    assert answer.text == expected.text
    assert answer.forward_passes == expected.forward_passes


@pytest.mark.parametrize(
    "formula", ["glad", "base + glad", "0.25 * base + glad", "3 * base - glad"]
)
def test_the_repetition_penalty_counts_once(formula):
    technique = combination(formula, {"glad": GLAD})
    decoding = Decoding(top_p=1.0, repetition_penalty=1.7)
    ids = torch.tensor([technique._prompted(Request("1", LAKE), 20).ids])
    plain = logits(technique, LAKE)[None]
    penalty = penalised(plain, ids, torch.ones_like(ids), 1.7).log_softmax(-1)
    penalty = (penalty - plain.log_softmax(-1))[0]
    without = steered(technique, LAKE, {})
    assert penalty.std() > 0
    assert_same(steered(technique, LAKE, {}, decoding), without + penalty)


def test_terms_may_stand_in_a_file(tmp_path):
    path = tmp_path / "terms.toml"
    path.write_text(
        '[glad]\ntext = "What a wonderful day! "\n\n[tone]\ntechnique = "cfg"\n'
        'attribute = "sentiment"\nstrength = 3\nagainst = "opposite"\n'
    )
    formula = "base + glad + tone"
    tone = TechniqueTerm(ClassifierFreeGuidance(strength=3, against="opposite"), "sentiment")
    expected = combination(formula, {"glad": GLAD, "tone": tone})
    assert combination(formula, str(path)) == expected
    assert combination(formula, str(path)).signature == expected.signature


def test_terms_travel_to_other_processes():
    technique = combination("base + glad", {"glad": GLAD})
    assert pickle.loads(pickle.dumps(technique)).signature == technique.signature


@pytest.mark.parametrize(
    ("terms", "control", "why"),
    [
        (
            {"a": ModelTerm("A {sentiment} text: ")},
            {"topic": "science"},
            "the terms read sentiment",
        ),
        ({"a": ModelTerm("A {sentiment} text: ")}, {}, "the control has nothing"),
        ({"a": ModelTerm("A {sentiment} text: ")}, BOTH, "the control has sentiment, topic"),
        ({"a": ModelTerm("{topic}: ")}, {"topic": ("science", "space")}, "a: topic has 2 values"),
        (
            {"a": TechniqueTerm(ClassifierFreeGuidance(against="opposite"), "topic")},
            {"topic": "science"},
            "a: cfg: no opposite of topic",
        ),
    ],
)
def test_controls_that_the_terms_do_not_read_are_refused(terms, control, why):
    technique = Combination(model="no/model", formula="base + a", terms=terms)
    assert why in technique.refusal(control)


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        ({"base": ModelTerm()}, "base already has a meaning"),
        ({"a": "text"}, "terms: a: expected a name"),
        ({"a": {"txt": "Hm"}}, 'terms: a: txt: there is no such key; did you mean "text"?'),
        ({"a": {"text": "A {} text"}}, "terms: a: text: "),
        (
            {"a": {"temperature": 0.0}},
            "a: temperature: expected a number above 0; found 0.0",
        ),
        ({"a": {"attribute": "topic"}}, "terms: a: attribute: belongs to a term with technique"),
        ({"a": {"technique": "cgf"}}, "terms: a: there is no technique 'cgf'"),
        ({"a": {"technique": "base"}}, "does not act at the logits"),
        ({"a": {"technique": "cfg", "strenght": 1}}, "did you mean strength"),
        ({"a": {"model": 3}, "b": {"sees_prompt": "no"}}, "a: model: .*\nterms: b: sees_prompt: "),
    ],
)
def test_terms_that_are_none_are_refused(terms, why):
    with pytest.raises(UserError, match=why):
        Combination(model="no/model", formula="base + a", terms=terms)
