"""Encoder-decoders in OpenVINO say what PyTorch says."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tiny
import tiny_causal
from levelfield.models.contracts import Gapped, LogLikelihoods, Target
from levelfield.models.load import load
from levelfield.models.loading import Loading

pytest.importorskip("openvino")
pytestmark = pytest.mark.slow  # OpenVINO compiles each model anew

TORCH, OPENVINO = Loading("cpu"), Loading("cpu", engine="openvino")
TEXTS = tiny.texts()[:6]
SOURCES = [Gapped(text[: len(text) // 3], text[len(text) // 2 :]) for text in TEXTS]
WORDS = ("good", "a", ".", "the", "", "a target of many words, which goes on for a while")
TARGETS = [
    [
        Target(word, end=end, begin=begin)
        for word in (*WORDS, text[3:90])
        for end in (False, True)
        for begin in (False, True)
    ]
    for text in TEXTS
]


def assert_same(found: LogLikelihoods, expected: LogLikelihoods, atol: float) -> None:
    assert found.source_cut == expected.source_cut
    assert found.target_cut == expected.target_cut
    for of_source, as_expected in zip(found.log_p, expected.log_p, strict=True):
        for log_p, reference in zip(of_source, as_expected, strict=True):
            assert log_p.dtype == np.float64
            np.testing.assert_allclose(log_p, reference, atol=atol, rtol=0)


@pytest.fixture(scope="module", params=tiny.FAMILIES)
def folder(request: pytest.FixtureRequest, tiny_folders: Any) -> str:
    return str(tiny_folders[request.param])


@pytest.fixture(scope="module", params=tiny.FAMILIES)
def short(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model that takes 40 tokens."""
    return str(tiny.save(request.param, tmp_path_factory.mktemp(request.param), positions=40))


@pytest.mark.thinned
@pytest.mark.parametrize("kind", ["infilling", "encoder-decoder"])
def test_all_targets_have_the_log_probabilities_of_torch(folder, kind):
    gap = kind == "infilling"
    sources = [source._replace(gap=gap) for source in SOURCES]
    assert_same(
        load(kind, folder, OPENVINO).log_likelihood(sources, TARGETS),
        load(kind, folder, TORCH).log_likelihood(sources, TARGETS),
        atol=1e-4,
    )


@pytest.mark.thinned
def test_what_is_too_long_is_cut_as_torch_cuts_it(short):
    sources = [Gapped("far away " * 50, " near" * 40), Gapped("a", "b"), Gapped("", " x" * 99)]
    targets = [
        [
            Target(text, end=end, begin=end)
            for text in ("one two three " * 40, "c", "")
            for end in (0, 1)
        ]
    ] * 3
    expected = load("infilling", short, TORCH).log_likelihood(sources, targets)
    assert expected.source_cut == [True, False, True]
    assert any(map(any, expected.target_cut))
    assert_same(
        load("infilling", short, OPENVINO).log_likelihood(sources, targets), expected, atol=1e-4
    )


@pytest.mark.thinned
def test_neither_order_nor_batches_change_a_value(folder):
    expected = load("infilling", folder, OPENVINO).log_likelihood(SOURCES, TARGETS)
    order = random.Random(0).sample(range(len(SOURCES)), len(SOURCES))
    for batch_tokens in (1, 90, 100_000):
        model = load("infilling", folder, Loading("cpu", "float32", batch_tokens, "openvino"))
        found = model.log_likelihood([SOURCES[i] for i in order], [TARGETS[i][::-1] for i in order])
        for i, of_source in zip(order, found.log_p, strict=True):
            for log_p, reference in zip(of_source[::-1], expected.log_p[i], strict=True):
                np.testing.assert_allclose(log_p, reference, atol=1e-5, rtol=0)


def test_the_tokens_are_those_of_torch(folder):
    found, expected = load("infilling", folder, OPENVINO), load("infilling", folder, TORCH)
    assert found.gap_token == expected.gap_token
    assert found.vocabulary_size == expected.vocabulary_size
    assert found.token_ids(TEXTS) == expected.token_ids(TEXTS)
    assert found.token_ends(TEXTS) == expected.token_ends(TEXTS)
    plain = [load("encoder-decoder", folder, loading) for loading in (OPENVINO, TORCH)]
    assert plain[0].source_limit == plain[1].source_limit


def test_words_of_one_token_share_a_row_of_the_decoder(tiny_folders, monkeypatch):
    model = load("infilling", str(tiny_folders["pegasus"]), OPENVINO)
    short = [Target(word, end=False) for word in WORDS[:4]]
    words = [target for target in short if len(model.token_ids([target.text])[0]) == 1]
    assert len(words) > 1
    long = Target("many words, which go on", end=True)
    targets = [[*words, long, *words, long]] * len(SOURCES)
    model.log_likelihood(SOURCES, targets)  # the first call is checked
    inner = vars(model)["_model"]
    inner._recent.clear()
    decoder, rows = inner._reader, []

    def counted(tensors: Any) -> Any:
        rows.append(len(tensors["input_ids"]))
        return decoder(tensors)

    monkeypatch.setattr(inner, "_reader", counted)
    model.log_likelihood(SOURCES * 2, targets * 2)
    assert sum(rows) == len(SOURCES)


def test_a_text_that_the_model_would_end_at_once_has_words_all_the_same(tmp_path):
    words = tiny.tokenizer("bart")
    model = tiny.model("bart", len(words))
    model.final_logits_bias[:, words.eos_token_id] = 50.0
    model.save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    targets = [[Target(piece, end=False) for piece in ("a", ".", "the")]]
    found, expected = (
        load("infilling", str(tmp_path), loading).log_likelihood(SOURCES[:1], targets)
        for loading in (OPENVINO, TORCH)
    )
    assert_same(found, expected, atol=1e-4)


@pytest.mark.parametrize("tied", [True, False])
def test_outputs_are_scaled_as_those_of_t5_are(tied, tmp_path):
    """T5 v1.0 scales its decoder's outputs, v1.1 does not."""
    folder = str(tiny_causal.save_t5(tmp_path, tied=tied))
    found, expected = (
        load("infilling", folder, loading).log_likelihood(SOURCES[:2], TARGETS[:2])
        for loading in (OPENVINO, TORCH)
    )
    assert_same(found, expected, atol=1e-4)
