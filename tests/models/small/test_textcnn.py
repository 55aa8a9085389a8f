"""Judges' classifiers: TextCNN, fastText and linear heads against plain loops, saved and loaded."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, BertConfig, BertModel

import tiny_classifier
from levelfield.core.errors import ModelError
from levelfield.core.progress import no_progress
from levelfield.models.load import load
from levelfield.models.loading import Loading
from levelfield.models.resolve import attribute_of, files_of, resolve
from levelfield.models.small.heads import LinearClassifier, fit_head
from levelfield.models.small.shapes import WITH_CASE, lexis, lexis_with_case
from levelfield.models.small.textcnn import PAD, Shape, TextCNN, TextCNNClassifier, Vocabulary
from levelfield.train.builder import Workplace
from levelfield.train.judge import JudgeSpec
from levelfield.train.judge.architectures import TRAININGS
from levelfield.train.labelled import Labelled

TEXTS = [
    "The lake froze.",
    "We skated all day, and in the evening we read by the fire.",
    "froze",
    "😀 ☕",
    "湖が凍った",
    "unheard-of words only: xyzzy plugh",
    "The lake froze.",
    "the day " * 400,
]
LABELS = ("calm", "loud", "odd")
SHAPE = Shape(dimension=8, widths=(2, 3), channels=5)


def textcnn(**options) -> TextCNNClassifier:
    vocabulary = Vocabulary.of(TEXTS, most=30, least_often=1)
    torch.manual_seed(0)
    model = TextCNN(len(vocabulary.words), len(LABELS), SHAPE)
    return TextCNNClassifier(model, vocabulary, LABELS, **options)


def plain(judge: TextCNNClassifier, text: str) -> np.ndarray:
    """P(label | text) from the formula: every window of every width, one after the other."""
    weights = {name: w.double().numpy() for name, w in judge._model.state_dict().items()}
    vectors = weights["embedding.weight"][judge.token_ids([text])[0]]
    features = []
    for i, width in enumerate(SHAPE.widths):
        zeros = np.zeros((width - 1, SHAPE.dimension))
        padded = np.concatenate([zeros, vectors, zeros])
        kernel, bias = weights[f"convolutions.{i}.weight"], weights[f"convolutions.{i}.bias"]
        windows = [padded[j : j + width].T for j in range(len(padded) - width + 1)]
        features += [
            max(max(0.0, (k * window).sum() + b) for window in windows)
            for k, b in zip(kernel, bias, strict=True)
        ]
    z = weights["head.weight"] @ np.array(features) + weights["head.bias"]
    return np.exp(z) / np.exp(z).sum()


def encoder(folder: Path, seed: int = 0) -> str:
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=500,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        initializer_range=0.5,
    )
    BertModel(config).save_pretrained(folder)
    tiny_classifier.tokenizer().save_pretrained(folder)
    return str(folder)


# -- words


@pytest.mark.parametrize(
    ("raw", "as_treebanks_have_it"),
    [
        ("I can't; it's over.", "i ca n't ; it 's over ."),
        ("Don’t they've", "do n't they 've"),
        ("isn't", "is n't"),
        ("She'll say N'T", "she 'll say n't"),
    ],
)
def test_raw_and_tokenised_text_have_the_same_words(raw, as_treebanks_have_it):
    assert lexis(raw) == lexis(as_treebanks_have_it) == as_treebanks_have_it.split()


@given(st.text())
def test_words_have_no_white_space_and_stay_whole_when_split_again(text):
    words = lexis(text)
    assert all(word and not any(c.isspace() for c in word) for word in words)
    assert not words or text.strip()


def test_a_vocabulary_is_capped_and_does_not_depend_on_order():
    vocabulary = Vocabulary.of(["b a a", "c b"], most=2, least_often=1)
    assert vocabulary.words == ("a", "b")
    assert vocabulary == Vocabulary.of(["c b", "a b a"], most=2, least_often=1)
    assert Vocabulary.of(["b a a", "c b"], most=9).words == ("a", "b")  # twice at least


@given(st.text())
def test_case_marks_are_all_that_they_add(text):
    words = lexis_with_case(text)
    marks = {"<begin>", "<capital>", "<capitals>"}
    assert bool(words) == bool([w for w in words if w not in marks])
    assert not marks & set(lexis(" ".join(marks) + text))  # no text can fake one


def test_capitals_make_a_difference_only_where_they_are_read():
    shouted = ["WE SKATED ALL DAY", "we skated all day"]
    assert len({tuple(ids) for ids in textcnn().token_ids(shouted)}) == 1
    vocabulary = Vocabulary.of([*TEXTS, *shouted], most=30, least_often=1, split=WITH_CASE)
    assert len({tuple(ids) for ids in vocabulary.ids(shouted)}) == 2


# -- TextCNN


def test_a_textcnn_is_the_formula():
    judge = textcnn()
    p, cut = judge.probabilities(TEXTS)
    expected = np.array([plain(judge, text) for text in TEXTS])
    np.testing.assert_allclose(p, expected, atol=1e-6)
    assert np.ptp(p[:, 0]) > 0.01  # else any text would do
    assert not cut.any()


@pytest.mark.parametrize("batch_tokens", [1, 40, 100_000])
def test_neither_batch_size_nor_order_matters_to_a_textcnn(batch_tokens):
    expected, _ = textcnn().probabilities(TEXTS)
    p, _ = textcnn(batch_tokens=batch_tokens).probabilities(TEXTS[::-1])
    np.testing.assert_allclose(p[::-1], expected, atol=1e-6)


def test_the_padding_vector_stays_zero_in_training():
    judge = textcnn()
    model = judge._model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    ids = torch.tensor([[2, 3, PAD, PAD], [2, 3, 4, 5]])
    torch.nn.functional.cross_entropy(model(ids), torch.tensor([0, 1])).backward()
    optimizer.step()
    assert not model.embedding.weight[PAD].any()


@pytest.mark.parametrize("text", ["", "   ", "\n\u200b"])
def test_a_text_without_words_has_no_probabilities(text):
    p, _ = textcnn().probabilities([text, "The lake froze."])
    assert np.isnan(p[0]).all()
    np.testing.assert_allclose(p[1], textcnn().probabilities(["The lake froze."])[0][0])


@pytest.mark.parametrize(("half", "tolerance"), [(False, 1e-7), (True, 2e-3)])
def test_a_saved_textcnn_says_the_same(tmp_path, half, tolerance):
    textcnn().save(tmp_path, attribute="mood", half=half)
    resolved = resolve(str(tmp_path))
    assert (resolved.kind, attribute_of(resolved)) == ("classifier", "mood")
    loaded = load("classifier", str(tmp_path))
    assert loaded.labels == LABELS
    np.testing.assert_allclose(
        loaded.probabilities(TEXTS)[0], textcnn().probabilities(TEXTS)[0], atol=tolerance
    )


def test_a_damaged_textcnn_and_one_of_other_words_are_refused_in_one_line(tmp_path):
    textcnn().save(tmp_path, attribute="mood")
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"words": "lexis-0"}))
    with pytest.raises(ModelError, match=r"lexis-0.*train it again"):
        load("classifier", str(tmp_path))
    files_of.cache_clear()
    (tmp_path / "config.json").write_text(json.dumps(config | {"shape": {"channels": 9}}))
    with pytest.raises(ModelError, match="can't be loaded"):
        load("classifier", str(tmp_path))


# -- linear heads


def test_a_head_has_the_least_regularised_cross_entropy():
    """No nudge of any weight makes the objective smaller."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(60, 3)) * [1, 5, 0.2] + [0, 3, -1]).astype(np.float32)
    targets = rng.dirichlet(np.ones(2), 60)
    times = rng.integers(1, 4, 60)
    deviation = np.sqrt(np.cov(x.T, fweights=times, ddof=0).diagonal())
    head = fit_head(x, targets, times, 0.05)

    def objective(weight, bias):
        z = x @ weight + bias
        log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
        loss = -(times * (targets * log_p).sum(axis=1)).sum() / times.sum()
        return loss + 0.05 / 2 * ((weight * deviation[:, None]) ** 2).sum()

    best = objective(head.weight.astype(float), head.bias.astype(float))
    for step in rng.normal(scale=0.05, size=(200, 4, 2)):
        moved = objective(head.weight + step[:3] / deviation[:, None], head.bias + step[3])
        assert moved > best - 1e-7


