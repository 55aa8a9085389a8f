"""`levelfield study`: run, status, audit, report and export on small studies."""

from __future__ import annotations

import csv
import json
import signal
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from command_line import Run, Write, finish, records, start

SYSTEM = """
import json, sys, time
for n, line in enumerate(sys.stdin):
    request = json.loads(line)
    if {fails} and n == 2:
        sys.exit("no weather today")
    time.sleep({delay})
    (wanted,) = request["control"].values()
    text = f"{{request['prompt']}} had a {{wanted}} day {{request['seed']}}, said {{n}} people."
    print(json.dumps({{"id": request["id"], "text": text, "tokens": 9}}), flush=True)
"""
STUDY = """
name = "Days"
seeds = [1, 2]
metrics = ["diversity.distinct-1", "keywords.any"]

[datasets.things]
prompts = ["The lake", "The road", "The 🐈"]

[controls.keywords]
keywords = [["sunny", "rain"], ["wet"]]

[[systems]]
name = "plain"
command = [{python}, "plain.py"]

[[systems]]
name = "other <b>"
command = [{python}, "other.py"]
retries = 0
"""


@pytest.fixture
def study(write: Write) -> Write:
    """Writes a study of two systems; the second may fail after two answers."""

    def write_study(fails: bool = False, delay: float = 0.0) -> str:
        write("plain.py", SYSTEM.format(fails=False, delay=delay))
        write("other.py", SYSTEM.format(fails=fails, delay=delay))
        return write("study.toml", STUDY.format(python=json.dumps(sys.executable)))

    return write_study


def test_from_a_study_file_to_the_tables(run: Run, study: Write, here: Path) -> None:
    file = study()
    ran = run("study", "run", file, "--jobs", 2)
    assert ran.code == 0, ran
    assert "12 of 12" in ran.out
    made = here / "study.study" / "cells" / "plain" / "things" / "keywords" / "seed-1"
    assert len(records(made / "texts.jsonl")) == 6
    scores = records(made / "scores.jsonl")
    assert {score["metric"] for score in scores} == {"keywords.any"}
    assert {g["value_asked"] for g in records(made / "groups.jsonl")} == {"sunny, rain", "wet"}

    ran = run("study", "report", file, "--out", "tables")
    assert ran.code == 0, ran
    assert "keywords" in ran.out
    page = (here / "tables" / "page.html").read_text(encoding="utf-8")
    assert "other &lt;b&gt;" in page
    assert "other <b>" not in page
    rows = list(csv.DictReader((here / "tables" / "numbers.csv").open(encoding="utf-8")))
    whole = {
        row["system"]: float(row["mean"])
        for row in rows
        if (row["measure"], row["dataset"], row["value"]) == ("keywords.any", "all", "all")
    }
    assert whole == {"plain": 100.0, "other <b>": 100.0}
    assert r"\toprule" in (here / "tables" / "tables.tex").read_text(encoding="utf-8")


def test_a_second_run_asks_and_measures_nothing(run: Run, study: Write) -> None:
    file = study()
    first = run("study", "run", file, "--json").json
    assert (first["asked_now"], first["measured_now"]) == (4, 4)
    again = run("study", "run", file, "--json").json
    assert (again["asked_now"], again["measured_now"]) == (0, 0)
    assert {cell["state"] for cell in again["cells"]} == {"done"}


def test_another_metric_is_measured_without_asking_again(
    run: Run, study: Write, here: Path
) -> None:
    file = study()
    run("study", "run", file)
    path = here / file
    path.write_text(path.read_text("utf-8").replace("keywords.any", "keywords.all"), "utf-8")
    again = run("study", "run", file, "--json").json
    assert (again["asked_now"], again["measured_now"]) == (0, 4)


def test_texts_that_are_there_are_measured_without_asking(run: Run, study: Write) -> None:
    file = study()
    complaint = run("study", "measure", file).complaint
    assert complaint == (
        "study.toml: there are no texts yet; `levelfield study run study.toml --no-scores` gets "
        "them"
    )
    run("study", "run", file, "--only", "plain", "--no-scores")
    measured = run("study", "measure", file, "--json").json
    assert (measured["asked_now"], measured["measured_now"]) == (0, 2)
    states = {cell["system"]: cell["state"] for cell in measured["cells"]}
    assert states == {"plain": "done", "other <b>": "missing"}
    again = run("study", "measure", file, "--only", "plain", "--json").json
    assert again["measured_now"] == 0
    assert run("study", "run", file, "--json").json["measured_now"] == 2


def test_stale_texts_are_not_measured(run: Run, study: Write, here: Path) -> None:
    file = study()
    run("study", "run", file, "--no-scores")
    other = here / "other.py"
    other.write_text(other.read_text("utf-8") + "\n# another system\n", "utf-8")
    measured = run("study", "measure", file)
    assert measured.code == 0, measured
    assert "note: 2 stale cells are left alone" in measured.err
    assert not (here / "study.study/cells/other b/things/keywords/seed-1/scores.jsonl").exists()
    assert len(list(here.glob("study.study/cells/*/*/*/*/scores.jsonl"))) == 2


