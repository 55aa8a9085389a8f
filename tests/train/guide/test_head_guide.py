"""A head on the base's states learns labels, and ends as one run however often it is killed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

import tiny
from levelfield.core.errors import ModelError, UserError
from levelfield.generation.techniques._head import training
from levelfield.generation.techniques._head.network import head_model, mean_states
from levelfield.generation.techniques._head.settings import HeadSettings
from levelfield.generation.techniques._head.training import held_out_figures, text_states
from levelfield.models.guides import Guide
from levelfield.models.torch.language_model import language_model
from levelfield.train.guide.kinds import GuideSpec, build_guide
from levelfield.train.guide.table import settings_of
from levelfield.train.guide.texts import readable
from levelfield.train.labelled import Labelled, own_texts

LABELS = ("negative", "positive")
BEGINNINGS = ("today the old lake", "once upon a time", "we saw that it")
SOURCE = "our own sentences: Apache-2.0"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tiny.save("gpt2", tmp_path_factory.mktemp("base"), begins=True)


def toy(n: int = 20) -> Labelled:
    """One word says all."""
    texts = [
        f"{beginning} {i} {end}"
        for i in range(n)
        for beginning in BEGINNINGS
        for end in ("sad", "fine")
    ]
    return Labelled(tuple(texts), np.eye(2)[[0, 1] * (len(texts) // 2)], LABELS)


def built(folder: Path, out: Path, precision: str = "float32", **settings) -> Guide:
    texts = own_texts(toy(), None, [SOURCE], share=0.2, seed=0)
    chosen = settings_of("head", settings)
    spec = GuideSpec("head", "sentiment", chosen, start=str(folder), precision=precision)
    return build_guide(texts, spec, out)


def test_the_mean_is_over_the_tokens_of_a_text_without_bos(folder: Path):
    base = language_model(str(folder))
    texts = [[3, 1, 4, 1], [5], [9, 2]]
    means = mean_states(base, texts)
    for text, mean in zip(texts, means, strict=True):
        with torch.inference_mode():
            ids = torch.tensor([[base.bos_id, *text]])
            states = base.model(input_ids=ids, output_hidden_states=True).hidden_states[-1]
        torch.testing.assert_close(mean, states[0, 1:].mean(0), atol=1e-5, rtol=1e-5)


def test_labels_are_known_where_the_text_gives_them_away(folder: Path, tmp_path: Path):
    figures = built(folder, tmp_path / "g").settings["figures"]
    assert figures["accuracy"] > 0.95
    assert figures["nats"] < 0.3


def test_figures_are_those_of_the_guide_as_it_is_loaded(folder: Path, tmp_path: Path):
    guide = built(folder, tmp_path / "g")
    loaded = head_model(guide, str(folder))
    base = language_model(str(folder))
    test = own_texts(toy(), None, [], share=0.2, seed=0).test
    rows, ids = readable(test, base, 128)
    log_p = loaded(mean_states(base, ids)).log_softmax(-1).double().numpy()
    right = log_p.argmax(1) == rows.targets.argmax(1)
    assert guide.settings["figures"]["texts"] == len(rows)
    assert guide.settings["figures"]["accuracy"] == pytest.approx(right.mean(), abs=1e-4)
    nats = -(rows.targets * log_p).sum(1).mean()
    assert guide.settings["figures"]["nats"] == pytest.approx(nats, abs=2e-4)


def test_nats_and_accuracy_are_those_of_a_head_written_down():
    head = training.Head(np.array([[1.0, -1.0]], np.float32), np.zeros(2, np.float32))
    rows = Labelled(("a", "b"), np.array([[1.0, 0.0], [1.0, 0.0]]), LABELS)
    figures = held_out_figures(head, np.array([[1.0], [-0.5]], np.float32), rows)
    assert figures["accuracy"] == 0.5
    expected = (np.log1p(np.exp(-2)) + np.log1p(np.exp(1))) / 2
    assert figures["nats"] == pytest.approx(expected, abs=1e-4)


def test_more_l2_makes_smaller_weights(folder: Path, tmp_path: Path):
    sizes = []
    for l2 in (0.001, 1.0):
        guide = built(folder, tmp_path / str(l2), l2=l2)
        sizes.append(float(head_model(guide, str(folder)).weight.norm()))
    assert sizes[1] < sizes[0] / 2


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_two_runs_leave_the_same_bytes(folder: Path, tmp_path: Path, precision: str):
    first, other = (built(folder, tmp_path / name / "g", precision) for name in "ab")
    for name in ("guide.json", "guide.safetensors", "README.md"):
        assert (first.path / name).read_bytes() == (other.path / name).read_bytes()


def test_a_run_that_was_killed_ends_as_one_that_was_not(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(training, "EVERY", 16)
    monkeypatch.setattr(training, "BATCH_TOKENS", 64)
    whole = built(folder, tmp_path / "whole" / "g")
    read: list[int] = []

    def killed(base, texts):
        if len(read) == 5:
            raise KeyboardInterrupt
        read.append(len(texts))
        return mean_states(base, texts)

    monkeypatch.setattr(training, "mean_states", killed)
    with pytest.raises(KeyboardInterrupt):
        built(folder, tmp_path / "killed" / "g")
    again: list[int] = []

    def counted(base, texts):
        again.append(len(texts))
        return mean_states(base, texts)

    monkeypatch.setattr(training, "mean_states", counted)
    guide = built(folder, tmp_path / "killed" / "g")
    assert guide.checksum == whole.checksum
    assert sum(again) == len(toy()) - 16


def test_a_checkpoint_of_another_run_is_refused(folder: Path, tmp_path: Path):
    base = language_model(str(folder))
    text_states(base, [[1, 2], [3]], tmp_path)
    with pytest.raises(UserError, match="checkpoint of another run"):
        text_states(base, [[1, 2], [4]], tmp_path)
    with pytest.raises(UserError, match="checkpoint of another run"):
        text_states(base, [[1, 2], [3]], tmp_path, low=True)
    (tmp_path / "checkpoint.safetensors").write_bytes(b"nothing")
    with pytest.raises(UserError, match="is damaged"):
        text_states(base, [[1, 2], [3]], tmp_path)


def test_the_card_has_figures_and_licences(folder: Path, tmp_path: Path):
    guide = built(folder, tmp_path / "g")
    card = (guide.path / "README.md").read_text(encoding="utf-8")
    figures = guide.settings["figures"]
    assert SOURCE in card
    assert f"{figures['accuracy']:.4f} on {figures['texts']} held-out texts" in card


@pytest.mark.parametrize(("option", "value"), [("tokens", 0), ("l2", -1.0)])
def test_settings_that_make_no_head_are_refused(option, value):
    with pytest.raises(UserError, match=f"{option}={value}: expected"):
        HeadSettings(**{option: value})


def test_a_head_of_another_width_is_refused(folder: Path, tmp_path: Path):
    guide = built(folder, tmp_path / "g")
    wrong = {"weight": torch.zeros(5, 2), "bias": torch.zeros(2)}
    safetensors.torch.save_file(wrong, guide.weights)
    with pytest.raises(ModelError, match=r"weight is \(5, 2\).*expected \(16, 2\)"):
        head_model.__wrapped__(guide, str(folder))
