"""Which guide serves a control, which label it means, and what is refused."""

from __future__ import annotations

import pytest
import safetensors.torch
import torch

import technique_cases as cases
from contract_cases import CASES
from levelfield.core.errors import ModelError, UserError
from levelfield.generation.contract import Request
from levelfield.generation.guides import meant, weights_on_base
from levelfield.generation.techniques.ctrl_lite.technique import CTRLLite
from levelfield.generation.techniques.dexperts.technique import DExperts
from levelfield.generation.techniques.gedi.technique import GeDi
from levelfield.models.guides import guide_named
from levelfield.models.loading import AS_USUAL

every = pytest.mark.parametrize("technique", [CTRLLite, DExperts, GeDi])
BOTH = {"sentiment": "positive", "topic": "Sports"}


def both_guides() -> str:
    base = cases.model()
    return f"{cases.class_guide(base)}, {cases.class_guide(base, 'topic')}"


@pytest.mark.parametrize(
    ("attribute", "wanted", "labels", "label"),
    [
        ("sentiment", " Positive ", ("negative", "positive"), "positive"),
        ("sentiment", "pos", ("negative", "positive"), "positive"),
        ("topic", "Science/Technology", ("World", "Sci/Tech"), "Sci/Tech"),
        ("topic", "Sci/Tech", ("world", "science and technology"), "science and technology"),
        ("topic", "Sport", ("SPORTS", "WORLD"), "SPORTS"),
        ("topic", "science", ("World", "Sci/Tech"), None),
        ("sentiment", "Science/Technology", ("World", "Sci/Tech"), None),
        ("style", "b", ("B", "b"), "b"),
        ("style", "", ("B", "b"), None),
    ],
)
def test_a_value_means_the_label_that_judges_take_it_for(attribute, wanted, labels, label):
    assert meant(attribute, wanted, labels) == label


@every
@pytest.mark.parametrize(
    ("control", "why"),
    [
        (
            {"sentiment": "mixed"},
            '{}: sentiment "mixed" is not a label of guide sentiment; there are negative, positive',
        ),
        ({"sentiment": ("negative", "positive")}, "{}: sentiment has 2 values; expected one"),
        ({"sentiment": ()}, "{}: sentiment has 0 values; expected one"),
        ({"topic": "Sports"}, '{}: no guide for "topic" among sentiment (for sentiment)'),
        (
            {"keywords": ("court", "culture")},
            "{}: controls labels of texts, not keywords; bolt, cbart, ",
        ),
    ],
)
def test_what_no_label_serves_is_refused_with_what_there_is(technique, control, why):
    made = technique(model=cases.model(), guide=cases.class_guide(cases.model()))
    assert made.refusal(control).startswith(why.format(made.name))
    with pytest.raises(UserError, match="'1': "):
        next(made.generate([Request("1", "a", control)]))


@every
def test_without_a_guide_the_shipped_ones_serve_the_default_base_only(technique):
    assert "levelfield train guide" in technique(model="no/such").refusal({"sentiment": "positive"})
    assert technique().refusal({"sentiment": "Positive"}) == ""
    assert technique().refusal({"sentiment": ("positive",)}) == ""
    assert "offline/sentiment-lm" in technique().refusal({"style": "formal"})


@every
def test_the_signature_has_the_checksums_of_all_guides(technique):
    signature = technique(model=cases.model(), guide=both_guides()).signature
    assert "|guide:sentiment@" in signature
    assert ",topic@" in signature
    assert "|guide:offline/sentiment-lm@" in technique().signature


@pytest.mark.parametrize("technique", [DExperts, GeDi])
def test_a_text_does_not_depend_on_how_the_label_is_spelt(technique):
    made = technique(model=cases.model(), guide=both_guides())
    spelt = [
        {"sentiment": "POS", "topic": "Science/Technology"},
        {"sentiment": ("positive",), "topic": "sci/tech"},
    ]
    first, second = (next(made.generate([Request("1", "The lake", of)])).text for of in spelt)
    assert first == second


@pytest.mark.parametrize("technique", [DExperts, GeDi])
def test_without_control_the_base_writes(technique):
    made = technique(model=cases.model(), guide=both_guides())
    base = CASES["base"].make()
    requests = [Request("1", "The lake")]
    assert [one.text for one in made.generate(requests)] == [
        one.text for one in base.generate(requests)
    ]


def test_a_code_stands_for_one_attribute():
    made = CTRLLite(model=cases.model(), guide=both_guides())
    expected = "ctrl-lite: accepts one attribute at a time; there are sentiment, topic"
    assert made.refusal(BOTH) == expected
    assert DExperts(model=cases.model(), guide=both_guides()).refusal(BOTH) == ""


@pytest.mark.parametrize(
    ("tensors", "problem"),
    [
        ({"bias": torch.tensor([0.0, torch.nan])}, "bias are not all finite numbers"),
        ({"weight": torch.full((3, 2), torch.inf)}, "weight are not all finite numbers"),
        ({"weight": torch.ones(3, 2, dtype=torch.int64)}, "weight are of type int64, not floats"),
        ({"weight": torch.ones(0, 2)}, "weight are empty"),
        ({"extra": torch.ones(1)}, "extra are not known"),
    ],
)
def test_weights_of_a_guide_that_no_training_writes_are_refused(tmp_path, tensors, problem):
    shipped = guide_named("offline/sentiment-head")
    (tmp_path / "guide.json").write_bytes((shipped.path / "guide.json").read_bytes())
    whole = {"weight": torch.ones(3, 2), "bias": torch.zeros(2), **tensors}
    safetensors.torch.save_file(whole, tmp_path / "guide.safetensors")
    guide = guide_named.__wrapped__(str(tmp_path))
    names = ("weight", "bias")
    with (
        pytest.raises(ModelError, match=f"can't be used: its weights {problem}"),
        weights_on_base(guide, "head", "offline/smollm2", AS_USUAL, names),
    ):
        pass
