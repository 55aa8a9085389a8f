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
    prompts = [(f"Opening {n}", [word]) for n in range(3) for word in ("sun", "rain")]
    rows = [
        {"prompt": prompt, "control": {"keywords": words}, "text": f"{prompt} and sun."}
        for prompt, words in prompts
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


FOREIGN = """
name = "Somebody's"
seeds = [1]
metrics = ["evil.py:Shortness"]
datasets.openings.prompts = ["Opening 0", "Opening 1"]
controls.sentiment.sentiment = ["positive"]

[[systems]]
name = "S"
files = "{system}.jsonl"

[[systems]]
name = "T"
files = "{system}.jsonl"
"""
EVIL = """
from pathlib import Path

import numpy as np

from levelfield.core.scores import Scores

Path(__file__).with_name("marker").touch()


class Shortness:
    name, level, requires = "shortness", "sample", frozenset({"text"})
    higher_is_better, signature = False, "shortness|v:1"

    def score(self, samples, **_):
        values = np.array([float(len(sample.text)) for sample in samples])
        return Scores(self.name, tuple(s.id for s in samples), values, {}, self.signature, False)
"""


def texts(*texts: str) -> str:
    """Returns the answers of a system to the prompts of the study."""
    control = {"sentiment": "positive"}
    records = [
        {"prompt": f"Opening {i}", "text": text, "control": control} for i, text in enumerate(texts)
    ]
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A study file of somebody else with a metric in a file, and its texts."""
    for name, content in {
        "study.toml": FOREIGN,
        "evil.py": EVIL,
        "S.jsonl": texts("A day", "A night"),
        "T.jsonl": texts("A long day", "A long night"),
    }.items():
        tmp_path.joinpath(name).write_text(content, encoding="utf-8")
    return tmp_path / "study.toml"


def read(file: Path) -> None:
    """Reads a study in every way."""
    study = load_study(file)
    study.status()
    study.audit()
    study.report()
    study.export(file.with_name("texts.jsonl"), "texts")
    study.export(file.with_name("scores.jsonl"), "scores")


def test_reading_a_study_runs_nothing_of_its_folder(foreign: Path) -> None:
    marker = foreign.with_name("marker")
    load_study(foreign).run(scores=False)
    read(foreign)
    assert not marker.exists()

    notes: list[str] = []
    load_study(foreign).measure(cache=False, note=notes.append)
    assert any("evil.py:Shortness runs Python from a file (sha256:" in note for note in notes)
    marker.unlink()
    read(foreign)
    assert not marker.exists()


def test_the_results_say_which_end_of_a_metric_in_a_file_is_better(foreign: Path) -> None:
    load_study(foreign).run(cache=False)
    foreign.with_name("evil.py").unlink()
    (control,) = load_study(foreign).report().summary.controls
    assert control.measure("shortness").direction == "lower"

    for stamp in foreign.parent.glob("study.study/cells/**/measured.json"):  # an earlier version
        record = json.loads(stamp.read_text("utf-8"))
        del record["directions"], record["digest"], record["files"]
        stamp.write_text(json.dumps(record), "utf-8")
    (control,) = load_study(foreign).report().summary.controls
    assert control.measure("shortness").direction == "none"


def test_the_metric_by_which_a_technique_ranks_is_not_run_to_read_a_study(foreign: Path) -> None:
    technique = """technique = "best-of-n"
options = { metric = "./evil.py:Shortness", metric_options = "" }
"""
    text = FOREIGN.replace('files = "{system}.jsonl"\n', technique, 1)
    foreign.write_text(text, encoding="utf-8")
    status = load_study(foreign).status()
    assert status.counts == {"missing": 2}
    assert not foreign.with_name("marker").exists()


def test_a_run_says_what_is_wrong_with_a_metric_in_a_file_before_any_work(foreign: Path) -> None:
    foreign.with_name("evil.py").unlink()
    with pytest.raises(UserError, match=r"evil\.py: No such file"):
        load_study(foreign).run()
    foreign.with_name("evil.py").write_text(EVIL.replace('{"text"}', '{"source"}'), "utf-8")
    with pytest.raises(UserError, match="reads source, which a study's texts don't have"):
        load_study(foreign).run()
    assert not foreign.with_name("study.study").exists()
