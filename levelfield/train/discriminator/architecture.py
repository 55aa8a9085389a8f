"""Discriminators with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from levelfield.models.torch.loading import classes
from levelfield.train.infiller import Size

MARKED = "</s> $A </s>"
"""A text `$A` as it is read: the head reads the state of the first token, which should say nothing
itself."""


def new_model(size: Size, vocabulary: int, positions: int, labels: Sequence[str]) -> Any:
    """A BERT that tells labels apart, with random weights."""
    import transformers

    assert size.inner
    assert size.head
    return transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=vocabulary,
            hidden_size=size.width,
            num_hidden_layers=size.layers,
            num_attention_heads=max(1, size.width // size.head),
            intermediate_size=size.inner,
            max_position_embeddings=positions,
            pad_token_id=0,
            **classes(labels),
        )
    )
