"""`levelfield score` with metrics that have one value a corpus."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from command_line import Run, Write, values

Announce = Callable[..., None]
TEXTS = [
    {"id": "1", "text": "one two", "system": "x", "seed": 1},
    {"id": "2", "text": "two three", "system": "x", "seed": 1},
    {"id": "3", "text": "four", "system": "x", "seed": 2},
    {"id": "4", "text": "", "system": "y", "seed": 1},
]


@pytest.fixture
def types(announce: Announce) -> str:
    announce(types="elsewhere_metrics:Types")
    return "elsewhere.types"


def test_there_is_a_value_for_each_corpus_and_a_mean_for_each_system(
    run: Run, write: Write, types: str
) -> None:
    ran = run("score", write("t.jsonl", TEXTS), "-m", types, "--json")
    assert values() == {
        (types, "system=x seed=1"): 3,
        (types, "system=x seed=2"): 1,
        (types, "system=y seed=1"): None,
    }
    (metric,) = ran.json["metrics"]
    x, y = metric["groups"]
    assert (x["mean"], x["n"], x["defined"]) == (2, 2, 2)
    assert (y["mean"], y["undefined"]) == (None, 1)
    assert metric["undefined"] == {"no words": 1}
    assert x["low"] is None
    assert metric["comparisons"] == []


def test_what_a_corpus_is_can_be_chosen(run: Run, write: Write, types: str) -> None:
    texts = write("t.jsonl", TEXTS)
    run("score", texts, "-m", types, "--corpus-by", "system")
    assert values() == {(types, "system=x"): 4, (types, "system=y"): None}
    run("score", texts, "-m", types, "--corpus-by", "none")
    assert values() == {(types, "all texts"): 4}
    complaint = run("score", texts, "-m", types, "--corpus-by", "weather").complaint
    assert complaint.startswith("--corpus-by weather: expected some of system, dataset")


def test_table_and_page_say_why_there_is_no_interval(run: Run, write: Write, types: str) -> None:
    ran = run("score", write("t.jsonl", TEXTS), "-m", types, "--report", "page.html")
    assert ran.code == 0, ran
    assert "values of corpora" in ran.out


def test_it_stands_beside_metrics_of_samples(run: Run, write: Write, announce: Announce) -> None:
    announce(types="elsewhere_metrics:Types", words="elsewhere_metrics:Words")
    ran = run("score", write("t.jsonl", TEXTS), "-m", "elsewhere", "--json")
    assert {m["metric"] for m in ran.json["metrics"]} == {"elsewhere.types", "elsewhere.words"}
    assert len(values()) == 3 + 4


def test_its_failure_names_it(run: Run, write: Write, types: str) -> None:
    ran = run("score", write("t.jsonl", [{"id": "1", "text": "fail"}]), "-m", types)
    assert ran.code == 1
    assert f"metric '{types}' failed on samples '1' and others" in ran.err


def test_a_metric_without_its_steps_is_named(run: Run, write: Write, announce: Announce) -> None:
    announce(half="elsewhere_metrics:HalfACorpus")
    ran = run("score", write("t.jsonl", TEXTS), "-m", "elsewhere.half")
    assert ran.code == 1
    assert "'elsewhere.half' is a corpus metric and has no state, merge" in ran.err
