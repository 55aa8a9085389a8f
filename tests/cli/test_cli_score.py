"""`levelfield score`: the numbers, and every form in which it hands them over."""

from __future__ import annotations

import json
import math
import os
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from command_line import Run, Write, finish, records, start, values
from levelfield.io import load_samples

EXAMPLES = Path(__file__).parents[2] / "examples" / "texts.jsonl"

RAIN = "It rained all night. The river rose and the cellar filled with water."
SUN = "The sun came out. We hung our coats over the fence to dry."


def rows(n: int, system: str = "") -> list[dict[str, str]]:
    return [
        {
            "id": f"{system}{i}",
            "system": system,
            "prompt": f"Day {i}",
            "text": f"Day {i} " * (i + 1),
        }
        for i in range(n)
    ]


@pytest.mark.slow
def test_rated_texts_give_a_table_by_label_values_by_text_and_agree_with_people(
    run: Run, rated_data: Path
) -> None:
    file = rated_data / "ctrleval" / "data" / "data_senti.txt"
    ran = run("score", file, "--format", "ctrleval", "--metric", "ctrleval")
    assert ran.code == 0
    assert re.search(r"coherence ↑ +consistency ↑$", ran.out, re.MULTILINE)
    row = r"^(?:positive|negative|all) +[\d–]+ +0\.\d{3}(?: .*)? 0\.\d{3}"
    assert len(re.findall(row, ran.out, re.MULTILINE)) == 3

    written = records("scores.jsonl")
    assert len(written) == 1080
    for record in written:
        undefined = ["undefined"] if record["value"] is None else []
        assert list(record) == ["id", "metric", "value", *undefined, "signature"]
        assert record["signature"].startswith(record["metric"] + "|model:offline/minilm@")

    samples = load_samples(file, format="ctrleval")
    for aspect, least in (("coherence", 0.33), ("consistency", 0.38), ("attribute relevance", 0.2)):
        found = values()
        metric = "ctrleval." + aspect.replace(" ", "-")
        pairs = [(found[metric, s.id], s.ratings[aspect]["mean"]) for s in samples]
        x, y = np.array([p for p in pairs if p[0] is not None]).T
        assert np.corrcoef(x, y)[0, 1] >= least, aspect


def test_json_is_one_document_without_nan_and_agrees_with_the_scores_file(
    run: Run, write: Write
) -> None:
    texts = write("t.jsonl", [{"system": "a", "text": RAIN}, {"system": "b", "text": "One only."}])
    ran = run("score", texts, "-m", "ctrleval.coherence", "--json")
    assert ran.code == 0
    assert ran.err == "wrote scores.jsonl\n"
    (metric,) = ran.json["metrics"]
    (value,) = [v for v in values().values() if v is not None]
    assert metric["overall"]["mean"] == pytest.approx(value)
    assert metric["overall"]["undefined"] == 1
    assert metric["undefined"] == {"one sentence only": 1}
    by_group = {g["group"]: g for g in metric["groups"]}
    assert by_group["b"]["mean"] is None
    assert metric["signature"].endswith("|n:2 undefined:1 truncated:0")


def test_scores_on_stdout_are_json_lines_and_nothing_else(
    run: Run, write: Write, words: str
) -> None:
    texts = write("t.jsonl", [{"id": "naïve 🙂", "text": "a b"}, {"id": "2", "text": ""}])
    ran = run("score", texts, "-m", words, "--out", "-")
    assert ran.code == 0
    first, second = map(json.loads, ran.out.splitlines())
    assert (first["id"], first["value"]) == ("naïve 🙂", 2.0)
    assert (second["value"], second["undefined"]) == (None, "empty text")
    assert not Path("scores.jsonl").exists()


def test_stderr_is_silent_when_there_is_nothing_to_say(run: Run, write: Write, words: str) -> None:
    assert run("score", write("t.jsonl", rows(2)), "-m", words, "--out", "-").err == ""


@pytest.mark.slow
def test_no_progress_bar_is_drawn_where_stderr_is_no_terminal(write: Write) -> None:
    texts = write("t.jsonl", [{"text": RAIN}, {"text": SUN}])
    ran = finish(start("score", texts, "-m", "ctrleval.coherence", "--out", "s.jsonl"))
    assert (ran.code, ran.err) == (0, "wrote s.jsonl\n")
    assert len(records("s.jsonl")) == 2


@pytest.mark.parametrize(
    "options",
    [
        ("--json", "--out", "-"),
        ("--json", "--parts", "-"),
        ("--out", "-", "--parts", "-"),
        ("--json", "--report", "-"),
        ("--out", "-", "--report", "-"),
    ],
)
def test_two_outputs_can_not_both_have_stdout(
    run: Run, write: Write, words: str, options: tuple[str, ...]
) -> None:
    assert "stdout" in run("score", write("t.jsonl", rows(2)), "-m", words, *options).complaint


