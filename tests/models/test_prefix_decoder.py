"""Prefixes are linear in latents, and begin as what the base keeps of its first tokens."""

from __future__ import annotations

import pytest
import torch

import tiny
from levelfield.core.errors import UserError
from levelfield.generation.techniques._latent.network import (
    PrefixDecoder,
    PrefixShape,
    cache_shape,
    keys_and_values,
)


def decoder(rank: int, offset: torch.Tensor | None = None) -> PrefixDecoder:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        new = PrefixDecoder(PrefixShape(4, 3, 2, 2, 5, rank), offset)
        for name, parameter in new.named_parameters():
            if name != "offset":
                parameter.data.normal_()
    return new.requires_grad_(False)


@pytest.mark.parametrize("rank", [0, 3])
def test_a_prefix_is_a_linear_map_and_an_offset(rank):
    network, random = decoder(rank), torch.Generator().manual_seed(1)
    x, y = torch.randn(2, 7, 4, generator=random)
    assert network(x).shape == (7, 2, 2, 2, 3, 5)
    torch.testing.assert_close(network(0.3 * x + 0.7 * y), 0.3 * network(x) + 0.7 * network(y))
    assert (network(x) - network(y)).abs().max() > 0.1


def test_of_low_rank_it_is_the_product_of_two_maps():
    network = decoder(3)
    e = torch.randn(1, 4, generator=torch.Generator().manual_seed(2))
    prefix = network(e)[0]
    for layer in range(2):
        for position in range(3):
            state = network.states[position] @ e[0]
            flat = network.layers[layer] @ state + network.offset[layer, position]
            torch.testing.assert_close(prefix[layer, :, :, position].flatten(), flat)


def test_a_layer_has_no_more_directions_than_the_rank():
    network = decoder(3)
    e = torch.eye(4)
    differences = (network(e) - network(torch.zeros(1, 4)))[:, 0].movedim(
        3, 1
    )  # (rows, P, 2, heads, width)
    assert torch.linalg.matrix_rank(differences.flatten(0, 1).flatten(1)) == 3


@pytest.mark.parametrize("family", tiny.CAUSAL_FAMILIES)
@pytest.mark.parametrize("rank", [0, 3])
def test_a_new_decoder_gives_what_the_model_keeps_of_its_first_tokens(family, rank):
    model = tiny.causal_model(family, 64)
    kept = keys_and_values(model, torch.tensor([[0, 9, 7]]))[0]
    network = PrefixDecoder(PrefixShape(4, 3, *cache_shape(model), rank), kept)
    torch.testing.assert_close(network(torch.randn(1, 4))[0], kept)


def test_heads_of_keys_and_values_are_those_of_grouped_attention():
    assert cache_shape(tiny.causal_model("llama", 64)) == (2, 1, 8)
    assert cache_shape(tiny.causal_model("gpt2", 64)) == (2, 2, 8)


@pytest.mark.parametrize("name", ["size", "positions", "layers", "heads", "width"])
def test_sizes_that_make_no_prefix_are_refused(name):
    sizes = {"size": 4, "positions": 3, "layers": 2, "heads": 2, "width": 5, "rank": 3, name: 0}
    with pytest.raises(UserError, match=f"{name} is 0"):
        PrefixShape(**sizes)


def test_a_negative_rank_is_refused():
    with pytest.raises(UserError, match="rank is -1"):
        PrefixShape(4, 3, 2, 2, 5, -1)
