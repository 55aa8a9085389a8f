"""`levelfield train infiller|perturb|discriminator|cdm`: from a file to a model that scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import Run, Write
from levelfield.models.resolve import resolve

LINES = "".join(
    f"The {who} waited by the {where}. It rained, and the {who} went home.\n"
    for who in ("goat", "clerk", "twin", "judge")
    for where in ("mill", "river", "gate", "stairs", "well")
)
SMALL = ("--width", "16", "--layers", "1", "--vocabulary", "330", "--window", "24")
SHORT = ("--steps", "4", "--every", "2", "--batch", "4", "--device", "cpu")


@pytest.mark.slow
def test_an_infiller_is_trained_and_scores(run: Run, write: Write, tmp_path: Path):
    corpus = write("corpus.txt", LINES)
    said = run("train", "infiller", corpus, "--out", "mine", *SMALL, *SHORT, "--source", "ours")
    assert said.code == 0, said
    assert "20 documents" in said.err
    assert "held-out loss" in said.err
    assert resolve(str(tmp_path / "mine")).kind == "encoder-decoder"
    texts = write("texts.jsonl", json.dumps({"id": "a", "text": "It rained. We left."}) + "\n")
    scored = run("score", texts, "--metric", "ctrleval.coherence", "--model", "mine", "--json")
    assert scored.json["metrics"][0]["groups"][0]["n"] == 1
    again = run("train", "infiller", corpus, "--out", "mine", *SMALL, *SHORT, "--source", "ours")
    assert again.code == 0
    assert "already" in again.err


@pytest.mark.parametrize(
    ("text", "said"), [("", "empty"), ("\n\n", "empty"), ("Only this.\n", "one document")]
)
def test_a_corpus_that_is_too_small_is_refused_and_leaves_nothing(run, write, tmp_path, text, said):
    corpus = write("corpus.txt", text)
    assert said in run("train", "infiller", corpus, "--out", "mine", *SMALL, *SHORT).complaint
    assert not (tmp_path / "mine").exists()


def test_a_folder_with_something_else_is_left_alone(run, write, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    corpus = write("corpus.txt", LINES)
    complaint = run("train", "infiller", corpus, "--out", "mine", *SMALL, *SHORT).complaint
    assert "holds no run of this kind" in complaint
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_perturbed_texts_train_a_discriminator_that_scores(run: Run, write: Write):
    corpus = write("corpus.txt", LINES)
    made = run("train", "perturb", corpus, "--kinds", "shuffle,repeat", "--out", "bad.jsonl")
    assert made.code == 0, made
    options = ("--start", "", "--out", "judge", *SHORT)
    trained = run("train", "discriminator", "bad.jsonl", *options)
    assert trained.code == 0, trained
    texts = write("texts.jsonl", json.dumps({"id": "a", "text": "It rained. We left."}) + "\n")
    scored = run(
        "score", texts, "--metric", "discriminator.score", "--option", "model=judge", "--json"
    )
    assert 0 < scored.json["metrics"][0]["groups"][0]["mean"] < 1


def test_a_plan_that_is_wrong_is_told_line_by_line(run: Run, write: Write):
    plan = write("plan.toml", 'corpus = ["none.txt"]\n[negatives]\ngamma = "much"\n')
    said = run("train", "cdm", plan, "--out", "cdm")
    assert said.code == 2
    assert len(said.err.splitlines()) == 2
    assert "none.txt" in said.err
    assert "gamma" in said.err
