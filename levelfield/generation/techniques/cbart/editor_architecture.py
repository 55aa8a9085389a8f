"""The encoder-decoder of an editor that begins from nothing but a vocabulary."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from levelfield.generation.techniques.cbart.editor import (
    EditingHead,
    EditorNetwork,
    add_head,
)
from levelfield.generation.techniques.cbart.editor_options import EditorSize
from levelfield.train.builder import save_model
from levelfield.train.loop import seeded

EMBEDDINGS = 0.07
"""Deviation of the embeddings that are taken over; large beside the other weights, so that from the
first step on states differ from token to token."""
WEIGHTS = 0.05
HEAD = 64
POSITIONS = 128


def new_body(vocabulary: Any, tokenizer: Any, size: EditorSize, seed: int) -> Any:
    """A BART with random weights and the token embeddings of another model, which decide its width.

    Positions begin as sinusoids, since few sentences reach the last ones.

    Args:
        vocabulary: the other model.
        tokenizer: of both.
    """
    import transformers

    embeddings = vocabulary.get_input_embeddings().weight.detach()
    words, width = embeddings.shape
    with seeded(seed):
        body: Any = transformers.BartForConditionalGeneration(
            transformers.BartConfig(
                vocab_size=words,
                d_model=width,
                encoder_layers=size.layers,
                decoder_layers=size.layers,
                encoder_attention_heads=max(1, width // HEAD),
                decoder_attention_heads=max(1, width // HEAD),
                encoder_ffn_dim=size.inner * width,
                decoder_ffn_dim=size.inner * width,
                max_position_embeddings=POSITIONS,
                dropout=0.0,
                init_std=WEIGHTS,
                pad_token_id=tokenizer.pad_token_id,
                bos_token_id=tokenizer.bos_token_id,
                eos_token_id=tokenizer.eos_token_id,
                decoder_start_token_id=vocabulary.config.decoder_start_token_id,
                forced_eos_token_id=None,
            )
        )
    with torch.no_grad():
        body.get_input_embeddings().weight.copy_(embeddings / embeddings.std() * EMBEDDINGS)
        for half in (body.get_encoder(), body.get_decoder()):
            table = half.embed_positions.weight
            table.copy_(_sinusoids(*table.shape) * WEIGHTS)
    return body.eval()


def new_head(width: int, seed: int) -> EditingHead:
    """Returns a head with random weights, for states of a width."""
    with seeded(seed):
        return EditingHead(width)


def save_editor(network: EditorNetwork, tokenizer: Any, out: Path, *, half: bool = False) -> None:
    """Leaves the folder of an editor: that of its encoder-decoder, the head among the weights.

    Raises:
        UserError: the encoder-decoder is too large for one file.
    """
    save_model(network.body, tokenizer, out, half=half)
    add_head(network.head, out)


def _sinusoids(places: int, width: int) -> torch.Tensor:
    """Vaswani et al. (2017), section 3.5: (places, width)."""
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    angles = torch.arange(places)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :width]
