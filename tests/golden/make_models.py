"""Makes the small models in `material/models`, whose weights are random.

They were made once and are committed: a signature names the checksum of the model's files, and
neither the training of a tokenizer nor another version of PyTorch or transformers gives the same
files again.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

GOLDEN = Path(__file__).parent
MODELS = GOLDEN / "material" / "models"
sys.path[:0] = [str(GOLDEN.parent)]

import tiny  # noqa: E402
import tiny_classifier  # noqa: E402

VOCABULARY = 320
POSITIONS = 128
UNUSED = ("generation_config.json", "chat_template.jinja")


def save(model: Any, name: str) -> None:
    """In half precision: the folders are committed, and what the weights are does not matter."""
    model.half().save_pretrained(MODELS / name)


def classifier(name: str, labels: Sequence[str], family: str, seed: int) -> None:
    save(tiny_classifier.model(labels, family=family, seed=seed, spread=1.0), name)
    tiny_classifier.tokenizer().save_pretrained(MODELS / name)


def seq2seq(family: str) -> None:
    words = tiny.tokenizer(family, VOCABULARY)
    save(tiny.model(family, len(words), positions=POSITIONS), family)
    words.save_pretrained(MODELS / family)


def causal(name: str, family: str, *, seed: int) -> None:
    words = tiny.causal_tokenizer(family, VOCABULARY)
    model = tiny.causal_model(family, len(words), positions=POSITIONS, seed=seed)
    save(model, name)
    words.save_pretrained(MODELS / name)


def fills_middles() -> None:
    """A causal model whose tokenizer has the marks of filling in the middle."""
    words = tiny.causal_tokenizer("gpt2", VOCABULARY)
    words.add_special_tokens(
        {"additional_special_tokens": ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"]}
    )
    model = tiny.causal_model("gpt2", len(words), positions=POSITIONS, seed=2)
    save(model, "fim")
    words.save_pretrained(MODELS / "fim")


def main() -> None:
    shutil.rmtree(MODELS, ignore_errors=True)
    torch.set_num_threads(1)
    for family in tiny.FAMILIES:
        seq2seq(family)
    causal("gpt2", "gpt2", seed=0)
    causal("gpt2-other", "gpt2", seed=1)
    fills_middles()
    classifier("classifier", ("negative", "positive"), "bert", 0)
    classifier("topics", ("World", "Sports", "Business", "Sci/Tech"), "distilbert", 1)
    classifier("bleurt", ("score",), "bert", 2)
    for name in UNUSED:
        for file in MODELS.rglob(name):
            file.unlink()


if __name__ == "__main__":
    main()
