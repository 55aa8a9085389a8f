"""`levelfield data`: what there is, where it comes from, and how to get it."""

from __future__ import annotations

import hashlib
import importlib
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import Run
from levelfield import datasets
from levelfield.datasets.registry import DataSet
from levelfield.io import load_samples
from levelfield.io.comparisons import load_comparisons
from levelfield.io.fetch import Published

ROWS = (
    "positive\tThe pizza\tThe pizza, he said, was “great”.\t4.4\t2\t3.2\n"
    "negative\tThe road\tThe road is bad.\t1\t2\t3\n"
)


@pytest.fixture
def ours(here: Path, monkeypatch: pytest.MonkeyPatch) -> DataSet:
    """A small set of our own under the name of CTRLEval, half of it on this machine."""

    def published(path: str) -> Published:
        body = ROWS.encode()
        return Published("ctrleval", "a/b", "c", path, hashlib.sha256(body).hexdigest(), len(body))

    real = datasets.dataset("ctrleval")
    made = replace(
        real, files=tuple(map(published, ("data/data_senti.txt", "data/data_topic.txt")))
    )
    for module in ("levelfield.datasets.loading", "levelfield.cli.data"):
        monkeypatch.setattr(importlib.import_module(module), "dataset", lambda _: made)
    path = here / "data/ctrleval/data/data_senti.txt"
    path.parent.mkdir(parents=True)
    path.write_text(ROWS, encoding="utf-8")
    monkeypatch.setenv("LEVELFIELD_DATA", str(here / "data"))
    monkeypatch.setenv("LEVELFIELD_MIRROR", "http://127.0.0.1:9")
    return made


