"""Proxy tuning, GenARM and Air-Decoding against their formulas, written out."""

from __future__ import annotations

import pytest
import torch
from plain import assert_same, logits, steered
from test_dexperts import of_class
from test_guided import both_guides

import technique_cases as cases
from levelfield.core.errors import UserError
from levelfield.generation.techniques.air_decoding.technique import AirDecoding
from levelfield.generation.techniques.genarm.technique import GenARM
from levelfield.generation.techniques.proxy_tuning.technique import ProxyTuning
from levelfield.models.torch.language_model import language_model

LAKE = "The lake was very"
POSITIVE, NEGATIVE = {"sentiment": "positive"}, {"sentiment": "negative"}


def with_guides(technique, **options):
    return technique(**{"model": cases.model(), "guide": both_guides(), **options})


def test_proxy_tuning_adds_what_tuning_changed():
    technique = with_guides(ProxyTuning, strength=0.8)
    base = logits(technique, LAKE).log_softmax(-1)
    for control in (POSITIVE, {"topic": "Sports"}):
        ((attribute, label),) = control.items()
        tuned = of_class(technique, attribute, label, LAKE)
        assert_same(steered(technique, LAKE, control), base + 0.8 * (tuned - base))


def test_proxy_tuning_subtracts_the_model_that_the_experts_were_tuned_from():
    expert, other, before = (cases.model(seed=seed) for seed in (1, 2, 3))
    technique = ProxyTuning(
        model=cases.model(), experts=f"positive={expert},negative={other}", untuned=before
    )
    p, tuned, untuned = (
        logits(technique, LAKE, model=language_model(name)).log_softmax(-1)
        for name in (cases.model(), expert, before)
    )
    assert_same(steered(technique, LAKE, POSITIVE), p + tuned - untuned)


def test_proxy_tuning_requires_the_model_that_its_experts_were_tuned_from():
    """With the base in its place, strength 1 is the expert alone, whatever the base."""
    with pytest.raises(UserError, match=r"^proxy-tuning: experts require untuned, the model"):
        ProxyTuning(model="no/model", experts="positive=no/expert,negative=no/other")


def test_genarm_adds_the_rewards_of_tokens():
    technique = with_guides(GenARM, strength=0.7)
    reward = of_class(technique, "sentiment", "negative", LAKE)
    topic = of_class(technique, "topic", "World", LAKE)
    base = logits(technique, LAKE).log_softmax(-1)
    assert_same(steered(technique, LAKE, NEGATIVE), base + 0.7 * reward)
    both = {**NEGATIVE, "topic": "World"}
    assert_same(steered(technique, LAKE, both), base + 0.7 * (reward + topic))


@pytest.mark.parametrize("control", [POSITIVE, {"topic": "World"}])
def test_air_decoding_multiplies_reconstructed_posteriors_of_what_is_written(control):
    """The rule of the authors' program, one text alone, read anew at each step."""
    technique = with_guides(AirDecoding, strength=3.0)
    ((attribute, wanted),) = control.items()
    labels = technique._class_lm(attribute).labels
    tokens = technique.base.ids(" was green and old")
    weight = dict.fromkeys(labels, 1.0)
    processor = technique.processor([control])
    start = technique.base.ids(LAKE)
    for step, token in enumerate(tokens):
        text = technique.base.text([*start, *tokens[:step]])
        distance = {c: -1 / of_class(technique, attribute, c, text) for c in labels}
        total = sum(weight[c] * distance[c] for c in labels)
        posterior = weight[wanted] * distance[wanted] / total
        row = torch.tensor([[technique.base.bos_id, *start, *tokens[:step]]])
        plain = technique.base.model(input_ids=row).logits[:, -1].detach()
        expected = plain[0].double().log_softmax(-1) + 3 * posterior.log()
        assert_same(processor(row, plain)[0].double(), expected)
        weight = {c: weight[c] * float(distance[c][token]) for c in labels}


def test_what_a_beam_leaves_is_forgotten():
    """Rows that change places keep the products of their own texts."""
    technique = with_guides(AirDecoding, strength=3.0)
    processor = technique.processor([POSITIVE])
    base = technique.base
    first = [base.bos_id, *base.ids(LAKE)]
    a, b = base.ids(" was")[0], base.ids(" it")[0]

    def scores(processor, *rows):
        ids = torch.tensor(rows)
        with torch.inference_mode():
            return processor(ids, base.model(input_ids=ids).logits[:, -1])

    scores(processor, first, first)
    scores(processor, [*first, a], [*first, b])
    swapped = scores(processor, [*first, b, a], [*first, b, b])
    alone = technique.processor([POSITIVE])
    for row in (first, [*first, b]):
        scores(alone, row)
    assert_same(swapped[0].double(), scores(alone, [*first, b, a])[0].double())


@pytest.mark.parametrize("technique", [ProxyTuning, GenARM])
def test_experts_and_guides_are_not_given_together(technique):
    with pytest.raises(UserError, match=f"{technique.name}: give a guide or experts"):
        technique(model="no/model", guide="x", experts="positive=a,negative=b")
