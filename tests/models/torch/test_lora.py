"""Adapters in PEFT's layout against their two products computed beside each layer."""

from __future__ import annotations

import functools
import json
import math
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import tiny
from levelfield.core.errors import ModelError
from levelfield.generation.contract import Request
from levelfield.generation.techniques.dexperts.technique import DExperts
from levelfield.models import resolve as resolving
from levelfield.models.load import load
from levelfield.models.loading import Loading
from levelfield.models.lora import WEIGHTS
from levelfield.models.resolve import files_of, resolve
from levelfield.models.torch.language_model import language_model
from levelfield.models.torch.lora import write_lora

RANK, ALPHA = 3, 6
LAYERS = ("c_attn", "mlp.c_proj", "q_proj", "up_proj")
"""Ends of the paths that an adapter changes; GPT-2's layers keep weights as (in, out)."""
IDS = torch.tensor([[0, 5, 9, 3, 7]])
Pairs = dict[str, tuple[torch.Tensor, torch.Tensor]]


@pytest.fixture(autouse=True)
def _resolved_anew() -> Iterator[None]:
    files_of.cache_clear()
    yield
    files_of.cache_clear()


@functools.cache
def model(family: str = "gpt2") -> str:
    """A folder with a tiny random base, made once."""
    return str(tiny.save(family, Path(tempfile.mkdtemp(prefix="levelfield-lora-"))))


def widths(module: Any) -> tuple[int, int]:
    """Inputs and outputs of a linear layer."""
    rows, columns = module.weight.shape
    return (columns, rows) if isinstance(module, torch.nn.Linear) else (rows, columns)


def lora(base: str, folder: Path, tensors: Any = None, seed: int = 0, **config: Any) -> Pairs:
    """Writes an adapter with random A and B for some layers of a base, and returns those."""
    layers = language_model(base).model
    random = torch.Generator().manual_seed(seed)
    paths = [path for path, module in layers.named_modules() if path.endswith(LAYERS)]
    pairs: Pairs = {}
    for path in paths:
        inputs, outputs = widths(layers.get_submodule(path))
        pairs[path] = (
            torch.randn(RANK, inputs, generator=random),
            torch.randn(outputs, RANK, generator=random),
        )
    named = {f"base_model.model.{path}.lora_A.weight": A for path, (A, _) in pairs.items()}
    named |= {f"base_model.model.{path}.lora_B.weight": B for path, (_, B) in pairs.items()}
    folder.mkdir(parents=True)
    save_file(named if tensors is None else tensors, folder / "adapter_model.safetensors")
    about = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "revision": None,
        "r": RANK,
        "lora_alpha": ALPHA,
        "lora_dropout": 0.1,
        "target_modules": sorted({path.rpartition(".")[2] for path in paths}),
        "bias": "none",
        "use_rslora": False,
        "use_dora": False,
        "modules_to_save": None,
        "rank_pattern": {},
        "alpha_pattern": {},
        "init_lora_weights": True,
        "inference_mode": True,
    }
    (folder / "adapter_config.json").write_text(json.dumps(about | config), encoding="utf-8")
    return pairs


def plain_logits(base: str, pairs: Pairs, scale: float) -> torch.Tensor:
    """Logits of the base, with scale · B (A x) added to what each layer gives of x."""
    plain = language_model(base).model
    hooks = [
        plain.get_submodule(path).register_forward_hook(
            lambda _, x, y, A=A, B=B: y + scale * (x[0] @ A.T) @ B.T
        )
        for path, (A, B) in pairs.items()
    ]
    try:
        with torch.inference_mode():
            logits: torch.Tensor = plain(input_ids=IDS).logits
    finally:
        for hook in hooks:
            hook.remove()
    return logits


@pytest.mark.parametrize("family", ["gpt2", "llama"])
@pytest.mark.parametrize(
    ("rslora", "scale"), [(False, ALPHA / RANK), (True, ALPHA / math.sqrt(RANK))]
)
def test_each_layer_gives_what_its_two_products_add(tmp_path: Path, family, rslora, scale):
    base = model(family)
    pairs = lora(base, tmp_path / "lora", use_rslora=rslora)
    assert len(pairs) == 4
    with torch.inference_mode():
        logits = language_model(str(tmp_path / "lora")).model(input_ids=IDS).logits
        before = language_model(base).model(input_ids=IDS).logits
    torch.testing.assert_close(logits, plain_logits(base, pairs, scale), atol=1e-4, rtol=1e-4)
    assert (logits - before).abs().max() > 0.1
    assert torch.equal(before, plain_logits(base, {}, 0))  # the base's own weights are as they were


