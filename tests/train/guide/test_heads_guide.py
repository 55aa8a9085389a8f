"""Directions of attention heads against heads that are read text by text."""

from __future__ import annotations

from pathlib import Path

import pytest
import safetensors.torch
import torch
from toy_guides import built, toy

import tiny
from levelfield.generation.techniques.iti.technique import ITI
from levelfield.models.torch.language_model import language_model
from levelfield.train.labelled import own_texts


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def folder(request, tmp_path_factory) -> Path:
    return tiny.save(request.param, tmp_path_factory.mktemp("base"), begins=True)


def plain_heads(folder: Path, text: str, *, last: bool) -> torch.Tensor:
    """What each head leaves of a text alone, pooled: (layers · heads, width)."""
    base = language_model(str(folder))
    is_gpt2 = "GPT2" in type(base.model).__name__
    layers = base.model.transformer.h if is_gpt2 else base.model.model.layers
    read: list[torch.Tensor] = []
    modules = [layer.attn.c_proj if is_gpt2 else layer.self_attn.o_proj for layer in layers]
    hooks = [m.register_forward_pre_hook(lambda _, x: read.append(x[0])) for m in modules]
    with torch.inference_mode():
        base.model(input_ids=torch.tensor([[base.bos_id, *base.ids(text)]]))
    for hook in hooks:
        hook.remove()
    heads = base.model.config.num_attention_heads
    pooled = [states[0, -1] if last else states[0, 1:].mean(0) for states in read]
    return torch.stack(pooled).reshape(len(read) * heads, -1).double()


@pytest.mark.parametrize("last", [False, True], ids=["mean", "last"])
def test_a_direction_is_the_difference_of_means_at_the_length_of_its_deviation(
    folder: Path, tmp_path: Path, last: bool
):
    guide = built("heads", folder, tmp_path / "g", states="last" if last else "mean")
    split = own_texts(toy(), None, [], share=0.2, seed=0)
    states = torch.stack([plain_heads(folder, text, last=last) for text in split.train.texts])
    is_positive = torch.from_numpy(split.train.targets[:, 1] == 1)
    theta = states[is_positive].mean(0) - states[~is_positive].mean(0)
    theta = theta / theta.norm(dim=-1, keepdim=True)
    sigma = (states * theta).sum(-1).std(0, correction=0)
    tensors = safetensors.torch.load_file(guide.weights)
    expected = (sigma[:, None] * theta).float()
    torch.testing.assert_close(tensors["positive"].float(), expected, atol=1e-3, rtol=3e-3)
    torch.testing.assert_close(tensors["negative"].float(), -expected, atol=1e-3, rtol=3e-3)


def test_heads_are_ranked_by_the_nearer_mean_of_held_out_texts(folder: Path, tmp_path: Path):
    guide = built("heads", folder, tmp_path / "g")
    split = own_texts(toy(), None, [], share=0.2, seed=0)
    train, test = (
        torch.stack([plain_heads(folder, text, last=False) for text in rows.texts])
        for rows in (split.train, split.test)
    )
    means = [train[torch.from_numpy(split.train.targets[:, c] == 1)].mean(0) for c in (0, 1)]
    far = torch.stack([(test - mean).norm(dim=-1) for mean in means])
    right = far.argmin(0) == torch.from_numpy(split.test.targets.argmax(1))[:, None]
    expected = right.double().mean(0).tolist()
    assert guide.settings["accuracies"] == pytest.approx(expected, abs=1e-4)


def test_the_guide_steers_its_base(folder: Path, tmp_path: Path):
    guide = built("heads", folder, tmp_path / "g")
    technique = ITI(model=str(folder), guide=str(guide.path), strength=4.0, heads=2)
    assert technique.refusal({"sentiment": "positive"}) == ""
    assert technique._steered_base({"sentiment": "positive"}) is not None
