"""Divergence from the base against distributions that are read anew at every token."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from plain import WHOLE

from contract_cases import CASES, by_mechanism
from levelfield.core.errors import UserError
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.divergence import Divergence, divergence, has_distribution
from levelfield.generation.technique import UncontrolledBase

SHORT = Decoding(max_new_tokens=5)
PROMPTS = ("The lake", "Once upon a time there was", "Go", "", "I", "火山 🎉")


def requests(case):
    return [Request(str(n), text, case.controls[0]) for n, text in enumerate(PROMPTS)]


def read_anew(technique, request, tokens):
    """log q before each token: one row, no cache; the whole text again at every step."""
    ids = technique._prompted(request, SHORT.max_new_tokens).ids
    model = technique._writer(request.control).model
    scoring = technique.processor([request.control], decoding=WHOLE)
    for step in range(len(tokens)):
        row = torch.tensor([[*ids, *tokens[:step]]])
        with torch.inference_mode():
            if CASES[technique.name].rereads:
                scoring = technique.processor([request.control], decoding=WHOLE)
            scores = scoring(row, model(input_ids=row).logits[:, -1])[0]
        yield scores.double().log_softmax(-1)


@by_mechanism(
    name
    for name, case in CASES.items()
    if case.steers and name != "ctrl" and has_distribution(case.make())
)
def test_the_divergence_is_that_of_distributions_read_anew(name):
    technique, asked = CASES[name].make(batch=4), requests(CASES[name])
    base = UncontrolledBase(model=technique.model)
    found = divergence(technique, asked, decoding=SHORT, seed=3)
    answers = [*technique.generate(asked, decoding=SHORT, seed=3)]
    for request, nats, answer in zip(asked, found.nats, answers, strict=True):
        prompted = [technique._prompted(request, SHORT.max_new_tokens)]
        (written,) = technique._continue(prompted, SHORT, 3)
        assert len(nats) == written.steps == answer.tokens
        pairs = zip(
            read_anew(technique, request, written.ids),
            read_anew(base, request, written.ids),
            strict=True,
        )
        expected = [
            float(torch.where(q.isfinite(), q.exp() * (q - p), 0.0).sum()) for q, p in pairs
        ]
        assert nats[: len(expected)] == pytest.approx(expected, abs=2e-5)


def test_gradients_count_too_and_a_small_step_goes_less_far():
    near, far = (
        divergence(CASES["pplm"].make(strength=s), requests(CASES["pplm"]), decoding=SHORT)
        for s in (0.01, 0.3)
    )
    assert 0 < near.mean.value < far.mean.value


def test_the_base_does_not_go_from_itself():
    found = divergence(CASES["base"].make(), requests(CASES["base"]), decoding=SHORT)
    assert np.concatenate(found.nats).tolist() == pytest.approx([0] * found.mean.n, abs=1e-6)


def test_neither_batches_nor_order_change_it():
    case = CASES["gedi"]
    asked = requests(case)
    one = divergence(case.make(batch=1), asked, decoding=SHORT)
    many = divergence(case.make(batch=6), asked[::-1], decoding=SHORT)
    for a, b in zip(one.nats, many.nats[::-1], strict=True):
        assert a == pytest.approx(b, abs=1e-5)


def test_cuts_of_the_decoding_decide_which_texts_are_read_and_not_how_far():
    case = CASES["caa"]
    cut = divergence(case.make(), requests(case), decoding=Decoding(max_new_tokens=5, top_k=2))
    assert np.isfinite(np.concatenate(cut.nats)).all()


def test_the_mean_is_over_tokens_and_its_interval_over_prompts():
    found = Divergence((np.array([1.0, 2.0, 3.0]), np.array([6.0])), ("a", "a"))
    assert (found.mean.value, found.mean.n, found.mean.clusters) == (3.0, 4, 1)
    assert np.isnan(found.mean.low)
    rows = [(0.1 * k, 0.2 * k, 0.3) for k in range(8)]
    apart = Divergence(tuple(map(np.array, rows)), tuple(map(str, range(8)))).mean
    means = np.array(rows).mean(axis=1)
    half = 2.3646 * means.std(ddof=1) / np.sqrt(8)
    assert apart.high - apart.value == pytest.approx(half, rel=1e-4)


@pytest.mark.parametrize("name", ["bolt", "cbart", "constrained-beam", "best-of-n", "chat", "copy"])
def test_what_has_no_probabilities_has_no_divergence(name):
    with pytest.raises(UserError, match=f"{name} gives no probabilities"):
        divergence(CASES[name].make(), [])


def test_a_model_that_needs_a_code_has_no_base():
    case = CASES["ctrl"]
    with pytest.raises(UserError, match="ctrl reads a code"):
        divergence(case.make(), requests(case))


def test_what_is_refused_is_refused():
    with pytest.raises(UserError, match="keywords"):
        divergence(CASES["gedi"].make(), [Request("1", "a", {"keywords": ("b",)})])
