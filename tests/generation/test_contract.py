"""What every technique must do, whatever it is."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

import technique_cases as cases
from contract_cases import CASES, by_mechanism
from levelfield.core.errors import UserError
from levelfield.core.sample import Control
from levelfield.generation.contract import Answer, Decoding, Request
from levelfield.generation.table import TECHNIQUES
from levelfield.generation.technique import LocalTechnique
from levelfield.models.torch import language_model
from technique_cases import Case

PROMPTS = ("The lake", "", "Once upon a time there was a very old road", "火山 🎉", "Go ", "I")
SOURCES = ("The lake", "i dont know!!", "Once upon a time there was a road", "火山 🎉", "Go ", "I")
SHORT = Decoding(max_new_tokens=6)

LOCAL = [name for name, case in CASES.items() if isinstance(case.make(), LocalTechnique)]
every = by_mechanism(CASES)
every_local = by_mechanism(LOCAL)
every_steering = by_mechanism(name for name in LOCAL if CASES[name].steers)
every_with_strength = by_mechanism(name for name, case in CASES.items() if case.strength)


def requests(case: Case) -> list[Request]:
    return [
        request(case, f"{n}:{k}", text, control)
        for n, text in enumerate(SOURCES if case.rewrites else PROMPTS)
        for k, control in enumerate(case.controls)
    ]


def request(case: Case, id: str, text: str, control: Control) -> Request:
    """With a source for techniques that rewrite, with a prompt for the others."""
    if case.rewrites:
        return Request(id, control=control, source=text, references=(f"{text}.",))
    return Request(id, text, control)


def answers(technique, asked, seed=0, decoding=SHORT) -> dict[str, Answer]:
    return {one.id: one for one in technique.generate(asked, decoding=decoding, seed=seed)}


def texts(technique, asked, seed=0, decoding=SHORT) -> dict[str, str]:
    return {id: one.text for id, one in answers(technique, asked, seed, decoding).items()}


@cache
def usual(name: str) -> dict[str, Answer]:
    """The answers to all requests of a case, by its technique as the case makes it."""
    case = CASES[name]
    return answers(case.make(), requests(case))


def usual_texts(name: str) -> dict[str, str]:
    return {id: one.text for id, one in usual(name).items()}


def test_every_technique_is_tested():
    assert set(CASES) == set(TECHNIQUES)


@every
def test_the_name_is_that_of_the_table(name):
    assert CASES[name].make().name == name
    assert TECHNIQUES[name].target.endswith(f":{type(CASES[name].make()).__name__}")


@every
def test_answers_carry_ids_prompts_and_what_was_written(name):
    case = CASES[name]
    asked = requests(case)
    of = usual(name)
    assert set(of) == {request.id for request in asked}
    for request in asked:
        answer = of[request.id]
        assert (answer.prompt, dict(answer.control)) == (request.prompt, dict(request.control))
        assert (answer.source, answer.references) == (request.source, request.references)
        assert answer.text == answer.prompt + answer.continuation
        if not case.generates:
            assert (answer.tokens, answer.forward_passes) == (0, 0)
            continue
        assert answer.tokens >= 1
        assert answer.forward_passes >= (answer.tokens if case.autoregressive else 1)
        assert answer.seconds >= 0


@every
def test_the_budget_is_kept(name):
    case = CASES[name]
    for budget in (1, 4):
        of = answers(case.make(), requests(case), decoding=Decoding(max_new_tokens=budget))
        assert max(one.tokens for one in of.values()) <= budget


@every
def test_a_seed_gives_the_same_texts_and_another_seed_others(name):
    case = CASES[name]
    asked = requests(case)
    assert texts(case.make(), asked, seed=1) == texts(case.make(), asked, seed=1)
    others = texts(case.make(), asked, seed=2)
    assert (texts(case.make(), asked, seed=1) != others) == case.draws


@every
def test_a_batch_gives_the_texts_of_singles(name):
    case = CASES[name]
    asked = requests(case)
    assert texts(case.make(batch=1), asked) == texts(case.make(batch=5), asked)


@every
def test_neither_order_nor_what_else_is_asked_changes_a_text(name):
    """So what was interrupted can go on with the requests that are left."""
    case = CASES[name]
    asked = requests(case)
    every_text = usual_texts(name)
    assert texts(case.make(), asked[::-1]) == every_text
    some = asked[3:7]
    assert texts(case.make(), some) == {request.id: every_text[request.id] for request in some}


@every_with_strength
def test_strength_0_is_the_base(name):
    case = CASES[name]
    asked = requests(case)
    base = answers(CASES["base"].make(), asked)
    without = answers(case.make(strength=0.0), asked)
    assert {id: one.text for id, one in without.items()} == {
        id: one.text for id, one in base.items()
    }
    assert {id: one.forward_passes for id, one in without.items()} == {
        id: one.forward_passes for id, one in base.items()
    }


@every_with_strength
def test_strength_changes_texts_and_signature(name):
    case = CASES[name]
    asked = requests(case)
    strong, without = case.make(strength=case.strong), case.make(strength=0.0)
    assert texts(strong, asked) != texts(without, asked)
    assert strong.signature != without.signature


@every
def test_the_signature_names_every_option_that_changes_a_text(name):
    case = CASES[name]
    signature = case.make().signature
    assert signature.startswith(f"{name}|")
    for option, value in case.options.items():
        assert case.make(**{option: value}).signature != signature, option


@every
def test_the_signature_is_known_without_a_model_in_memory(name, monkeypatch):
    """So a study knows which of its texts are stale before anything is loaded."""
    technique = CASES[name].make()
    language_model.language_model.cache_clear()
    monkeypatch.setattr(language_model, "load_pretrained", lambda *_: pytest.fail("loads a model"))
    assert technique.signature.startswith(f"{name}|")


@every
def test_a_technique_can_be_sent_to_another_process(name):
    technique = CASES[name].make()
    assert pickle.loads(pickle.dumps(technique)) == technique


@every
def test_what_is_not_supported_is_refused_before_a_model_is_loaded(name):
    case = CASES[name]
    technique = case.make(model="no/such-model")
    twice = [request(case, "1", text, case.controls[0]) for text in ("a", "b")]
    with pytest.raises(UserError, match="'1' occurs twice"):
        next(technique.generate(twice))
    if case.refused is None:
        assert technique.refusal({"keywords": ("court", "culture")}) == ""
        return
    asked = [request(case, str(n), "a", case.refused) for n in range(2)]
    with pytest.raises(UserError, match=r"'0': .*'1': "):
        next(technique.generate([*asked, request(case, "2", "a", case.controls[0])]))


@every
def test_prompts_are_continued_and_sources_rewritten_and_nothing_else(name):
    """Refused in one line before a model is loaded."""
    case = CASES[name]
    technique = case.make(model="no/such-model")
    control = case.controls[0]
    if case.rewrites:
        wrong, why = Request("1", "The lake", control), f"{name} rewrites a source"
    else:
        wrong = Request("1", "The lake", control, source="A lake.")
        why = f"{name} continues prompts"
    with pytest.raises(UserError, match=f"^requests: '1': {why}[^\n]*$"):
        next(technique.generate([wrong]))


@every
def test_references_change_no_text(name):
    case = CASES[name]
    asked = requests(case)
    others = [replace(request, references=("Something else.",)) for request in asked]
    assert texts(case.make(), others) == usual_texts(name)


@every_steering
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_padding_and_cache_change_no_probability(name, family):
    """Against one row alone that reads everything anew at every step."""
    case = CASES[name]
    if family != "gpt2" and name in NEEDS_GPT2:
        pytest.skip("its guides are for the GPT-2 of the tests")
    technique = case.make(model=cases.model(family))
    decoding = Decoding(top_p=1.0)
    asked = requests(case)[:6]
    written = [" was green", " it", " and then nobody came", " was", "!", " saw him"]
    for request, text, log_p in zip(
        asked, written, technique.log_probs(asked, written, decoding=decoding), strict=True
    ):
        ids = technique._prompted(request, 20).ids
        tokens = technique.base.ids(text)
        assert len(log_p) == len(tokens) > 0
        alone = technique.processor([request.control], decoding=decoding)
        for step, token in enumerate(tokens):
            row = torch.tensor([[*ids, *tokens[:step]]])
            with torch.inference_mode():
                logits = technique._writer(request.control).model(input_ids=row).logits[:, -1]
                if case.rereads:
                    alone = technique.processor([request.control], decoding=decoding)
                scores = alone(row, logits)
            expected = scores.double().log_softmax(-1)[0, token]
            # 2e-6 is what float32 keeps of a number after a model's layers
            assert log_p[step] == pytest.approx(float(expected), rel=2e-6, abs=1e-5)


NEEDS_GPT2: frozenset[str] = frozenset()
"""Techniques whose guides in the tests are for one base."""


@every_steering
def test_probabilities_sum_to_one_over_what_may_be_chosen(name):
    case = CASES[name]
    technique = case.make()
    request = requests(case)[0]
    ids = technique._prompted(request, 20).ids
    row = torch.tensor([ids])
    with torch.inference_mode():
        logits = technique._writer(request.control).model(input_ids=row).logits[:, -1]
        scores = technique.processor([request.control], decoding=Decoding(top_p=0.8))(row, logits)
        base = logits.softmax(-1)
    kept = scores.isfinite()
    assert 0 < kept.sum() < kept.numel()
    least = base[kept].min()
    assert (base[~kept] <= least).all() or case.strength
    assert (base[kept].sum() >= 0.8) or case.strength


@every_steering
def test_the_greedy_text_is_the_likeliest_token_at_each_step(name):
    case = CASES[name]
    technique = case.make()
    asked = requests(case)[:2]
    decoding = Decoding(max_new_tokens=3, greedy=True, top_p=1.0)
    first = answers(technique, asked, seed=1, decoding=decoding)
    assert first.keys() == answers(technique, asked, seed=2, decoding=decoding).keys()
    assert [one.text for one in first.values()] == [
        one.text for one in answers(technique, asked, seed=2, decoding=decoding).values()
    ]


@every_steering
def test_an_empty_continuation_has_no_probabilities(name):
    case = CASES[name]
    (log_p,) = case.make().log_probs(requests(case)[:1], [""])
    assert log_p.shape == (0,)


@every_local
def test_of_a_prompt_that_is_too_long_the_end_is_read(name):
    case = CASES[name]
    long = Request("1", "word " * 5_000 + "The lake", case.controls[0])
    (answer,) = case.make().generate([long], decoding=SHORT)
    assert answer.extra["prompt_cut"] is True
    assert answer.text.startswith(long.prompt)


@every_local
def test_a_prompt_that_ends_with_a_blank_has_one_blank_before_the_text(name):
    case = CASES[name]
    of = answers(case.make(), [Request("1", "The lake ", case.controls[0])])
    assert not of["1"].continuation.startswith(" ")


def test_samples_follow_the_probabilities():
    """Two thousand single tokens against the base's own distribution."""
    technique = CASES["base"].make(batch=500)
    asked = [Request(str(n), "The lake") for n in range(2_000)]
    decoding = Decoding(max_new_tokens=1, top_k=4, top_p=1.0)
    row = torch.tensor([technique._prompted(asked[0], 1).ids])
    with torch.inference_mode():
        p = technique.base.model(input_ids=row).logits[0, -1].softmax(-1)
    likely = p.topk(4)
    written = [one.text for one in technique.generate(asked, decoding=decoding)]
    for token, share in zip(likely.indices, likely.values / likely.values.sum(), strict=True):
        text = technique.base.continuation(row[0].tolist(), [int(token)])
        n = sum(one == f"The lake{text}" for one in written)
        assert n / 2_000 == pytest.approx(float(share), abs=4 * np.sqrt(0.25 / 2_000))


def test_a_budget_that_leaves_no_room_is_refused():
    with pytest.raises(UserError, match="max_new_tokens is 600"):
        next(CASES["base"].make().generate([Request("1")], decoding=Decoding(max_new_tokens=600)))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_new_tokens", 0),
        ("temperature", 0.0),
        ("temperature", float("nan")),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.5),
        ("repetition_penalty", 0.0),
    ],
)
def test_a_decoding_that_makes_no_distribution_is_refused(option, value):
    with pytest.raises(UserError, match=rf"{option}={value}: expected"):
        Decoding(**{option: value})
