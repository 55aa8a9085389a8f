"""A class-conditional guide learns what its formula says, and ends as one run however often it is
killed."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import tiny
from levelfield.core.errors import ModelError, UserError
from levelfield.generation.techniques._class_lm import training
from levelfield.generation.techniques._class_lm.network import class_lm, codes_of
from levelfield.generation.techniques._class_lm.settings import ClassLMSettings
from levelfield.generation.techniques._class_lm.training import (
    ClassConditional,
    LearntClassLM,
    class_lm_loss,
    held_out_figures,
)
from levelfield.models.guides import Guide, guide_named
from levelfield.models.torch.language_model import LanguageModel, wrapped
from levelfield.train import loop
from levelfield.train.checkpoint import CHECKPOINT
from levelfield.train.guide.kinds import GuideSpec, build_guide
from levelfield.train.guide.table import settings_of
from levelfield.train.labelled import Labelled, own_texts

LABELS = ("negative", "positive")
GOOD, BAD = ("a fine day", "we loved it", "fine soup"), ("a sad day", "we hated it", "sad soup")
SETTINGS = {"layers": 2, "rank": 4, "batch": 8, "learning_rate": 0.02, "epochs": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tiny.save("llama", tmp_path_factory.mktemp("base"))


@pytest.fixture
def base() -> LanguageModel:
    words = tiny.causal_tokenizer("gpt2", begins=True)
    return wrapped(tiny.causal_model("gpt2", len(words)), words, "tiny")


def toy(n: int = 20) -> Labelled:
    texts = [f"{text} {i}" for i in range(n) for text in (*GOOD, *BAD)]
    return Labelled(tuple(texts), np.eye(2)[[1, 1, 1, 0, 0, 0] * n], LABELS)


def learner(base: LanguageModel, **settings) -> LearntClassLM:
    model = LearntClassLM(base, codes_of(LABELS, base), ClassLMSettings(**settings), seed=0)
    for up in model.adapter.up.values():
        torch.nn.init.normal_(up, std=0.3)
    return model


def spec(folder: Path, **settings) -> GuideSpec:
    chosen = settings_of("class-lm", {**SETTINGS, **settings})
    return GuideSpec("class-lm", "sentiment", chosen, start=str(folder))


def built(folder: Path, out: Path, **settings) -> Guide:
    texts = own_texts(toy(), None, ["our own sentences: Apache-2.0"], share=0.2, seed=0)
    return build_guide(texts, spec(folder, **settings), out)


def test_the_sum_of_a_text_is_that_of_its_tokens_one_by_one(base: LanguageModel):
    model = learner(base, layers=1)
    texts = base.tokens.ids(["a fine day", "we hated it so much", "soup"])
    pairs = torch.tensor([[True, True], [False, True], [True, False]])
    scores = model.log_p(texts, pairs)
    codes = list(codes_of(LABELS, base).values())
    for i, text in enumerate(texts):
        for c in range(2):
            expected = 0.0
            for t, token in enumerate(text):
                ids = torch.tensor([[base.bos_id, *codes[c], *text[:t]]])
                with torch.inference_mode(), model.adapter.on():
                    log_p = base.model(input_ids=ids).logits[0, -1].log_softmax(-1)
                expected += float(log_p[token]) if pairs[i, c] else 0.0
            assert float(scores[i, c].detach()) == pytest.approx(expected, abs=1e-4)


def test_the_loss_is_the_formula_on_a_small_table(base: LanguageModel):
    model = learner(base, layers=1)
    model._log_scale.data.fill_(math.log(0.3) / training.PACE)  # α = 3
    model._bias.data.copy_(torch.tensor([0.0, 0.5]) / training.PACE)
    log_p = torch.tensor([[-4.0, -6.0], [-9.0, -3.0]])
    targets, lengths = torch.tensor([[1.0, 0.0], [0.25, 0.75]]), torch.tensor([2.0, 3.0])
    generative = 4 / 2 + 0.25 * 9 / 3 + 0.75 * 3 / 3
    first = [3 / 2 * -4, 3 / 2 * -6 + 0.5]
    second = [3 / 3 * -9, 3 / 3 * -3 + 0.5]
    norms = [math.log(sum(map(math.exp, row))) for row in (first, second)]
    discriminative = norms[0] - first[0]
    discriminative += norms[1] - 0.25 * second[0] - 0.75 * second[1]
    for lam in (0.0, 0.8, 1.0):
        loss = float(class_lm_loss(model, log_p, targets, lengths, lam).detach())
        assert loss == pytest.approx(lam * generative + (1 - lam) * discriminative, abs=1e-5)


def test_labels_of_a_separable_set_are_distinguished(folder: Path, tmp_path: Path):
    untrained = built(folder, tmp_path / "0", epochs=0.01, learning_rate=1e-9).settings["figures"]
    figures = built(folder, tmp_path / "1", epochs=3).settings["figures"]
    assert figures["accuracy"] > 0.95
    assert figures["accuracy"] > untrained["accuracy"]
    assert figures["perplexity"] < untrained["perplexity"]
    assert figures["perplexity"] < figures["perplexity-other"]


def test_figures_are_those_of_the_guide_as_it_is_loaded(folder: Path, tmp_path: Path):
    guide = built(folder, tmp_path / "g")
    loaded = class_lm(guide, str(folder))
    assert loaded.labels == LABELS
    assert loaded.attribute == "sentiment"
    base = loaded.lm
    settings = ClassLMSettings(**spec(folder).settings)
    model = LearntClassLM(wrapped(base.model._base, base.tokenizer, ""), loaded.codes, settings, 0)
    model.adapter.load_state_dict(base.model._adapter.state_dict())
    model._log_scale.data.fill_(math.log(loaded.scale / training.SCALE) / training.PACE)
    model._bias.data.copy_(torch.tensor(list(loaded.bias.values())) / training.PACE)
    test = own_texts(toy(), None, [], share=0.2, seed=0).test
    assert held_out_figures(model, test, base.tokens.ids(test.texts)) == guide.settings["figures"]


def test_lambda_1_scores_texts_under_their_own_label_only(base: LanguageModel):
    class Noting(LearntClassLM):
        def log_p(self, texts, pairs):
            seen.append(pairs)
            return super().log_p(texts, pairs)

    seen: list[torch.Tensor] = []
    rows = toy(1)
    model = Noting(base, codes_of(LABELS, base), ClassLMSettings(layers=1), seed=0)
    for lam in (1.0, 0.5):
        ClassConditional(rows, base.tokens.ids(rows.texts), lam, 6, 0, "").loss(model, 0)
    assert seen[0].sum(1).tolist() == [1] * 6
    assert seen[1].all()


def test_two_runs_leave_the_same_bytes(folder: Path, tmp_path: Path):
    first, other = (built(folder, tmp_path / name / "g") for name in "ab")
    for name in ("guide.json", "guide.safetensors", "README.md"):
        assert (first.path / name).read_bytes() == (other.path / name).read_bytes()
    assert first.checksum == other.checksum


@pytest.mark.slow
def test_a_run_that_was_killed_ends_as_one_that_was_not(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(training, "EVERY", 4)
    whole = built(folder, tmp_path / "whole" / "g")
    step = loop._step

    def killed(model, task, recipe, optimizer, number):
        if number == 6:
            raise KeyboardInterrupt
        return step(model, task, recipe, optimizer, number)

    monkeypatch.setattr(loop, "_step", killed)
    with pytest.raises(KeyboardInterrupt):
        built(folder, tmp_path / "killed" / "g")
    monkeypatch.setattr(loop, "_step", step)
    assert (tmp_path / "killed" / "g" / "training" / CHECKPOINT).exists()
    assert built(folder, tmp_path / "killed" / "g").checksum == whole.checksum


def test_a_finished_guide_is_left_as_it_is_and_another_run_refused(folder: Path, tmp_path: Path):
    guide = built(folder, tmp_path / "g")
    before = guide.weights.stat().st_mtime_ns
    assert built(folder, tmp_path / "g") == guide
    assert guide.weights.stat().st_mtime_ns == before
    with pytest.raises(UserError, match="give another folder"):
        built(folder, tmp_path / "g", lam=1.0)


def test_the_card_has_figures_and_licences(folder: Path, tmp_path: Path):
    guide = built(folder, tmp_path / "g")
    card = (guide.path / "README.md").read_text(encoding="utf-8")
    figures = guide.settings["figures"]
    assert "our own sentences: Apache-2.0" in card
    assert f"{figures['perplexity']:.2f} on {figures['texts']} held-out texts" in card
    assert "float16" in card


def test_a_guide_on_another_base_is_refused(folder: Path, tmp_path: Path):
    guide = built(folder, tmp_path / "g", epochs=0.01)
    other = tiny.save("gpt2", tmp_path / "other")
    with pytest.raises(ModelError, match=r"guide 'g' was made for the base base\d+@"):
        class_lm(guide, str(other))


def test_damaged_settings_are_one_line(folder: Path, tmp_path: Path):
    guide = built(folder, tmp_path / "g", epochs=0.01)
    about = json.loads((guide.path / "guide.json").read_text())
    damaged = tmp_path / "damaged"
    shutil.copytree(guide.path, damaged)
    for key, value in (("scale", None), ("adapter", {"layers": 1, "rank": 4, "alpha": 8})):
        (damaged / "guide.json").write_text(json.dumps({**about, key: value}))
        with pytest.raises(ModelError, match="model 'damaged' can't be loaded") as caught:
            class_lm(guide_named.__wrapped__(str(damaged)), str(folder))
        assert "\n" not in str(caught.value)


def test_settings_that_are_none_of_the_kind_are_refused():
    with pytest.raises(UserError, match="--candidates is not an option of this kind"):
        settings_of("class-lm", {"candidates": 200, "rank": None})
    with pytest.raises(UserError, match=r"lam=1\.5: expected a number from 0 to 1"):
        ClassLMSettings(lam=1.5)
