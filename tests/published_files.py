"""Files as authors published them, small and random, written in the tests."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import tiny


@functools.cache
def tiny_gpt2(seed: int = 0) -> str:
    """A folder with a random GPT-2, made once."""
    return str(
        tiny.save("gpt2", Path(tempfile.mkdtemp(prefix="levelfield-gpt2-")), begins=True, seed=seed)
    )


def gpt2(
    folder: Path, *, seed: int = 1, extra: Mapping[str, torch.Tensor] = {}, words: bool = True
) -> Any:
    """A folder as `save_pretrained` of transformers 2 wrote it: pickled weights with the masks of
    attention among them. Returns the model."""
    folder.mkdir(parents=True)
    model = AutoModelForCausalLM.from_pretrained(tiny_gpt2(seed)).eval()
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for layer in range(model.config.n_layer):
        weights[f"transformer.h.{layer}.attn.bias"] = torch.ones(1, 1, 4, 4).tril()
        weights[f"transformer.h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    torch.save({**weights, **extra}, folder / "pytorch_model.bin")
    about = {k: v for k, v in model.config.to_dict().items() if k.startswith(("n_", "vocab"))}
    about |= {"model_type": "gpt2", "output_past": True, "nbias": 2, "finetuning_task": "sst-2"}
    (folder / "config.json").write_text(json.dumps(about), encoding="utf-8")
    if words:
        tokenizer = AutoTokenizer.from_pretrained(tiny_gpt2(seed))
        tokenizer.backend_tokenizer.model.save(str(folder))
        (folder / "special_tokens_map.json").write_text('{"eos_token": "<|endoftext|>"}')
    return model
