"""RAD against the loop that reads every candidate text by itself."""

from __future__ import annotations

import pytest
import torch
from plain import assert_same, logits, steered

import technique_cases as cases
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.techniques.rad.technique import RAD
from levelfield.metrics import ControlProbability

LAKE = "The lake"
GLAD = {"sentiment": "positive"}


def rad(**options) -> RAD:
    judge = f"judges={cases.JUDGE}"
    return RAD(**{"model": cases.model(), "metric_options": judge, "candidates": 12, **options})


def by_the_loop(technique: RAD, control, k: int) -> torch.Tensor:
    """log p + β r of the k likeliest tokens, −∞ of the others."""
    base = logits(technique, LAKE)
    metric, ids = ControlProbability(judges=str(cases.JUDGE)), technique.base.ids(LAKE)
    scores = torch.full_like(base, -torch.inf)
    for token in base.topk(k).indices.tolist():
        text = technique.base.text([*ids, token])
        (p,) = metric.score([Sample("1", text, control=control)]).values
        scores[token] = base[token] + technique.strength * p
    return scores


@pytest.mark.parametrize("strength", [-2.0, 0.5, 30.0])
def test_the_likeliest_tokens_are_weighed_by_the_reward_of_their_texts(strength):
    technique = rad(strength=strength)
    for control in (GLAD, {"sentiment": "negative"}):
        expected = by_the_loop(technique, control, 12)
        assert expected[expected.isfinite()].unique().numel() > 1
        assert_same(steered(technique, LAKE, control), expected)


def test_candidates_are_within_what_the_decoding_leaves():
    few = steered(rad(), LAKE, GLAD, Decoding(top_k=3, top_p=1.0))
    assert_same(few, by_the_loop(rad(), GLAD, 3))


def test_a_reward_is_cut_to_between_0_and_1_and_none_is_0(monkeypatch):
    technique = rad(strength=2.0)
    given = [5.0, -3.0, -torch.inf, 0.25, *[0.0] * 8]
    monkeypatch.setattr(RAD, "_worth", lambda _, samples: given[: len(samples)])
    base = logits(technique, LAKE)
    kept = sorted(base.topk(12).indices.tolist())
    expected = torch.full_like(base, -torch.inf)
    for token, reward in zip(kept, [1.0, 0.0, 0.0, 0.25, *[0.0] * 8], strict=True):
        expected[token] = base[token] + 2 * reward
    assert_same(steered(technique, LAKE, GLAD), expected)


def test_every_candidate_is_a_pass():
    decoding = Decoding(max_new_tokens=3, top_p=1.0)
    (answer,) = rad().generate([Request("1", LAKE, GLAD)], decoding=decoding)
    assert answer.forward_passes == answer.tokens * (1 + 12)


def test_without_a_control_nobody_judges_and_the_text_is_the_bases():
    assert_same(steered(rad(), LAKE, {}), logits(rad(), LAKE))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"metric": "composite.consistency", "metric_options": ""}, "needs prompt"),
        ({"metric": "fluency.perplexity", "metric_options": ""}, "lower is better"),
        ({"metric": "control.balanced-accuracy"}, "no value for a single text"),
        ({"candidates": 0}, "candidates"),
    ],
)
def test_what_is_no_reward_of_a_beginning_is_refused(options, reason):
    with pytest.raises(UserError, match=reason):
        rad(**options)


def test_attributes_without_a_judge_are_refused():
    technique = RAD(metric_options="judges=vader")
    assert technique.refusal(GLAD) == ""
    assert "judges topic; cfg, chat" in technique.refusal({"topic": "science"})
    assert "judges keywords" in technique.refusal({**GLAD, "keywords": ("lake",)})
