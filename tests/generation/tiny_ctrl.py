"""A random small CTRL whose vocabulary has the codes that its tests need."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import torch
from transformers import CTRLConfig, CTRLLMHeadModel, CTRLTokenizer

CODES = ("Reviews", "Rating:", "5.0", "1.0", "Politics", "Fitness", "Finance", "Technologies")
WORDS = (*CODES, "Horror", "lake", "The", "was", "it", "froze", "Sco", "Opinion")


def save(folder: Path, words: tuple[str, ...] = WORDS, seed: int = 0) -> Path:
    """A folder as a user would have it. Words are single tokens, all else is letter by letter."""
    letters = string.ascii_letters + string.digits + string.punctuation
    merges = dict.fromkeys(
        (word[:n], f"{word[n]}{'</w>' if n == len(word) - 1 else ''}")
        for word in words
        for n in range(1, len(word))
    )
    entries = ["<unk>", "Sco@@", *words, *letters, *(f"{letter}@@" for letter in letters)]
    pieces = [f"{word[:n]}@@" for word in words for n in range(2, len(word))]
    vocabulary = list(dict.fromkeys([*entries, *pieces]))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps({t: n for n, t in enumerate(vocabulary)}))
    lines = ["#version: 0.2", *(" ".join(merge) for merge in merges), ""]
    (folder / "merges.txt").write_text("\n".join(lines))
    CTRLTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt")).save_pretrained(folder)
    model(len(vocabulary), seed).save_pretrained(folder)
    return folder


def model(vocabulary: int, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    made = CTRLLMHeadModel(
        CTRLConfig(
            vocab_size=vocabulary,
            n_positions=256,
            n_embd=16,
            dff=32,
            n_layer=2,
            n_head=2,
            initializer_range=0.5,
        )
    )
    with torch.no_grad():
        made.lm_head.bias.normal_()
        made.lm_head.bias[:2] = 9.0  # the model would write what it must not
    return made.eval()
