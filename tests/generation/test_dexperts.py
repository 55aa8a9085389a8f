"""DExperts on models: the scores of the formula, with a guide and with models of one's own."""

from __future__ import annotations

import pytest
import torch
from plain import assert_read_as_written, assert_same, logits, steered
from test_guided import both_guides

import technique_cases as cases
from levelfield.core.errors import UserError
from levelfield.generation.contract import Request
from levelfield.generation.techniques.dexperts.technique import DExperts
from levelfield.models.torch.language_model import language_model

LAKE = "The lake was very"
POSITIVE, NEGATIVE = {"sentiment": "positive"}, {"sentiment": "negative"}


def dexperts(**options) -> DExperts:
    return DExperts(**{"model": cases.model(), "strength": 0.8, **options})


def of_class(technique, attribute, label, text):
    """log P(next token | label, text) of the guide's model."""
    learnt = technique._class_lm(attribute)
    base = technique.base
    row = torch.tensor([[base.bos_id, *learnt.codes[label], *base.ids(text)]])
    with torch.inference_mode():
        return learnt.lm.model(input_ids=row).logits[0, -1].double().log_softmax(-1)


def test_expert_and_anti_expert_are_the_guides_model_behind_two_codes():
    technique = dexperts(guide=both_guides())
    positive, negative = (
        of_class(technique, "sentiment", label, LAKE) for label in ("positive", "negative")
    )
    expected = logits(technique, LAKE) + 0.8 * (positive - negative)
    assert_same(steered(technique, LAKE, POSITIVE), expected)
    assert_same(steered(technique, LAKE, NEGATIVE), logits(technique, LAKE) * 2 - expected)


def test_attributes_add_up():
    technique = dexperts(guide=both_guides())
    base = logits(technique, LAKE).log_softmax(-1)
    sentiment = steered(technique, LAKE, POSITIVE) - base
    topic = steered(technique, LAKE, {"topic": "Sports"}) - base
    both = steered(technique, LAKE, {**POSITIVE, "topic": "Sports"})
    assert_same(both, base + sentiment + topic)


def test_of_three_labels_what_is_written_counts_as_what_is_read():
    """The mixture of the other classes follows the text with a cache and in a padded batch."""
    technique = dexperts(guide=both_guides(), strength=2.0)
    assert_read_as_written(technique, {"topic": "World"}, LAKE)


# -- models of one's own


def test_experts_may_be_whole_models_and_the_base_where_none_is_named():
    expert = cases.model(seed=1)
    technique = dexperts(experts=f"Positive={expert}, Negative=")
    base = logits(technique, LAKE)
    reads = language_model(expert, technique.loading)
    difference = logits(technique, LAKE, model=reads).log_softmax(-1) - base.log_softmax(-1)
    assert_same(steered(technique, LAKE, POSITIVE), base + 0.8 * difference)
    assert_same(steered(technique, LAKE, NEGATIVE), base - 0.8 * difference)


def test_experts_serve_the_labels_that_they_are_named_for():
    technique = dexperts(model="no/such-model", experts="positive=a,negative=b")
    assert technique.refusal(POSITIVE) == ""
    assert technique.refusal({"sentiment": "mixed"}) == (
        'dexperts: sentiment "mixed" is not a label of the experts; there are positive, negative'
    )
    assert "not keywords; bolt" in technique.refusal({"keywords": ("court", "culture")})
    assert "experts serve one attribute at a time" in technique.refusal({**POSITIVE, "topic": "x"})


def test_the_signature_names_each_experts_weights():
    expert = cases.model(seed=1)
    signature = dexperts(experts=f"positive={expert},negative=").signature
    label = language_model(expert).label
    assert f"|experts:positive={label},negative=base|" in signature
    assert "guide" not in signature


@pytest.mark.parametrize("experts", ["a", "positive=a", "=a,negative=b", "a=b,a=c", "a=b,,c=d"])
def test_experts_that_cant_be_read_are_refused(experts):
    with pytest.raises(UserError, match=r"expected labels, each with a model, e\.g\. positive="):
        dexperts(experts=experts)


def test_a_guide_and_experts_are_refused():
    with pytest.raises(UserError, match="give a guide or experts, not both"):
        dexperts(experts="a=b,c=d", guide="folder")


def test_an_expert_with_another_vocabulary_is_refused():
    technique = dexperts(experts=f"positive={cases.model('llama')},negative=")
    with pytest.raises(UserError, match="has a different vocabulary from the base"):
        next(technique.generate([Request("1", LAKE, POSITIVE)]))
