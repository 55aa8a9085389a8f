"""Infillers with random weights."""

from __future__ import annotations

from typing import Any

from levelfield.train.infiller import Family, Size
from levelfield.train.loop import seeded


def new_model(family: Family, size: Size, vocabulary: int, seed: int, *, positions: int) -> Any:
    """A model with random weights."""
    import transformers

    size = size.settled()
    assert size.inner
    assert size.head

    with seeded(seed):
        if family == "t5":
            return transformers.T5ForConditionalGeneration(
                transformers.T5Config(  # type: ignore[call-arg]
                    vocab_size=vocabulary,
                    d_model=size.width,
                    d_kv=size.head,
                    d_ff=size.inner,
                    num_layers=size.layers,
                    num_heads=max(1, size.width // size.head),
                    feed_forward_proj="gated-gelu",
                    dropout_rate=0.0,
                    n_positions=positions,
                    pad_token_id=0,
                    eos_token_id=1,
                    decoder_start_token_id=0,
                )
            )
        return transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=vocabulary,
                hidden_size=size.width,
                intermediate_size=size.inner,
                num_hidden_layers=size.layers,
                num_attention_heads=max(1, size.width // size.head),
                max_position_embeddings=positions,
                tie_word_embeddings=True,
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=1,
            )
        )
