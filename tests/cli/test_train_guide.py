"""`levelfield train guide`: from labelled files to a folder that a technique reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tiny
from command_line import Run, Write

GOOD, BAD = ("a fine day", "we loved it", "fine soup"), ("a sad day", "we hated it", "sad soup")
LINES = "".join(
    json.dumps({"text": f"{text} {i}", "mood": label}) + "\n"
    for i in range(20)
    for label, texts in (("good", GOOD), ("bad", BAD))
    for text in texts
)


def test_a_guide_is_trained_on_a_file_and_has_figures(run: Run, write: Write, tmp_path: Path):
    data, base = write("labelled.jsonl", LINES), tiny.save("gpt2", tmp_path / "base")
    words = ("train", "guide", "--technique", "dexperts", "--data", data, "--attribute", "mood")
    words += ("--map", "control.mood=mood", "--model", base, "--rank", "2", "--out", "mine")
    said = run(*words, "--share", "0.1", "--lambda", "0.5", "--source", "ours")
    assert said.code == 0, said
    assert "108 texts to train on, 12 held out" in said.err
    assert "mine: texts 12, perplexity" in said.err
    about = json.loads((tmp_path / "mine" / "guide.json").read_text())
    assert (about["kind"], about["attribute"], about["lambda"]) == ("class-lm", "mood", 0.5)
    assert about["labels"] == ["bad", "good"]
    assert "- ours" in (tmp_path / "mine" / "README.md").read_text()
    again = run(*words, "--share", "0.1", "--lambda", "0.5", "--source", "ours")
    assert "mine already holds this guide" in again.err
    other = run(*words, "--share", "0.1", "--seed", "1")
    assert other.code == 2
    assert other.err.splitlines()[-1].startswith("error: mine is not empty and holds no run")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--technique", "cfg"), "'--technique': 'cfg' is not one of"),
        (
            ("--technique", "gedi", "--lambda", "2"),
            "'--lambda': \"2\": expected a number",
        ),
        (("--technique", "gedi", "--data", "nowhere.jsonl"), "nowhere.jsonl"),
        (("--technique", "multictg", "-o", "head-steps=x"), "option head_steps=x: expected"),
    ],
)
def test_mistakes_are_one_line(run: Run, words: tuple[str, ...], complaint: str):
    rest = ("--attribute", "mood", "--out", "mine")
    data = () if "--data" in words else ("--data", "some.jsonl")
    assert complaint in run("train", "guide", *words, *data, *rest).complaint


def test_an_encoder_is_no_base(run: Run, write: Write):
    data = write("labelled.jsonl", LINES)
    words = ("--technique", "gedi", "--data", data, "--attribute", "mood", "--out", "mine")
    mapped = ("--map", "control.mood=mood", "--model", "offline/minilm")
    said = run("train", "guide", *words, *mapped)
    assert said.code == 2
    assert said.err.splitlines()[-1].startswith("error: model 'offline/minilm' is a encoder model")
