"""Linear heads: what they read of an encoder or a causal model."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import RobertaConfig, RobertaModel

import tiny
from levelfield.core.errors import UserError
from levelfield.models.contracts import Frame
from levelfield.models.load import load
from levelfield.models.loading import Loading
from levelfield.models.resolve import resolve
from levelfield.models.small.heads import Encoder, States
from levelfield.models.torch.loading import load_pretrained
from levelfield.text.natural import natural


def test_an_encoder_whose_positions_begin_after_the_padding_is_not_read_beyond_them(tmp_path):
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
    means, cut = states.of(["the lake " * 100, "the lake"])
    assert np.isfinite(means).all()
    assert cut.tolist() == [True, False]


@pytest.mark.parametrize("family", tiny.CAUSAL_FAMILIES)
@pytest.mark.parametrize(("layers", "depth"), [(1, 1), (2, 1), (2, 0), (9, 2)])
@pytest.mark.parametrize("bos", ["auto", True])
def test_states_of_a_causal_model_are_means_over_tokens_after_bos(
    causal_folders, family, layers, depth, bos
):
    name = str(causal_folders[family])
    states = States(resolve(name), layers, Loading(device="cpu"), depth=depth, bos=bos)
    texts = ["The lake was cold", "a", "", "🙂 good 湖", "the lake " * 400, "The sun is out."]
    together, cut = states.of(texts)
    assert np.isnan(together).any(axis=1).tolist() == [text == "" for text in texts]
    assert cut.tolist() == [text.startswith("the lake ") for text in texts]
    model, tokenizer = load_pretrained(resolve(name), "causal", Loading(device="cpu"))
    opening = [tokenizer.bos_token_id] * (bos is True or family == "llama")
    assert states.reads_bos == bool(opening)
    for text, mean in zip(texts, together, strict=True):
        if not text:
            continue
        np.testing.assert_allclose(states.of([text])[0][0], mean, atol=1e-5)
        ids = [*opening, *tokenizer(natural(text), add_special_tokens=False)["input_ids"]]
        with torch.inference_mode():
            hidden = model(torch.tensor([ids[:512]]), output_hidden_states=True).hidden_states
        last = depth or len(hidden) - 1
        first = max(0, last + 1 - layers)
        plain = [state[0, len(opening) :].mean(0).numpy() for state in hidden[first : last + 1]]
        np.testing.assert_allclose(mean, np.concatenate(plain), atol=1e-5)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_texts_that_the_model_has_scored_are_not_read_again(causal_folders, family, monkeypatch):
    name, on_cpu = str(causal_folders[family]), Loading(device="cpu")
    texts = ["The lake was cold.", "I", "", "🙂 good 湖", "the lake " * 400, "The sun is out."]
    alone, _ = States(resolve(name), 1, on_cpu, depth=1).of(texts)
    scorer = load("causal", name, on_cpu)
    states = States(resolve(name), 1, on_cpu, depth=1, scorer=scorer)
    scorer.words_after(texts, [[Frame(" It was", (" good", " bad"))]] * len(texts))
    read: list[int] = []
    means = states._means
    monkeypatch.setattr(states, "_means", lambda ids: read.append(len(ids)) or means(ids))
    together, _ = states.of(texts)
    np.testing.assert_allclose(together, alone, atol=1e-5)
    # of the long text a head reads less than the model; without BOS, the root of a tree is a token
    # of the text, and no mean is kept
    assert sum(read) == (1 if scorer.tokens.reads_bos else 5)


def test_a_layer_that_a_model_lacks_is_refused(causal_folders):
    with pytest.raises(UserError, match="depth=3: model 'llama' has the layers 0 to 2"):
        States(resolve(str(causal_folders["llama"])), 1, Loading(device="cpu"), depth=3)


def test_a_folder_names_the_depth_of_its_head_only_where_it_has_one(causal_folders):
    resolved = resolve(str(causal_folders["llama"]))
    assert Encoder.of("offline/smollm2", resolved, 5, 16).as_config() == {
        "encoder": "offline/smollm2", "revision": resolved.revision, "layers": 5, "depth": 16
    }  # fmt: skip
    assert "depth" not in Encoder.of("offline/minilm", resolved, 7).as_config()
