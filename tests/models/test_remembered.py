"""Models that a process keeps, and when it does not."""

from __future__ import annotations

import numpy as np
import pytest
import tiny_classifier
import torch

from levelfield.errors import ModelError
from levelfield.metrics.control import Average
from levelfield.models.classifier import load_classifier
from levelfield.models.resolve import resolve
from levelfield.sample import Sample

LABELS = ("negative", "positive")
TEXTS = ["The lake froze.", "We skated all day."]


def save(folder, seed: int) -> str:
    torch.manual_seed(seed)
    tiny_classifier.save(folder, LABELS, family="bert")
    return str(folder)


def test_a_model_is_loaded_once_while_its_files_stay_what_they_are(tmp_path):
    name = save(tmp_path / "model", 0)
    assert load_classifier(name, device="cpu") is load_classifier(name, device="cpu")
    assert resolve(name) is resolve(name)


def test_a_model_that_was_trained_again_is_read_again_under_its_name(tmp_path):
    name = save(tmp_path / "model", 0)
    before, first = resolve(name), load_classifier(name, device="cpu").probabilities(TEXTS)[0]
    save(tmp_path / "model", 1)
    second = load_classifier(name, device="cpu").probabilities(TEXTS)[0]
    assert not np.allclose(first, second)
    assert resolve(name).revision != before.revision


def test_a_relative_name_is_the_folder_that_it_names_now(tmp_path, monkeypatch):
    found = []
    for seed in (0, 1):
        here = tmp_path / str(seed)
        here.mkdir()
        save(here / "model", seed)
        monkeypatch.chdir(here)
        assert resolve("model").path == here / "model"
        found.append(load_classifier("model", device="cpu").probabilities(TEXTS)[0])
    assert not np.allclose(*found)


def test_a_new_metric_scores_with_the_model_that_is_there_now(tmp_path):
    name = save(tmp_path / "model", 0)
    samples = [Sample(t, t, control={"sentiment": "positive"}) for t in TEXTS]

    def values() -> tuple[str, list[float]]:
        metric = Average(judges=name, device="cpu")
        return metric.signature, metric.score(samples).values.tolist()

    signature, _ = values()
    for seed in range(1, 20):
        save(tmp_path / "model", seed)
        p, _ = load_classifier(name, device="cpu").probabilities(TEXTS)
        other, found = values()
        assert found == (p[:, 1] > 0.5).astype(float).tolist()
        assert other != signature
        signature = other


@pytest.mark.parametrize("name", ["", " ", "~", ".", "/", "\0", "~nobody-at-all/x"])
def test_a_name_of_no_model_is_refused_however_it_is_written(name):
    with pytest.raises(ModelError, match="model"):
        resolve(name)
