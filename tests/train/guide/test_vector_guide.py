"""Vectors are differences of mean states, and end as one run however often it is killed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

import tiny
from levelfield.core.errors import UserError
from levelfield.generation.techniques._steering import training
from levelfield.generation.techniques._steering.settings import VectorSettings
from levelfield.generation.techniques._steering.training import (
    accuracies,
    contrasts,
    label_means,
    last_state,
    layer_states,
    mean_state,
)
from levelfield.generation.techniques.caa.technique import CAA
from levelfield.models.guides import Guide
from levelfield.models.torch.language_model import language_model
from levelfield.train.guide.kinds import GuideSpec, build_guide
from levelfield.train.guide.table import settings_of
from levelfield.train.guide.texts import readable
from levelfield.train.labelled import Labelled, own_texts

SENTIMENT = ("negative", "positive")
TOPICS = ("arts", "science", "sports")
BEGINNINGS = ("today the old lake", "once upon a time", "we saw that it")
SOURCE = "our own sentences: Apache-2.0"


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def folder(request, tmp_path_factory) -> Path:
    return tiny.save(request.param, tmp_path_factory.mktemp("base"), begins=True)


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory) -> Path:
    return tiny.save("gpt2", tmp_path_factory.mktemp("base"), begins=True)


def toy(labels=SENTIMENT, n: int = 8) -> Labelled:
    """The last word says all."""
    ends = ("sad", "fine", "round")[: len(labels)]
    texts = [f"{words} {i} {end}" for i in range(n) for words in BEGINNINGS for end in ends]
    targets = np.eye(len(labels))[[*range(len(labels))] * (len(texts) // len(labels))]
    return Labelled(tuple(texts), targets, labels)


def built(folder: Path, out: Path, rows: Labelled | None = None, **settings) -> Guide:
    texts = own_texts(rows or toy(), None, [SOURCE], share=0.2, seed=0)
    spec = GuideSpec("vector", "sentiment", settings_of("vector", settings), start=str(folder))
    return build_guide(texts, spec, out)


def plain_states(folder: Path, text: str, *, last: bool) -> list[torch.Tensor]:
    """What each layer leaves of a text alone, pooled: by hooks on the layers that the family has,
    since `transformers` shows the last one after the final norm only."""
    base = language_model(str(folder))
    layers = (
        base.model.transformer.h if "GPT2" in str(type(base.model)) else base.model.model.layers
    )
    left: list[torch.Tensor] = []
    hooks = [
        layer.register_forward_hook(
            lambda _, __, y: left.append(y[0] if isinstance(y, tuple) else y)
        )
        for layer in layers
    ]
    with torch.inference_mode():
        base.model(input_ids=torch.tensor([[base.bos_id, *base.ids(text)]]))
    for hook in hooks:
        hook.remove()
    return [states[0, -1] if last else states[0, 1:].mean(0) for states in left]


@pytest.mark.parametrize("last", [False, True], ids=["mean", "last"])
@pytest.mark.parametrize("labels", [SENTIMENT, TOPICS], ids=["two", "three"])
def test_a_vector_is_the_mean_of_its_texts_minus_that_of_the_others(
    folder: Path, tmp_path: Path, last: bool, labels
):
    rows = toy(labels)
    guide = built(folder, tmp_path / "g", rows, states="last" if last else "mean")
    train = own_texts(rows, None, [], share=0.2, seed=0).train
    means: dict[str, list[torch.Tensor]] = {}
    for c, label in enumerate(labels):
        states = [
            torch.stack(plain_states(folder, text, last=last))
            for text, target in zip(train.texts, train.targets, strict=True)
            if target[c]
        ]
        means[label] = torch.stack(states).mean(0)
    tensors = safetensors.torch.load_file(guide.weights)
    assert guide.settings["layers"] == [0, 1]
    for label in labels:
        others = [means[other] for other in labels if other != label]
        expected = means[label] - torch.stack(others).mean(0)
        torch.testing.assert_close(tensors[label].float(), expected, atol=1e-3, rtol=2e-3)


def test_two_labels_have_opposite_vectors(gpt2: Path, tmp_path: Path):
    tensors = safetensors.torch.load_file(built(gpt2, tmp_path / "g").weights)
    assert torch.equal(tensors["negative"], -tensors["positive"])
    assert tensors["positive"].any()


def test_a_text_counts_as_often_as_it_is_learnt_from(gpt2: Path, tmp_path: Path):
    base = language_model(str(gpt2))
    rows = toy(n=2)
    times = np.array([3, *[1] * (len(rows) - 1)])
    weighted = Labelled(rows.texts, rows.targets, rows.labels, times)
    ids = base.tokens.ids(rows.texts)
    reading = training.StateReading(base, mean_state, False, lambda _: None)
    means, norms = label_means(reading, weighted, ids, tmp_path)
    states = layer_states(base, ids, mean_state).double().numpy()
    first = rows.targets[:, 0] == 1
    expected = (states[first].sum(0) + 2 * states[0]) / (first.sum() + 2)
    np.testing.assert_allclose(means[0], expected, atol=1e-9)
    lengths = np.linalg.norm(states, axis=-1)
    np.testing.assert_allclose(norms, (lengths.sum(0) + 2 * lengths[0]) / times.sum(), atol=1e-9)


def test_states_of_texts_do_not_depend_on_the_batch(folder: Path):
    base = language_model(str(folder))
    texts = [[3, 1, 4, 1, 5], [9], [2, 6]]
    for pool in (mean_state, last_state):
        together = layer_states(base, texts, pool)
        for text, states in zip(texts, together, strict=True):
            torch.testing.assert_close(layer_states(base, [text], pool)[0], states)


def test_accuracies_are_those_of_the_nearer_side(gpt2: Path):
    base = language_model(str(gpt2))
    rows = toy(n=2)
    ids = base.tokens.ids(rows.texts)
    reading = training.StateReading(base, last_state, False, lambda _: None)
    states = layer_states(base, ids, last_state).double().numpy()
    means = np.stack([states[rows.targets[:, c] == 1].mean(0) for c in (0, 1)])
    shares = accuracies(reading, rows, ids, means)
    for layer, share in enumerate(shares):
        right = 0
        for state, target in zip(states[:, layer], rows.targets, strict=True):
            distance = [np.linalg.norm(state - means[c, layer]) for c in (0, 1)]
            right += int(np.argmin(distance) == target.argmax())
        assert share == right / len(rows)
    assert shares.max() > 0.5
    turned = accuracies(reading, rows, ids, means[::-1])
    np.testing.assert_allclose(turned, 1 - shares, atol=1e-12)


def test_contrasts_sum_to_nothing():
    means = np.random.default_rng(0).normal(size=(4, 3, 5))
    np.testing.assert_allclose(contrasts(means).sum(0), 0, atol=1e-12)


def test_a_run_that_was_killed_ends_as_one_that_was_not(
    gpt2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(training, "EVERY", 8)
    monkeypatch.setattr(training, "BATCH_TOKENS", 64)
    whole = built(gpt2, tmp_path / "whole" / "g")
    read: list[int] = []

    def killed(base, texts, pool, *take):
        if len(read) == 5:
            raise KeyboardInterrupt
        read.append(len(texts))
        return layer_states(base, texts, pool, *take)

    monkeypatch.setattr(training, "layer_states", killed)
    with pytest.raises(KeyboardInterrupt):
        built(gpt2, tmp_path / "killed" / "g")
    again: list[int] = []

    def counted(base, texts, pool, *take):
        again.append(len(texts))
        return layer_states(base, texts, pool, *take)

    monkeypatch.setattr(training, "layer_states", counted)
    guide = built(gpt2, tmp_path / "killed" / "g")
    assert guide.checksum == whole.checksum
    assert len(toy()) - sum(read) <= sum(again) < len(toy())


def test_equal_runs_leave_equal_bytes(gpt2: Path, tmp_path: Path):
    guides = [built(gpt2, tmp_path / name / "g") for name in "ab"]
    for name in ("guide.json", "guide.safetensors", "README.md"):
        assert len({(guide.path / name).read_bytes() for guide in guides}) == 1


def test_the_guide_serves_its_technique_in_the_layer_that_it_names(gpt2: Path, tmp_path: Path):
    guide = built(gpt2, tmp_path / "g", layer=0)
    assert guide.settings["layer"] == 0
    technique = CAA(model=str(gpt2), guide=str(guide.path))
    assert technique.refusal({"sentiment": "positive"}) == ""
    vectors, layer, _ = technique._vectors("sentiment", "positive")
    assert (layer, sorted(vectors)) == (0, [0, 1])


def test_a_share_of_the_texts_can_be_read(gpt2: Path, tmp_path: Path):
    card = (built(gpt2, tmp_path / "g", texts=5).path / "README.md").read_text("utf-8")
    assert "differences of mean states of 10 texts" in card


def test_a_layer_that_the_base_does_not_have_is_refused(gpt2: Path, tmp_path: Path):
    with pytest.raises(UserError, match=r"layer=2: .* has the layers 0 to 1"):
        built(gpt2, tmp_path / "g", layer=2)


@pytest.mark.parametrize(
    ("option", "value"), [("tokens", 0), ("texts", -1), ("layer", -1), ("states", "first")]
)
def test_settings_that_make_no_vector_are_refused(option, value):
    with pytest.raises(UserError, match=f"{option}="):
        VectorSettings(**{option: value})


def test_readable_texts_alone_are_read(gpt2: Path):
    base = language_model(str(gpt2))
    rows, ids = readable(Labelled(("a", ""), np.eye(2), SENTIMENT), base, 8)
    assert (len(rows), len(ids)) == (1, 1)
