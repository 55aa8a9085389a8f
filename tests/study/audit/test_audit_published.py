"""The published study: its folders read as cells, and what the audit finds in them by itself."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from levelfield.core.errors import UserError
from levelfield.study.audit import Finding, audit
from levelfield.study.cells import CellKey, GroupValue, Rate
from levelfield_reproductions.study_layout import published_cells

GEDI = "gedi-sts_benchmark_test-sentiment-None-len100-789"
FALCON = "falcon-40b-instruct-pplm_prompts-keywords-zero_shot-len100-9817"
PPLM = "pplm-cloze_2018_test-multiple-None-len50-3443"
FIELDS = ("id", "original_id", "prompt", "control_attribute_value", "text")


def run_folder(root: Path, name: str) -> Path:
    control = next(c for c in ("sentiment", "topic", "keywords", "multiple") if f"-{c}-" in name)
    folder = root / "results" / control / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def put_results(root: Path, name: str, results: Mapping[str, object]) -> None:
    path = run_folder(root, name) / f"evaluation_results_{name}.json"
    path.write_text(json.dumps(results), encoding="utf-8")


def put_texts(root: Path, name: str, rows: Sequence[Sequence[str]]) -> None:
    path = run_folder(root, name) / f"processed_{name}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([FIELDS, *rows])


def accuracies_of(**accuracies: float) -> dict[str, dict[str, float]]:
    return {value: {"accuracy": percent} for value, percent in accuracies.items()}


def test_results_and_texts_of_a_run_are_one_cell(tmp_path):
    put_results(
        tmp_path,
        GEDI,
        {
            "perplexity": {
                "one": {"positive": 8.5, "overall": 9.5, "overall_slor": 2, "overall_unigram": 0.1},
                "two": {"positive": 6.5, "overall": float("nan")},
            },
            "a/judge": accuracies_of(positive=97.5, negative=96, overall=96.75),
            "binary": accuracies_of(overall=0.96),
            "distinct-n": {"overall": {"dist1": 0.5, "dist2": 0.75}, "positive": {"dist1": 0.55}},
            "control_effectiveness_majority": accuracies_of(positive=100, negative=97),
        },
    )
    put_texts(tmp_path, GEDI, [("0_positive", "0", "A dog", "positive", "A dog ran.")])
    (cell,) = published_cells(tmp_path)
    assert cell.key == CellKey("gedi", "sts_benchmark_test", "sentiment", 789)
    (sample,) = cell.samples
    assert (sample.text, sample.prompt, sample.control) == (
        "A dog ran.",
        "A dog",
        {"sentiment": "positive"},
    )
    assert sample.extra["request"] == "0_positive"
    assert cell.asked == 625
    assert cell.rates == (
        Rate("a/judge", "positive", 97.5),
        Rate("a/judge", "negative", 96.0),
        Rate("a/judge", "", 96.75),
        Rate("majority", "positive", 100.0),
        Rate("majority", "negative", 97.0),
    )
    assert cell.groups == (
        GroupValue("fluency.perplexity", "positive", 8.5, 625),
        GroupValue("fluency.perplexity", "", 9.5, 625),
        GroupValue("fluency.slor", "", 2.0, 625),
        GroupValue("fluency.perplexity", "positive", 6.5, 625),
        GroupValue("diversity.distinct-1", "", 0.5, 625),
        GroupValue("diversity.distinct-1", "positive", 0.55, 625),
        GroupValue("diversity.distinct-2", "", 0.75, 625),
        GroupValue("control.binary", "", 0.96, 625),
    )


def test_keywords_and_several_attributes_are_read_as_far_as_they_are_there(tmp_path):
    coverage = {"soft": 0.9, "strict": 0.25, "coverage_score": 0.5, "original_coverage_score": 0.6}
    put_results(tmp_path, FALCON, {"word_coverage": {"overall": coverage, "oak#elm": coverage}})
    put_results(
        tmp_path,
        PPLM,
        {
            "judge": accuracies_of(positive=60, World=25),
            "multiple": {
                "overall": {"accuracy": 12.5},
                "sentiment": {"accuracy": 50, "f1": 49},
                "topic": {"accuracy": 25.5},
                "settings": [1, 2],
            },
        },
    )
    row = ("7_x", "7", "very_positive science:So", "positive#World", "So it goes.")
    put_texts(tmp_path, PPLM, [row])
    keywords, multiple = published_cells(tmp_path)
    assert keywords.key.system == "falcon-40b-instruct zero_shot"
    assert keywords.groups[:2] == (
        GroupValue("keywords.any", "", 0.9, 35),
        GroupValue("keywords.any", "oak, elm", 0.9, 35),
    )
    assert [g.metric for g in keywords.groups if not g.value_asked] == [
        "keywords.any",
        "keywords.all",
        "keywords.cov",
        "keywords.ext-cov",
    ]
    assert (keywords.rates, keywords.samples) == ((), ())
    assert multiple.rates == (
        Rate("both", "", 12.5),
        Rate("sentiment", "", 50.0),
        Rate("topic", "", 25.5),
    )
    assert multiple.groups == (
        GroupValue("control.judge", "positive", 60.0, 1571),
        GroupValue("control.judge", "World", 25.0, 1571),
    )
    assert multiple.samples[0].control == {"sentiment": "positive", "topic": "World"}
    assert audit([keywords, multiple])


def test_cells_with_coverage_alone_are_there_and_a_run_that_stopped_early_lacks_its_texts(tmp_path):
    coverage = {"soft": 0.9, "strict": 0.25, "coverage_score": 0.5, "original_coverage_score": 0.6}
    values = [f"oak#{tree}" for tree in ("elm", "fir", "ash", "yew", "box", "bay", "fig")]
    results = {"word_coverage": {"overall": coverage, **dict.fromkeys(values, coverage)}}
    rows = [
        (f"{n}_{value}", f"{n}", f"The {n}", value, f"The {n} oak {value} and {n}.")
        for value in values
        for n in range(35)
    ]
    name = "bolt-pplm_prompts-keywords-None-len50-"
    for seed, n in (("789", 245), ("9817", 98)):
        put_results(tmp_path, name + seed, results)
        put_texts(tmp_path, name + seed, rows[:n])
    put_results(tmp_path, name + "3443", results)
    put_results(tmp_path, FALCON, results)
    cells = published_cells(tmp_path)
    assert [cell.asked for cell in cells] == [245] * 4
    findings = audit(cells)
    short = [f for f in findings if (f.check, f.severity) == ("missing-texts", "serious")]
    assert [(f.system, f.seed, f.n, f.of) for f in short] == [("bolt", 9817, 147, 245)]
    lacking = [f.system for f in findings if f.check == "missing-cell"]
    assert lacking == ["falcon-40b-instruct zero_shot"]  # the seeds that it has no results of
    (bare,) = [f for f in findings if (f.check, f.severity) == ("missing-texts", "note")]
    assert (bare.n, bare.of) == (2, 4)


def test_any_level_of_the_layout_may_be_named_and_nothing_is_written(tmp_path):
    put_results(tmp_path, GEDI, {"judge": accuracies_of(positive=50)})
    put_texts(tmp_path, FALCON, [("1", "PPLM-Discrim_1", "The book", "oak#elm", "The book.")])
    partial = run_folder(tmp_path, GEDI) / f"evaluation_results_ppl_{GEDI}.json"
    partial.write_text("{}", encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    controls = [cell.key.control for cell in published_cells(tmp_path)]
    assert controls == ["keywords", "sentiment"]
    assert published_cells(tmp_path / "results") == published_cells(str(tmp_path))
    for below in ("results/sentiment", f"results/sentiment/{GEDI}"):
        assert [cell.key.control for cell in published_cells(tmp_path / below)] == ["sentiment"]
    assert sorted(tmp_path.rglob("*")) == before


def test_folders_that_are_not_in_the_layout_are_one_line(tmp_path):
    with pytest.raises(UserError, match=r"no evaluation_results_<run>\.json or processed_"):
        published_cells(tmp_path)
    put_results(tmp_path, GEDI, {})
    path = run_folder(tmp_path, GEDI) / f"evaluation_results_{GEDI}.json"
    path.write_text("[1]", encoding="utf-8")
    with pytest.raises(UserError, match="expected a JSON object"):
        published_cells(tmp_path)
    path.write_text("{}", encoding="utf-8")
    longer = GEDI.replace("len100", "len20")
    put_results(tmp_path, longer, {})
    with pytest.raises(UserError, match=f"{longer}.*another run of gedi / sts_benchmark_test"):
        published_cells(tmp_path)


@pytest.fixture(scope="module")
def findings(rated_data: Path) -> list[Finding]:
    if not (rated_data / "lpf" / "results").is_dir():
        pytest.skip("the published results of the level-playing-field study are not there")
    return audit(published_cells(rated_data / "lpf"))


def about(findings: Sequence[Finding], check: str, severity: str = "serious") -> set[str]:
    """Returns the systems and kinds of control of the findings of a check."""
    return {
        f"{f.system or 'several'}, {f.control}"
        for f in findings
        if (f.check, f.severity) == (check, severity)
    }


def sentence(findings: Sequence[Finding], check: str, control: str, system: str = "") -> str:
    (finding,) = [f for f in findings if (f.check, f.control, f.system) == (check, control, system)]
    return finding.what


@pytest.mark.slow
def test_the_control_that_changes_nothing_is_that_of_dexperts_alone(findings):
    assert {f.system for f in findings if f.check == "control-changes-nothing"} == {"dexperts"}
    text = sentence(findings, "control-changes-nothing", "sentiment", "dexperts")
    assert "strength 0.01 (95 % interval" in text


@pytest.mark.slow
def test_byte_identical_seeds_of_cbart_are_found(findings):
    assert about(findings, "identical-seeds") == {"ctg_bart, keywords"}
    text = sentence(findings, "identical-seeds", "keywords", "ctg_bart")
    assert "100 % of the pairs" in text
    # its decoder is greedy and only its control codes are drawn
    assert about(findings, "identical-seeds", "warning") == {"ctrl, topic"}


@pytest.mark.slow
def test_instructed_systems_do_not_continue_their_prompt_and_all_others_do(findings):
    instructed = ("falcon-40b-instruct", "Llama-2-70b-chat-hf")
    assert about(findings, "prompt-not-continued") == {
        f"{system} {shots}, {control}"
        for system in instructed
        for shots in ("zero_shot", "few_shot")
        for control in ("sentiment", "topic")
    }
    assert about(findings, "prompt-not-continued", "warning") == set()
    assert about(findings, "wrong-request") == about(findings, "wrong-request", "warning") == set()
    leftover = {who.split()[0] for who in about(findings, "leftover-markup")}
    assert leftover == set(instructed)


@pytest.mark.slow
def test_the_majority_that_is_none_is_found_for_both_kinds_of_control(findings):
    assert about(findings, "majority-is-none") == {"several, sentiment", "several, topic"}
    text = sentence(findings, "majority-is-none", "sentiment")
    assert text.startswith("130 of 264 rates of the majority")
    assert "in all 132 cells the alphabetically last value is never below the best judge" in text


@pytest.mark.slow
def test_lengths_that_differ_many_times_over_are_found(findings):
    assert about(findings, "length-differs") == {"several, sentiment", "several, topic"}
    assert "texts of ctrl are 10.3 times" in sentence(findings, "length-differs", "topic")


@pytest.mark.slow
def test_repeats_typed_labels_label_sets_scales_and_biased_judges_are_found(findings):
    assert about(findings, "repetition") == {"ctrl, topic"}
    assert sentence(findings, "repetition", "topic", "ctrl").startswith("69 % of the 4-grams")
    # the codes of ctrl are those it was trained on
    assert about(findings, "label-in-input", "warning") == {"pplm, sentiment", "pplm, topic"}
    text = sentence(findings, "label-in-input", "sentiment", "pplm")
    assert "'very_negative:' 105, 'very_positive:' 105" in text
    text = sentence(findings, "label-sets-differ", "topic")
    assert "cat_paw only Science/Technology; ctrl not World; pplm only Science" in text
    text = sentence(findings, "mixed-scales", "topic")
    assert "judge AGnews-checkpoint-6000_binary (0.534 to 0.999)" in text
    text = sentence(findings, "judge-biased", "sentiment")
    assert "Yelp2-checkpoint-64000 prefers negative by 25 points" in text
    assert about(findings, "judge-biased", "warning") == {"several, topic"}


@pytest.mark.slow
def test_findings_can_be_read_in_one_sitting(findings):
    assert len(findings) <= 45
    assert all("\n" not in f.what and len(f.what) <= 420 for f in findings)
    assert sum(f.severity == "serious" for f in findings) <= 30