def test_an_adapter_is_a_causal_model_with_the_tokenizer_of_its_base(tmp_path: Path):
    lora(model(), tmp_path / "lora")
    adapted, base = load("causal", str(tmp_path / "lora")), load("causal", model())
    texts = ["The lake was green", ""]
    for text, changed, plain in zip(
        texts, adapted.log_likelihood(texts), base.log_likelihood(texts), strict=True
    ):
        assert changed.log_p.shape == plain.log_p.shape
        assert np.allclose(changed.log_p, plain.log_p) == (text == "")


def test_its_revision_names_its_own_files_and_those_of_its_base(tmp_path: Path):
    base = str(tiny.save("gpt2", tmp_path / "base", seed=0))
    labels = []
    for seed, folder in enumerate(("a", "b")):
        lora(base, tmp_path / folder / "lora", seed=seed)
        labels.append(resolve(str(tmp_path / folder / "lora")).label)
    tiny.save("gpt2", tmp_path / "base", seed=1)
    files_of.cache_clear()
    labels.append(resolve(str(tmp_path / "a" / "lora")).label)
    assert all(label.startswith("lora@") for label in labels)
    assert len(set(labels)) == 3


def test_an_expert_may_be_an_adapter(tmp_path: Path):
    base = model()
    lora(base, tmp_path / "lora")
    technique = DExperts(
        model=base, experts=f"positive={tmp_path / 'lora'},negative=", strength=0.8
    )
    (values,) = technique.log_probs([Request("1", "a", {"sentiment": "positive"})], [" it"])
    (plain,) = technique.log_probs([Request("1", "a", {})], [" it"])
    assert values != pytest.approx(plain)
    assert language_model(str(tmp_path / "lora")).label in technique.signature


def test_weights_in_bfloat16_are_rounded_once(tmp_path: Path):
    base = model("llama")
    pairs = lora(base, tmp_path / "lora")
    low = Loading(dtype="bfloat16")
    path, (A, B) = next(iter(pairs.items()))
    W = language_model(base, low).model.get_submodule(path).weight.float()
    expected = (W + ALPHA / RANK * B @ A).bfloat16()
    merged = language_model(str(tmp_path / "lora"), low).model.get_submodule(path).weight
    assert torch.equal(merged, expected)


def test_a_whole_model_next_to_the_adapter_is_the_model(tmp_path: Path):
    folder = tmp_path / "lora"
    lora(model(), folder)
    tiny.save("gpt2", folder)
    assert resolve(str(folder)).adapter is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"use_dora": True}, 'use_dora is "True"; expected nothing'),
        ({"bias": "all"}, 'bias is "all"; expected none'),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save is"),
        ({"rank_pattern": {"q_proj": 4}}, "rank_pattern is"),
        ({"alpha_pattern": {"q_proj": 4}}, "alpha_pattern is"),
        ({"init_lora_weights": "pissa"}, 'init_lora_weights is "pissa"'),
        ({"peft_type": "IA3"}, 'peft_type is "IA3"; expected LORA'),
        ({"task_type": "SEQ_CLS"}, 'task_type is "SEQ_CLS"; expected CAUSAL_LM'),
        ({"r": 0}, 'r is "0"; expected a whole number from 1 on'),
        ({"r": None}, 'r is "None"'),
        ({"lora_alpha": math.nan}, 'lora_alpha is "nan"'),
        ({"base_model_name_or_path": None}, "base_model_name_or_path is"),
        ({"base_model_name_or_path": "./nowhere"}, "an adapter of './nowhere': there is no model"),
        ({"base_model_name_or_path": "offline/sentiment"}, "is a classifier model"),
        ({"r": 2}, r"lora_A \(3, 16\), lora_B \(48, 3\); expected lora_A \(2, 16\)"),
    ],
)
def test_what_is_not_plain_lora_is_refused_by_name(tmp_path: Path, changed, message: str):
    lora(model(), tmp_path / "lora", **changed)
    with pytest.raises(ModelError, match=message) as caught:
        language_model(str(tmp_path / "lora"))
    assert "\n" not in str(caught.value)
    assert "model 'lora'" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("transformer.h.0.attn.c_attn.lora_A.weight", "expected pairs of lora_A and lora_B"),
        ("base_model.model.transformer.wte.lora_embedding_A", "expected pairs of lora_A"),
        ("base_model.model.transformer.h.9.attn.c_attn.lora_A.weight", "no linear layer"),
        ("base_model.model.transformer.ln_f.lora_A.weight", "no linear layer transformer.ln_f"),
        ("base_model.model.transformer.h.0.attn.c_attn.lora_A.weight", "has lora_A"),
        ("base_model.model.lm_head.lora_A.weight", "lm_head shares its weights with the embedd"),
    ],
)
def test_tensors_that_do_not_fit_are_refused_by_name(tmp_path: Path, key: str, message: str):
    lora(model(), tmp_path / "lora", {key: torch.ones(RANK, 16)})
    with pytest.raises(ModelError, match=message) as caught:
        language_model(str(tmp_path / "lora"))
    assert "\n" not in str(caught.value)


