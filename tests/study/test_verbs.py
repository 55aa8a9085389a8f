"""The verbs of a study in Python: they say what the commands say, as objects."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
from studies import SCRIPT

from levelfield.core.errors import UserError
from levelfield.core.progress import Progress
from levelfield.study import Study, load_study

STUDY = f"""
name = "Openings"
seeds = [1, 2]
metrics = ["diversity.distinct-1", "keywords.any"]

[datasets.openings]
prompts = ["Opening 0", "Opening 1", "Opening 2"]

[controls.keywords]
keywords = [["sun"], ["rain"]]

[[systems]]
name = "S"
command = {json.dumps([sys.executable, "-S", SCRIPT, "well"])}

[[systems]]
name = "T"
command = {json.dumps([sys.executable, "-S", SCRIPT, "well"])}
"""


@pytest.fixture
def study(tmp_path: Path) -> Study:
    file = tmp_path / "study.toml"
    file.write_text(STUDY, encoding="utf-8")
    return load_study(file)


def test_a_study_is_run_audited_and_reported(study: Study, tmp_path: Path) -> None:
    opened: dict[str, int | None] = {}
    done: dict[str, int] = {}

    @contextmanager
    def stages(name: str, total: int | None) -> Iterator[Progress]:
        opened[name] = total

        def progress(n: int) -> None:
            done[name] = done.get(name, 0) + n

        yield progress

    assert study.status().counts == {"missing": 4}
    run = study.run(jobs=2, cache=False, stages=stages)
    assert opened == done == {"texts": 24, "scores": 48}
    assert (run.asked_now, run.measured_now, run.failed) == (4, 4, ())
    assert run.to_dict()["cells"] == study.status().to_dict()["cells"]
    assert run.to_polars()["state"].to_list() == ["done"] * 4
    assert "S & 2 & 12 of 12" in run.to_latex()

    audit = study.audit()
    assert {finding["check"] for finding in audit.to_dict()["findings"]} >= {"identical-seeds"}
    assert audit.to_polars().height == len(audit.findings)
    assert r"\toprule" in audit.to_latex()
    assert audit.at_least("note") == audit.findings

    report = study.report(seed=1)
    assert report.findings == audit.findings
    assert study.report(audit=False).findings is None
    whole = report.to_polars().filter(pl.col("dataset") == "all", pl.col("value") == "all")
    assert whole.filter(pl.col("measure") == "keywords.any")["n"].to_list() == [12, 12]
    document = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert document["study"] == "Openings"
    compared = document["comparisons"][0]
    assert (compared["a"], compared["b"]) == ("S", "T")
    assert (compared["seeds_a"], compared["seeds_b"]) == (2, 2)
    assert compared["note"].startswith("2 seeds each: ")
    assert report.to_latex().startswith("% keywords.any|match:word|")
    assert "| S | " in report.to_markdown()
    standings = [s for s in document["standings"] if s["measure"] == "keywords.any"]
    assert [s["letters"] for s in standings] == [["a"], ["a"]]
    assert not any(s["best"] for s in standings)
    assert study.export(tmp_path / "texts.jsonl", "texts") == 24


def test_only_some_systems_are_run_and_nothing_is_measured(study: Study) -> None:
    run = study.run(only=("T",), scores=False)
    assert {cell.key.system for cell in run.status.cells} == {"T"}
    assert run.measured_now is None
    with pytest.raises(UserError, match=r"--only U: .* has the systems S, T"):
        study.run(only=["U"])


def test_without_texts_there_is_nothing_to_audit(study: Study) -> None:
    with pytest.raises(UserError, match=re.escape(f"{study.path}: there are no texts yet")):
        study.audit()


def test_a_folder_can_not_be_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="name a study file"):
        load_study(tmp_path).run()


@pytest.mark.parametrize("name", ["x" * 5000, "~nobody-of-that-name/study.toml"])
def test_a_name_that_no_file_can_have_is_the_users_mistake(name: str) -> None:
    with pytest.raises(UserError, match=r"can't be read|there is no file"):
        load_study(name)


@pytest.fixture
def read_study(tmp_path: Path) -> Study:
    """A study of texts that exist, which starts no process; it has been run."""
    asked = [(f"Opening {n}", [word]) for n in range(3) for word in ("sun", "rain")]
    rows = [
        {"prompt": prompt, "control": {"keywords": words}, "text": f"{prompt} and sun."}
        for prompt, words in asked
    ]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = tmp_path / "read.toml"
    head = STUDY.partition("[[systems]]")[0].replace("seeds = [1, 2]", "seeds = [1]")
    file.write_text(f'{head}[[systems]]\nname = "S"\nfiles = "texts.jsonl"\n', encoding="utf-8")
    study = load_study(file)
    study.run()
    return study


@pytest.mark.parametrize("name", ["cell.json", "texts.jsonl", "scores.jsonl", "measured.json"])
def test_a_damaged_file_is_refused_until_the_study_is_run_again(
    read_study: Study, tmp_path: Path, name: str
) -> None:
    report = read_study.report(audit=False).to_dict()
    (path,) = tmp_path.rglob(f"cells/**/{name}")
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"1", b"3"))
    readers = (
        read_study.report,
        read_study.audit,
        lambda: read_study.export(tmp_path / "all.jsonl", "scores"),
        lambda: read_study.export(tmp_path / "all.jsonl", "texts"),
    )
    for read in readers:
        with pytest.raises(UserError, match=f"{name}.*`levelfield study run`"):
            read()
    ((problem,),) = (cell.problems for cell in read_study.status().cells)
    assert name in problem
    notes: list[str] = []
    read_study.run(note=notes.append)
    assert read_study.report(audit=False).to_dict() == report
    assert read_study.status().cells[0].problems == ()
    assert len(notes) == (name == "cell.json")
