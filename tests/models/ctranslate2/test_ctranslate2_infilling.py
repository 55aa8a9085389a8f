"""Encoder-decoders in CTranslate2 say what PyTorch says."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tiny
from levelfield.models.contracts import Gapped, LogLikelihoods, Target
from levelfield.models.load import load
from levelfield.models.loading import Loading

pytest.importorskip("ctranslate2")

TORCH, CT2 = Loading("cpu"), Loading("cpu", engine="ctranslate2")
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
        load(kind, folder, CT2).log_likelihood(sources, TARGETS),
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
    assert_same(load("infilling", short, CT2).log_likelihood(sources, targets), expected, atol=1e-4)


@pytest.mark.thinned
def test_neither_order_nor_batches_change_a_value(folder):
    expected = load("infilling", folder, CT2).log_likelihood(SOURCES, TARGETS)
    order = random.Random(0).sample(range(len(SOURCES)), len(SOURCES))
    for batch_tokens in (1, 90, 100_000):
        model = load("infilling", folder, Loading("cpu", "float32", batch_tokens, "ctranslate2"))
        found = model.log_likelihood([SOURCES[i] for i in order], [TARGETS[i][::-1] for i in order])
        for i, of_source in zip(order, found.log_p, strict=True):
            for log_p, reference in zip(of_source[::-1], expected.log_p[i], strict=True):
                np.testing.assert_allclose(log_p, reference, atol=1e-5, rtol=0)


def test_the_tokens_are_those_of_torch(folder):
    found, expected = load("infilling", folder, CT2), load("infilling", folder, TORCH)
    assert found.gap_token == expected.gap_token
    assert found.vocabulary_size == expected.vocabulary_size
    assert found.token_ids(TEXTS) == expected.token_ids(TEXTS)
    assert found.token_ends(TEXTS) == expected.token_ends(TEXTS)
    plain = [load("encoder-decoder", folder, loading) for loading in (CT2, TORCH)]
    assert plain[0].source_limit == plain[1].source_limit


class Counted:
    """Stands for a translator, and notes what it is asked for."""

    def __init__(self, translator: Any) -> None:
        self._translator = translator
        self.scored: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
        self.read: list[tuple[str, ...]] = []

    def score_batch(self, sources: Any, targets: Any, **options: Any) -> Any:
        self.scored += zip(map(tuple, sources), map(tuple, targets), strict=True)
        return self._translator.score_batch(sources, targets, **options)

    def translate_batch(self, sources: Any, prefixes: Any, **options: Any) -> Any:
        self.read += map(tuple, sources)
        return self._translator.translate_batch(sources, prefixes, **options)


def test_equal_targets_go_through_once_and_one_token_words_share_a_pass(tiny_folders, monkeypatch):
    model = load("infilling", str(tiny_folders["pegasus"]), CT2)
    pieces = [
        piece for piece in ("a", ".", "the", "of", "to") if len(model.token_ids([piece])[0]) == 1
    ]
    assert len(pieces) > 1
    words = [Target(piece, end=False) for piece in pieces]
    long = Target("a target of many words", end=True)
    model.log_likelihood(SOURCES, [[*words, long]] * len(SOURCES))  # the first call is checked
    counted = Counted(model._translator)
    monkeypatch.setattr(inner(model), "_translator", counted)
    found = model.log_likelihood(SOURCES * 2, [[*words, long, *words, long]] * 2 * len(SOURCES))
    assert len(counted.read) == len(set(counted.read)) == len(SOURCES)
    assert len(counted.scored) == len(set(counted.scored)) == len(SOURCES)
    assert all(len(of_source) == 2 * len(words) + 2 for of_source in found.log_p)


def inner(model: Any) -> Any:
    """The model itself, whatever stands before it."""
    return vars(model).get("_model", model)


def test_a_text_that_the_model_would_end_at_once_has_words_all_the_same(tmp_path):
    words = tiny.tokenizer("bart")
    model = tiny.model("bart", len(words))
    model.final_logits_bias[:, words.eos_token_id] = 50.0
    model.save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    targets = [[Target(piece, end=False) for piece in ("a", ".", "the")]]
    found, expected = (
        load("infilling", str(tmp_path), loading).log_likelihood(SOURCES[:1], targets)
        for loading in (CT2, TORCH)
    )
    assert_same(found, expected, atol=1e-4)


def test_int8_comes_near(tiny_folders):
    found, exact = (
        load("infilling", str(tiny_folders["t5"]), loading).log_likelihood(SOURCES, TARGETS).log_p
        for loading in (Loading("cpu", "int8", engine="ctranslate2"), CT2)
    )
    difference = [
        np.abs(log_p - reference).mean()
        for of_source, as_expected in zip(found, exact, strict=True)
        for log_p, reference in zip(of_source, as_expected, strict=True)
        if log_p.size
    ]
    assert 1e-4 < np.mean(difference) < 0.1
