"""Causal models against the plain loop: one text at a time, the softmax over all that comes out."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BertConfig,
    BertLMHeadModel,
    Gemma2Config,
    Gemma2ForCausalLM,
    XLMConfig,
    XLMWithLMHeadModel,
    XLNetConfig,
    XLNetLMHeadModel,
)

import tiny
from levelfield.core.errors import ModelError
from levelfield.models.causal_tokens import WITHOUT_LIMIT, CausalTokens
from levelfield.models.load import load
from levelfield.models.loading import Loading
from levelfield.models.torch import causal as torch_causal
from levelfield.models.torch.causal import TorchCausalModel
from levelfield.models.torch.language_model import language_model
from levelfield.models.torch.loading import fuse_activations
from levelfield.models.torch.softmax import Block, token_log_p

BOS = {"gpt2": 0, "bloom": 1, "llama": 1}
OPENING = {"gpt2": [], "bloom": [], "llama": [1]}
"""What the tokenizer of each family puts before a text."""
ODD = ["a", " ", "\n\n", "🙂👩‍👩‍👧", "Ünïcödé ça", "日本語のテキスト", "x" * 100, "مرحبا"]


def log_p_of(model: Any, ids: list[int], opening: list[int]) -> list[float]:
    """log P(id | opening, ids before it), one forward for each that something precedes."""
    values = []
    with torch.no_grad():
        for place, id in enumerate(ids):
            if prefix := [*opening, *ids[:place]]:
                logits = model(torch.tensor([prefix])).logits[0, -1]
                values.append(logits.double().log_softmax(-1)[id].item())
    return values


class PlainLoop:
    def __init__(self, folder: Path, family: str) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.opening = OPENING[family]

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def scored(self, text: str) -> list[int]:
        return self.ids(text)[1 - len(self.opening) :]

    def log_p(self, text: str) -> list[float]:
        return log_p_of(self.model, self.ids(text), self.opening)


@pytest.fixture(scope="module", params=tiny.CAUSAL_FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def plain(family: str, causal_folders: dict[str, Path]) -> PlainLoop:
    return PlainLoop(causal_folders[family], family)


@pytest.fixture
def model(plain: PlainLoop) -> TorchCausalModel:
    """One that remembers nothing yet."""
    return TorchCausalModel(plain.model, plain.tokenizer)


@pytest.mark.thinned
def test_every_token_gets_the_log_probability_of_the_plain_loop(plain, model):
    texts = [*tiny.texts()[:4], *ODD]
    for text, likelihood in zip(texts, model.log_likelihood(texts), strict=True):
        assert likelihood.ids.tolist() == plain.scored(text)
        np.testing.assert_allclose(likelihood.log_p, plain.log_p(text), atol=1e-5)
        assert not likelihood.cut


@pytest.mark.thinned
def test_with_bos_every_token_is_scored_and_without_it_all_but_the_first(plain):
    texts = [*tiny.texts()[:2], *ODD]
    bos = plain.tokenizer.bos_token_id
    for reads in (True, False):
        model = TorchCausalModel(plain.model, plain.tokenizer, bos=reads)
        for text, likelihood in zip(texts, model.log_likelihood(texts), strict=True):
            ids, ends = plain.ids(text), model.token_ends([text])[0]
            expected = log_p_of(plain.model, ids, [bos] if reads else [])
            np.testing.assert_allclose(likelihood.log_p, expected, atol=1e-5)
            assert likelihood.ids.tolist() == ids[1 - reads :]
            assert likelihood.ends.tolist() == ends[1 - reads :]
            assert likelihood.unscored == (0 if reads else ends[0])


@pytest.mark.thinned
@pytest.mark.parametrize("batch_tokens", [1, 60, 100_000])
def test_neither_order_nor_batches_nor_neighbours_change_a_value(plain, model, batch_tokens):
    texts = [*tiny.texts()[:12], *ODD]
    expected = dict(zip(texts, model.log_likelihood(texts), strict=True))
    shuffled = random.Random(batch_tokens).sample(texts, len(texts)) + texts[:3]
    other = TorchCausalModel(plain.model, plain.tokenizer, batch_tokens=batch_tokens)
    for text, likelihood in zip(shuffled, other.log_likelihood(shuffled), strict=True):
        np.testing.assert_allclose(likelihood.log_p, expected[text].log_p, atol=1e-5)


@settings(max_examples=25)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), max_size=6))
def test_any_texts_get_a_finite_log_probability_for_each_of_their_tokens(causal_folders, texts):
    for name in tiny.CAUSAL_FAMILIES:
        model = load("causal", str(causal_folders[name]))
        for text, likelihood in zip(texts, model.log_likelihood(texts), strict=True):
            assert likelihood.ids.shape == likelihood.log_p.shape == likelihood.ends.shape
            assert likelihood.ids.tolist() == model.token_ids([text])[0][1 - len(OPENING[name]) :]
            assert (likelihood.log_p <= 0).all()
            assert np.isfinite(likelihood.log_p).all()


@pytest.mark.parametrize("bos", ["auto", True, False])
def test_a_text_begins_as_its_tokenizer_begins_it_or_as_the_option_says(
    family, plain, bos, monkeypatch
):
    inputs = []
    model = TorchCausalModel(plain.model, plain.tokenizer, bos=bos)
    body = model._body
    monkeypatch.setattr(model, "_body", lambda ids: (inputs.append(ids), body(ids))[1])
    model.log_likelihood(["It rained."])
    whole = plain.tokenizer("It rained.")["input_ids"]
    if bos != "auto":
        whole = [BOS[family]] * bos + plain.ids("It rained.")
    assert inputs[0].tolist() == [whole[:-1]]


def test_a_special_token_written_out_in_a_text_is_read_as_characters(plain, model):
    for token in {plain.tokenizer.bos_token, plain.tokenizer.eos_token}:
        text = f"It rained.{token}It stopped."
        (likelihood,) = model.log_likelihood([text])
        special = plain.tokenizer.convert_tokens_to_ids(token)
        assert special in plain.ids(text)
        assert special not in likelihood.ids
        assert likelihood.ids.tolist() == model.token_ids([text])[0][1 - len(plain.opening) :]


def test_without_bos_token_eos_precedes_a_text_and_without_either_the_model_is_refused(plain):
    class Named:
        bos_token_id = None
        eos_token_id = 2

        def __call__(self, _text: str, **_options: bool) -> dict[str, list[int]]:
            return {"input_ids": [7]}

        def convert_ids_to_tokens(self, id: int) -> str:
            return f"token {id}"

    named = Named()
    assert CausalTokens(named, plain.model.config).bos == "token 2"
    named.eos_token_id = None
    with pytest.raises(ModelError, match="neither a BOS nor an EOS"):
        CausalTokens(named, plain.model.config)


def test_unigrams_given_bos_are_one_forward_and_equal_to_what_first_tokens_get(model, monkeypatch):
    forwards = []
    body = model._body
    monkeypatch.setattr(model, "_body", lambda ids: (forwards.append(ids.tolist()), body(ids))[1])
    log_p = model.unigram_bos()
    assert model.unigram_bos() is log_p
    assert forwards == [[[model._tokens.bos_id]]]
    assert log_p.shape == (model.vocabulary_size,)
    assert np.exp(log_p).sum() == pytest.approx(1, abs=1e-5)
    for likelihood in model.log_likelihood(tiny.texts()[:5]) if model._tokens.reads_bos else []:
        assert likelihood.log_p[0] == pytest.approx(log_p[likelihood.ids[0]], abs=1e-5)


@pytest.fixture(params=["gpt2", "llama"])
def short(request: pytest.FixtureRequest) -> TorchCausalModel:
    """A model that takes 20 tokens."""
    words = tiny.causal_tokenizer(request.param)
    return TorchCausalModel(tiny.causal_model(request.param, len(words), positions=20), words)


def test_of_a_long_text_the_beginning_is_scored_and_it_counts_as_cut(short):
    whole = tiny.texts()[0]
    ids = short.token_ids([whole])[0]
    assert len(ids) > 20
    fits = whole[: short.log_likelihood([whole])[0].ends[-1]]
    likelihood, beginning, huge = short.log_likelihood([whole, fits, whole * 10_000])
    assert (likelihood.cut, beginning.cut, huge.cut) == (True, False, True)
    first = short._tokens.unscored
    assert likelihood.ids.tolist() == ids[first:20] == huge.ids.tolist()
    np.testing.assert_allclose(likelihood.log_p, beginning.log_p, atol=1e-5)
    np.testing.assert_allclose(likelihood.log_p, huge.log_p, atol=1e-5)


def test_a_model_without_a_limit_of_positions_takes_as_many_tokens_as_we_say(causal_folders):
    tokens = load("causal-tokens", str(causal_folders["bloom"]))
    assert tokens.limit == WITHOUT_LIMIT
    (fitted,) = tokens.fit(["word " * 5000])
    assert (len(fitted.ids), fitted.cut) == (WITHOUT_LIMIT, True)


def test_no_texts_and_texts_without_tokens_get_no_log_probabilities(model):
    assert model.log_likelihood([]) == []
    empty, other = model.log_likelihood(["", "It rained."])
    assert (empty.ids.size, empty.log_p.size, empty.cut) == (0, 0, False)
    assert other.log_p.size > 0


@pytest.fixture
def forwards(model: TorchCausalModel, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many texts went through the model, forward by forward."""
    rows: list[int] = []
    body = model._body
    monkeypatch.setattr(model, "_body", lambda ids: (rows.append(len(ids)), body(ids))[1])
    return rows


