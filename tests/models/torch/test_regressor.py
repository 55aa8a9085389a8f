"""Regressors over pairs: the fast path against the plain loop, and what does not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import processors

import tiny_classifier
from levelfield.core.errors import ModelError
from levelfield.models.load import load
from levelfield.models.torch.classifier import TorchPairRegressor

FLOAT32 = 5e-5
"""Random weights widen what rounding leaves: processors without AVX-512 differ by up to 2e-5."""

PAIRS = [
    ("The lake froze.", "The lake was frozen over."),
    ("The lake was frozen over.", "The lake froze."),
    ("We skated all day, and in the evening we read by the fire.", "😀 ☕"),
    ("мир", "мир"),
    ("The lake froze.", "The lake was frozen over."),
    (" a", "b"),
]


def tokenizer():
    words = tiny_classifier.tokenizer()
    words.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return words


def plain(model, words, reference: str, text: str) -> float:
    """One pair at a time through the whole model, as `transformers` does it."""
    types = model.config.model_type == "bert"
    read = words(
        reference,
        text,
        return_tensors="pt",
        truncation=True,
        max_length=64,
        return_token_type_ids=types,
    )
    with torch.inference_mode():
        return float(model(**read).logits[0, 0])


@pytest.fixture(params=["bert", "distilbert"])
def parts(request: pytest.FixtureRequest):
    return tiny_classifier.model(("score",), family=request.param), tokenizer()


def test_values_are_those_of_the_plain_loop(parts):
    expected = [plain(*parts, *pair) for pair in PAIRS]
    values, cut = TorchPairRegressor(*parts).values(PAIRS)
    np.testing.assert_allclose(values, expected, atol=FLOAT32)
    assert np.ptp(expected) > 0.1  # else any text would do
    assert not cut.any()


def test_bert_knows_which_text_is_the_reference():
    """Without the types of the tokens the two would differ by their order alone."""
    model = tiny_classifier.model(("score",), family="bert")
    before = TorchPairRegressor(model, tokenizer()).values(PAIRS)[0]
    with torch.no_grad():
        model.bert.embeddings.token_type_embeddings.weight[1, 0] += 3.0
    after = TorchPairRegressor(model, tokenizer()).values(PAIRS)[0]
    assert (np.abs(after - before) > 1e-3).all()


@pytest.mark.parametrize("batch_tokens", [1, 30, 1000])
def test_neither_batch_size_nor_order_matters(parts, batch_tokens):
    expected, _ = TorchPairRegressor(*parts).values(PAIRS)
    values, _ = TorchPairRegressor(*parts, batch_tokens=batch_tokens).values(PAIRS[::-1])
    np.testing.assert_allclose(values[::-1], expected, atol=FLOAT32)


def test_of_a_pair_that_is_too_long_the_longer_text_loses_its_end(parts):
    short = "The lake froze."
    pairs = [(short, "lake " * 2_000), ("lake " * 2_000, short)]
    values, cut = TorchPairRegressor(*parts).values([*pairs, (short, short)])
    assert cut.tolist() == [True, True, False]
    np.testing.assert_allclose(values[:2], [plain(*parts, *pair) for pair in pairs], atol=FLOAT32)


def test_a_pair_that_just_fits_is_not_cut(parts):
    pairs = [("lake", "lake " * n) for n in (60, 61)]
    assert TorchPairRegressor(*parts).values(pairs)[1].tolist() == [False, True]


def test_a_text_without_tokens_has_no_value():
    regressor = TorchPairRegressor(tiny_classifier.model(("score",), family="bert"), tokenizer())
    values, _ = regressor.values([("", "lake"), ("lake", " \n"), ("lake", "lake")])
    assert np.isnan(values).tolist() == [True, True, False]
    assert regressor.values([])[0].shape == (0,)


def test_a_classifier_with_labels_is_refused_by_name(tmp_path: Path):
    folder = tiny_classifier.save(tmp_path / "labels", ("bad", "good"), family="bert")
    with pytest.raises(ModelError, match="has 2 labels; a model with one output"):
        load("regressor", str(folder))
