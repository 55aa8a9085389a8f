"""GeDi on models: the scores of the formula, written out from the guide's own model."""

from __future__ import annotations

import pytest
import torch
from plain import WHOLE, assert_read_as_written, assert_same, logits, steered
from test_guided import both_guides

import technique_cases as cases
from levelfield.generation.contract import Request
from levelfield.generation.techniques.gedi.technique import GeDi

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


@pytest.mark.parametrize("length", ["mean", "sum"])
def test_the_bias_of_the_class_is_added_to_the_wanted_label_alone(length):
    technique = gedi(length=length, class_bias=2.0)
    for wanted in ("World", "Sports"):
        others = [label for label in technique._class_lm("topic").labels if label != wanted]
        log_p = posterior(technique, "topic", LAKE, wanted)
        rest = torch.stack([posterior(technique, "topic", LAKE, one) for one in others])
        surer = log_p + 2 - torch.stack([log_p + 2, *rest]).logsumexp(0)
        expected = logits(technique, LAKE).log_softmax(-1) + 3.0 * surer
        assert_same(steered(technique, LAKE, {"topic": wanted}), expected)


def test_the_scaled_penalty_is_that_of_the_authors_program():
    """Its rule, a token at a time: shift the largest to 10, divide once an occurrence of a written
    token, shift again where that token was the largest."""
    plain_gedi, theta = gedi(length="sum"), 1.7
    technique = gedi(length="sum", scaled_penalty=theta)
    control = {"topic": "Sports"}
    likeliest = int(steered(plain_gedi, LAKE, control).argmax())
    some = technique.base.ids(" old old it")
    for written in ([], some, [likeliest, *some, likeliest, likeliest]):
        prompt = torch.tensor([[technique.base.bos_id, *technique.base.ids(LAKE)]])
        rows = torch.cat([prompt, torch.tensor([written], dtype=torch.long)], dim=1)
        with torch.inference_mode():
            read = technique.base.model(input_ids=rows).logits[0]
            steering = technique.processor([control])
            for n in range(prompt.shape[1], rows.shape[1] + 1):
                actual = steering(rows[:, :n], read[None, n - 1])[0]
            fresh = plain_gedi.processor([control])(rows, read[None, -1])[0].double()
        values = [float(value) for value in fresh]
        top = max(values)
        values = [value - top + 10 for value in values]
        for token in written:
            was_top = values[token] == max(values)
            values[token] = values[token] / theta
            if was_top:
                top = max(values)
                values = [value - top + 10 for value in values]
        assert_same(actual.double(), torch.tensor(values, dtype=torch.float64))
    assert technique.signature != plain_gedi.signature


def test_the_scaled_penalty_is_the_same_where_gradients_are_recorded():
    technique = gedi(scaled_penalty=1.5)
    start = torch.tensor([[technique.base.bos_id, *technique.base.ids(LAKE)]])
    values = {}
    for recorded in (True, False):
        processor, rows = technique.processor([{"topic": "Sports"}]), start
        with torch.set_grad_enabled(recorded):
            for _ in range(3):
                scores = processor(rows, technique.base.model(input_ids=rows).logits[:, -1])
                rows = torch.cat([rows, scores.argmax(-1, keepdim=True)], dim=1)
        values[recorded] = scores
    assert values[True].requires_grad
    torch.testing.assert_close(values[True].detach(), values[False])
    (gradient,) = torch.autograd.grad(
        values[True].softmax(-1)[0, 5], technique.base.model.get_output_embeddings().weight
    )
    assert gradient.isfinite().all()


def test_rows_of_a_batch_have_penalties_of_their_own():
    technique = gedi(scaled_penalty=1.5)
    assert_read_apart(technique)


def assert_read_apart(technique) -> None:
    asked = [Request(str(n), text, {"topic": "Sports"}) for n, text in enumerate((LAKE, "I", ""))]
    texts = [" old old it was old", " it it", " was it was it"]
    together = technique.log_probs(asked, texts, decoding=WHOLE)
    for request, text, values in zip(asked, texts, together, strict=True):
        (alone,) = technique.log_probs([request], [text], decoding=WHOLE)
        assert list(values) == pytest.approx(list(alone), abs=1e-4)