def test_equal_texts_go_through_the_model_once_also_when_asked_for_again(model, forwards):
    first = model.log_likelihood(["It rained.", "It stopped.", "It rained."])
    again = model.log_likelihood(["It stopped.", "It rained."])
    assert sum(forwards) == 2
    assert first[0].log_p is first[2].log_p is again[1].log_p
    with pytest.raises(ValueError, match="read-only"):
        again[0].log_p[0] = 0


def test_what_is_kept_of_past_texts_is_bounded_and_forgetting_changes_nothing(
    model, forwards, monkeypatch
):
    texts = tiny.texts()[:6]
    expected = [likelihood.log_p.tolist() for likelihood in model.log_likelihood(texts)]
    most = len(expected[-1]) + 3
    monkeypatch.setattr("levelfield.models.tokens.RECENT_TOKENS", most)
    forwards.clear()
    likelihoods = model.log_likelihood([*texts, "New."])
    assert [likelihood.log_p.tolist() for likelihood in likelihoods[:-1]] == expected
    assert sum(forwards) == 1
    assert (
        sum(1 + len(likelihood.ids) for likelihood in model._recent.values())
        == model._recent._tokens
        <= most
    )
    again = model.log_likelihood(texts)
    for likelihood, values in zip(again, expected, strict=True):
        np.testing.assert_allclose(likelihood.log_p, values, atol=1e-5)


