"""A low-rank adapter changes its model where it is on, and nothing anywhere else."""

from __future__ import annotations

import copy
import gc
import threading

import pytest
import torch

import tiny
from levelfield.core.errors import ModelError
from levelfield.generation.techniques._class_lm.network import AdaptedModel, Adapter, linear_layers
from levelfield.models.torch.decoding import CausalRows

IDS = torch.tensor([[0, 5, 9, 11, 3], [0, 7, 7, 2, 8]])


def adapter_of(base, seed: int = 0, layers: int = 1) -> Adapter:
    """One whose B is not 0."""
    adapter = Adapter(base, layers=layers, rank=2, alpha=4.0, seed=seed)
    torch.manual_seed(seed)
    for up in adapter.up.values():
        torch.nn.init.normal_(up)
    return adapter.requires_grad_(False)


def logits(model) -> torch.Tensor:
    with torch.inference_mode():
        return model(input_ids=IDS).logits


def merged(base, adapter: Adapter):
    """The same model with W + (α / r) B A in place of W."""
    whole = copy.deepcopy(base)
    modules = dict(whole.named_modules())
    for name in adapter.down:
        update = 2.0 * adapter.up[name] @ adapter.down[name]
        module = modules[name.replace("/", ".")]
        is_transposed = type(module).__name__ == "Conv1D"
        module.weight.data += update.T if is_transposed else update
    for module in modules.values():
        module._forward_hooks.clear()
    return whole


every_family = pytest.mark.parametrize("family", tiny.CAUSAL_FAMILIES)


@every_family
def test_a_new_adapter_changes_nothing(family: str):
    base = tiny.causal_model(family, 40)
    before = logits(base)
    adapted = AdaptedModel(base, Adapter(base, layers=2, rank=2, alpha=4.0))
    assert torch.equal(logits(adapted), before)


@every_family
def test_an_adapter_that_is_on_is_the_model_with_merged_weights(family: str):
    base = tiny.causal_model(family, 40)
    adapter = adapter_of(base)
    whole = merged(base, adapter)
    torch.testing.assert_close(
        logits(AdaptedModel(base, adapter)), logits(whole), atol=1e-5, rtol=1e-6
    )
    assert not torch.allclose(logits(whole), logits(base), atol=1e-2)


@every_family
def test_the_base_is_exact_next_to_its_adapters(family: str):
    base = tiny.causal_model(family, 40)
    before = logits(base)
    first, second = (AdaptedModel(base, adapter_of(base, seed)) for seed in (0, 1))
    first_logits, second_logits = logits(first), logits(second)
    assert torch.equal(logits(base), before)
    assert not torch.equal(first_logits, second_logits)
    assert torch.equal(logits(first), first_logits)


def test_an_adapter_that_is_gone_leaves_no_hook():
    base = tiny.causal_model("gpt2", 40)
    adapter_of(base)
    gc.collect()
    assert not any(module._forward_hooks for module in base.modules())


def test_threads_do_not_see_each_others_adapters():
    base = tiny.causal_model("llama", 40)
    before = logits(base)
    adapter = adapter_of(base)
    seen: list[torch.Tensor] = []
    with adapter.on():
        thread = threading.Thread(target=lambda: seen.append(logits(base)))
        thread.start()
        thread.join()
        here = logits(base)
    assert torch.equal(seen[0], before)
    assert not torch.equal(here, before)


@every_family
def test_an_adapted_model_writes_with_a_cache_as_without(family: str):
    base = tiny.causal_model(family, 40)
    adapted = AdaptedModel(base, adapter_of(base))
    prompts = [[0, 5, 9], [0, 7, 7, 2, 8]]
    with torch.inference_mode():
        rows = [CausalRows.of(adapted, prompts, 0, torch.device("cpu"), c) for c in (True, False)]
        for token in (4, 6):
            torch.testing.assert_close(rows[0].logits(), rows[1].logits(), atol=1e-5, rtol=1e-5)
            for row in rows:
                row.read(torch.tensor([token, token + 1]))


def test_only_upper_layers_have_pairs_and_lower_ones_no_gradient():
    base = tiny.causal_model("llama", 40).requires_grad_(False)
    adapter = Adapter(base, layers=1, rank=2, alpha=2.0)
    assert all(name.startswith("model/layers/1/") for name in adapter.down)
    assert len(adapter.down) == 7
    needs_gradient = []
    hooks = [
        layer.register_forward_hook(
            lambda _, __, y: needs_gradient.append(
                (y[0] if isinstance(y, tuple) else y).requires_grad
            )
        )
        for layer in base.model.layers
    ]
    AdaptedModel(base, adapter)(input_ids=IDS).logits.sum().backward()
    for hook in hooks:
        hook.remove()
    assert needs_gradient == [False, True]
    assert all(up.grad is not None for up in adapter.up.values())
    assert all(p.grad is None for p in base.parameters())


def test_a_model_without_linear_layers_is_refused():
    base = tiny.causal_model("gpt2", 40)
    with pytest.raises(ModelError, match="no linear layers"):
        linear_layers(base, 0)
