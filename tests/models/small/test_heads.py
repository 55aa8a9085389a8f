"""Linear heads: what they read of an encoder."""

from __future__ import annotations

import numpy as np
import torch
from transformers import RobertaConfig, RobertaModel

import tiny
from levelfield.models.load import load
from levelfield.models.loading import Loading
from levelfield.models.resolve import resolve
from levelfield.models.small.heads import States


def test_an_encoder_whose_positions_begin_behind_the_padding_is_not_read_beyond_them(tmp_path):
    tokenizer = tiny.tokenizer("bart")  # it names no limit of its own
    config = RobertaConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=40, pad_token_id=1,
    )  # fmt: skip
    torch.manual_seed(0)
    RobertaModel(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    embedded, cut = load("encoder", str(tmp_path), Loading(device="cpu")).sentences(
        ["the lake " * 300]
    )
    assert np.isfinite(embedded).all()
    assert cut == [True]
    states = States(resolve(str(tmp_path)), 2, Loading(device="cpu"))
    found, cut = states.of(["the lake " * 100, "the lake"])
    assert np.isfinite(found).all()
    assert cut.tolist() == [True, False]