def test_all_sets_are_listed_with_licence_and_state(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("LEVELFIELD_DATA", raising=False)
    listed = run("data", "list")
    assert listed.code == 0
    for name in datasets.names():
        assert name in listed.out
    assert "none stated" in listed.out
    described = {one["name"]: one for one in run("data", "list", "--json").json}
    assert list(described) == list(datasets.names())
    assert described["ctrleval"]["licence"] is None
    assert described["ctrleval"]["files"] == 7
    assert described["lpf"]["files"] == 516
    assert all(one["here"] == 0 for one in described.values())


def test_a_set_is_shown_with_source_facts_and_files(run: Run, ours: DataSet):
    shown = run("data", "show", "ctrleval").out
    for expected in (ours.citation, ours.repository, ours.commit, "none stated", ours.facts[0]):
        assert expected in shown
    lines = {line.split()[0]: line for line in shown.splitlines() if line.startswith("  data/")}
    assert lines["data/data_senti.txt"].endswith(" here")
    assert lines["data/data_topic.txt"].endswith("not here")
    files = run("data", "show", "ctrleval", "--json").json["files"]
    assert [file["state"] for file in files] == ["here", "not here"]


def test_a_damaged_file_is_shown_as_such(run: Run, ours: DataSet, here: Path):
    assert ours.files
    (here / "data/ctrleval/data/data_senti.txt").write_text("x", encoding="utf-8")
    assert run("data", "show", "ctrleval", "--json").json["files"][0]["state"] == "damaged"
    complaint = run("data", "fetch", "ctrleval", "--part", "sentiment").complaint
    assert "is not the published file" in complaint


def test_swapped_columns_are_told_of(run: Run):
    assert "swaps chrF and WMD" in run("data", "show", "formality-judgements").out
    many = run("data", "show", "lpf")
    assert "516 files; --json lists them" in many.out
    assert len(run("data", "show", "lpf", "--json").json["files"]) == 516


@pytest.mark.usefixtures("ours")
def test_samples_are_written_as_lines_that_are_read_again(run: Run, here: Path):
    done = run("data", "fetch", "ctrleval", "--part", "sentiment", "--out", "samples.jsonl")
    assert done.code == 0
    assert done.out == ""
    assert "2 samples" in done.err
    assert "states no licence" in done.err
    assert load_samples(here / "samples.jsonl") == datasets.load("ctrleval", part="sentiment")
    scored = run("data", "fetch", "ctrleval", "--here", "--out", "-")
    assert len(scored.out.splitlines()) == 2


@pytest.mark.usefixtures("ours")
def test_what_can_not_be_had_is_one_line_and_leaves_no_file(run: Run, here: Path):
    said = run("data", "fetch", "ctrleval", "--out", "samples.jsonl").complaint
    assert "data/data_topic.txt of ctrleval can't be downloaded (no connection)" in said
    assert "http://127.0.0.1:9/a/b/c/data/data_topic.txt" in said
    assert "--here" in said
    assert not (here / "samples.jsonl").exists()
    assert "no folder" in run("data", "fetch", "ctrleval", "--out", "no/where.jsonl").complaint


@pytest.mark.usefixtures("ours")
def test_files_are_fetched_and_their_places_told(run: Run, here: Path):
    done = run("data", "fetch", "ctrleval", "--part", "sentiment")
    assert done.out == f"{here / 'data/ctrleval/data/data_senti.txt'}\n"
    assert "1 file, verified" in done.err
    assert run("data", "fetch", "ctrleval", "--here").out == done.out


@pytest.fixture
def compared(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One pair of our own under the name of PPLM's positive texts."""
    body = (
        b'A,B,"Better?",F,F,Ann,"Better?",F,F,Bo,"Better?",F,F,Cy,\n'
        b"The road ends.,The road is nice.,B,4,5,,both,4,4,,neither,3,3,,0_4_7\n"
    )
    real = datasets.dataset("pplm-human")
    [file] = real.part("positive")
    ours = replace(file, sha256=hashlib.sha256(body).hexdigest(), bytes=len(body))
    made = replace(real, files=(ours,), parts={"positive": (ours.path,)}, default=("positive",))
    for module in ("levelfield.datasets.loading", "levelfield.cli.data"):
        monkeypatch.setattr(importlib.import_module(module), "dataset", lambda _: made)
    path = here / "data/pplm-human" / ours.path
    path.parent.mkdir(parents=True)
    path.write_bytes(body)
    monkeypatch.setenv("LEVELFIELD_DATA", str(here / "data"))


@pytest.mark.usefixtures("compared")
def test_choices_are_written_beside_samples_and_read_again(run: Run, here: Path):
    words = ("data", "fetch", "pplm-human")
    done = run(*words, "--out", "samples.jsonl", "--choices", "choices.jsonl")
    assert done.code == 0
    assert "3 choices written to choices.jsonl" in done.err
    read = load_comparisons(here / "choices.jsonl", {})
    assert read == datasets.choices("pplm-human")
    assert [choice.tie for choice in read] == ["", "both", "neither"]
    ids = {sample.id for sample in load_samples(here / "samples.jsonl")}
    assert ids == {id for choice in read for id in (choice.sample_a, choice.sample_b)}
    assert len(run(*words, "--choices", "-").out.splitlines()) == 3
    assert "stdout" in run(*words, "--choices", "-", "--out", "-").complaint
    assert "holds samples" in run(*words, "--choices", "samples.jsonl").complaint


@pytest.mark.usefixtures("ours")
def test_a_set_without_choices_leaves_no_file(run: Run, here: Path):
    words = ("data", "fetch", "ctrleval", "--part", "sentiment", "--out", "samples.jsonl")
    assert "has no choices" in run(*words, "--choices", "choices.jsonl").complaint
    assert not (here / "samples.jsonl").exists()
    assert not (here / "choices.jsonl").exists()


def test_mistakes_get_one_line(run: Run):
    assert "did you mean ctrleval" in run("data", "show", "ctrl-eval").complaint
    assert "has no part 'x'" in run("data", "fetch", "ctrleval", "--part", "x").complaint
    assert "has no samples" in run("data", "fetch", "gpt2-bpe", "--out", "x.jsonl").complaint
