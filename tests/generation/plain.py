"""Distributions written down plainly: every text read anew, one row, no cache."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from levelfield.core.sample import Control
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.technique import LocalTechnique

WHOLE = Decoding(top_p=1.0)


def logits(technique: LocalTechnique, text: str, before: str = "", model: Any = None) -> Any:
    """The next token's of a model (the base if not named) behind BOS and two texts."""
    base = technique.base
    ids = [base.bos_id, *base.ids(before), *base.ids(text)]
    with torch.inference_mode():
        return (model or base).model(input_ids=torch.tensor([ids])).logits[0, -1].double()


def steered(
    technique: LocalTechnique, text: str, control: Control, decoding: Decoding = WHOLE
) -> Any:
    """The technique's log-probabilities of the next token: (vocabulary,)."""
    row = torch.tensor([technique._prompted(Request("1", text, control), 20).ids])
    with torch.inference_mode():
        scores = technique._writer(control).model(input_ids=row).logits[:, -1]
        return technique.processor([control], decoding=decoding)(row, scores)[0].double()


def assert_same(actual: Any, expected: Any) -> None:
    """Equal distributions, given as scores up to a constant; −∞ in the same places."""
    actual, expected = actual.log_softmax(-1), expected.log_softmax(-1)
    assert torch.equal(actual.isneginf(), expected.isneginf())
    kept = actual.isfinite()
    torch.testing.assert_close(actual[kept], expected[kept], atol=2e-5, rtol=0)


def assert_read_as_written(technique: LocalTechnique, control: Control, prompt: str) -> None:
    """Every step of a text, in a batch of several lengths, is that of the same text as a prompt."""
    asked = [Request("1", prompt, control), Request("2", "", control), Request("3", "I", control)]
    text = " old it was green"
    tokens = technique.base.ids(text)
    for request, log_p in zip(
        asked, technique.log_probs(asked, [text, " old", text], decoding=WHOLE), strict=True
    ):
        start = technique.base.ids(request.prompt)
        assert len(log_p)
        for step, value in enumerate(log_p):
            row = torch.tensor([[technique.base.bos_id, *start, *tokens[:step]]])
            with torch.inference_mode():
                scores = technique.base.model(input_ids=row).logits[:, -1]
                fresh = technique.processor([control], decoding=WHOLE)(row, scores)[0]
            assert value == pytest.approx(float(fresh[tokens[step]]), abs=1e-5)
