"""What is the user's mistake gets one line and exit code 2, and is never said to be ours."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from command_line import Run, Write
from levelfield.core.strings import finite_number, json_text, whole_number

LONG = "x" * 300
DISTINCT = ("-m", "diversity.distinct-1")
RATED = [
    {"id": str(i), "text": "a b", "ratings": {"style": {"ann": i % 3, "bob": i % 2}}}
    for i in range(6)
]
SCORES = [{"id": "0", "metric": "m", "value": 1, "signature": "m"}]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("score", LONG, *DISTINCT), "File name too long"),
        (("score", "t.jsonl", *DISTINCT, "--out", LONG), "File name too long"),
        (("score", "t.jsonl", *DISTINCT, "--parts", LONG), "File name too long"),
        (("score", "t.jsonl", *DISTINCT, "--report", LONG), "File name too long"),
        (("correlate", "s.jsonl", "--ratings", LONG), "File name too long"),
        (("agreement", LONG), "File name too long"),
        (("study", "run", LONG), "File name too long"),
        (("study", "status", LONG), "File name too long"),
        (("study", "report", LONG), "File name too long"),
        (("study", "audit", LONG), "File name too long"),
        (("rate", "check", LONG), "File name too long"),
        (("rate", "status", LONG), "File name too long"),
        (("rate", "links", LONG), "File name too long"),
        (("rate", "export", LONG, "--out", "o"), "File name too long"),
    ],
)
def test_a_path_that_is_too_long_is_the_users_mistake(
    run: Run, write: Write, words: tuple[str, ...], said: str
) -> None:
    write("t.jsonl", RATED)
    write("s.jsonl", SCORES)
    assert said in run(*words).complaint


@pytest.mark.parametrize("device", ["xyz", "", "cuda:x", "cuda:1_0", "meta", "cpu:"])
def test_a_device_that_has_no_such_name_is_refused_whatever_is_measured(
    run: Run, write: Write, device: str
) -> None:
    texts = write("t.jsonl", [{"text": "a b", "source": "a"}])
    for metric in ("diversity.distinct-1", "cosine.source"):
        complaint = run("score", texts, "-m", metric, "--device", device).complaint
        expected = f'"{device}": expected auto, cpu, cuda, cuda:1, mps or xpu'
        assert complaint == f"levelfield score: Invalid value for '--device': {expected}"
    complaint = run("score", texts, "-m", "cosine.source", "-o", "batch_tokens=-1").complaint
    assert "batch_tokens=-1: expected a whole number from 1 on" in complaint


def test_a_device_that_is_not_in_this_machine_is_refused(run: Run, write: Write) -> None:
    texts = write("t.jsonl", [{"text": "a b", "source": "a"}])
    complaint = run("score", texts, "-m", "cosine.source", "--device", "cuda:99").complaint
    assert "device 'cuda:99' can't be used here" in complaint


def test_a_file_that_an_option_names_is_the_users_mistake(run: Run, write: Write) -> None:
    texts = write("t.jsonl", [{"text": "a b", "source": "a"}])
    assert (
        "neither a folder nor"
        in run("score", texts, "-m", "cosine.source", "--model", LONG).complaint
    )
    words = ("-m", "bertscore.source", "-o", f"idf={LONG}")
    assert "File name too long" in run("score", texts, *words).complaint


@pytest.mark.parametrize(
    "words",
    [
        ("correlate", "s.jsonl", "--ratings", "t.jsonl", "--alpha", "nan"),
        ("correlate", "s.jsonl", "--ratings", "t.jsonl", "--alpha", "inf"),
        ("correlate", "s.jsonl", "--ratings", "t.jsonl", "--alpha", "0.0_5"),
        ("correlate", "s.jsonl", "--ratings", "t.jsonl", "--resamples", "1_0"),
        ("correlate", "s.jsonl", "--ratings", "t.jsonl", "--seed", "-1"),
        ("agreement", "t.jsonl", "--seed", "-1"),
        ("agreement", "t.jsonl", "--worst", "1_0"),
        ("score", "t.jsonl", *DISTINCT, "--seed", "1_0"),
        ("train", "judge", "t.jsonl", "--out", "o", "--share", "nan"),
        ("train", "judge", "t.jsonl", "--out", "o", "--learning-rate", "nan"),
        ("train", "judge", "t.jsonl", "--out", "o", "--l2", "inf"),
        ("train", "judge", "t.jsonl", "--out", "o", "--range", "nan", "1"),
    ],
)
def test_a_number_is_finite_in_range_and_written_as_people_do(
    run: Run, write: Write, words: tuple[str, ...]
) -> None:
    write("t.jsonl", RATED)
    write("s.jsonl", SCORES)
    complaint = run(*words).complaint
    assert "Invalid value" in complaint


@pytest.mark.parametrize(
    ("metric", "option", "said"),
    [
        ("rouge-1.references", "beta=nan", "expected a number"),
        ("rouge-1.references", "beta=inf", "expected a number"),
        ("rouge-1.references", "beta=1_0", "expected a number"),
        ("diversity.distinct-1", "floor=1_0", "expected a whole number"),
        ("chrf.references", f"char_order={10**30}", "expected a whole number from 1 to 100"),
    ],
)
def test_an_option_of_a_metric_is_a_number_as_people_write_it(
    run: Run, write: Write, metric: str, option: str, said: str
) -> None:
    texts = write("t.jsonl", [{"text": "a b", "references": ["a"]}])
    assert said in run("score", texts, "-m", metric, "-o", option).complaint


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.jsonl", '{"text": "a", "text": "b"}', '"text" appears twice in an object'),
        ("t.jsonl", '{"text": "a", "control": {"x": "b", "x": "c"}}', '"x" appears twice'),
        ("t.json", '[{"text": "a", "text": "b"}]', '"text" appears twice in an object'),
        ("t.csv", 'text,control\na,"{""x"": ""b"", ""x"": ""c""}"\n', '"x" appears twice'),
        ("t.csv", "text,seed\na,1_0\n", "seed: expected a whole number"),
        ("t.csv", "text,ratings.style.ann\na,1_0\n", "expected a number"),
        ("t.jsonl", '{"text": ' + "[" * 100_000, "nested too deeply"),
        ("t.json", "[" * 100_000, "nested too deeply"),
    ],
)
def test_what_a_record_can_not_be_is_said_with_its_place(
    run: Run, write: Write, name: str, content: str, said: str
) -> None:
    complaint = run("score", write(name, content), *DISTINCT).complaint
    assert complaint.startswith(f"{name}:")
    assert said in complaint


@pytest.mark.parametrize(
    "command",
    [
        ("study", "run"),
        ("study", "audit"),
        ("study", "report"),
        ("rate", "check"),
        ("rate", "links"),
        ("rate", "export", "--out", "o"),
    ],
)
def test_toml_that_is_nested_too_deeply_is_the_users_mistake(
    run: Run, write: Write, command: tuple[str, ...]
) -> None:
    nested = write("t.toml", "a = " + "[" * 100_000)
    assert run(*command, nested).complaint.startswith(("t.toml: not a TOML file", "t.sqlite: "))


def test_a_document_on_stdout_has_null_for_what_is_no_number() -> None:
    document = {"mean": float("nan"), "all": [(float("inf"), 1.5)], "of": {"é": -float("inf")}}
    assert json_text(document) == '{"mean": null, "all": [[null, 1.5]], "of": {"é": null}}'
    assert json.loads(json_text(document, indent=2))["all"] == [[None, 1.5]]


def test_commands_print_documents_by_one_function() -> None:
    from levelfield import cli

    for module in Path(cli.__file__).parent.rglob("*.py"):
        assert "json.dumps" not in module.read_text(encoding="utf-8"), module


@pytest.mark.parametrize("word", ["1_0", "1.5", "x", "nan"])
def test_a_whole_number_is_written_with_digits(word: str) -> None:
    assert whole_number(" -12 ") == -12
    with pytest.raises(ValueError, match=re.escape(word)):
        whole_number(word)


@pytest.mark.parametrize("word", ["1_0", "nan", "-inf", "1e999", "x"])
def test_a_finite_number_is_finite(word: str) -> None:
    assert finite_number("-1e2") == -100
    with pytest.raises(ValueError, match=re.escape(word)):
        finite_number(word)


def test_an_empty_name_of_a_published_table_lists_them_as_no_name_does(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LEVELFIELD_DATA", raising=False)
    assert run("reproduce", "").out == run("reproduce").out


def test_what_the_operating_system_refuses_is_no_mistake_of_ours(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "/a/place\n")

    monkeypatch.setattr("levelfield.scoring.run.measure", refuses)
    complaint = run("score", write("t.jsonl", [{"text": "a"}]), *DISTINCT).complaint
    assert complaint == '"/a/place\\n": Permission denied; check the path'


def test_a_command_that_is_ended_half_way_has_not_succeeded(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(*_: object, **__: object) -> None:
        raise SystemExit(0)

    monkeypatch.setattr("levelfield.scoring.run.measure", ends)
    ran = run("score", write("t.jsonl", [{"text": "a"}]), *DISTINCT)
    assert ran.code == 1
    assert "half way" in ran.err
