"""`--engine`: what it changes in a run, and what a run does when an engine is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import Run, Write, records
from levelfield.models.load import forget
from levelfield.models.loading import ENGINES, LOADERS, Engine
from levelfield.scoring.cache import SegmentCache, cache_path

ROWS = [{"id": str(i), "text": f"{'a ' * i}text", "source": "a text"} for i in range(1, 6)]


class Encoder:
    vocabulary_size = 3

    def __init__(self, off: float) -> None:
        self._off = off

    def token_ids(self, texts: list[str]) -> list[list[int]]:
        return [[1]] * len(texts)

    def sentences(self, texts: list[str]) -> tuple[Any, list[bool]]:
        angles = np.array([len(str(text)) / 40 + self._off * len(str(text)) for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1), [False] * len(texts)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float], None]]:
    """Adds the engine `ours` for encoders, off by an angle for each character."""

    def add(off: float) -> None:
        monkeypatch.setitem(ENGINES, "ours", Engine(("float32",)))
        monkeypatch.setitem(LOADERS, ("encoder", "ours"), lambda *_: Encoder(off))
        monkeypatch.setitem(LOADERS, ("encoder", "torch"), lambda *_: Encoder(0))
        forget()

    yield add
    forget()


def kept() -> int:
    """How many values the cache has."""
    if not cache_path().exists():
        return 0
    cache = SegmentCache(cache_path())
    try:
        return sum(cache.contents().segments.values())
    finally:
        cache.close()


def test_an_engine_that_differs_is_refused_and_nothing_is_written_or_kept(
    run: Run, write: Write, engine: Callable[[float], None], here: Path
) -> None:
    engine(1e-3)
    write("texts.jsonl", ROWS)
    said = run("score", "texts.jsonl", "-m", "cosine.source", "--engine", "ours").complaint
    assert "engine ours does not compute what torch does: text" in said
    assert "by torch; they differ by" in said
    assert sorted(path.name for path in here.iterdir()) == ["texts.jsonl"]
    assert kept() == 0
    assert run("score", "texts.jsonl", "-m", "cosine.source", "--engine", "torch").code == 0
    assert kept() == len(ROWS)
    before = (here / "scores.jsonl").read_bytes()
    assert run("score", "texts.jsonl", "-m", "cosine.source", "--engine", "ours").code == 2
    assert (here / "scores.jsonl").read_bytes() == before
    assert kept() == len(ROWS)


def test_values_of_an_engine_are_kept_under_a_signature_that_names_it(
    run: Run, write: Write, engine: Callable[[float], None]
) -> None:
    engine(0.0)
    write("texts.jsonl", ROWS)
    assert run("score", "texts.jsonl", "-m", "cosine.source", "--out", "torch.jsonl").code == 0
    chosen = (
        "-m",
        "cosine.source",
        "-m",
        "diversity.distinct-1",
        "--engine",
        "ours",
        "--out",
        "ours.jsonl",
    )
    before = kept()
    assert run("score", "texts.jsonl", *chosen).code == 0
    ours = {r["id"]: r for r in records("ours.jsonl") if r["metric"] == "cosine.source"}
    assert kept() > before
    for record in records("torch.jsonl"):
        assert "engine" not in record["signature"]
        same = record["signature"].replace("|dtype:float32", "|dtype:float32|engine:ours")
        assert ours[record["id"]] == {**record, "signature": same}
    others = [r for r in records("ours.jsonl") if r["metric"] != "cosine.source"]
    assert others
    assert not any("engine" in r["signature"] for r in others)


def test_an_engine_that_computes_nothing_of_a_run_is_a_mistake(
    run: Run, write: Write, engine: Callable[[float], None]
) -> None:
    engine(0.0)
    write("texts.jsonl", ROWS)
    said = run("score", "texts.jsonl", "-m", "diversity.distinct-1", "--engine", "ours").complaint
    assert "--engine ours computes nothing here: it serves models of the kinds encoder" in said


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--engine", "onnx"), '"onnx": expected auto, torch or openvino'),
        (("--engine", "ctranslate2"), "was removed; use --engine openvino, which serves the same"),
        (("--dtype", "int8"), '"int8": expected float32 or bfloat16'),
    ],
)
def test_a_mistake_in_the_engine_is_told_before_work(
    run: Run, write: Write, here: Path, words: tuple[str, ...], expected: str
) -> None:
    write("texts.jsonl", ROWS)
    assert expected in run("score", "texts.jsonl", "-m", "cosine.source", *words).complaint
    assert sorted(path.name for path in here.iterdir()) == ["texts.jsonl"]


STUDY = """
name = "Days"
seeds = [1]
metrics = ["diversity.distinct-1"]
[datasets.things]
prompts = ["The lake"]
[controls.keywords]
keywords = ["wet"]
[[systems]]
name = "a"
command = ["cat"]
"""


def test_a_study_takes_an_engine(run: Run, write: Write, engine: Callable[[float], None]) -> None:
    engine(0.0)
    write("study.toml", STUDY)
    assert (
        '"onnx": expected auto' in run("study", "run", "study.toml", "--engine", "onnx").complaint
    )
    said = run("study", "run", "study.toml", "--engine", "ours").complaint
    assert "--engine ours computes nothing here" in said