def trained(texts: list[str], targets: np.ndarray, out: Path, **choices) -> LinearClassifier:
    """A linear judge, which is saved as well."""
    spec = JudgeSpec("mood", "linear", loading=Loading(device="cpu"), **choices)
    place = Workplace(out, torch.device("cpu"), lambda _: None, no_progress)
    out.mkdir()
    return TRAININGS["linear"].train(Labelled(tuple(texts), targets, LABELS), spec, place)[0]


@pytest.fixture
def linear(tmp_path):
    targets = np.eye(3)[[0, 1, 2, 0, 1, 2, 0, 1]]
    start = encoder(tmp_path / "below")
    return trained(TEXTS, targets, tmp_path / "judge", start=start, layers=2, l2=0.1)


def test_a_linear_head_reads_the_mean_states_of_the_last_layers(linear, tmp_path):
    model = BertModel.from_pretrained(tmp_path / "below").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "below")
    for text in TEXTS[:2]:
        with torch.inference_mode():
            states = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
        means = [state[0].mean(0).numpy() for state in states.hidden_states[1:]]
        scores, _ = linear._states.of([text])
        np.testing.assert_allclose(scores[0], np.concatenate(means), atol=1e-5)


def test_a_saved_linear_head_says_the_same_and_knows_what_was_cut(linear, tmp_path):
    loaded = load("classifier", str(tmp_path / "judge"), Loading(batch_tokens=7))
    p, cut = loaded.probabilities(["", *TEXTS])
    assert np.isnan(p[0]).all()
    np.testing.assert_allclose(p[1:], linear.probabilities(TEXTS)[0], atol=1e-5)
    assert cut.tolist() == [False] * len(TEXTS) + [True]