def test_an_adapter_without_weights_or_with_numbers_that_are_not_finite(tmp_path: Path):
    lora(model(), tmp_path / "lora")
    (tmp_path / "lora" / "adapter_model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"no weights \(adapter_model.safetensors\)"):
        resolve(str(tmp_path / "lora"))
    pairs = lora(model(), tmp_path / "nan")
    path, (A, B) = next(iter(pairs.items()))
    tensors = {"A": A, "B": B * math.nan}
    named = {f"base_model.model.{path}.lora_{n}.weight": t for n, t in tensors.items()}
    save_file(named, tmp_path / "nan" / "adapter_model.safetensors")
    with pytest.raises(ModelError, match="not all finite"):
        language_model(str(tmp_path / "nan"))


def test_adapters_in_a_circle_are_refused_in_one_line(tmp_path: Path):
    first, second = tmp_path / "first", tmp_path / "second"
    lora(model(), first, base_model_name_or_path=str(second))
    lora(model(), second, base_model_name_or_path=str(first))
    with pytest.raises(ModelError, match="builds on 'second', which is an adapter; expected a wh"):
        resolve(str(first))


def test_an_adapter_of_the_hub_asks_for_the_revision_of_its_base(tmp_path: Path, monkeypatch):
    lora(model(), tmp_path / "lora", base_model_name_or_path="someone/base", revision="v2")
    requests: list[str] = []

    def from_hub(name: str, *_: Any, **__: Any) -> tuple[str, Path, str]:
        requests.append(name)
        name = name.partition("@")[0]
        folder = {"someone/lora": tmp_path / "lora", "someone/base": Path(model())}[name]
        return name, folder, f"commit of {name}"

    monkeypatch.setattr(resolving, "from_hub", from_hub)
    resolved = resolve("someone/lora")
    assert requests == ["someone/lora", "someone/base@v2"]
    assert (resolved.name, resolved.kind, resolved.path) == (
        "someone/lora",
        "causal",
        Path(model()),
    )


def test_an_adapter_that_is_read_and_written_again_is_the_same_bit_for_bit(tmp_path: Path):
    pairs = lora(model(), tmp_path / "a")
    settings = {"base": model(), "revision": None, "alpha": ALPHA, "is_transposed": True}
    write_lora(tmp_path / "b", pairs, **settings)
    before, after = (load_file(tmp_path / name / WEIGHTS) for name in "ab")
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    with pytest.raises(OSError, match="b"):
        write_lora(tmp_path / "b", pairs, **settings)


def test_weights_may_be_read_by_whom_the_umask_lets(tmp_path: Path):
    lora(model(), tmp_path / "a")
    pairs = {"transformer.h.0.attn.c_attn": (torch.ones(1, 2), torch.ones(3, 1))}
    before = os.umask(0o022)
    try:
        write_lora(
            tmp_path / "b", pairs, base=model(), revision=None, alpha=1.0, is_transposed=True
        )
    finally:
        os.umask(before)
    assert (tmp_path / "b" / WEIGHTS).stat().st_mode & 0o777 == 0o644