@pytest.mark.slow
def test_parts_weigh_one_in_all_and_add_up_to_the_value(run: Run, write: Write) -> None:
    some = EXAMPLES.read_text(encoding="utf-8").splitlines(keepends=True)[::20]
    texts = write("t.jsonl", "".join(some))
    options = ("score", texts, "-m", "ctrleval", "--parts", "parts.jsonl")
    assert run(*options).code == 0
    weights: dict[tuple[str, str], float] = defaultdict(float)
    sums: dict[tuple[str, str], float] = defaultdict(float)
    for part in records("parts.jsonl"):
        assert list(part) == ["metric", "id", "part", "score", "weight"]
        weights[part["metric"], part["id"]] += part["weight"]
        sums[part["metric"], part["id"]] += part["weight"] * part["score"]
    found = {key: value for key, value in values().items() if value is not None}
    assert set(found) == set(weights)
    assert all(math.isclose(w, 1, abs_tol=1e-9) for w in weights.values())
    assert all(math.isclose(sums[key], value, abs_tol=1e-9) for key, value in found.items())

    fresh = Path("parts.jsonl").read_bytes()
    assert run(*options).code == 0
    assert Path("parts.jsonl").read_bytes() == fresh, "parts out of the cache differ"


def test_a_single_text_has_a_value_and_no_interval(run: Run, write: Write) -> None:
    ran = run("score", write("t.jsonl", [{"text": RAIN}]), "-m", "ctrleval.coherence")
    assert ran.code == 0
    assert re.search(r"^all texts +1 +0\.\d+$", ran.out, re.MULTILINE)
    assert "no interval: one value" in ran.out


def test_a_single_system_is_compared_with_nobody(run: Run, write: Write, words: str) -> None:
    texts = write("t.jsonl", rows(3, "alone"))
    (metric,) = run("score", texts, "-m", words, "--json").json["metrics"]
    assert metric["comparisons"] == []
    assert [g["group"] for g in metric["groups"]] == ["alone"]


def test_all_undefined_is_said_and_is_no_error(run: Run, write: Write) -> None:
    texts = write("t.jsonl", [{"system": "a", "text": ""}, {"system": "b", "text": "Only one."}])
    ran = run("score", texts, "-m", "ctrleval.coherence")
    assert ran.code == 0
    assert "nan" not in ran.out.lower()
    said = " ".join(ran.out.split())
    assert "undefined: empty text: 1, one sentence only: 1" in said
    assert set(values().values()) == {None}
    (metric,) = run("score", texts, "-m", "ctrleval.coherence", "--json").json["metrics"]
    assert metric["overall"]["mean"] is None
    assert {c["p"] for c in metric["comparisons"]} == {None}
    assert run("score", texts, "-m", "ctrleval.coherence", "--report", "page.html").code == 0


@pytest.mark.slow
def test_identical_systems_are_never_called_different(run: Run, write: Write) -> None:
    same = [json.loads(line) for line in EXAMPLES.read_text(encoding="utf-8").splitlines()][:6]
    for twin in ("one", "two"):
        write(f"{twin}.jsonl", [{**s, "id": str(i), "system": twin} for i, s in enumerate(same)])
    options = ("-m", "ctrleval", "--ids", "file", "--report", "page.html", "--pairs")
    ran = run("score", "one.jsonl", "two.jsonl", *options)
    assert ran.code == 0
    assert ran.out.count(": no difference shown") == 3
    assert ran.out.count(": 1 one a, 1 two a") == 3
    assert "*" not in ran.out
    assert "one > two" not in ran.out
    assert "two > one" not in ran.out
    document = run("score", "one.jsonl", "two.jsonl", *options, "--json").json
    for metric in document["metrics"]:
        (comparison,) = metric["comparisons"]
        assert comparison["difference"] == 0
        assert comparison["p_adjusted"] == 1


def test_a_file_per_system_with_equal_ids_needs_ids_by_file(
    run: Run, write: Write, words: str
) -> None:
    for system in ("gedi", "pplm"):
        write(f"{system}.jsonl", [{"id": "1", "text": "a b"}, {"id": "2", "text": system}])
    said = run("score", "gedi.jsonl", "pplm.jsonl", "-m", words)
    assert said.code == 2
    assert all("--ids file" in line for line in said.err.splitlines())
    ran = run("score", "gedi.jsonl", "pplm.jsonl", "-m", words, "--ids", "file")
    assert ran.code == 0
    assert {id for _, id in values()} == {"gedi/1", "gedi/2", "pplm/1", "pplm/2"}
    assert re.search(r"^gedi .*\n^pplm ", ran.out, re.MULTILINE)