@pytest.mark.parametrize("block", [(1, 1000), (7, 33), (1000, 1), (1000, 399), (1000, 400)])
def test_blocks_of_the_softmax_do_not_show(plain, model, block):
    texts = tiny.texts()[:2]
    other = TorchCausalModel(plain.model, plain.tokenizer)
    other._block = Block(*block)
    for first, second in zip(model.log_likelihood(texts), other.log_likelihood(texts), strict=True):
        np.testing.assert_allclose(first.log_p, second.log_p, atol=1e-5)


@pytest.mark.parametrize("high", [0, 50, 390])
def test_logits_far_apart_do_not_overflow(high):
    """One block of the vocabulary exceeds all others by more than exp can represent in float32."""
    logits = torch.randn(3, 400)
    logits[:2, high : high + 5] += 200
    logits[2, :high] = -torch.inf
    tokens = torch.tensor([5, 391, 399])
    log_p = token_log_p(
        lambda states, columns: states[:, columns].clone(),
        logits,
        torch.arange(3),
        tokens,
        vocabulary=400,
        block=Block(2, 7),
    )
    np.testing.assert_allclose(
        log_p,
        logits.double().log_softmax(-1)[torch.arange(3), tokens],
        atol=2e-5,  # what float32 holds of 200
    )


def test_gelu_is_fused_and_stays_the_same(causal_folders):
    """GPT-2's is written out in `transformers`: as many passes over memory as it has operators."""
    written = AutoModelForCausalLM.from_pretrained(causal_folders["gpt2"])
    fused = copy.deepcopy(written)
    fuse_activations(fused)
    kinds = [{type(module).__name__ for module in model.modules()} for model in (written, fused)]
    assert "NewGELUActivation" in kinds[0] - kinds[1]
    ids = torch.arange(30)[None]
    with torch.no_grad():
        torch.testing.assert_close(written(ids).logits, fused(ids).logits, atol=1e-5, rtol=1e-5)


