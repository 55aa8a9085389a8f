"""CTRL-lite: the guide's model writes behind the code of the label."""

from __future__ import annotations

import pytest
import torch
from plain import assert_same, logits, steered
from test_guided import both_guides

import technique_cases as cases
from contract_cases import CASES
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.techniques.ctrl_lite.technique import CTRLLite

LAKE = "The lake was very"


def ctrl_lite() -> CTRLLite:
    return CTRLLite(model=cases.model(), guide=both_guides())


@pytest.mark.parametrize(
    ("attribute", "label"),
    [("sentiment", "positive"), ("sentiment", "negative"), ("topic", "World")],
)
def test_the_code_stands_between_bos_and_the_prompt(attribute, label):
    technique = ctrl_lite()
    learnt = technique._class_lm(attribute)
    row = [technique.base.bos_id, *technique.base.ids(f"{label}\n"), *technique.base.ids(LAKE)]
    with torch.inference_mode():
        expected = learnt.lm.model(input_ids=torch.tensor([row])).logits[0, -1].double()
    actual = steered(technique, LAKE, {attribute: label})
    assert_same(actual, expected)
    assert not torch.allclose(actual, logits(technique, LAKE).log_softmax(-1), atol=0.1)


def test_requests_of_several_attributes_are_written_by_a_model_each():
    technique = ctrl_lite()
    controls = [{"sentiment": "positive"}, {"topic": "World"}, {}, {"sentiment": "negative"}]
    asked = [Request(str(n), LAKE, control) for n, control in enumerate(controls)]
    decoding = Decoding(max_new_tokens=8)
    together = {one.id: one.text for one in technique.generate(asked, decoding=decoding)}
    alone = {one.id: next(technique.generate([one], decoding=decoding)).text for one in asked}
    assert together == alone
    base = CASES["base"].make()
    assert together["2"] == next(base.generate([asked[2]], decoding=decoding)).text


def test_no_code_is_part_of_the_text():
    (answer,) = ctrl_lite().generate([Request("1", LAKE, {"sentiment": "positive"})])
    assert answer.text.startswith(LAKE)
    assert answer.forward_passes == answer.tokens