def test_a_failed_cell_is_told_and_the_rest_goes_on(run: Run, study: Write) -> None:
    file = study(fails=True)
    ran = run("study", "run", file)
    assert ran.code == 1
    assert "no weather today" in ran.err
    assert "2 of 4 cells failed" in ran.err
    assert "4 of 12" in ran.out
    cells = run("study", "status", file, "--json").json["cells"]
    by_system = {cell["system"]: cell["state"] for cell in cells}
    assert by_system == {"plain": "done", "other <b>": "failed"}
    report = run("study", "report", file)
    assert report.code == 0, report
    assert "Missing: 8 requests have no answer" in report.out


def test_one_system_can_be_run(run: Run, study: Write) -> None:
    file = study()
    ran = run("study", "run", file, "--only", "plain", "--no-scores", "--json").json
    assert {cell["system"] for cell in ran["cells"]} == {"plain"}
    assert ran["measured_now"] is None
    complaint = run("study", "run", file, "--only", "plane").complaint
    assert complaint == "--only plane: study.toml has the systems plain, other <b>"


def test_the_audit_finds_what_is_missing(run: Run, study: Write) -> None:
    file = study()
    run("study", "run", file, "--only", "plain", "--no-scores")
    found = run("study", "audit", file, "--json").json["findings"]
    missing = [f for f in found if f["check"] == "missing-cell"]
    assert {f["system"] for f in missing} == {"other <b>"}
    assert run("study", "audit", file, "--fail-on", "serious").code == 1
    shown = run("study", "audit", file)
    assert shown.code == 0
    assert "missing-cell" in shown.out


def test_texts_that_stand_in_training_data_are_told(run: Run, study: Write, write: Write) -> None:
    file = study()
    run("study", "run", file)
    texts = [
        json.loads(line)["text"]
        for path in Path("study.study/cells/plain").rglob("texts.jsonl")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    training = write("training.txt", "\n".join(texts))
    for options, found in (((), []), (("--training", training), ["plain", "other <b>"])):
        told = json.loads(run("study", "audit", file, "--json", *options).out)["findings"]
        copied = [f["system"] for f in told if f["check"] == "copied-texts"]
        assert set(copied) == set(found)


def test_without_texts_there_is_nothing_to_report(run: Run, study: Write) -> None:
    file = study()
    for command in ("audit", "report"):
        complaint = run("study", command, file).complaint
        assert complaint.startswith("study.toml: there are no texts yet; `levelfield study run")


def test_texts_and_scores_in_one_file(run: Run, study: Write, here: Path) -> None:
    file = study()
    run("study", "run", file)
    ran = run("study", "export", file, "--texts", "all.jsonl", "--scores", "scores.parquet")
    assert ran.code == 0, ran
    assert len({record["id"] for record in records("all.jsonl")}) == 24
    assert pl.read_parquet(here / "scores.parquet").height == 24
    again = run("score", "all.jsonl", "-m", "keywords.any", "--json").json
    assert again["metrics"][0]["overall"]["mean"] == 1
    assert "--texts FILE" in run("study", "export", file).complaint


def test_mistakes_in_a_study_file_are_all_said(run: Run, write: Write) -> None:
    ran = run("study", "run", write("s.toml", 'name = ""\nseeds = []\nmetrics = ["keyword"]\n'))
    assert ran.code == 2
    assert "Traceback" not in ran.err
    lines = ran.err.splitlines()
    assert len(lines) >= 4
    assert all(line.startswith("error: s.toml: ") for line in lines)
    assert "did you mean" in ran.err


def test_a_published_folder_is_read_and_left_as_it_is(run: Run, write: Write, here: Path) -> None:
    name = "gedi-pplm_prompts-sentiment-None-len100-{seed}"
    for seed in (789, 3443):
        run_name = name.format(seed=seed)
        rows = "".join(
            f"PPLM-Discrim_{n}_positive,PPLM-Discrim_{n},The sea,positive,The sea sang {n}.\n"
            for n in range(9)
        )
        header = "id,original_id,prompt,control_attribute_value,text\n"
        folder = f"lpf/results/sentiment/{run_name}"
        write(f"{folder}/processed_{run_name}.csv", header + rows)
    before = sorted(here.rglob("*"))
    found = run("study", "audit", "lpf", "--json").json["findings"]
    assert "identical-seeds" in {finding["check"] for finding in found}
    assert sorted(here.rglob("*")) == before


@pytest.mark.slow
def test_sigterm_keeps_what_was_answered(study: Write, here: Path) -> None:
    file = study(delay=0.3)
    process = start("study", "run", str(here / file), "--no-scores")
    partial = here / "study.study" / "cells" / "plain" / "things" / "keywords" / "seed-1"
    deadline = time.monotonic() + 50
    while time.monotonic() < deadline:
        kept = partial / "answers.partial.jsonl"
        if kept.is_file() and kept.read_text("utf-8").count("\n") >= 3:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)  # of Ctrl-C: tests/study/test_run.py
    ran = finish(process)
    assert ran.code == 143, ran
    assert "ended by a signal: the answers so far are kept" in ran.err
    again = finish(start("study", "run", str(here / file), "--no-scores", "--json"))
    assert again.code == 0, again
    cells = again.json["cells"]
    assert all(cell["answered"] == 6 for cell in cells)