def test_what_can_be_taken_in_two_steps_is(model):
    assert model._body(torch.tensor([[1]])).shape[-1] == 16


def test_a_model_that_does_more_to_logits_than_its_output_layer_is_taken_whole():
    words = tiny.causal_tokenizer("llama")
    torch.manual_seed(0)
    config = Gemma2Config(
        vocab_size=len(words),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        initializer_range=0.3,
        final_logit_softcapping=2.0,
    )
    capped = Gemma2ForCausalLM(config).eval()
    model = TorchCausalModel(capped, words)
    assert model._body(torch.tensor([[1]])).shape[-1] == len(words)
    texts = ["It rained.", "It rained again, and again."]
    for text, likelihood in zip(texts, model.log_likelihood(texts), strict=True):
        ids = model.token_ids([text])[0]
        np.testing.assert_allclose(likelihood.log_p, log_p_of(capped, ids, [1]), atol=1e-5)
    assert np.exp(model.unigram_bos()).sum() == pytest.approx(1, abs=1e-5)


def test_bfloat16_comes_near_float32(causal_folders, family):
    texts = tiny.texts()[:2]
    exact = load("causal", str(causal_folders[family])).log_likelihood(texts)
    rough = load("causal", str(causal_folders[family]), Loading(dtype="bfloat16")).log_likelihood(
        texts
    )
    for first, second in zip(exact, rough, strict=True):
        assert first.log_p.mean() == pytest.approx(second.log_p.mean(), rel=0.02)
        assert (first.log_p != second.log_p).any()


@pytest.mark.slow
def test_where_all_logits_are_taken_at_once_a_batch_has_a_bounded_number_of_them(
    plain, monkeypatch
):
    words, V = plain.tokenizer, plain.model.config.vocab_size
    monkeypatch.setattr(torch_causal, "WHOLE_LOGITS", 50 * V + 1)
    assert TorchCausalModel(plain.model, words)._batch_tokens == 2048
    layer = plain.model.get_output_embeddings()
    monkeypatch.setattr(plain.model, "get_output_embeddings", lambda: None)
    model = TorchCausalModel(plain.model, words)
    assert model._body(torch.tensor([[1]])).shape[-1] == V == layer.out_features
    assert model._batch_tokens == 50
    assert TorchCausalModel(plain.model, words, batch_tokens=7)._batch_tokens == 7
    texts = tiny.texts()[:6]
    for text, likelihood in zip(texts, model.log_likelihood(texts), strict=True):
        np.testing.assert_allclose(likelihood.log_p, plain.log_p(text), atol=1e-5)


def looks_both_ways(kind: str) -> Any:
    torch.manual_seed(0)
    models: Any = {
        "bert": lambda: BertLMHeadModel(
            BertConfig(
                vocab_size=400,
                hidden_size=16,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=32,
            )
        ),
        "xlm": lambda: XLMWithLMHeadModel(
            XLMConfig(vocab_size=400, emb_dim=16, n_layers=2, n_heads=2)
        ),
        "xlnet": lambda: XLNetLMHeadModel(
            XLNetConfig(vocab_size=400, d_model=16, n_layer=2, n_head=2, d_inner=32)
        ),
    }[kind]()
    return models


@pytest.mark.parametrize("kind", ["bert", "xlm", "xlnet"])
def test_a_model_whose_states_depend_on_later_tokens_is_refused(kind):
    words = tiny.causal_tokenizer("llama")
    with pytest.raises(ModelError, match="is not a causal language model") as caught:
        TorchCausalModel(looks_both_ways(kind), words)
    assert "\n" not in str(caught.value)
    assert CausalTokens(words, looks_both_ways(kind).config).limit > 0


def test_a_checkpoint_of_that_kind_is_refused_by_its_name(tmp_path):
    looks_both_ways("bert").save_pretrained(tmp_path)
    tiny.causal_tokenizer("llama").save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="BertLMHeadModel is not a causal language model"):
        load("causal", str(tmp_path))


