"""A prepared cache in front of prompts: a prefix that was read is the prefix that was prepared."""

from __future__ import annotations

import pytest
import torch

import tiny
from levelfield.models.torch.caches import cache_of, with_cache
from levelfield.models.torch.decoding import CausalRows, prefix_cache

PREFIX = [[5, 6, 7], [8, 9, 10], [11, 12, 13]]
PROMPTS = [[0, 21], [0, 31, 32, 33, 34], [0, 41, 42]]
NEXT = [[51, 52], [53, 54], [55, 56]]


@pytest.fixture(params=tiny.CAUSAL_FAMILIES)
def model(request):
    return tiny.causal_model(request.param, 64)


def prepared(model, ids: list[list[int]]) -> torch.Tensor:
    """Keys and values that the model has after reading: (rows, layers, 2, heads, tokens, width)."""
    with torch.inference_mode():
        cache = cache_of(model(input_ids=torch.tensor(ids), use_cache=True))
    layers = [torch.stack([layer.keys, layer.values], dim=1) for layer in cache.layers]
    return torch.stack(layers, dim=1)


def alone(model, ids: list[int]) -> torch.Tensor:
    """Logits behind the last of these tokens, all read at once."""
    with torch.inference_mode():
        return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]


@pytest.mark.parametrize("use_cache", [True, False])
def test_rows_behind_a_prefix_read_what_stands_there(model, use_cache):
    """One row at a time, without padding, from the tokens that the prefix was made of."""
    with torch.inference_mode():
        prefix = prepared(model, PREFIX)
        rows = CausalRows.of(model, PROMPTS, 0, torch.device("cpu"), use_cache, prefix)
        for step in range(3):
            logits = rows.logits()
            for row, (before, prompt, tokens) in enumerate(zip(PREFIX, PROMPTS, NEXT, strict=True)):
                expected = alone(model, [*before, *prompt, *tokens[:step]])
                torch.testing.assert_close(logits[row], expected, atol=1e-5, rtol=1e-5)
            if step < 2:
                rows.read(torch.tensor([tokens[step] for tokens in NEXT]))


@pytest.mark.parametrize("use_cache", [True, False])
def test_rows_that_are_kept_keep_their_prefix(model, use_cache):
    with torch.inference_mode():
        rows = CausalRows.of(
            model, PROMPTS, 0, torch.device("cpu"), use_cache, prepared(model, PREFIX)
        )
        rows.logits()
        rows.keep(torch.tensor([2, 1]))
        rows.read(torch.tensor([55, 53]))
        logits = rows.logits()
    for row, at in enumerate((2, 1)):
        expected = alone(model, [*PREFIX[at], *PROMPTS[at], NEXT[at][0]])
        torch.testing.assert_close(logits[row], expected, atol=1e-5, rtol=1e-5)


def test_gradients_reach_the_prefix_and_not_the_model(model):
    model.requires_grad_(False)
    prefix = prepared(model, PREFIX).clone().requires_grad_()
    model(
        input_ids=torch.tensor(PROMPTS[1:2] * 3),
        **with_cache(prefix_cache(model, prefix)),
        attention_mask=torch.ones(3, 8, dtype=torch.long),
    ).logits.sum().backward()
    assert prefix.grad is not None
    assert (prefix.grad.abs().sum((0, 3, 4, 5)) > 0).all()  # every layer's keys and values
    assert all(parameter.grad is None for parameter in model.parameters())
