"""Random small sequence classifiers, with a word-piece tokenizer trained on our own examples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import WordPiece
from tokenizers.trainers import WordPieceTrainer
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
    made = Tokenizer(WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.train_from_iterator(tiny.texts(), WordPieceTrainer(vocab_size=500, special_tokens=SPECIAL))
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
    spread: float = 1.0,
) -> Any:
    """A classifier whose probabilities are far from equal.

    Args:
        spread: standard deviation of the weights. With 1, rounding in float32 moves a number by up
            to 1e-3; choose 0.3 where two computations are compared.
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