def test_an_encoder_that_is_configured_as_a_decoder_is_taken():
    config = looks_both_ways("bert").config
    config.is_decoder = True
    network = BertLMHeadModel(config).eval()
    words = tiny.causal_tokenizer("llama")
    (likelihood,) = TorchCausalModel(network, words).log_likelihood(["It rained."])
    np.testing.assert_allclose(
        likelihood.log_p, log_p_of(network, likelihood.ids.tolist(), [1]), atol=1e-5
    )


def test_a_checkpoint_that_names_its_base_class_is_what_it_is(causal_folders, tmp_path):
    for file in causal_folders["bloom"].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config["architectures"] = ["BloomModel"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    likelihood, expected = (
        load("causal", str(folder)).log_likelihood(["It rained."])[0].log_p
        for folder in (tmp_path, causal_folders["bloom"])
    )
    assert likelihood.tolist() == expected.tolist()


def test_no_token_is_more_than_certain():
    """One logit exceeds all others so far that log P is 0 except for rounding."""
    torch.manual_seed(0)
    logits = torch.randn(400, 400)
    logits[torch.arange(400), torch.arange(400)] += 40
    logits[0], logits[1, 1] = torch.nan, -torch.inf
    log_p = token_log_p(
        lambda states, columns: states[:, columns].clone(),
        logits,
        torch.arange(400),
        torch.arange(400),
        vocabulary=400,
        block=Block(64, 7),
    )
    assert log_p[0].isnan()
    assert log_p[1] == -torch.inf
    assert (log_p[2:] <= 0).all()


def test_a_token_that_the_model_does_not_have_is_named(plain):
    words = copy.deepcopy(plain.tokenizer)
    words.add_tokens(["quokka"])
    model = TorchCausalModel(plain.model, words)
    assert model.log_likelihood(["It rained."])[0].log_p.size
    for read in (model.token_ids, model.log_likelihood):
        with pytest.raises(ModelError, match=r"'quokka' has the id 400, .* has 400 tokens"):
            read(["It rained.", "A quokka."])
    words.add_special_tokens({"bos_token": "<begin>"})
    with pytest.raises(ModelError, match="'<begin>' has the id 401"):
        TorchCausalModel(plain.model, words, bos=True)


def test_tokenizers_have_one_digest_if_ids_are_the_same_tokens(causal_folders, plain):
    digests = {name: load("causal-tokens", str(causal_folders[name])).digest for name in BOS}
    assert len(set(digests.values())) == len(BOS)
    assert CausalTokens(plain.tokenizer, plain.model.config).digest in digests.values()
    more = copy.deepcopy(plain.tokenizer)
    more.add_tokens(["quokka"])
    assert CausalTokens(more, plain.model.config).digest not in digests.values()


def test_a_model_that_is_not_causal_is_refused_in_one_line(tiny_folders):
    for kind in ("causal", "causal-tokens"):
        with pytest.raises(ModelError, match=r"encoder-decoder model; .* causal language model"):
            load(kind, str(tiny_folders["t5"]))


def test_tokens_can_be_had_of_a_model_whose_weights_can_not_be_read(causal_folders, tmp_path):
    for file in causal_folders["gpt2"].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"damaged")
    tokens = load("causal-tokens", str(tmp_path))
    assert tokens.ids(["It rained."]) == load("causal-tokens", str(causal_folders["gpt2"])).ids(
        ["It rained."]
    )
    assert tokens.ids([]) == []
    with pytest.raises(ModelError, match="can't be loaded"):
        load("causal", str(tmp_path))


def test_a_configuration_of_more_layers_than_the_weights_can_hold_is_refused_at_once(tmp_path):
    folder = tiny.save("gpt2", tmp_path / "deep")
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    assert config["n_layer"] < 10
    path.write_text(json.dumps({**config, "n_layer": 1_000_000}), encoding="utf-8")
    with pytest.raises(ModelError, match=r"has 1,000,000 layers, and its weights are \d+ tensors"):
        load("causal", str(folder))


@pytest.mark.parametrize("end", ["x", [0, "x"], 1.5, True])
def test_an_end_of_texts_that_is_not_a_token_is_refused_by_name(tmp_path, end):
    folder = tiny.save("gpt2", tmp_path / "model")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": end}))
    with pytest.raises(ModelError, match=r"eos_token_id in generation_config\.json is .*expected"):
        language_model(str(folder), Loading())
