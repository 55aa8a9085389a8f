"""Causal models in OpenVINO say what PyTorch says."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tiny
import tiny_causal
from levelfield.models.contracts import Frame, Gapped, Target
from levelfield.models.load import load
from levelfield.models.loading import Loading
from levelfield.train.infiller import Size
from levelfield.train.infiller.examples import train_tokenizer
from levelfield.train.infiller.infilling import new_model

pytest.importorskip("openvino")
pytestmark = pytest.mark.slow  # OpenVINO compiles each model anew

TORCH, OPENVINO = Loading("cpu"), Loading("cpu", engine="openvino")
TEXTS = [*tiny.texts()[:6], "", "a", "word " * 200]
FRAMES = [
    Frame(" It was", (" good", " bad", " very very good", "", "a", "b")),
    Frame("", (" and", " or so")),
    Frame(" far" * 99, (" near",)),
]


def models(folder: Any) -> tuple[Any, Any]:
    return load("causal", str(folder), OPENVINO), load("causal", str(folder), TORCH)


def assert_near(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=0)


@pytest.mark.thinned
@pytest.mark.parametrize("name", tiny_causal.CAUSAL)
def test_texts_have_the_log_probabilities_of_torch(name, tmp_path):
    folder = tiny_causal.save_causal(tmp_path, *tiny_causal.CAUSAL[name])
    found, expected = (model.log_likelihood(TEXTS) for model in models(folder))
    for one, reference in zip(found, expected, strict=True):
        assert_near(one.log_p, reference.log_p)
        assert one.ids.tolist() == reference.ids.tolist()
        assert one.ends.tolist() == reference.ends.tolist()
        assert one.cut == reference.cut
    assert name == "bloom" or expected[-1].cut  # BLOOM names no limit


@pytest.fixture(scope="module", params=tiny.CAUSAL_FAMILIES)
def folder(request: pytest.FixtureRequest, causal_folders: Any) -> Any:
    return causal_folders[request.param]


@pytest.mark.thinned
def test_words_after_texts_have_the_log_probabilities_of_torch(folder):
    found, expected = (model.words_after(TEXTS, [FRAMES] * len(TEXTS)) for model in models(folder))
    for one, reference in zip(found, expected, strict=True):
        assert one.cut == reference.cut
        for words, as_expected in zip(one.log_p, reference.log_p, strict=True):
            for log_p, of_torch in zip(words, as_expected, strict=True):
                assert_near(log_p, of_torch)


@pytest.mark.thinned
def test_texts_after_prefixes_have_the_log_probabilities_of_torch(folder):
    found, expected = (model.log_likelihood_after(TEXTS, TEXTS[:4]) for model in models(folder))
    for row, as_expected in zip(found, expected, strict=True):
        for one, reference in zip(row, as_expected, strict=True):
            assert_near(one.log_p, reference.log_p)
            assert one.cut == reference.cut


def test_single_tokens_after_bos_have_the_log_probabilities_of_torch(folder):
    found, expected = (model.unigram_bos() for model in models(folder))
    assert_near(found, expected)
    assert np.exp(found).sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.thinned
def test_neither_order_nor_batches_change_a_value(folder):
    expected = dict(
        zip(TEXTS, load("causal", str(folder), OPENVINO).log_likelihood(TEXTS), strict=True)
    )
    order = random.Random(0).sample(TEXTS, len(TEXTS))
    for batch_tokens in (1, 90, 100_000):
        model = load("causal", str(folder), Loading("cpu", "float32", batch_tokens, "openvino"))
        for text, one in zip(order, model.log_likelihood(order), strict=True):
            np.testing.assert_allclose(one.log_p, expected[text].log_p, atol=1e-5, rtol=0)


def test_a_causal_model_that_fills_gaps_fills_them_as_with_torch(tmp_path):
    words = train_tokenizer(TEXTS[:6], 400)
    new_model("causal", Size(16, 2, 32, head=8), len(words), 0, positions=64).save_pretrained(
        tmp_path
    )
    words.save_pretrained(tmp_path)
    sources = [Gapped(text[:30], text[-30:]) for text in TEXTS[:6]]
    targets = [[Target("went home", end=True), Target("the", end=False), Target("", end=True)]] * 6
    found, expected = (
        load("infilling", str(tmp_path), loading).log_likelihood(sources, targets)
        for loading in (OPENVINO, TORCH)
    )
    for of_source, as_expected in zip(found.log_p, expected.log_p, strict=True):
        for log_p, reference in zip(of_source, as_expected, strict=True):
            assert_near(log_p, reference)
