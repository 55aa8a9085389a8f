"""A base that reads no BOS before a text, against its model on the tokens alone."""

from __future__ import annotations

import pytest
import torch
from plain import assert_same, logits, steered

import technique_cases as cases
from contract_cases import CASES, by_mechanism
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.open_rows import frozen
from levelfield.generation.technique import LocalTechnique, UncontrolledBase
from levelfield.generation.techniques.bolt.technique import BOLT
from levelfield.generation.techniques.cfg.technique import ClassifierFreeGuidance
from levelfield.generation.techniques.contrastive.technique import ContrastiveDecoding
from levelfield.generation.techniques.dexperts.technique import DExperts

LAKE, WHOLE = "The lake was very", Decoding(top_p=1.0)
LOCAL = [
    name
    for name, case in CASES.items()
    if isinstance(case.make(), LocalTechnique) and name != "ctrl"
]


def alone(technique, text: str, before: str = ""):
    """Scores of the next token after two texts that nothing precedes."""
    ids = technique.base.ids(before) + technique.base.ids(text)
    with torch.inference_mode():
        return technique.base.model(input_ids=torch.tensor([ids])).logits[0, -1].double()


def test_the_base_reads_the_prompt_alone_and_an_empty_prompt_as_bos():
    technique = UncontrolledBase(model=cases.model(), bos=False)
    assert_same(steered(technique, LAKE, {}), alone(technique, LAKE))
    with_bos = logits(technique, LAKE).softmax(-1)
    assert (steered(technique, LAKE, {}).softmax(-1) - with_bos).abs().max() > 1e-4
    assert technique._prompted(Request("1"), 5).ids == [technique.base.bos_id]
    assert technique._prompted(Request("1", LAKE), 5).ids == technique.base.ids(LAKE)
    requests = [Request("1", LAKE), Request("2", ""), Request("3", "I")]
    together = technique.log_probs(requests, [" old it was"] * 3, decoding=WHOLE)
    for request, values in zip(requests, together, strict=True):
        read = technique.base.ids(request.prompt) or [technique.base.bos_id]
        for token, value in zip(technique.base.ids(" old it was"), values, strict=True):
            with torch.inference_mode():
                scores = technique.base.model(input_ids=torch.tensor([read])).logits[0, -1]
            assert value == pytest.approx(float(scores.double().log_softmax(-1)[token]), abs=1e-5)
            read = [*read, token]


@by_mechanism(LOCAL)
def test_every_technique_writes_without_bos_and_its_signature_says_so(name):
    case = CASES[name]
    technique = case.make(bos=False)
    assert technique.signature == case.make().signature + "|bos:no"
    requests = [Request(str(n), text, case.controls[0]) for n, text in enumerate((LAKE, "", "I"))]
    short = Decoding(max_new_tokens=8)
    together = [answer.text for answer in technique.generate(requests, decoding=short)]
    for request, text in zip(requests, together, strict=True):
        assert text.startswith(request.prompt)
        assert [a.text for a in technique.generate([request], decoding=short)] == [text]
    first = technique.base.bos_id
    assert technique._prompted(requests[0], 5).ids[0] != first


def test_helpers_that_are_whole_models_read_what_the_base_reads():
    base = cases.model()
    amateur = ContrastiveDecoding(model=base, amateur=base, form="plain", strength=1.0, bos=False)
    p = steered(amateur, LAKE, {}).softmax(-1)
    kept = p > 0
    assert 1 < kept.sum() < len(kept)
    torch.testing.assert_close(p[kept], torch.full_like(p[kept], 1 / int(kept.sum())))
    experts = DExperts(model=base, experts=f"positive={base},negative=", strength=3.0, bos=False)
    assert_same(steered(experts, LAKE, {"sentiment": "positive"}), alone(experts, LAKE))
    cfg = ClassifierFreeGuidance(model=base, strength=1.0, template="A {sentiment} ", bos=False)
    expected = alone(cfg, LAKE, "A positive ")
    assert_same(steered(cfg, LAKE, {"sentiment": "positive"}), expected)


@pytest.mark.parametrize("kind", ["future", "class-lm", "head"])
def test_the_guides_of_bolt_read_the_first_token_of_a_prompt(kind):
    """The mean state, and the number of tokens, of all of the text."""
    base = cases.model()
    guides = {"future": cases.future_guide, "class-lm": cases.class_guide, "head": cases.head_guide}
    technique = BOLT(model=base, guide=guides[kind](base), bos=False)
    requests = [Request("1", LAKE, {"sentiment": "positive"})]
    short = Decoding(max_new_tokens=3)
    with frozen(technique.base.model):
        search = technique._search(technique._ready(requests, short), short, 0)
        rollout, *_ = search._write()
        found = search._readers["sentiment"].logits(rollout)[0].detach()
    ids = [*technique.base.ids(LAKE), *rollout.tokens[0].tolist()]
    learnt, model = technique._reads("sentiment"), technique.base.model
    with torch.inference_mode():
        if kind == "head":
            states = model.base_model(input_ids=torch.tensor([ids]))[0][0]
            expected = learnt(states.float().mean(0)[None])[0]
        elif kind == "class-lm":
            scores = []
            for label in learnt.labels:
                read = [learnt.lm.bos_id, *learnt.codes[label], *ids]
                log_p = learnt.lm.model(input_ids=torch.tensor([read])).logits[0].log_softmax(-1)
                begins = len(read) - len(ids)
                total = sum(log_p[begins - 1 + n, token] for n, token in enumerate(ids))
                scores.append(learnt.scale / len(ids) * total + learnt.bias[label])
            expected = torch.stack(scores)
        else:
            table = learnt.network.embeddings[torch.tensor([ids])]
            mask = torch.ones(len(ids), len(ids)).tril().bool()[None]
            expected = learnt.network.read_vectors(table, torch.arange(len(ids))[None], mask)[0][
                0, -1
            ]
    torch.testing.assert_close(found.float(), expected.float(), atol=1e-4, rtol=1e-4)
