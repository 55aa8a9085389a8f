"""`levelfield train judge`: from labelled files to a folder that judges."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import Run, Write

GOOD, BAD = ("a fine day", "we loved it", "fine soup"), ("a sad day", "we hated it", "sad soup")
LINES = "".join(
    json.dumps({"text": f"{text} {i}", "control": {"sentiment": label}, "grade": grade}) + "\n"
    for i in range(20)
    for label, grade, texts in (("positive", 5, GOOD), ("negative", 1, BAD))
    for text in texts
)


@pytest.mark.parametrize("option", ["--epochs", "--vocabulary", "--ngrams"])
def test_counts_have_bounds(run: Run, option: str) -> None:
    ran = run("train", "judge", "labelled.jsonl", "--attribute", "mood", option, 10**9)
    assert f"'{option}': \"1000000000\": expected a whole number from 1 to" in ran.complaint


def test_a_trained_judge_has_a_card_and_votes(run: Run, write: Write, tmp_path: Path):
    data = write("labelled.jsonl", LINES)
    words = ("train", "judge", data, "--attribute", "sentiment", "--epochs", "20", "--out", "moods")
    said = run(*words, "--share", "0.2", "--source", "ours")
    assert said.code == 0, said
    assert "96 texts to train on, 24 held out" in said.err
    assert "accuracy" in said.err
    assert "predicted: negative" in said.out
    figures = json.loads((tmp_path / "moods" / "test.json").read_text())
    assert figures["n"] == 24
    assert figures["accuracy"] > 0.9
    assert "- ours" in (tmp_path / "moods" / "README.md").read_text()
    again = run(*words, "--share", "0.2", "--source", "ours")
    assert "already" in again.err
    texts = write(
        "texts.jsonl",
        '{"id": "a", "text": "a fine day", "control": {"sentiment": "positive"}}\n'
        '{"id": "b", "text": "we hated it", "control": {"sentiment": "positive"}}\n',
    )
    scored = run(
        "score",
        texts,
        "--metric",
        "control.average",
        "--option",
        "judges=moods",
        "--out",
        "s.jsonl",
    )
    assert scored.code == 0, scored
    found = [json.loads(line)["value"] for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    assert found == [1.0, 0.0]


def test_ratings_train_a_judge_and_a_held_out_file_tries_it(run: Run, write: Write, tmp_path: Path):
    data = write("rated.jsonl", LINES)
    tried = write("tried.jsonl", "".join(LINES.splitlines(keepends=True)[:12]))
    said = run(
        "train", "judge", data, "--rating", "tone", "--map", "ratings.tone=grade",
        "--low", "grim", "--high", "gay", "--held-out", tried, "--epochs", "5", "--out", "moods",
    )  # fmt: skip
    assert said.code == 0, said
    assert "108 texts to train on, 12 held out" in said.err  # none is on both sides
    assert "left out: 12 texts" in said.err
    figures = json.loads((tmp_path / "moods" / "test.json").read_text())
    assert figures["labels"] == ["grim", "gay"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "either FILEs with labels or --recipe"),
        (["FILE", "--recipe", "topic-linear"], "either FILEs with labels or --recipe"),
        (["--recipe", "topical"], "there is no recipe 'topical'"),
        (["--recipe", "topic-linear", "--arch", "linear"], "leave one out"),
        (["FILE"], "expected --attribute"),
        (["FILE", "--attribute", "mood"], "no label; expected one in control.mood"),
        (["FILE", "--rating", "tone"], "no sample has a rating of tone"),
        (
            ["FILE", "--attribute", "sentiment", "--l2", "1"],
            "--l2 is not an option of --arch textcnn",
        ),
        (["FILE", "--attribute", "sentiment", "--share", "0.001"], "at least one on either side"),
        (["FILE", "--attribute", "sentiment", "--range", "1", "5"], "--range is for ratings"),
        (["FILE", "--attribute", "sentiment", "--low", "grim"], "--low is for ratings"),
        (
            ["FILE", "--attribute", "sentiment", "--allow-pickle"],
            "--allow-pickle is not an option of",
        ),
        (
            ["FILE", "--attribute", "sentiment", "--share", "0.5", "--held-out", "FILE"],
            "leave out --held-out",
        ),
        (["--recipe", "topic-textcnn", "--model", "x"], "topic-textcnn has none"),
        (["--recipe", "topic-linear", "--allow-pickle"], "requires another --model NAME"),
        (["--recipe", "topic-linear", "--depth", "3"], "--depth beside --recipe requires another"),
        (
            ["--recipe", "topic-transformer", "--model", "x", "--layers", "3"],
            "--layers does not apply to topic-transformer",
        ),
        (
            ["--recipe", "topic-linear", "--model", "x", "--learning-rate", "1"],
            "does not apply to topic-linear",
        ),
        (
            ["FILE", "--attribute", "sentiment", "--arch", "transformer", "--l2", "1"],
            "--l2 is not an option of --arch transformer",
        ),
        (
            ["--recipe", "topic-linear", "--share", "0.5"],
            "--recipe already says what --share would",
        ),
        (
            ["FILE", "--attribute", "sentiment", "--held-out", "FILE"],
            "0 texts to train on and 120 held out",
        ),
    ],
)
def test_what_can_not_be_trained_is_said_in_one_line(run, write, tmp_path, words, complaint):
    data = write("labelled.jsonl", LINES)
    said = run("train", "judge", *(data if w == "FILE" else w for w in words), "--out", "moods")
    assert complaint in said.complaint
    assert not (tmp_path / "moods").exists()
