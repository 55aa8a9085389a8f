"""Metrics of other packages: found, listed, used; and what becomes of broken ones."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import Run, Write, records, values
from levelfield.io import load_scores

Announce = Callable[..., None]
TEXTS = [{"id": "a", "text": "one two"}, {"id": "b", "text": ""}, {"id": "c", "text": "one"}]


def test_an_installed_metric_is_listed_and_explained(run: Run, words: str) -> None:
    listed = run("metrics")
    assert listed.code == 0
    assert words in listed.out
    assert "ctrleval.coherence" in listed.out
    (entry,) = run("metrics", words, "--json").json
    assert entry["summary"] == "Words of a text, [counted] between blanks."
    assert entry["from"] == "elsewhere_metrics:Words"
    assert entry["offline"] is True
    assert entry["options"]["scale"] == {
        "default": 1.0,
        "otherwise": "",
        "values": "float",
        "range": "",
        "needed": False,
        "help": "",
    }
    assert "scale=1.0" in run("metrics", words).out


def test_its_summary_is_no_markup(run: Run, words: str) -> None:
    assert words
    assert "[counted]" in " ".join(re.split(r"\s+", run("metrics").out))


def test_its_values_and_reasons_arrive(run: Run, write: Write, words: str) -> None:
    ran = run("score", write("t.jsonl", TEXTS), "-m", "elsewhere")
    assert ran.code == 0
    assert values() == {(words, "a"): 2, (words, "b"): None, (words, "c"): 1}
    assert records("scores.jsonl")[1]["undefined"] == "empty text"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("scale=2.5", 5),
        ("scale=-1e2", -200),
        pytest.param("order=2", 4),
    ],
)
def test_its_options_are_read_by_their_types(
    run: Run, write: Write, words: str, option: str, value: float
) -> None:
    ran = run("score", write("t.jsonl", TEXTS), "-m", words, "--option", option)
    assert ran.code == 0, ran
    assert values()[words, "a"] == value


@pytest.mark.parametrize(("option", "said"), [("scale=big", "a number"), ("order=3", "1 or 2")])
def test_an_option_of_the_wrong_type_says_what_was_expected(
    run: Run, write: Write, words: str, option: str, said: str
) -> None:
    complaint = run("score", write("t.jsonl", TEXTS), "-m", words, "-o", option).complaint
    assert complaint == f"{words}: option {option}: expected {said}"


def test_a_new_option_is_a_new_signature_so_the_cache_holds_no_wrong_value(
    run: Run, write: Write, words: str
) -> None:
    texts = write("t.jsonl", TEXTS)
    for scale in ("1", "3", "1"):
        assert run("score", texts, "-m", words, "-o", f"scale={scale}").code == 0
        assert values()[words, "a"] == 2 * float(scale)


BROKEN = {
    "absent_module": "nowhere_to_be_found:Metric",
    "absent_class": "elsewhere_metrics:Absent",
    "no_metric": "elsewhere_metrics:np",
    "unreadable": "elsewhere_metrics:Unreadable",
    "demanding": "elsewhere_metrics:Demanding",
    "fails": "elsewhere_metrics:Fails",
    "forgets": "elsewhere_metrics:Forgets",
    "wants": "elsewhere_metrics:Wants",
}


def test_broken_metrics_never_keep_the_others_from_being_listed(
    run: Run, announce: Announce
) -> None:
    ours = {one["name"] for one in run("metrics", "--json").json}
    broken = {**BROKEN, "unprintable": "elsewhere_metrics:Unprintable"}
    names = {f"elsewhere.{name.replace('_', '-')}" for name in broken}
    announce(**broken)
    listed = run("metrics")
    assert listed.code == 0, listed.err
    assert "elsewhere." in listed.out
    assert "ctrleval.coherence" in listed.out
    as_json = run("metrics", "--json")
    assert as_json.code == 0, as_json.err
    assert {one["name"] for one in as_json.json} == ours | names
    for name in names:
        assert run("metrics", name).code == 0, name


@pytest.mark.parametrize("name", [name for name in BROKEN if name != "unreadable"])
def test_a_broken_metric_is_named_and_the_user_is_told_that_it_is_not_ours(
    run: Run, announce: Announce, write: Write, name: str
) -> None:
    announce(**{name: BROKEN[name]})
    metric = f"elsewhere.{name.replace('_', '-')}"
    texts = write("t.jsonl", TEXTS)
    ran = run("score", texts, "-m", metric)
    assert ran.code in (1, 2)
    assert metric in ran.err.splitlines()[0]
    assert "a bug in levelfield" not in ran.err
    assert run("score", texts, "-m", "ctrleval.coherence").code == 0


def test_an_infinite_value_is_kept_cached_printed_and_read_again(
    run: Run, announce: Announce, write: Write
) -> None:
    announce(infinite="elsewhere_metrics:Infinite")
    texts = write("t.jsonl", TEXTS)
    for _ in range(2):  # the second time from the cache
        ran = run("score", texts, "-m", "elsewhere.infinite", "--json")
        assert ran.code == 0, ran.err
        assert ran.json["metrics"][0]["overall"]["mean"] == "inf"
        assert {r["value"] for r in records("scores.jsonl")} == {"inf", None}
    (column,) = load_scores("scores.jsonl")
    assert [column.values[id] for id in "ac"] == [math.inf, math.inf]
    page = run("score", texts, "-m", "elsewhere.infinite", "--report", "page.html")
    assert page.code == 0, page.err
    assert "∞" in page.out
    assert "a mean over these is infinite" in " ".join(page.out.split())
    assert "∞" in Path("page.html").read_text(encoding="utf-8")


def test_a_metric_without_a_better_end_has_no_best_no_arrow_and_no_rank(
    run: Run, announce: Announce, write: Write
) -> None:
    announce(length="elsewhere_metrics:Length")
    rows = [
        {"id": f"{system}{i}", "text": "So it was." * n, "system": system, "prompt": f"P{i}"}
        for system, n in (("long", 5), ("short", 1))
        for i in range(20)
    ]
    texts = write("t.jsonl", rows)
    ran = run("score", texts, "-m", "elsewhere.length", "--report", "page.html", "--pairs",
              "--latex", "t.tex", "--markdown", "t.md")  # fmt: skip
    assert ran.code == 0, ran.err
    assert "long higher than short" in ran.out
    page = Path("page.html").read_text(encoding="utf-8")
    body = page[page.index("<body") :]
    assert "no end is better" in body
    assert "▲" not in body
    assert "▼" not in body
    assert 'class="num best' not in body
    assert "best mean" not in body
    assert "is better than" not in body
    for text in (ran.out, Path("t.tex").read_text(), Path("t.md").read_text()):
        assert not any(mark in text for mark in ("↑", "↓", "arrow", "textbf", "**", "best"))
    document = run("score", texts, "-m", "elsewhere.length", "--json").json
    (metric,) = document["metrics"]
    assert metric["higher_is_better"] is None
    assert [(p["rank"], p["best"]) for p in metric["ranking"]] == [(None, False)] * 2
    assert metric["ranking"][0]["letters"] != metric["ranking"][1]["letters"]


def test_a_metric_may_read_whatever_a_table_holds(
    run: Run, announce: Announce, here: object
) -> None:
    import datetime

    import polars as pl

    assert here
    announce(reads_extra="elsewhere_metrics:ReadsExtra")
    day = datetime.date(2020, 2, 29)
    pl.DataFrame({"text": ["a b"], "day": [day]}).write_parquet("t.parquet")
    ran = run("score", "t.parquet", "-m", "elsewhere.reads-extra")
    assert ran.code == 0, ran.err


def test_two_packages_that_announce_one_name_do_no_harm_to_the_rest(
    run: Run, announce: Announce, write: Write
) -> None:
    announce(words="elsewhere_metrics:Words")
    announce(words="elsewhere_metrics:Infinite")
    assert run("metrics").code == 0
    assert run("score", write("t.jsonl", TEXTS), "-m", "ctrleval.coherence").code == 0


def blamed(run: Run, metric: str, *words: str) -> str:
    """The line on a metric of another package: its name, and no word of a mistake of ours."""
    ran = run("score", "t.jsonl", "-m", metric, "--no-cache", *words)
    assert ran.code in (1, 2), ran
    (said,) = ran.err.splitlines()
    assert metric in said
    assert "a bug in levelfield" not in said
    return said


@pytest.mark.parametrize("at", ["init", "signature", "score", "costs"])
def test_a_metric_that_ends_the_program_as_if_all_were_well_is_an_error_and_named(
    run: Run, announce: Announce, write: Write, at: str
) -> None:
    announce(quits="elsewhere_metrics:Quits")
    write("t.jsonl", TEXTS)
    said = blamed(run, "elsewhere.quits", "-o", f"at={at}")
    assert "SystemExit" in said
    assert "elsewhere_metrics.py:Quits" in said
    assert "--debug" in said


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("none", "NoneType, expected Scores"),
        ("int", "float64"),
        ("list", "values must be an array"),
        ("blank", "a reason must be"),
        ("number", "a reason must be"),
        ("unasked", "every NaN needs a reason and nothing else may have one"),
        ("other", "a name or signature other"),
        ("signature", "a name or signature other"),
        ("parts", "the columns of parts must be id, part, score, weight"),
    ],
)
def test_what_a_metric_gives_is_checked(
    run: Run, announce: Announce, write: Write, what: str, said: str
) -> None:
    announce(wrong="elsewhere_metrics:Wrong")
    write("t.jsonl", TEXTS)
    assert said in blamed(run, "elsewhere.wrong", "-o", f"what={what}")


@pytest.mark.parametrize(
    ("what", "said"), [("none", "TypeError"), ("text", "TypeError"), ("nan", "NaN needs a reason")]
)
def test_what_a_metric_of_a_corpus_gives_is_checked(
    run: Run, announce: Announce, write: Write, what: str, said: str
) -> None:
    announce(wrong_corpus="elsewhere_metrics:WrongCorpus")
    write("t.jsonl", TEXTS)
    assert said in blamed(run, "elsewhere.wrong-corpus", "-o", f"what={what}")


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("nothing", "can't report its name"),
        ("Odd", "expected one of sample, corpus"),
        ("Unsigned", "expected a string that is not empty"),
        ("Asked", "can't report its options: SystemExit"),
    ],
)
def test_what_is_no_metric_is_said_to_be_none(
    run: Run, announce: Announce, write: Write, at: str, said: str
) -> None:
    announce(**{at.lower(): f"elsewhere_metrics:{at}"})
    write("t.jsonl", TEXTS)
    assert said in blamed(run, f"elsewhere.{at.lower()}")
    assert run("metrics", "--json").code == 0


def test_a_module_that_ends_the_program_when_it_is_imported_is_an_error(
    run: Run, announce: Announce, write: Write, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "quitting.py").write_text("raise SystemExit(0)")
    monkeypatch.syspath_prepend(str(here))
    announce(quits="quitting:Metric")
    write("t.jsonl", TEXTS)
    assert "SystemExit" in blamed(run, "elsewhere.quits")


def test_a_metric_of_ours_that_fails_is_our_mistake(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    from levelfield.metrics.keywords import KeywordsCoverage

    monkeypatch.setattr(KeywordsCoverage, "score", lambda *_, **__: 1 / 0)
    write("t.jsonl", [{"text": "a", "control": {"keywords": ["a"]}}])
    ran = run("score", "t.jsonl", "-m", "keywords.coverage", "--no-cache")
    assert ran.code == 1
    assert "this is a bug in levelfield: metric 'keywords.coverage'" in ran.err


def test_a_metric_that_hangs_ends_with_its_time_and_the_cache_keeps_the_rest(
    run: Run, write: Write, announce: Callable[..., None]
) -> None:
    announce(hangs="elsewhere_metrics:Hangs")
    texts = [{"id": str(n), "text": "hang" if n == 70 else f"text {n}"} for n in range(80)]
    write("texts.jsonl", texts)
    ran = run("score", "texts.jsonl", "-m", "elsewhere.hangs", "--time-limit", "0.2")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "error: metric 'elsewhere.hangs' failed on one of the samples '64' to '79': it took longer "
        "than 0.2 s, its time limit\n"
    )
    assert not Path("scores.jsonl").exists()
    assert run("cache", "info", "--json").json["values"] == {"elsewhere.hangs": 64}


def test_a_metric_that_hangs_in_a_study_ends_with_its_time(
    run: Run, write: Write, announce: Callable[..., None]
) -> None:
    announce(hangs="elsewhere_metrics:Hangs")
    write("texts.jsonl", [{"id": "0001:calm", "text": "hang"}])
    write(
        "study.toml",
        'name = "N"\nseeds = [1]\nmetrics = ["elsewhere.hangs"]\n'
        '[datasets.d]\nprompts = ["A"]\n[controls.c]\nmood = ["calm"]\n'
        '[[systems]]\nname = "s"\nfiles = "texts.jsonl"\n',
    )
    ran = run("study", "run", "study.toml", "--time-limit", "0.2")
    assert ran.code == 1
    assert "metric 'elsewhere.hangs' failed on" in ran.err
    assert "it took longer than 0.2 s, its time limit" in ran.err
    assert run("study", "status", "study.toml", "--json").json["cells"][0]["state"] == "done"


def test_a_class_in_a_file_is_explained_and_scores_without_being_installed(
    run: Run, write: Write
) -> None:
    write("mine.py", f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
          "from elsewhere_metrics import Words\n\nclass Mine(Words):\n    \"\"\"Mine.\"\"\"\n"
          "    name = 'mine.words'\n")  # fmt: skip
    (entry,) = run("metrics", "mine.py:Mine", "--json").json
    assert (entry["name"], entry["summary"], entry["from"]) == (
        "mine.words",
        "Mine.",
        "mine.py:Mine",
    )
    ran = run("score", write("t.jsonl", TEXTS), "-m", "mine.py:Mine", "-o", "scale=2")
    assert ran.code == 0, ran
    assert values() == {("mine.words", "a"): 4, ("mine.words", "b"): None, ("mine.words", "c"): 2}
    assert "|file:mine.py|sha256:" in records("scores.jsonl")[0]["signature"]
    complaint = run("score", "t.jsonl", "-m", "mine.py:Yours").complaint
    assert "there is mine.py:Mine" in complaint
