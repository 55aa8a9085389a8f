"""`levelfield reproduce`: a report of published numbers, for people and for programs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from command_line import Run
from tiny_sets import absent_set, tiny_set, use_sets


@pytest.fixture
def no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVELFIELD_DATA", str(tmp_path / "nothing"))


@pytest.fixture
def data(rated_data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEVELFIELD_DATA", str(rated_data))
    return rated_data


@pytest.mark.usefixtures("no_data")
def test_without_an_id_every_table_is_listed(run: Run):
    ran = run("reproduce")
    assert ran.code == 0
    for id in ("ctrleval.3", "lpf.8a", "thesis.11", "cdm.9"):
        assert id in ran.out
    assert "18 can't be derived (18 without a model)" in ran.out
    assert "20 can't be derived" in ran.out
    [line] = [line for line in ran.out.splitlines() if line.startswith("can't be derived: ")]
    assert " for files that are not here, " in line
    assert " for what was not released, " in line


@pytest.mark.usefixtures("no_data")
def test_without_data_the_report_says_what_to_fetch_and_succeeds(run: Run):
    ran = run("reproduce", "thesis.10")
    assert ran.code == 0
    assert "can't be derived" in ran.out
    assert "BART.human.txt and 8 more (`levelfield data fetch formality-judgements`)" in ran.out
    assert "surveys 2 and 5" in ran.out


@pytest.mark.usefixtures("data")
def test_a_table_is_shown_number_by_number_with_what_differs(run: Run):
    ran = run("reproduce", "thesis.11")
    assert ran.code == 0
    [line] = [line for line in ran.out.splitlines() if "differs" in line and "85.2" in line]
    assert "85.119" in line
    assert "-0.081" in line
    assert "26 same, 1 differs" in ran.out
    assert "known discrepancies" in ran.out


@pytest.mark.usefixtures("data")
def test_a_paper_is_shown_by_what_needs_a_look(run: Run):
    ran = run("reproduce", "lpf")
    assert ran.code == 0
    assert "204 same, 4 differs" in ran.out
    assert "rounded twice" in ran.out
    assert "alphabetically last label" in ran.out
    assert "92.63" not in ran.out


@pytest.mark.usefixtures("data")
def test_json_is_one_document_with_every_number(run: Run):
    report = run("reproduce", "lpf.8a", "--json").json
    [table] = report["tables"]
    assert table["counts"] == {
        "same": 78,
        "differs": 0,
        "can't be derived": 0,
        "not comparable": 0,
    }
    [cell] = [n for n in table["numbers"] if (n["row"], n["column"]) == ("GeDi", "majority")]
    assert cell["published"] == "97.4"
    assert cell["derived"] == pytest.approx(97.398, abs=5e-4)
    assert cell["verdict"] == "same"
    assert any("alphabetically last" in fact["what"] for fact in report["facts"])


@pytest.mark.usefixtures("no_data")
def test_json_names_the_files_that_are_missing(run: Run):
    [table] = run("reproduce", "cdm.2", "--json").json["tables"]
    cell = next(n for n in table["numbers"] if n["row"] == "DEAM")
    assert cell["derived"] is None
    assert "data/fed/fed_test_coherence.txt" in cell["missing"]
    assert cell["command"] == "levelfield data fetch deam"
    assert "fed_test_coherence" in cell["why"]
    doubtful = run("reproduce", "thesis.4", "--json").json["tables"][0]["numbers"]
    assert [n["row"] for n in doubtful if "doubt" in n] == ["Mean"]


@pytest.mark.usefixtures("no_data")
def test_a_printed_number_in_doubt_is_marked(run: Run):
    out = run("reproduce", "thesis.4").out
    assert "0.367 ?" in out
    assert "the mean of the nine cells above it is 0.361" in out


@pytest.mark.parametrize(
    ("id", "meant"), [("lpf.88", "lpf.8"), ("tesis", "thesis"), ("LPF.8", "lpf.8")]
)
def test_an_unknown_id_gets_one_line_with_a_suggestion(run: Run, id: str, meant: str):
    complaint = run("reproduce", id).complaint
    assert f"no table '{id}'" in complaint
    assert meant in complaint


@pytest.mark.usefixtures("no_data")
def test_all_leaves_out_what_needs_a_model(run: Run):
    out = run("reproduce", "all").out
    assert "missing: the model google/pegasus-large (12)" in out
    assert "`levelfield" not in out.partition("known discrepancies")[0]


@pytest.mark.usefixtures("no_data")
def test_one_table_names_the_command_that_fills_each_gap(run: Run):
    out = run("reproduce", "ctrleval.6").out
    assert "(`levelfield reproduce ctrleval.6 --model google/pegasus-large`) (3)" in out


@pytest.mark.usefixtures("data")
def test_correlations_of_the_thesis_over_pairs_are_an_option(run: Run):
    def rouge(*more: str) -> dict[str, object]:
        [table] = run("reproduce", "thesis.6", *more, "--json").json["tables"]
        return next(n for n in table["numbers"] if n["column"] == "ROUGE-1")

    over_pairs = rouge("--pairs")
    assert over_pairs["derived"] != rouge()["derived"]
    assert over_pairs["verdict"] == "not comparable"
    assert "ROUGE of the raw texts" in str(over_pairs["why"])


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    use_sets(monkeypatch, tiny_set(), absent_set())


@pytest.mark.usefixtures("tiny")
def test_defaults_are_shown_with_intervals_roles_and_what_is_left_out(run: Run):
    ran = run("reproduce", "defaults", "--metric", "chrf", "-m", "diversity")
    assert ran.code == 0
    assert "40 texts in 20 clusters; chosen on: it was so" in ran.out
    assert re.search(
        r"^chrf\.source +40 +0 +0\.\d{3} \[0\.\d\d, 0\.\d\d\] +0\.\d{3}", ran.out, re.M
    )
    assert "deam.dstc9  not here: levelfield data fetch TINY" in ran.out
    assert "in no table, one value for many texts: diversity.*" in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80


@pytest.mark.usefixtures("tiny")
def test_defaults_as_json_are_one_document(run: Run):
    document = run("reproduce", "defaults.ctrleval.sentiment", "-m", "chrf", "--json").json
    [rated_set] = document["sets"]
    assert rated_set["metrics"][0]["aspects"][0]["n"] == 40
    assert document["command"] == "levelfield reproduce defaults.ctrleval.sentiment --metric chrf"


@pytest.mark.usefixtures("tiny")
def test_the_page_of_defaults_is_written_again_over_itself(run: Run, tmp_path: Path):
    words = ("reproduce", "defaults", "--metric", "chrf", "--markdown", tmp_path / "page.md")
    assert run(*words).code == 0
    first = (tmp_path / "page.md").read_bytes()
    again = run(*words)
    assert again.code == 0
    assert (tmp_path / "page.md").read_bytes() == first
    assert again.err.endswith("page.md\n")
    assert run(*words[:-1], "-").out.encode() == first
    (tmp_path / "own.md").write_text("my notes")
    assert "--force" in run(*words[:-1], tmp_path / "own.md").complaint


def test_words_of_defaults_and_of_tables_are_not_mixed(run: Run):
    assert "levelfield reproduce defaults" in run("reproduce", "lpf.8", "--most", 100).complaint
    assert "--model" in run("reproduce", "defaults", "--model", "offline/minilm").complaint
    assert "defaults.ctrleval" in run("reproduce", "defaults.ctrlevel").complaint
    assert "20 texts" in run("reproduce", "defaults", "--most", 5).complaint


@pytest.mark.usefixtures("no_data")
def test_the_list_has_the_rated_sets_with_their_roles(run: Run):
    out = run("reproduce").out
    assert re.search(r"^defaults\.ctrleval\.topic .*not here \(never looked at\) *$", out, re.M)
