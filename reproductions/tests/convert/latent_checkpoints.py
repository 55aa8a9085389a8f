"""Small random checkpoints in the layout of MultiCTG's authors, with what they are read beside."""

from __future__ import annotations

import json
from pathlib import Path

import torch
import transformers
from torch import nn

import tiny

LAYERS, HEADS, WIDTH, P, SIZE = 3, 2, 8, 4, 5
"""More layers than heads, as GPT-2 medium has."""
TEXTS = {
    "sentiment": {"negative": ["it was sad", "a bad lake"], "positive": ["a fine old road"]},
    "topic": {"Sports": ["the game was won"], "World": ["a very old war", "the road to it"]},
}


def save_base(folder: Path) -> str:
    words = tiny.causal_tokenizer("gpt2")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(words),
        n_positions=64,
        n_embd=HEADS * WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        initializer_range=0.3,
        bos_token_id=0,
        eos_token_id=0,
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    words.save_pretrained(folder)
    return str(folder)


def save_bert(folder: Path) -> str:
    """Saves a configuration and a tokenizer; the weights are the checkpoint's."""
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = sorted(
        {
            word
            for labelled in TEXTS.values()
            for texts in labelled.values()
            for t in texts
            for word in t.split()
        }
    )
    (folder / "vocab.txt").write_text("\n".join([*names, *words]) + "\n")
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=len(names) + len(words),
        hidden_size=12,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
        initializer_range=0.5,
    )
    transformers.BertModel(config).save_pretrained(folder)
    return str(folder)


def save_texts(folder: Path) -> str:
    """Saves a file an attribute; returns them with a comma between them."""
    files = []
    for attribute, labelled in TEXTS.items():
        rows = [
            {"id": f"{label} {n}", "text": text, "control": {attribute: label}}
            for label, texts in labelled.items()
            for n, text in enumerate(texts)
        ]
        files.append(folder / f"{attribute}.jsonl")
        files[-1].write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ",".join(map(str, files))


class Published(nn.Module):
    """The tensors that the layout's description names."""

    def __init__(self, base: str, bert: str, size: int = SIZE) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.encoder = transformers.BertModel.from_pretrained(bert)
        self.decoder = transformers.GPT2LMHeadModel.from_pretrained(base)
        self.trans1 = nn.Sequential(nn.Linear(12, size), nn.Tanh(), nn.Dropout(0.1))
        self.trans2 = nn.Sequential(nn.Linear(size, P * LAYERS * 2 * HEADS * WIDTH))
        self.latent_classify_head = nn.ModuleList([nn.Linear(size, 2)])
        for parameter in self.trans2.parameters():
            parameter.data.normal_()
        self.eval()

    def latent(self, tokenizer, text: str) -> torch.Tensor:
        with torch.inference_mode():
            return self.trans1(self.encoder(**tokenizer(text, return_tensors="pt")).pooler_output)[
                0
            ]

    def cache(self, e: torch.Tensor):
        """Pairs of keys and values for as many layers as there are heads."""
        with torch.inference_mode():
            flat = self.trans2(e).view(LAYERS, 2, HEADS, P, WIDTH)
        pairs = [(flat[i, 0][None], flat[i, 1][None]) for i in range(HEADS)]
        return transformers.DynamicCache(ddp_cache_data=pairs)
