"""A model without its upper layers is the model of its lower ones, with the same weights."""

from __future__ import annotations

import pytest
import torch

import tiny
from levelfield.core.errors import ModelError
from levelfield.models.torch.caches import cache_of
from levelfield.models.torch.early_exit import with_lower_layers

IDS = torch.tensor([[0, 5, 6, 7, 8]])


@pytest.mark.parametrize("family", tiny.CAUSAL_FAMILIES)
def test_the_logits_are_those_of_the_first_layer_alone(family):
    model = tiny.causal_model(family, 64)
    whole = model(input_ids=IDS).logits
    lower = with_lower_layers(model, 1)
    with torch.inference_mode():
        cache = cache_of(lower(input_ids=IDS, use_cache=True))
        logits = lower(input_ids=IDS).logits
        states = model(input_ids=IDS, output_hidden_states=True).hidden_states[1]
        norm = {"gpt2": "ln_f", "bloom": "ln_f", "llama": "norm"}[family]
        expected = model.get_output_embeddings()(getattr(model.base_model, norm)(states))
    torch.testing.assert_close(logits, expected)
    assert len(cache.layers) == 1
    assert (logits - whole).abs().max() > 1e-2
    torch.testing.assert_close(model(input_ids=IDS).logits, whole)  # which is as it was


def test_weights_are_shared():
    model = tiny.causal_model("gpt2", 64)
    lower = with_lower_layers(model, 1)
    assert lower.transformer.wte.weight is model.transformer.wte.weight
    assert lower.transformer.h[0].attn.c_attn.weight is model.transformer.h[0].attn.c_attn.weight
    assert (lower.config.n_layer, model.config.n_layer) == (1, 2)


def test_all_layers_are_the_model_itself():
    model = tiny.causal_model("gpt2", 64)
    assert with_lower_layers(model, 2) is model


@pytest.mark.parametrize("layers", [0, 3])
def test_layers_that_are_not_there_are_refused(layers):
    with pytest.raises(ModelError, match=f"has 2 layers; {layers} of them"):
        with_lower_layers(tiny.causal_model("gpt2", 64), layers)
