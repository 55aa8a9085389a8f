"""Sequence classifiers: the fast path against the plain loop, and what does not fit or say much."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tiny
import tiny_classifier
from levelfield.core.errors import ModelError
from levelfield.models.contracts import PLAIN, Gapped, Target
from levelfield.models.load import load
from levelfield.models.torch.classifier import TorchClassifier
from levelfield.models.torch.infilling import TorchInfillingModel

TEXTS = [
    "The lake froze.",
    "We skated all day, and in the evening we read by the fire.",
    "😀 ☕",
    "мир",
    "The lake froze.",
    " a",
]
LABELS = ("bad", "so-so", "good")


def plain(model, tokenizer, text: str) -> np.ndarray:
    """One text at a time through the whole model, as `transformers` does it."""
    with torch.inference_mode():
        logits = model(**tokenizer(text, return_tensors="pt")).logits[0].double()
    return torch.softmax(logits, dim=0).numpy()


@pytest.fixture(params=tiny_classifier.FAMILIES)
def parts(request: pytest.FixtureRequest):
    return tiny_classifier.model(LABELS, family=request.param), tiny_classifier.tokenizer()


def test_probabilities_are_those_of_the_plain_loop(parts):
    model, tokenizer = parts
    expected = np.array([plain(model, tokenizer, text) for text in TEXTS])
    p, cut = TorchClassifier(model, tokenizer).probabilities(TEXTS)
    np.testing.assert_allclose(p, expected, atol=1e-5)
    assert np.ptp(p[:, 0]) > 0.01  # else any text would do
    assert not cut.any()


def test_a_loss_is_of_single_precision_where_the_model_is_not(parts):
    classifier = TorchClassifier(*parts)
    ids, _ = classifier.read(TEXTS)
    with torch.autocast("cpu", torch.bfloat16):
        assert classifier.logits(ids).dtype == torch.float32


@pytest.mark.parametrize("batch_tokens", [1, 30, 1000])
def test_neither_batch_size_nor_order_matters(parts, batch_tokens):
    expected, _ = TorchClassifier(*parts).probabilities(TEXTS)
    classifier = TorchClassifier(*parts, batch_tokens=batch_tokens)
    p, _ = classifier.probabilities(TEXTS[::-1])
    np.testing.assert_allclose(p[::-1], expected, atol=1e-5)


def test_a_long_text_keeps_its_beginning_and_is_counted_as_cut(parts):
    model, tokenizer = parts
    limit = 64 - (
        model.config.model_type == "roberta"
    )  # positions count from the one after the padding token
    long = "lake " * 10_000
    (p,), (cut,) = TorchClassifier(model, tokenizer).probabilities([long])
    assert cut
    np.testing.assert_allclose(p, plain(model, tokenizer, "lake " * (limit - 2)), atol=1e-5)


def test_a_text_that_just_fits_is_not_cut(parts):
    limit = 64 - (parts[0].config.model_type == "roberta")
    texts = ["lake " * (limit - 2), "lake " * (limit - 1)]
    _, cut = TorchClassifier(*parts).probabilities(texts)
    assert cut.tolist() == [False, True]


def test_a_text_without_tokens_has_no_probabilities():
    classifier = TorchClassifier(tiny_classifier.model(LABELS), tiny_classifier.tokenizer())
    p, _ = classifier.probabilities(["", " \n", "lake"])
    assert np.isnan(p).all(axis=1).tolist() == [True, True, False]


def test_no_texts_give_no_probabilities():
    classifier = TorchClassifier(tiny_classifier.model(LABELS), tiny_classifier.tokenizer())
    p, cut = classifier.probabilities([])
    assert (p.shape, cut.shape) == ((0, 3), (0,))


def test_one_logit_is_a_label_and_its_opposite():
    model, tokenizer = tiny_classifier.model(["toxic"]), tiny_classifier.tokenizer()
    classifier = TorchClassifier(model, tokenizer)
    with torch.inference_mode():
        (z,) = model(**tokenizer(TEXTS[0], return_tensors="pt")).logits[0].tolist()
    assert classifier.labels == ("not toxic", "toxic")
    (p,), _ = classifier.probabilities(TEXTS[:1])
    np.testing.assert_allclose(p, [1 - 1 / (1 + np.exp(-z)), 1 / (1 + np.exp(-z))], atol=1e-6)


def test_without_a_padding_token_texts_go_one_by_one():
    model, tokenizer = tiny_classifier.model(LABELS), tiny_classifier.tokenizer()
    expected, _ = TorchClassifier(model, tokenizer).probabilities(TEXTS)
    tokenizer.pad_token = None
    p, _ = TorchClassifier(model, tokenizer).probabilities(TEXTS)
    np.testing.assert_allclose(p, expected, atol=1e-5)


def test_a_folder_is_loaded_with_its_labels(tmp_path):
    folder = tiny_classifier.save(tmp_path / "judge", LABELS)
    assert load("classifier", str(folder)).labels == LABELS


def test_models_of_other_kinds_are_refused(tiny_folders, tmp_path):
    with pytest.raises(ModelError, match="is a encoder-decoder model, not classifier"):
        load("classifier", str(tiny_folders["t5"]))
    model = tiny_classifier.model(["stars"])
    model.config.problem_type = "regression"
    model.save_pretrained(tmp_path)
    tiny_classifier.tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="gives a number, not a label"):
        load("classifier", str(tmp_path))


# -- encoder-decoder models without a gap


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_targets_are_scored_as_the_models_own_loss_has_them(family):
    words = tiny.tokenizer(family)
    model = tiny.model(family, len(words))
    source, target = "It rained all day.", "good"
    labels = words(target, return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        logits = model(**words(source, return_tensors="pt"), labels=labels).logits[0].double()
    log_p = torch.log_softmax(logits, dim=-1).gather(1, labels[0][:, None])[:, 0].numpy()
    before = 1 if family == "bart" else 0  # <s> is read, not scored
    ours = TorchInfillingModel(model, words, style=PLAIN)
    likelihoods = ours.log_likelihood([Gapped("", source, gap=False)], [[Target(target, end=True)]])
    np.testing.assert_allclose(likelihoods.log_p[0][0], log_p[before:], atol=1e-4)


def test_a_source_may_hold_what_marks_a_gap_elsewhere(tiny_folders):
    model = load("encoder-decoder", str(tiny_folders["t5"]))
    source = Gapped("", "It was <extra_id_0> all day.", gap=False)
    likelihoods = model.log_likelihood([source], [[Target("good", end=True)]])
    assert np.isfinite(likelihoods.log_p[0][0]).all()


def test_only_encoder_decoders_are_loaded_as_such(tmp_path):
    folder = tiny_classifier.save(tmp_path, LABELS)
    with pytest.raises(ModelError, match="is a classifier model, not encoder-decoder"):
        load("encoder-decoder", str(folder))