def test_texts_come_from_standard_input_too(run: Run, words: str) -> None:
    ran = run("score", "-", "-m", words, "--out", "-", stdin='{"text": "a b c"}\n')
    assert json.loads(ran.out)["value"] == 3


@pytest.mark.parametrize("by", ["system", "dataset", "seed", "control", "control.mood", "none"])
def test_groups_are_what_by_says(run: Run, write: Write, words: str, by: str) -> None:
    record = {"text": "a", "system": "s", "dataset": "d", "seed": 7, "control": {"mood": "glad"}}
    ran = run("score", write("t.jsonl", [record]), "-m", words, "--by", by, "--json")
    expected = {"system": "s", "dataset": "d", "seed": "7", "none": "all texts"}.get(by, "glad")
    assert [g["group"] for g in ran.json["metrics"][0]["groups"]] == [expected]


def test_long_names_of_systems_cost_no_digits_in_a_table_that_is_piped(
    run: Run, write: Write, words: str
) -> None:
    names = [f"a-{'very-' * 20}long-name-{i}" for i in (1, 2)]
    texts = write("t.jsonl", [{"system": n, "text": "w " * 12345} for n in names])
    ran = run("score", texts, "-m", words)
    for name in names:
        (line,) = [row for row in ran.out.splitlines() if row.startswith(name)]
        assert "12,345" in line


def test_all_pairs_are_printed_only_when_asked_for(run: Run, write: Write, words: str) -> None:
    texts = write("t.jsonl", [r for system in "abcdefgh" for r in rows(4, system)])
    assert " − " not in run("score", texts, "-m", words).out
    assert run("score", texts, "-m", words, "--pairs").out.count(" − ") == 28


def test_the_table_goes_into_latex_and_markdown_files(run: Run, write: Write, words: str) -> None:
    texts = write("t.jsonl", [*rows(9, "x"), *rows(9, "y")])
    ran = run("score", texts, "-m", words, "--latex", "t.tex", "--markdown", "t.md", "--json")
    assert ran.err == "wrote scores.jsonl, t.tex, t.md\n"
    (signature,) = (metric["signature"] for metric in ran.json["metrics"])
    assert Path("t.tex").read_text(encoding="utf-8").startswith(f"% {signature}\n")
    assert f"```\n{signature}\n```\n" in Path("t.md").read_text(encoding="utf-8")
    complaint = run("score", texts, "-m", words, "--latex", texts).complaint
    assert complaint.startswith(f"--latex {texts}: ")
    assert "stdout" in run("score", texts, "-m", words, "--latex", "-", "--json").complaint


@pytest.mark.slow
def test_tables_are_printed_on_a_stdout_that_is_not_utf_8(write: Write, words: str) -> None:
    texts = write("t.jsonl", [*rows(9, "schön "), *rows(9, "日本 ")])
    ran = finish(start("score", texts, "-m", words, PYTHONIOENCODING="cp1252"))
    assert (ran.code, ran.err) == (0, "wrote scores.jsonl\n")
    assert "schön" in ran.out
    ran = finish(start("score", texts, "-m", words, "--json", PYTHONIOENCODING="ascii"))
    assert ran.code == 0
    assert {g["group"] for g in ran.json["metrics"][0]["groups"]} == {"schön ", "日本 "}


def test_the_explanation_of_a_metric_is_printed_on_a_stdout_that_is_not_utf_8() -> None:
    ran = finish(start("metrics", "ctrleval.coherence", PYTHONIOENCODING="cp1252"))
    assert ran.code == 0
    assert "NISF" in ran.out


def test_whoever_stops_reading_our_stdout_gets_no_traceback(write: Write, words: str) -> None:
    texts = write("t.jsonl", rows(3000))
    process = start("score", texts, "-m", words, "--out", "-")
    assert process.stdout
    assert process.stderr
    process.stdout.readline()
    os.close(process.stdout.fileno())
    err = process.stderr.read()
    process.wait(60)
    assert err == ""


def test_the_page_shows_texts_that_hold_markup_as_texts(run: Run, write: Write, words: str) -> None:
    texts = write("t.jsonl", [{"id": "<b>", "text": "<script>alert(1)</script>", "system": "<i>"}])
    assert run("score", texts, "-m", words, "--report", "page.html").code == 0
    assert "<script>alert" not in Path("page.html").read_text(encoding="utf-8")


