"""What older versions left on users' disks is read as they left it.

`old/` was written by `old/make.py` with the code of commit fa32808, before any of it was moved.
"""

from __future__ import annotations

import csv
import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from old_state import RENEWED, SCORED, SPECIAL, WITH_SPECIAL_TOKENS

import golden

OLD = golden.GOLDEN / "old"


def run(folder: Path, *words: object, code: int = 0, **changes: str | None) -> str:
    """What a command prints that leaves with this code."""
    left, out, err = golden.run(list(map(str, words)), folder, **changes)
    assert left == code, (out, err)
    return out


def records(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The old files, to be opened: what a command writes goes into the copy."""
    return Path(shutil.copytree(OLD, tmp_path / "old"))


@pytest.fixture(scope="module")
def scored_again(workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The score files of today, from a cache whose rows were altered: 1000 on every value, and
    `kept: ` before every reason."""
    folder = tmp_path_factory.mktemp("cache")
    shutil.copy(OLD / "cache" / "segments.sqlite", folder)
    _execute(
        folder,
        "UPDATE segments SET value = value + 1000 WHERE value IS NOT NULL",
        "UPDATE segments SET undefined = 'kept: ' || undefined WHERE undefined IS NOT NULL",
    )
    if not (workspace / "judges").exists():
        shutil.copytree(OLD / "judges", workspace / "judges")
    files = []
    for number, words in enumerate(SCORED):
        files.append(folder / f"{number}.jsonl")
        out = ("--out", files[-1])
        run(workspace, "score", *words.split(), *out, LEVELFIELD_CACHE=str(folder))
    return files


def _execute(folder: Path, *commands: str) -> Any:
    db = sqlite3.connect(folder / "segments.sqlite")
    try:
        found = [db.execute(command).fetchall() for command in commands]
        db.commit()
    finally:
        db.close()
    return found


@pytest.mark.parametrize("number", range(len(SCORED)), ids=SCORED)
def test_values_come_from_the_old_cache(scored_again: list[Path], number: int) -> None:
    old = records(OLD / "scores" / f"{number}.jsonl")
    now = records(scored_again[number])
    assert [(r["id"], r["metric"]) for r in now] == [(r["id"], r["metric"]) for r in old]
    for before, after in zip(old, now, strict=True):
        renewed = after["metric"] in RENEWED
        assert (after["signature"] != before["signature"]) == renewed
        if renewed:
            assert after["value"] is None or after["value"] < 500
        elif before["value"] is None:
            assert after["undefined"] == f"kept: {before['undefined']}"
        else:
            assert after["value"] == pytest.approx(before["value"] + 1000, abs=1e-9)


def test_only_values_under_new_signatures_are_added_to_the_old_cache(
    scored_again: list[Path],
) -> None:
    count = "SELECT metric, count(*) FROM segments GROUP BY metric"
    before, after = (
        dict(_execute(folder, count)[0]) for folder in (OLD / "cache", scored_again[0].parent)
    )
    assert {metric for metric in after if after[metric] != before[metric]} == set(RENEWED)


@pytest.mark.parametrize("number", range(len(SCORED)), ids=SCORED)
def test_models_and_judges_of_old_folders_give_the_old_values(
    workspace: Path, scored_again: list[Path], tmp_path: Path, number: int
) -> None:
    assert scored_again  # the judges are in place
    out = tmp_path / "scores.jsonl"
    run(workspace, "score", *SCORED[number].split(), "--out", out, "--no-cache")
    old, now = map(_lasting, (OLD / "scores" / f"{number}.jsonl", out))
    assert not list(golden.differences(old, now, golden.FLOAT32))


def _lasting(scores: Path) -> list[dict[str, Any]]:
    """The records that no later version has changed."""
    return [
        {k: v for k, v in r.items() if k != "signature" or r["metric"] not in SPECIAL}
        for r in records(scores)
        if r["metric"] not in RENEWED or (r["metric"] in SPECIAL and r["id"] != WITH_SPECIAL_TOKENS)
    ]


def test_the_old_cache_says_what_it_holds(copy: Path) -> None:
    found = run(copy, "cache", "info", "--json", LEVELFIELD_CACHE=str(copy / "cache"))
    rows = _execute(OLD / "cache", "SELECT metric, count(*) FROM segments GROUP BY metric")
    assert json.loads(found)["values"] == dict(rows[0])


def test_an_old_study_is_finished_and_only_measured_anew_under_new_signatures(copy: Path) -> None:
    study = copy / "finished"
    status = json.loads(run(study, "study", "status", "study.toml", "--json"))
    assert {cell["state"] for cell in status["cells"]} == {"done"}
    texts = {file: file.read_bytes() for file in study.rglob("answers.jsonl")}
    again = json.loads(run(study, "study", "run", "study.toml", "--json"))
    assert (again["asked_now"], again["measured_now"]) == (0, 2)
    assert texts
    assert {file: file.read_bytes() for file in texts} == texts
    before = {file: file.read_bytes() for file in study.rglob("*.*") if file.is_file()}
    again = json.loads(run(study, "study", "run", "study.toml", "--json"))
    assert (again["asked_now"], again["measured_now"]) == (0, 0)
    assert {file: file.read_bytes() for file in before} == before


def test_an_old_study_is_reported_as_it_was_but_for_intervals(copy: Path) -> None:
    study = copy / "finished"
    run(study, "study", "report", "study.toml", "--out", "tables")
    now, before = (
        [
            {k: v for k, v in row.items() if k not in ("low", "high")}
            for row in csv.DictReader((study / folder / "numbers.csv").open(encoding="utf-8"))
        ]
        for folder in ("tables", "expected")
    )
    assert now == before
    assert now


def test_an_old_study_is_audited_as_it_was(copy: Path) -> None:
    found = json.loads(run(copy / "finished", "study", "audit", "study.toml", "--json"))
    expected = json.loads((OLD / "finished" / "expected" / "audit.json").read_text("utf-8"))
    assert not list(golden.differences(expected, found, golden.EXACT))


def test_an_old_study_that_was_interrupted_goes_on_where_it_stopped(copy: Path) -> None:
    study = copy / "interrupted"
    status = json.loads(run(study, "study", "status", "study.toml", "--json"))
    assert [(c["system"], c["state"], c["answered"]) for c in status["cells"]] == [
        ("scribe", "done", 6),
        ("walker", "failed", 2),
    ]
    again = json.loads(run(study, "study", "run", "study.toml", "--json"))
    assert again["asked_now"] == 1
    assert {(c["system"], c["state"], c["answered"]) for c in again["cells"]} == {
        ("scribe", "done", 6),
        ("walker", "done", 6),
    }
    (answers,) = study.glob("answers/cells/walker/**/answers.jsonl")
    said = [record["text"].rpartition("said ")[2] for record in records(answers)]
    numbers = [0, 1, 0, 1, 2, 3]  # two of the old run, four that the new one asks for
    assert said == [f"{number} people." for number in numbers]


@pytest.mark.parametrize(
    "name", ["ratings.jsonl", "ratings.csv", "events.jsonl", "raters.csv", "comments.jsonl"]
)
def test_an_old_rating_store_exports_the_same(copy: Path, name: str) -> None:
    run(copy / "rating", "rate", "export", "STUDY.toml", "--store", "store.sqlite", "--out", "now")
    now, before = (
        (copy / "rating" / folder / name).read_text(encoding="utf-8")
        for folder in ("now", "expected")
    )
    assert now == before


def test_an_old_rating_store_remembers_its_raters(copy: Path) -> None:
    words = ("rate", "status", "STUDY.toml", "--store", "store.sqlite", "--json")
    raters = json.loads(run(copy / "rating", *words))["raters"]
    assert [(one["rater"], one["phase"], one["done"]) for one in raters] == [
        ("r1", "done", 6),
        ("r2", "rating", 1),
        ("r3", "withdrawn", 0),
    ]


def test_old_scores_and_old_ratings_are_correlated(copy: Path) -> None:
    words = ("--ratings", "rating/expected/ratings.jsonl", "--systems", "these", "--json")
    found = json.loads(run(copy, "correlate", "rating/scores.jsonl", *words))
    expected = json.loads((OLD / "rating" / "expected" / "correlations.json").read_text("utf-8"))
    assert "|family:aspect|" in found.pop("signature")
    assert expected.pop("signature")
    assert found.pop("systems") == "these"
    assert found.pop("speaks_of")
    assert {one.pop("corrected") for one in found["correlations"]} == {None}
    assert found.pop("within_systems")
    for correlations in (expected["correlations"], found["correlations"]):
        for statistic in (s for one in correlations for s in one["statistics"].values()):
            for key in ("low", "high", "why_no_interval"):  # three clusters have no interval now
                statistic.pop(key, None)
    assert not list(golden.differences(expected, found, golden.EXACT))
