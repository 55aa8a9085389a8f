"""GeDi on models: the scores of the formula, written out from the guide's own model."""

from __future__ import annotations

import pytest
import torch
from plain import assert_read_as_written, assert_same, logits, steered
from test_guided import both_guides

import technique_cases as cases
from levelfield.generation.techniques.class_lm.class_guidance import GeDi

LAKE = "The lake was very"


def gedi(**options) -> GeDi:
    return GeDi(**{"model": cases.model(), "guide": both_guides(), "strength": 3.0, **options})


def posterior(technique, attribute, text, wanted):
    """log P(wanted | text and each next token), class by class: (vocabulary,)."""
    learnt = technique._class_lm(attribute)
    ids = technique.base.ids(text)
    scores = {}
    for label in learnt.labels:
        code = learnt.codes[label]
        row = torch.tensor([[technique.base.bos_id, *code, *ids]])
        with torch.inference_mode():
            log_p = learnt.lm.model(input_ids=row).logits[0].double().log_softmax(-1)
        places = range(len(code), len(code) + len(ids))
        of_text = sum(log_p[place, token] for place, token in zip(places, ids, strict=True))
        scores[label] = of_text + log_p[-1]
        if technique.length == "mean":
            scores[label] = learnt.scale * scores[label] / (len(ids) + 1) + learnt.bias[label]
    return scores[wanted] - torch.stack(list(scores.values())).logsumexp(0)


@pytest.mark.parametrize("length", ["mean", "sum"])
@pytest.mark.parametrize("text", [LAKE, "", "word" + " word" * 60])
def test_the_score_is_the_formula_for_two_attributes_at_once(length, text):
    technique = gedi(length=length)
    expected = logits(technique, text).log_softmax(-1)
    expected = expected + 3.0 * posterior(technique, "sentiment", text, "positive")
    expected = expected + 3.0 * posterior(technique, "topic", text, "Sports")
    control = {"sentiment": "positive", "topic": "Sports"}
    assert_same(steered(technique, text, control), expected)


@pytest.mark.parametrize("length", ["mean", "sum"])
def test_what_is_written_counts_as_what_is_read(length):
    """Every step of a text, in a batch of several lengths, against the same text as a prompt."""
    technique = gedi(length=length)
    assert_read_as_written(technique, {"topic": "World"}, LAKE)


def test_a_label_is_surer_where_the_strength_is_greater():
    weak, strong = (gedi(strength=strength, length="sum") for strength in (1.0, 10.0))
    post = posterior(weak, "topic", LAKE, "Sports")
    p_weak, p_strong = (
        (steered(one, LAKE, {"topic": "Sports"}).softmax(-1) * post).sum() for one in (weak, strong)
    )
    assert p_strong > p_weak


def test_the_filter_leaves_fewer_tokens_and_never_none():
    control = {"topic": "Sports"}
    every = steered(gedi(), LAKE, control)
    few = steered(gedi(filter_p=0.8), LAKE, control)
    assert every.isfinite().all()
    assert 1 <= few.isfinite().sum() < every.isfinite().sum()
