"""What follows a text, and texts after a prefix, against the plain loop: the whole model for every
token, nothing shared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tiny
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM, OPTConfig, OPTForCausalLM

from levelfield.models.contracts import Frame
from levelfield.models.torch.causal import TorchCausalModel

KINDS = ("gpt2", "llama", "bloom", "opt", "gemma2")
TREES = ("gpt2", "llama", "opt")
FRAMES = [
    Frame(" In summary, it was", (" good", " bad", " extraordinary", " good enough")),
    Frame(" In short, it was", (" bad", "", "🙂")),
    Frame("", (" Then", " It", " 日本語")),
    Frame(" It", ()),
    Frame("</s>", ("<s>", "<|endoftext|>")),
]
TEXTS = [*tiny.texts()[:3], "", "It rained.", "🙂👩‍👩‍👧 Ünïcödé </s>", "It rained. It", "a"]
PREFIXES = ["In summary, it was good. ", "", "In summary, it was bad. ", "<s>"]


def network(kind: str, vocabulary: int, positions: int = 512) -> Any:
    if kind in tiny.CAUSAL_FAMILIES:
        return tiny.causal_model(kind, vocabulary, positions=positions)
    torch.manual_seed(0)
    size: dict[str, Any] = {
        "vocab_size": vocabulary,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": positions,
    }
    if kind == "opt":
        made: Any = OPTForCausalLM(
            OPTConfig(**size, ffn_dim=32, word_embed_proj_dim=16, init_std=0.3)
        )
    else:
        made = Gemma2ForCausalLM(
            Gemma2Config(
                **size,
                intermediate_size=32,
                num_key_value_heads=1,
                head_dim=8,
                initializer_range=0.3,
                final_logit_softcapping=2.0,
                sliding_window=8,
            )
        )
    return made.eval()


def causal_model(kind: str, **options: Any) -> tuple[TorchCausalModel, Any]:
    words = tiny.causal_tokenizer(kind if kind in tiny.CAUSAL_FAMILIES else "llama")
    made = network(kind, len(words), options.pop("positions", 512))
    return TorchCausalModel(made, words, **options), made


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def plain_log_p(made: Any, given: list[int], ids: list[int]) -> list[float]:
    """log P(id | given, ids before it), from one forward for each id."""
    found = []
    with torch.no_grad():
        for at, id in enumerate(ids):
            logits = made(torch.tensor([[*given, *ids[:at]]])).logits[0, -1]
            found.append(logits.double().log_softmax(-1)[id].item())
    return found


def test_words_after_a_text_get_the_log_probabilities_of_the_plain_loop(kind):
    model, made = causal_model(kind)
    bos = model._tokens.bos_id
    found = model.words_after(TEXTS, [FRAMES] * len(TEXTS))
    for text, of_text in zip(TEXTS, found, strict=True):
        assert of_text.cut == [False] * len(FRAMES)
        for frame, of_frame in zip(FRAMES, of_text.log_p, strict=True):
            before, between, *words = model.token_ids([text, frame.between, *frame.words])
            assert len(of_frame) == len(words)
            for ids, log_p in zip(words, of_frame, strict=True):
                assert log_p.dtype == np.float64
                expected = plain_log_p(made, [bos, *before, *between], ids)
                np.testing.assert_allclose(log_p, expected, atol=1e-5)


def test_a_text_after_a_prefix_gets_the_log_probabilities_of_the_plain_loop(kind):
    model, made = causal_model(kind)
    bos = model._tokens.bos_id
    found = model.log_likelihood_after(PREFIXES, TEXTS)
    for prefix, of_texts in zip(PREFIXES, found, strict=True):
        for text, one in zip(TEXTS, of_texts, strict=True):
            before, ids = model.token_ids([prefix, text])
            assert one.ids.tolist() == ids
            assert one.log_p.dtype == np.float64
            assert not one.cut
            np.testing.assert_allclose(one.log_p, plain_log_p(made, [bos, *before], ids), atol=1e-5)
            if ids and model._tokens.ids([text])[0]:
                assert len(one.ends) == len(ids)
    for one, other in zip(found[1], model.log_likelihood(TEXTS), strict=True):
        assert one.log_p is other.log_p


def test_models_read_trees_where_a_mask_and_positions_make_them_paths(kind):
    assert causal_model(kind)[0]._reads_trees == (kind in TREES)
