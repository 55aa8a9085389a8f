"""Random small sequence classifiers, with a word-piece tokenizer of our own examples' words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import WordPiece
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
)

import tiny

FAMILIES = ("distilbert", "bert", "roberta")
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def tokenizer() -> PreTrainedTokenizerFast:
    """Frequent words and letters. The library's trainer breaks ties at random."""
    letters = sorted({letter.lower() for letter in tiny.letters()})
    pieces = [*SPECIAL, *letters, *("##" + letter for letter in letters)]
    words = dict.fromkeys(word.lower() for word, _ in tiny.frequent_words(500))
    vocabulary = list(dict.fromkeys([*pieces, *words]))[:500]
    made = Tokenizer(WordPiece({piece: i for i, piece in enumerate(vocabulary)}, unk_token="[UNK]"))
    made.add_special_tokens(SPECIAL)
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    )


def model(
    labels: Sequence[str],
    *,
    family: str = "distilbert",
    positions: int = 64,
    seed: int = 0,
    spread: float = 0.3,
) -> Any:
    """A classifier whose probabilities are far from equal.

    Args:
        spread: standard deviation of the weights. 0.3 keeps two computations in float32 within 1e-5
            of each other; with 1, rounding moves a number by up to 1e-3.
    """
    torch.manual_seed(seed)
    named = {
        "id2label": dict(enumerate(labels)),
        "label2id": {label: i for i, label in enumerate(labels)},
        "vocab_size": 500,
        "max_position_embeddings": positions,
        "initializer_range": spread,
        "pad_token_id": 0,
    }
    if family == "distilbert":
        config: Any = DistilBertConfig(**named, dim=16, n_layers=2, n_heads=2, hidden_dim=32)
        return DistilBertForSequenceClassification(config).eval()
    size = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    if family == "bert":
        return BertForSequenceClassification(BertConfig(**named, **size)).eval()
    return RobertaForSequenceClassification(RobertaConfig(**named, **size)).eval()


def save(folder: Path, labels: Sequence[str], **options: Any) -> Path:
    """A folder as a user would have it."""
    model(labels, **options).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder
