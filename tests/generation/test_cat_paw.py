"""CAT-PAW against its formula, around guidance and around formulas made for the test."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from plain import WHOLE, assert_same, logits, steered

import technique_cases as cases
from levelfield.core.errors import UserError
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.logits.pace import BagMass, LargestPace, Paced
from levelfield.generation.logits.processor import SteeringProcessor
from levelfield.generation.logits.terms import BaseLM, Stateless, Term
from levelfield.generation.table import make_technique
from levelfield.generation.techniques._bags.bags import bag_words
from levelfield.generation.techniques.cat_paw.technique import CATPAW
from levelfield.generation.techniques.cfg.technique import ClassifierFreeGuidance
from levelfield.generation.techniques.pplm.technique import PPLM

LAKE = "The lake"
POSITIVE = {"sentiment": "positive"}


@dataclass(frozen=True)
class Table(Term):
    """The same number for a token at every step."""

    numbers: tuple[float, ...]

    def bind(self, _controls, _readers):
        return Constant(torch.tensor(self.numbers))


class Constant(Stateless):
    def __init__(self, numbers):
        self._numbers = numbers

    def values(self, step):
        return self._numbers.expand_as(step.log_p)


@dataclass(frozen=True)
class Mass:
    """A regulator that says the same at every step, or one number a row."""

    r: tuple[float, ...]

    def bind(self, _controls):
        return Given(torch.tensor(self.r))


class Given(Stateless):
    def __init__(self, r):
        self._r = r

    def values(self, step):
        return self._r.expand(len(step.log_p))

    def read(self, _tokens):
        """Nothing to remember."""

    def keep(self, rows):
        self._r = self._r[rows] if len(self._r) > 1 else self._r


BASE = torch.tensor([[0.5, 1.0, -2.0, 0.0, 0.3, -1.0]])
INNER = BaseLM() + 3.0 * Table((1.0, -0.5, 2.0, 0.0, -3.0, 0.25))


def paced(r, *, inner=INNER, tau=0.2, cap=2.0, rows=1):
    formula = Paced(inner, Mass(r), tau, cap) + 0.0 * BaseLM()
    ids = torch.zeros(rows, 1, dtype=torch.long)
    return SteeringProcessor(formula, [{}] * rows, decoding=WHOLE)(ids, BASE.repeat(rows, 1))


def steered_by(formula):
    ids = torch.zeros(1, 1, dtype=torch.long)
    return SteeringProcessor(formula, [{}], decoding=WHOLE)(ids, BASE)


def test_where_r_is_tau_the_scores_are_those_of_the_inner_formula():
    assert torch.equal(paced((0.2,)), steered_by(INNER))


def test_where_r_is_0_the_scores_are_those_of_the_base():
    assert torch.equal(paced((0.0,)), steered_by(None))


@pytest.mark.parametrize("r", [0.05, 0.1, 0.3])
def test_between_and_beyond_the_strength_is_in_proportion(r):
    expected = BaseLM() + (3.0 * r / 0.2) * INNER.terms[1][1]
    torch.testing.assert_close(paced((r,)), steered_by(expected), atol=1e-6, rtol=0)


def test_no_position_has_more_than_the_cap():
    expected = BaseLM() + (3.0 * 1.5) * INNER.terms[1][1]
    for r in (0.3, 0.9, 100.0):
        actual = paced((r,), cap=1.5)
        torch.testing.assert_close(actual, steered_by(expected), atol=1e-6, rtol=0)
    assert not torch.allclose(paced((0.29,), cap=1.5), steered_by(expected), atol=1e-3)


def test_rows_have_paces_of_their_own():
    together = paced((0.2, 0.0, 0.1), rows=3)
    for row, r in enumerate((0.2, 0.0, 0.1)):
        assert torch.equal(together[row], paced((r,))[0])


def test_tokens_that_the_inner_formula_leaves_out_stay_out_where_it_acts():
    inner = BaseLM() + 1.0 * Table((0.0, float("-inf"), 1.0, 0.0, 0.0, 0.0))
    for r in (0.01, 0.2, 5.0):
        scores = paced((r,), inner=inner)
        assert scores[0].isneginf().tolist() == [False, True, False, False, False, False]
        assert not scores.isnan().any()
    assert torch.equal(paced((0.0,), inner=inner), steered_by(None))


def test_the_mass_of_a_bag_is_the_sum_of_the_bases_probabilities():
    regulator = BagMass(lambda control: frozenset({0, 2}) if control else frozenset()).bind(
        [POSITIVE, {}]
    )
    p = BASE.softmax(-1)[0]

    class Step:
        log_p = BASE.log_softmax(-1).repeat(2, 1)

    assert regulator.values(Step).tolist() == pytest.approx([float(p[0] + p[2]), 0.0])
    regulator.keep(torch.tensor([1]))
    Step.log_p = Step.log_p[1:]
    assert regulator.values(Step).tolist() == [0.0]


def cat_paw(**options) -> CATPAW:
    return CATPAW(
        **{"model": cases.model(), "inner": "cfg", "bag": cases.bag(), "tau": 0.05, **options}
    )


def bag_mass(technique, text):
    p = logits(technique, text).softmax(-1)
    one = [
        ids for w in bag_words("", "", cases.bag()) if len(ids := technique.base.ids(f" {w}")) == 1
    ]
    assert len(one) > 2
    return float(p[[ids[0] for ids in one]].sum())


@pytest.mark.parametrize("text", [LAKE, "", "It was a very"])
def test_around_guidance_it_is_guidance_of_another_strength_at_each_position(text):
    technique = cat_paw(strength=1.5, cap=3.0)
    strength = 1.5 * min(bag_mass(technique, text) / 0.05, 3.0)
    guidance = ClassifierFreeGuidance(model=technique.model, strength=strength)
    assert_same(steered(technique, text, POSITIVE), steered(guidance, text, POSITIVE))


GUIDES = {
    "dexperts": cases.class_guide,
    "gedi": cases.class_guide,
    "fudge": cases.future_guide,
}


@pytest.mark.parametrize("name", GUIDES)
def test_around_techniques_with_guides_it_is_theirs_where_r_is_tau(name):
    guide = GUIDES[name](cases.model())
    technique = cat_paw(inner=name, guide=guide, strength=4.0)
    inner = make_technique(name, {"model": cases.model(), "guide": guide, "strength": 4.0})
    theirs = steered(inner, LAKE, POSITIVE)
    at_tau = replace(technique, tau=bag_mass(technique, LAKE))
    assert_same(steered(at_tau, LAKE, POSITIVE), theirs)
    assert not torch.allclose(theirs.exp(), logits(technique, LAKE).softmax(-1), atol=1e-3)

    kept = theirs.isfinite()
    half = replace(technique, tau=2 * bag_mass(technique, LAKE))
    base = logits(technique, LAKE).log_softmax(-1)
    expected = torch.where(kept, (base + theirs) / 2, -torch.inf)
    assert_same(steered(half, LAKE, POSITIVE), expected)


@pytest.mark.parametrize("name", GUIDES)
def test_around_techniques_with_guides_a_cache_gives_what_reading_anew_gives(name):
    technique = cat_paw(inner=name, guide=GUIDES[name](cases.model()), strength=4.0)
    text = " was very old and it"
    (log_p,) = technique.log_probs([Request("1", LAKE, POSITIVE)], [text])
    tokens = technique.base.ids(text)
    for n, value in enumerate(log_p):
        row = torch.tensor([[technique.base.bos_id, *technique.base.ids(LAKE), *tokens[:n]]])
        with torch.inference_mode():
            scores = technique.base.model(input_ids=row).logits[:, -1]
            expected = technique.processor([POSITIVE])(row, scores)[0, tokens[n]]
        assert value == pytest.approx(float(expected), abs=1e-5)


def test_options_reach_the_inner_technique():
    technique = cat_paw(inner_options="against=opposite template='A {sentiment} text: '")
    tau = bag_mass(technique, LAKE)
    guidance = ClassifierFreeGuidance(
        model=technique.model, against="opposite", template="A {sentiment} text: "
    )
    inner = steered(guidance, LAKE, POSITIVE)
    assert_same(steered(replace(technique, tau=tau), LAKE, POSITIVE), inner)
    assert "against:opposite" in technique.signature


def test_a_position_at_which_no_word_of_the_bag_can_come_is_left_untouched(tmp_path):
    technique = cat_paw(strength=5.0)
    token = technique.base.ids(" was")[0]
    row = torch.tensor([technique._prompted(Request("1", LAKE, POSITIVE), 20).ids])
    scores = logits(technique, LAKE)[None].float()
    (tmp_path / "bag.txt").write_text("was\n")
    technique = replace(technique, bag=str(tmp_path / "bag.txt"))
    scores[0, token] = -torch.inf
    actual = technique.processor([POSITIVE])(row, scores)
    assert torch.equal(actual, scores.log_softmax(-1).log_softmax(-1))


def test_each_attribute_has_a_pace_of_its_own():
    """Guidance by attribute adds up, each with its own multiplier."""
    control = {**POSITIVE, "topic": "science"}
    technique = cat_paw(strength=2.0)
    pace = min(bag_mass(technique, LAKE) / 0.05, 2.0)
    base = logits(technique, LAKE).log_softmax(-1)
    expected = base.clone()
    for attribute, value in control.items():
        alone = ClassifierFreeGuidance(model=technique.model, strength=2.0)
        inner = steered(alone, LAKE, {attribute: value})
        expected = expected + pace * (inner - base)
    assert_same(steered(technique, LAKE, control), expected)


def test_tokens_of_longer_words_count_if_asked_for(tmp_path: Path):
    (tmp_path / "bag.txt").write_text("wasteland\n")
    technique = cat_paw(bag=str(tmp_path / "bag.txt"))
    with pytest.raises(UserError, match="none of its 1 words is a single token"):
        steered(technique, LAKE, POSITIVE)
    first = replace(technique, words="first")
    assert not torch.allclose(steered(first, LAKE, POSITIVE), logits(first, LAKE).log_softmax(-1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inner": "base"}, "inner=base: expected cfg, contrastive, combination,"),
        ({"inner": "cat-paw"}, "inner=cat-paw: expected cfg, .* or pplm"),
        ({"inner": "cgf"}, "did you mean cfg"),
        ({"inner_options": "against"}, "expected NAME=VALUE"),
        ({"inner_options": "agains=base"}, "there is no option 'agains'"),
    ],
)
def test_options_that_make_no_technique_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        cat_paw(**options)


def over_pplm(**options) -> tuple[CATPAW, PPLM]:
    """Around PPLM, and PPLM alone."""
    base, own = cases.model(), {"iterations": 2, "bag": cases.bag()}
    inner = PPLM(model=base, guide=cases.head_guide(base), strength=0.1, **own)
    technique = CATPAW(
        model=base,
        inner="pplm",
        inner_options=" ".join(f"{name}={value}" for name, value in own.items()),
        **{"guide": inner.guide, "strength": inner.strength, "bag": cases.bag(), **options},
    )
    return technique, inner


WAS = " was"


@pytest.mark.parametrize("control", [POSITIVE, {"words": "any"}], ids=["head", "bag"])
def test_around_pplm_r_multiplies_the_steps(control):
    """One token, so that r of one position is all there is."""
    technique, inner = over_pplm()
    r = bag_mass(technique, LAKE)
    (base,) = replace(inner, strength=0.0).log_probs([Request("1", LAKE, control)], [WAS])
    for pace in (1.0, 0.5, 7.0):
        paced = replace(technique, tau=r / pace)
        (found,) = paced.log_probs([Request("1", LAKE, control)], [WAS])
        of_pace = replace(inner, strength=inner.strength * pace)
        (expected,) = of_pace.log_probs([Request("1", LAKE, control)], [WAS])
        assert list(found) == pytest.approx(list(expected), abs=1e-5)
        assert list(found) != pytest.approx(list(base), abs=1e-4)


def with_mass(monkeypatch, r: float) -> None:
    def regulator(self, _):
        return Mass((r,)), self.tau

    monkeypatch.setattr(CATPAW, "_regulator", regulator)


def test_around_pplm_r_of_tau_gives_pplm_and_r_of_0_the_base(monkeypatch):
    technique, inner = over_pplm(tau=0.2)
    text = " was very old and it"
    asked = [Request(str(n), prompt, POSITIVE) for n, prompt in enumerate((LAKE, "", "It was"))]
    for r, other in ((0.2, inner), (0.0, replace(inner, strength=0.0))):
        with_mass(monkeypatch, r)
        found = technique.log_probs(asked, [text] * 3)
        for mine, theirs in zip(found, other.log_probs(asked, [text] * 3), strict=True):
            assert list(mine) == pytest.approx(list(theirs), abs=1e-5)


def test_around_pplm_there_is_no_cap_unless_it_is_set(monkeypatch):
    technique, inner = over_pplm(tau=0.2)
    asked = [Request("1", LAKE, POSITIVE)]
    with_mass(monkeypatch, 2.0)
    ten = replace(inner, strength=10 * inner.strength).log_probs(asked, [WAS])[0]
    three = replace(inner, strength=3 * inner.strength).log_probs(asked, [WAS])[0]
    assert technique.log_probs(asked, [WAS])[0] == pytest.approx(ten, abs=1e-5)
    assert replace(technique, cap=3.0).log_probs(asked, [WAS])[0] == pytest.approx(three, abs=1e-5)
    assert "cap:inf" in technique.signature
    assert "cap:2|" in cat_paw(cap=None).signature


def test_around_pplm_the_largest_pace_of_several_attributes_counts():
    pace = LargestPace(((Mass((0.1,)), 0.1), (Mass((0.02,)), 0.01)), 5.0)

    class Step:
        log_p = BASE.repeat(3, 1)

    assert pace.bind([POSITIVE] * 3).values(Step).tolist() == pytest.approx([2.0] * 3)
    capped = replace(pace, cap=1.5)
    assert capped.bind([POSITIVE] * 3).values(Step).tolist() == [1.5] * 3


def test_around_pplm_texts_are_generated_and_counted():
    technique, _ = over_pplm()
    asked = [Request("1", LAKE, POSITIVE), Request("2", "It", POSITIVE)]
    for answer in technique.generate(asked, decoding=Decoding(max_new_tokens=4)):
        assert answer.forward_passes == (2 + 2 * 2) * answer.tokens
        assert answer.backward_passes == 2 * 2 * answer.tokens
    with pytest.raises(UserError, match="not a logits processor"):
        technique.processor([POSITIVE])
    with pytest.raises(UserError, match="cannot be a term"):
        technique._formula(frozenset({"sentiment"}))
    assert "around pplm: " in technique.refusal({"sentiment": "so-so"})


def test_around_pplm_tau_is_that_of_steps():
    technique, _ = over_pplm()
    assert technique._regulator("sentiment")[1] == 0.02
    assert technique._regulator("topic")[1] == 0.01
    assert replace(technique, tau=0.3)._regulator("topic")[1] == 0.3


def test_without_a_bag_a_control_is_refused(tmp_path: Path):
    without = CATPAW(model="no/model", inner="cfg")
    assert "no bag of words of formality 'low' is known" in without.refusal({"formality": "low"})
    assert "no bag of words of topic 'sports'" in without.refusal({"topic": "sports"})
    assert "2 values" in without.refusal({"topic": ("science", "space")})
    (tmp_path / "empty.txt").write_text("\n")
    for file, why in (("empty.txt", "has no words"), ("none.txt", "expected a text file")):
        technique = CATPAW(model="no/model", inner="cfg", bag=str(tmp_path / file))
        assert why in technique.refusal(POSITIVE)


def test_the_bag_of_sentiment_has_words_of_both_kinds():
    pytest.importorskip("vaderSentiment")
    words = bag_words("sentiment", "positive")
    assert {"good", "bad", "wonderful", "terrible"} <= set(words)
    assert words == bag_words("sentiment", "negative")


@pytest.mark.usefixtures("rated_data")
def test_the_bag_of_a_topic_is_that_of_pplm():
    assert "laboratory" in bag_words("topic", "Science")
