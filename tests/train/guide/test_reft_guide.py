"""Guides of kind `reft`: what they learn, and that the base is as it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from toy_guides import LABELS, built, toy

import tiny
from levelfield.core.errors import UserError
from levelfield.generation.techniques.loreft.technique import LoReFT
from levelfield.generation.techniques.loreft.training import orthonormal
from levelfield.models.torch.language_model import language_model
from levelfield.train.labelled import own_texts


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def folder(request, tmp_path_factory) -> Path:
    return tiny.save(request.param, tmp_path_factory.mktemp("base"), begins=True)


def plain_nats(folder: Path, text: str, edits: dict[str, torch.Tensor] | None) -> float:
    """−log P(text | BOS) of one text, with h + Rᵀ (W h + b − R h) written out."""
    base = language_model(str(folder))
    is_gpt2 = "GPT2" in type(base.model).__name__
    layers = base.model.transformer.h if is_gpt2 else base.model.model.layers
    hooks = []
    for n, layer in enumerate(layers if edits else []):
        R, W, b = (edits[name][n].float() for name in "RWb")

        def edit(_, __, output, R=R, W=W, b=b):
            h = output[0] if isinstance(output, tuple) else output
            changed = torch.stack([x + R.T @ (W @ x + b - R @ x) for x in h[0]])[None]
            return (changed, *output[1:]) if isinstance(output, tuple) else changed

        hooks.append(layer.register_forward_hook(edit))
    ids = base.ids(text)
    with torch.inference_mode():
        logits = base.model(input_ids=torch.tensor([[base.bos_id, *ids]])).logits[0, :-1]
    for hook in hooks:
        hook.remove()
    return float(-logits.log_softmax(-1)[range(len(ids)), ids].double().sum())


def test_rows_become_orthonormal_and_stay_where_they_are():
    matrices = torch.randn(3, 4, 16, generator=torch.Generator().manual_seed(0))
    rows = orthonormal(matrices)
    torch.testing.assert_close(rows @ rows.mT, torch.eye(4).expand(3, 4, 4))
    torch.testing.assert_close(orthonormal(rows), rows)


@pytest.mark.thinned
def test_edits_make_texts_of_their_label_likelier(folder: Path, tmp_path: Path):
    guide = built("reft", folder, tmp_path / "g", rank=4, epochs=30, batch=8, learning_rate=0.02)
    figures = guide.settings["figures"]
    assert figures["perplexity"] < 0.7 * figures["perplexity-base"]
    assert figures["perplexity"] < figures["perplexity-other"]
    assert figures["accuracy"] > 0.7


def test_held_out_figures_are_those_of_a_plain_loop(folder: Path, tmp_path: Path):
    guide = built("reft", folder, tmp_path / "g", rank=2, epochs=4, batch=8, learning_rate=0.01)
    tensors = safetensors.torch.load_file(guide.weights)
    split, base = own_texts(toy(), None, [], share=0.2, seed=0).test, language_model(str(folder))
    nats = np.array(
        [
            [
                *(
                    plain_nats(folder, text, {n: tensors[f"{label}.{n}"] for n in "RWb"})
                    for label in LABELS
                ),
                plain_nats(folder, text, None),
            ]
            for text in split.texts
        ]
    )
    tokens = sum(len(base.ids(text)) for text in split.texts)
    labels = split.targets.argmax(1)
    places = np.arange(len(labels))
    expected = [nats[places, labels], nats[places, 1 - labels], nats[:, 2]]
    figures = guide.settings["figures"]
    perplexities = [figures[name] for name in ("perplexity", "perplexity-other", "perplexity-base")]
    assert perplexities == pytest.approx([np.exp(n.sum() / tokens) for n in expected], rel=1e-4)
    assert figures["accuracy"] == pytest.approx(np.mean(nats[:, :2].argmin(1) == labels), abs=1e-4)


def test_without_a_step_that_counts_the_edits_change_nothing(folder: Path, tmp_path: Path):
    guide = built("reft", folder, tmp_path / "g", epochs=0.01, learning_rate=1e-12)
    figures = guide.settings["figures"]
    assert figures["perplexity"] == pytest.approx(figures["perplexity-base"], rel=1e-3)


def test_layers_are_those_that_are_asked_for(folder: Path, tmp_path: Path):
    guide = built("reft", folder, tmp_path / "g", edited_layers="1", epochs=0.5)
    assert guide.settings["layers"] == [1]
    assert len(safetensors.torch.load_file(guide.weights)["positive.R"]) == 1
    with pytest.raises(UserError, match=r"edited_layers=0-99: .* has the layers 0 to"):
        built("reft", folder, tmp_path / "h", edited_layers="0-99")


def test_the_guide_steers_its_base(folder: Path, tmp_path: Path):
    guide = built("reft", folder, tmp_path / "g", epochs=0.5)
    technique = LoReFT(model=str(folder), guide=str(guide.path))
    assert technique.refusal({"sentiment": "positive"}) == ""
    assert technique._steered_base({"sentiment": "positive"}) is not None