@pytest.mark.usefixtures("linear")
def test_a_linear_head_refuses_another_encoder_in_the_place_of_its_own(tmp_path):
    encoder(tmp_path / "below", seed=1)
    files_of.cache_clear()
    with pytest.raises(ModelError, match="train it again"):
        load("classifier", str(tmp_path / "judge"), Loading(batch_tokens=8))


@pytest.mark.usefixtures("linear")
def test_more_layers_than_there_are_means_all(tmp_path):
    start = str(tmp_path / "below")
    few = trained(TEXTS[:3], np.eye(3), tmp_path / "few", start=start, layers=9, l2=1.0)
    assert few._states.of(TEXTS[:1])[0].shape == (1, 3 * 16)


# -- fastText


@pytest.fixture(scope="module")
def fast():
    pytest.importorskip("fasttext")
    from levelfield.models.small.fasttext import Settings, train_fasttext

    texts = [f"{word} thing {i}" for i in range(40) for word in ("good", "bad", "odd")]
    targets = np.eye(3)[[0, 1, 2] * 40]
    settings = Settings(dimension=4, buckets=500, epochs=5, learning_rate=0.5)
    return lambda seed=0, **other: train_fasttext(
        texts, targets, LABELS, dataclasses.replace(settings, **other), seed=seed
    )


def test_fasttext_learns_and_equal_seeds_give_equal_models(fast):
    texts = ["good thing", "a bad one", "odd", "xyzzy"]
    p, _ = fast().probabilities(texts)
    assert p[:3].argmax(axis=1).tolist() == [0, 1, 2]
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_array_equal(fast().probabilities(texts)[0], p)
    assert not np.allclose(fast(seed=1).probabilities(texts)[0], p)


