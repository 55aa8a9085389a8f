"""A future discriminator learns labels from beginnings, and ends as one run however often it is
killed."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

import tiny
import tiny_future
from levelfield.core.errors import UserError
from levelfield.generation.techniques._future import training
from levelfield.generation.techniques._future.network import future_model
from levelfield.generation.techniques._future.settings import FutureSettings
from levelfield.generation.techniques._future.training import FutureLabels, held_out_figures
from levelfield.models.guides import Guide
from levelfield.models.torch.language_model import language_model
from levelfield.train import loop
from levelfield.train.guide import texts as guide_texts
from levelfield.train.guide.kinds import GuideSpec, build_guide
from levelfield.train.guide.table import settings_of
from levelfield.train.labelled import Labelled, own_texts

LABELS = ("negative", "positive")
BEGINNINGS = ("today the old lake", "once upon a time", "we saw that it")
SETTINGS = {"width": 32, "batch": 8, "learning_rate": 0.01, "epochs": 3, "dropout": 0.0}
SOURCE = "our own sentences: Apache-2.0"
BOS = 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tiny.save("gpt2", tmp_path_factory.mktemp("base"), begins=True)


def toy(n: int = 20) -> Labelled:
    """Beginnings that say nothing of the label, and a last word that says all."""
    texts = [
        f"{beginning} {i} {end}"
        for i in range(n)
        for beginning in BEGINNINGS
        for end in ("sad", "fine")
    ]
    return Labelled(tuple(texts), np.eye(2)[[0, 1] * (len(texts) // 2)], LABELS)


def built(folder: Path, out: Path, **settings) -> Guide:
    texts = own_texts(toy(), None, [SOURCE], share=0.2, seed=0)
    chosen = settings_of("future", {**SETTINGS, **settings})
    return build_guide(texts, GuideSpec("future", "sentiment", chosen, start=str(folder)), out)


def test_the_loss_is_that_of_every_beginning():
    random = torch.Generator().manual_seed(0)
    model = tiny_future.discriminator(torch.randn(9, 6, generator=random))
    ids = [[3, 1, 4], [5], [2, 6]]
    targets = np.array([[1.0, 0.0], [0.0, 1.0], [0.25, 0.75]])
    rows = Labelled(("a", "b", "c"), targets, LABELS)
    loss = FutureLabels(rows, ids, BOS, batch=3, seed=0, read="").loss(model, 0)
    expected = 0.0
    for text, text_targets in zip(ids, targets, strict=True):
        for length in range(len(text) + 1):
            beginning = torch.tensor([[BOS, *text[:length]]])
            log_p = model.whole(beginning)[0, -1].log_softmax(-1).tolist()
            expected -= sum(
                target * value for target, value in zip(text_targets, log_p, strict=True)
            )
    assert loss.count == sum(len(text) + 1 for text in ids)
    assert float(loss.total.detach()) == pytest.approx(expected, rel=1e-5)


def test_labels_are_known_where_the_text_gives_them_away(folder: Path, tmp_path: Path):
    figures = built(folder, tmp_path / "g").settings["figures"]
    assert figures["accuracy-100"] > 0.95
    assert figures["accuracy-50"] < 0.9
    assert figures["nats"] < 0.3 < math.log(2)


def test_figures_are_those_of_the_guide_as_it_is_loaded(folder: Path, tmp_path: Path):
    guide = built(folder, tmp_path / "g")
    loaded = future_model(guide, str(folder))
    test = own_texts(toy(), None, [], share=0.2, seed=0).test
    rows, ids = guide_texts.readable(test, language_model(str(folder)), 128)
    figures = held_out_figures(loaded.network, rows, ids, loaded.bos_id)
    assert figures == guide.settings["figures"]


def test_figures_after_a_share_of_a_text_are_of_its_first_tokens():
    random = torch.Generator().manual_seed(0)
    model = tiny_future.discriminator(torch.randn(9, 6, generator=random), seed=3)
    ids = [torch.randint(1, 9, (n,), generator=random).tolist() for n in range(1, 30)]
    for percent in (25, 50, 100):
        beginnings = [text[: math.ceil(percent * len(text) / 100)] for text in ids]
        right = [
            int(model.whole(torch.tensor([[BOS, *beginning]]))[0, -1].argmax())
            for beginning in beginnings
        ]
        # each label is what the model says after this share: so all of it is right
        rows = Labelled(tuple(map(str, range(len(ids)))), np.eye(2)[right], LABELS)
        assert held_out_figures(model, rows, ids, BOS)[f"accuracy-{percent}"] == 1
        assert 0 < sum(right) < len(right)


@pytest.mark.slow
def test_two_runs_leave_the_same_bytes(folder: Path, tmp_path: Path):
    first, other = (built(folder, tmp_path / name / "g", dropout=0.1) for name in "ab")
    for name in ("guide.json", "guide.safetensors", "README.md"):
        assert (first.path / name).read_bytes() == (other.path / name).read_bytes()


@pytest.mark.slow
def test_a_run_that_was_killed_ends_as_one_that_was_not(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(training, "EVERY", 4)
    whole = built(folder, tmp_path / "whole" / "g", dropout=0.1)
    step = loop._step

    def killed(model, task, recipe, optimizer, number):
        if number == 6:
            raise KeyboardInterrupt
        return step(model, task, recipe, optimizer, number)

    monkeypatch.setattr(loop, "_step", killed)
    with pytest.raises(KeyboardInterrupt):
        built(folder, tmp_path / "killed" / "g", dropout=0.1)
    monkeypatch.setattr(loop, "_step", step)
    assert built(folder, tmp_path / "killed" / "g", dropout=0.1).checksum == whole.checksum


def test_the_card_has_figures_and_licences(folder: Path, tmp_path: Path):
    guide = built(folder, tmp_path / "g", epochs=0.01)
    card = (guide.path / "README.md").read_text(encoding="utf-8")
    figures = guide.settings["figures"]
    assert SOURCE in card
    assert f"{figures['accuracy-100']:.4f} at the end of {figures['texts']} held-out texts" in card
    assert f"| After half of the tokens | {figures['accuracy-50']:.4f} |" in card


def test_embeddings_of_the_base_are_not_among_the_weights(folder: Path, tmp_path: Path):
    guide = built(folder, tmp_path / "g", epochs=0.01)
    tensors = safetensors.torch.load_file(guide.weights)
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float16}
    assert max(tensor.shape[0] for tensor in tensors.values()) <= 4 * 32


@pytest.mark.parametrize(("option", "value"), [("width", 40), ("dropout", 1.0)])
def test_settings_that_make_no_network_are_refused(option, value):
    with pytest.raises(UserError, match=f"{option}={value}: expected"):
        FutureSettings(**{option: value})


def test_reviews_are_cut_into_passages_of_the_chosen_number_of_sentences():
    lines = ["one", "two", "three", "four", "five"]
    assert guide_texts._passages(lines, 2) == [["one", "two"], ["three", "four"], ["five"]]
