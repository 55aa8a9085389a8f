"""`levelfield compare` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import Run, Write
from others_logs import (
    inspect_log,
    lm_eval_line,
    write_helm,
    write_inspect_eval,
    write_inspect_json,
    write_lm_eval,
)

A = {"match": {(i, 1): "CCCI"[i % 4] for i in range(24)}}
B = {"match": {(i, 1): "CIII"[i % 4] for i in range(24)}}


@pytest.fixture
def logs(here: Path) -> tuple[str, str]:
    write_inspect_eval(here / "a.eval", inspect_log("lab/a", A), zstandard=True)
    write_inspect_json(here / "b.json", inspect_log("lab/b", B))
    return "a.eval", "b.json"


def test_two_logs_are_compared_in_one_command(run: Run, logs: tuple[str, str]):
    ran = run("compare", *logs)
    assert ran.code == 0, ran
    assert ran.err == ""
    lines = ran.out.splitlines()
    assert "  lab/a: 0.75 [0.55, 0.88], n = 24" in lines
    assert "  lab/b: 0.25 [0.12, 0.45], n = 24" in lines
    (line,) = [line for line in lines if line.startswith("  lab/a − lab/b = 0.50 [")]
    assert line.endswith("n = 24 inputs: lab/a > lab/b")
    assert "means equal to those that the logs state: 2" in lines


def test_json_has_means_that_logs_state_and_verdicts(run: Run, logs: tuple[str, str]):
    document = run("compare", *logs, "--json").json
    (metric,) = document["metrics"]
    systems = {system["group"]: system for system in metric["systems"]}
    assert systems["lab/a"]["mean"] == systems["lab/a"]["stated"] == 0.75
    assert metric["comparisons"][0]["verdict"] == "lab/a > lab/b"
    assert document["notes"] == []


def test_folders_of_harnesses_are_compared(run: Run, here: Path):
    lines = [lm_eval_line(i, {"acc": i % 2}) for i in range(8)]
    for model in ("one", "two"):
        write_lm_eval(here / model, {"arc": lines}, model=model)
        write_helm(here / f"helm-{model}", {"f1": {("id1", 0): 1.0, ("id2", 0): 0.5}}, model=model)
    ran = run("compare", "one", "two", "--markdown", "table.md")
    assert ran.code == 0, ran
    assert "acc,none" in Path("table.md").read_text()
    assert run("compare", "helm-one/", "helm-two", "--latex", "-").out.startswith("% ")


def test_what_one_log_has_alone_is_a_note(run: Run, here: Path, logs: tuple[str, str]):
    short = {"match": {key: value for key, value in B["match"].items() if key[0] > 1}}
    write_inspect_json(here / "b.json", inspect_log("lab/b", short))
    ran = run("compare", *logs)
    assert ran.code == 0
    assert ran.err == "note: 2 of 24 samples of lab/a are not in lab/b: 0, 1\n"


def test_other_files_are_scored(run: Run, write: Write):
    rows = [
        {"id": i, "text": text, "source": f"s{i}", "references": [f"the sun shines {i}"]}
        for i, text in enumerate(["the sun shines", "sun"] * 4)
    ]
    one = write("one.jsonl", rows)
    two = write("two.jsonl", [{**row, "text": "rain"} for row in rows])
    ran = run("compare", one, two, "-m", "rouge-1.references", "--no-cache")
    assert ran.code == 0, ran
    assert "  one − two = " in ran.out
    ran = run("compare", one, two, "-m", "diversity.distinct-1", "--no-cache")
    assert "  two: 0.125, n = 1" in ran.out.splitlines()  # a value of a corpus has no interval


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("a.eval",), "one system only (lab/a); name a second log to compare it with"),
        (("a.eval", "b.json", "-m", "exact"), "no log has the score exact; there are match"),
        (("a.eval", "none.eval"), "none.eval: No such file or directory; check the name"),
        (
            ("a.eval", "b.json", "--direction", "match=best"),
            "direction of match: expected higher or lower, the end that is better; found best",
        ),
        (
            ("a.eval", "cut.eval"),
            "cut.eval: can't be read as a log of Inspect: not a whole zip file: File is not a zip "
            "file; copy it again, or rewrite it with `inspect log convert`",
        ),
        (
            ("a.eval", "b.json", "--thoughts", "remove"),
            "--thoughts applies to texts that are scored; these logs are compared by the scores "
            "that they contain",
        ),
        (("a.eval", "empty.eval"), "no samples in empty.eval; is it the file you mean?"),
        (
            ("a.eval", "binary.eval"),
            "binary.eval: can't be read as a log of Inspect: not JSON: expected an object, which "
            "begins with { (at character 1); copy it again, or rewrite it with `inspect log "
            "convert`",
        ),
    ],
)
def test_mistakes_get_one_line(
    run: Run, here: Path, logs: tuple[str, str], words: tuple[str, ...], complaint: str
):
    (here / "cut.eval").write_bytes((here / logs[0]).read_bytes()[:500])
    (here / "binary.eval").write_bytes(b"[1]")
    write_inspect_eval(here / "empty.eval", inspect_log("lab/e", {}))
    assert run("compare", *words).complaint == complaint


def test_correlate_takes_scores_of_a_log_by_their_path(run: Run, here: Path, write: Write):
    write_inspect_json(here / "log.json", inspect_log("lab/a", A))
    ratings = [
        {"id": str(i), "aspect": "right", "rater": "ann", "value": i % 4 == 0} for i in range(24)
    ]
    write("ratings.jsonl", [{**rating, "value": int(rating["value"])} for rating in ratings])
    ran = run(
        "correlate", "log.json", "--map", "metric.match=logged.scores.match",
        "--ratings", "ratings.jsonl", "--json",
    )  # fmt: skip
    assert ran.code == 0, ran
    assert json.dumps(ran.json).count('"match"') > 0
    unnamed = run("correlate", "log.json", "--ratings", "ratings.jsonl").complaint
    assert unnamed.endswith("for example --map metric.match=logged.scores.match")