def test_line_ends_and_labels_inside_a_text_mean_nothing_to_fasttext(fast):
    judge = fast()
    p, _ = judge.probabilities(["good thing", "good\nthing", "good\r\n\0thing", "", "\n"])
    np.testing.assert_array_equal(p[:3], np.stack([p[0]] * 3))
    assert np.isnan(p[3:]).all()
    label, _ = judge.probabilities(["good §§1"])
    assert label.argmax() == 0


def test_a_saved_fasttext_model_says_the_same(fast, tmp_path):
    judge = fast()
    judge.save(tmp_path, attribute="mood")
    loaded = load("classifier", str(tmp_path))
    assert loaded.labels == LABELS
    texts = [*TEXTS, "good thing"]
    np.testing.assert_array_equal(loaded.probabilities(texts)[0], judge.probabilities(texts)[0])
    assert loaded.token_ids(["good xyzzy"])[0][1] == -1


def test_a_quantized_model_is_smaller_and_says_nearly_the_same(tmp_path):
    pytest.importorskip("fasttext")
    from levelfield.models.small.fasttext import Settings, train_fasttext

    texts = [f"{word} thing {i % 300} and {i}" for i in range(600) for word in ("good", "bad")]
    targets = np.eye(2)[[0, 1] * 600]
    plain_settings = Settings(dimension=8, buckets=2000, epochs=3)
    probabilities, sizes = [], []
    for quantize in (False, True):
        chosen = dataclasses.replace(plain_settings, quantize=quantize)
        folder = tmp_path / str(quantize)
        folder.mkdir()
        train_fasttext(texts, targets, LABELS[:2], chosen, seed=0).save(folder, attribute="mood")
        probabilities.append(
            load("classifier", str(folder)).probabilities(["good thing", "a bad one"])[0]
        )
        sizes.append((folder / "model.bin").stat().st_size)
    assert sizes[1] < sizes[0] / 1.5
    np.testing.assert_allclose(probabilities[1], probabilities[0], atol=0.05)


@pytest.mark.parametrize("quantize", [False, True])
def test_a_fasttext_file_cut_short_anywhere_is_refused_before_fasttext_reads_it(quantize, tmp_path):
    pytest.importorskip("fasttext")
    from levelfield.models.small.fasttext import Settings, check_whole, train_fasttext

    texts = [f"{word} thing {i}" for i in range(300) for word in ("good", "bad")]
    settings = Settings(dimension=4, buckets=500, epochs=1, quantize=quantize)
    targets = np.eye(2)[[0, 1] * 300]
    train_fasttext(texts, targets, LABELS[:2], settings, seed=0).save(tmp_path, attribute="mood")
    file = tmp_path / "model.bin"
    content = file.read_bytes()
    check_whole(file)
    for size in (4, 60, 100, len(content) // 2, len(content) - 1):
        file.write_bytes(content[:size])
        files_of.cache_clear()
        with pytest.raises(ModelError, match="cut short; copy or train it again"):
            load("classifier", str(tmp_path))
    for other, message in (
        (content + b"x", "after its end"),
        (b"PK" + content[2:], "not a fastText file"),
    ):
        file.write_bytes(other)
        with pytest.raises(ModelError, match=message):
            load("classifier", str(tmp_path))
    file.write_bytes(b"")
    with pytest.raises(ModelError, match="can't be loaded"):
        load("classifier", str(tmp_path))


def test_a_target_between_labels_becomes_lines_of_both():
    from levelfield.models.small.fasttext import _shared_out

    assert _shared_out(np.array([0.5, 0.5]), 4) == [0, 0, 1, 1]
    assert _shared_out(np.array([1.0, 0.0]), 4) == [0, 0, 0, 0]


@settings(max_examples=30)
@given(st.lists(st.integers(0, 100), min_size=2, max_size=5).filter(any), st.integers(1, 9))
def test_copies_are_all_given_out(counts, copies):
    from levelfield.models.small.fasttext import _shared_out

    shares = np.array(counts) / sum(counts)
    given_out = np.bincount(_shared_out(shares, copies), minlength=len(counts))
    assert given_out.sum() == copies
    assert (abs(given_out - shares * copies) <= 1).all()
