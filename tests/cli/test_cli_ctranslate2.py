"""`--engine ctranslate2`: the same scores under a signature that says so, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

import tiny_ctranslate2
from command_line import Run, Write, records

pytest.importorskip("ctranslate2")

ROWS = [
    {"id": "1", "text": "The lake froze slowly. Nobody skated on it. Then it thawed."},
    {"id": "2", "text": "A goat came by. It ate the hat."},
]
COHERENCE = ("score", "texts.jsonl", "-m", "ctrleval.coherence", "--model")


def test_scores_of_t5_1_1_are_those_of_torch(
    run: Run, write: Write, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write("texts.jsonl", ROWS)
    model = str(tiny_ctranslate2.save_t5(tmp_path_factory.mktemp("t5"), tied=False))
    assert run(*COHERENCE, model, "--out", "torch.jsonl").code == 0
    assert run(*COHERENCE, model, "--engine", "ctranslate2", "--out", "ours.jsonl").code == 0
    for ours, of_torch in zip(records("ours.jsonl"), records("torch.jsonl"), strict=True):
        assert ours["value"] == pytest.approx(of_torch["value"], abs=1e-4)
        assert "|dtype:float32|engine:ctranslate2" in ours["signature"]


def test_a_wrong_conversion_is_refused_with_both_numbers_and_nothing_is_written(
    run: Run,
    write: Write,
    here: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write("texts.jsonl", ROWS)
    model = str(tiny_ctranslate2.save_t5(tmp_path_factory.mktemp("t5"), tied=False))
    tiny_ctranslate2.scale_as_the_converter_does(monkeypatch)
    said = run(*COHERENCE, model, "--engine", "ctranslate2").complaint
    assert "engine ctranslate2 does not compute what torch does" in said
    assert "by torch; they differ by" in said
    assert [path.name for path in here.iterdir()] == ["texts.jsonl"]


def test_what_it_can_not_compute_is_refused_in_one_line(
    run: Run, write: Write, here: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write("texts.jsonl", ROWS)
    options = {**tiny_ctranslate2.CAUSAL["qwen3"][1], "pad_token_id": 0}
    folder = tiny_ctranslate2.save_causal(
        tmp_path_factory.mktemp("gemma2"), "Gemma2Config", options
    )
    said = run(
        *("score", "texts.jsonl", "-m", "fluency.perplexity", "--model", str(folder)),
        *("--engine", "ctranslate2"),
    ).complaint
    assert "of the type gemma2; take --engine torch" in said
    assert [path.name for path in here.iterdir()] == ["texts.jsonl"]