def test_markup_in_names_of_systems_is_no_markup_of_ours(
    run: Run, write: Write, words: str
) -> None:
    texts = write("t.jsonl", [{"text": "a", "system": "[/red]x[bold]"}])
    ran = run("score", texts, "-m", words)
    assert ran.code == 0
    assert "[/red]x[bold]" in ran.out


@pytest.mark.parametrize("option", ["--out", "--parts", "--report"])
def test_what_is_read_is_never_overwritten(run: Run, write: Write, words: str, option: str) -> None:
    texts = write("t.jsonl", rows(2))
    before = Path(texts).read_bytes()
    ran = run("score", texts, "-m", words, option, texts)
    assert Path(texts).read_bytes() == before
    assert texts in ran.complaint


def test_outputs_do_not_overwrite_each_other(run: Run, write: Write, words: str) -> None:
    texts = write("t.jsonl", rows(2))
    ran = run("score", texts, "-m", words, "--out", "same", "--report", "same")
    assert "same" in ran.complaint


def test_slor_counts_the_texts_that_are_scored_however_they_are_named_and_read(
    run: Run, write: Write, causal_folders: dict[str, Path]
) -> None:
    """A column `text` beside the one that is scored, as a prompt column often is called."""
    write("plain.txt", f"{RAIN}\n{SUN}\n")
    swapped = [{"text": SUN, "output": RAIN}, {"text": SUN, "output": SUN}]
    write("mapped.jsonl", swapped)
    Path("mapped.data").write_bytes(Path("mapped.jsonl").read_bytes())
    slor = ("-m", "fluency.slor", "--model", causal_folders["gpt2"], "--json")
    mapped = ("--map", "text=output")

    def said(*words: object, stdin: str = "") -> tuple[str, float]:
        ran = run("score", *words, *slor, "--no-cache", stdin=stdin)
        assert ran.code == 0, ran.err
        (metric,) = ran.json["metrics"]
        return metric["signature"], metric["overall"]["mean"]

    expected = said("plain.txt")
    assert "|unigram:corpus@" in expected[0]
    assert said("plain.txt", "-o", "corpus=plain.txt") == expected
    assert said("mapped.jsonl", *mapped) == expected
    assert said("mapped.data", *mapped, "--format", "jsonl") == expected
    assert said("-", *mapped, stdin=Path("mapped.jsonl").read_text()) == expected
    assert said("mapped.jsonl")[0] != expected[0]
    assert "|unigram:bos|" in said("plain.txt", "-o", "unigram=bos")[0]


def test_own_columns_are_guessed_so_that_the_second_attempt_works(run, write):
    rows = "".join(f"A cat {i} sat.,Cat {i},m{i % 2},The cat {i} sat.\n" for i in range(6))
    for header in ("output,input,mdl,tgt", "decoded,doc_text,engine,gold", "aa,bb,cc,dd"):
        own = write("own.csv", f"{header}\n{rows}")
        words = run("score", own, "--metric", "bleu").complaint.split("for example ")[1].split()
        done = run("score", own, "--metric", "bleu", *words, "--report", "page.html")
        assert done.code == 0, done
        assert "bleu.references" in done.out


def test_plain_text_that_lacks_a_source_is_given_one_line_by_line(run, write):
    own = write("own.txt", "A cat sat.\n")
    assert run("score", own, "-m", "bleu.source").complaint.endswith(
        "give it with --source-file FILE"
    )
    assert "--map references=COLUMN" in run("score", write("t.csv", "text\na\n"), "-m", "bleu").err


def test_everything_that_the_samples_lack_is_said_at_once(run, write):
    own = write("own.csv", "text,gold\nA cat sat.,The cat sat.\n")
    failed = run("score", own, "-m", "bleu.references", "-m", "ctrleval.consistency")
    bleu, ctrleval = failed.err.splitlines()
    assert "bleu.references needs 'references'" in bleu
    assert bleu.endswith('--map references=gold; other columns: "gold"')
    assert "ctrleval.consistency needs 'prompt'" in ctrleval


def test_files_of_lines_are_systems_with_sources_and_references(run, write):
    a, b = write("a.de", "Eins.\nZwei.\n"), write("b.de", "Eins.\nZwo.\n")
    words = ("--source-file", write("s.en", "One.\nTwo.\n"), "--reference-file", a)
    done = run("score", a, b, *words, "-m", "chrf.references")
    assert done.code == 0, done
    assert "compared on 2 inputs" in done.out
    failed = run("score", a, "--source-file", write("s.en", "One.\n"), "-m", "bleu")
    assert failed.complaint.startswith("a.de: 2 lines, and s.en has 1")
