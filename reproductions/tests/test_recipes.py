"""What the released data give, and what is said where they are not here."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pytest

import levelfield_reproductions as papers
from levelfield.core.errors import UserError
from levelfield.core.metric import Metric
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.datasets import dataset
from levelfield.datasets import lpf as lpf_runs
from levelfield.datasets.lpf import PublishedRun
from levelfield_reproductions import Reproduction, Verdict
from levelfield_reproductions.recipes import ctrleval, lpf, thesis

# table -> same, differs, can't be derived
COUNTS = {
    "ctrleval.1": (4, 0, 10),
    "ctrleval.2": (6, 0, 2),
    "ctrleval.3": (0, 0, 96),
    "ctrleval.4": (0, 0, 48),
    "ctrleval.5": (0, 0, 18),
    "ctrleval.6": (0, 0, 12),
    "ctrleval.7": (0, 0, 12),
    "ctrleval.figure6": (8, 0, 24),
    "ctrleval.figure7": (4, 0, 8),
    "lpf.2": (2, 0, 2),
    "lpf.7": (0, 0, 24),
    "lpf.8a": (78, 0, 0),
    "lpf.8b": (66, 0, 0),
    "lpf.9a": (78, 0, 0),
    "lpf.9b": (66, 0, 0),
    "lpf.9c": (0, 0, 48),
    "lpf.9d": (0, 0, 54),
    "lpf.10": (204, 4, 0),
    "lpf.11": (174, 2, 0),
    "lpf.12": (0, 0, 144),
    "lpf.13": (0, 0, 144),
    "lpf.14": (12, 0, 25),
    "lpf.15": (0, 0, 66),
    "lpf.16": (8, 0, 8),
    "lpf.text": (17, 1, 4),
    "thesis.3": (0, 0, 0),
    "thesis.4": (0, 0, 20),
    "thesis.5": (0, 0, 0),
    "thesis.6": (0, 0, 2),
    "thesis.7": (0, 0, 81),
    "thesis.8": (0, 0, 81),
    "thesis.9": (0, 0, 18),
    "thesis.10": (4, 0, 0),
    "thesis.11": (26, 1, 0),
    "cdm.1": (2, 0, 5),
    "cdm.2": (2, 0, 34),
    "cdm.3": (0, 0, 36),
    "cdm.4": (0, 0, 64),
    "cdm.5": (0, 0, 28),
    "cdm.6": (0, 0, 56),
    "cdm.8": (2, 0, 12),
    "cdm.9": (0, 0, 12),
    "cdm.10": (4, 0, 2),
    "dexperts.neutral-positive": (45, 0, 0),
    "dexperts.neutral-negative": (0, 0, 45),
    "dexperts.positive-negative": (0, 0, 45),
    "dexperts.negative-positive": (0, 0, 45),
    "dexperts.toxicity": (0, 0, 36),
    "pplm.ablation": (52, 0, 0),
    "pplm.fluency": (24, 0, 0),
}

BESIDE = {"thesis.3": 90, "thesis.5": 90, "thesis.6": 18}
"""Numbers with a value beside them that is of another version of the metric."""


def reproduce(id: str) -> Reproduction:
    [table] = papers.tables(id)
    return papers.derive(table)


def values(id: str) -> dict[tuple[str, str], float | None]:
    return {(o.number.row, o.number.column): o.derived.value for o in reproduce(id).outcomes}


@pytest.mark.thinned
@pytest.mark.usefixtures("open_data")
@pytest.mark.parametrize("id", COUNTS)
def test_verdicts_of_a_table_have_known_counts(id: str):
    counts = reproduce(id).counts
    verdicts = tuple(counts[v] for v in (Verdict.SAME, Verdict.DIFFERS, Verdict.CANNOT))
    assert verdicts == COUNTS[id]
    assert counts[Verdict.OTHER] == BESIDE.get(id, 0)
    assert sum(counts.values()) == sum(verdicts) + BESIDE.get(id, 0)


def test_all_tables_are_counted():
    assert list(COUNTS) == [t.id for t in papers.tables()]


@pytest.mark.slow
@pytest.mark.usefixtures("open_data")
def test_these_cells_differ_and_no_others():
    different = {
        (o.number.table, o.number.row, o.number.column, o.number.printed)
        for table in papers.tables()
        for o in papers.derive(table).outcomes
        if o.verdict is Verdict.DIFFERS
    }
    assert different == {
        ("lpf.10", "Falcon 40B Ov", "SLOR", "12.1"),
        ("lpf.10", "LLaMa2 70B FS", "dist3", "68"),
        ("lpf.10", "GeDi", "dist3", "88.1"),
        ("lpf.10", "GeDi", "SLOR", "11.5"),
        ("lpf.11", "CTRL", "dist2", "4.2"),
        ("lpf.11", "LLaMa2 70B ZS", "dist1", "5.2"),
        ("lpf.text", "LPF and original", "Spearman", "0.37"),
        ("thesis.11", "IBT + SC + BLEU + BLEURT", "content", "85.2"),
    }


@pytest.mark.usefixtures("open_data")
@pytest.mark.parametrize("id", ["lpf.10", "lpf.11"])
def test_every_cell_that_differs_says_that_it_was_rounded_twice(id: str):
    reasons = [o.derived.why for o in reproduce(id).outcomes if o.verdict is Verdict.DIFFERS]
    assert reasons
    assert all(reason.startswith("rounded twice in print: ") for reason in reasons)


def test_a_cell_that_was_not_rounded_twice_does_not_say_so():
    [table] = papers.tables("lpf.13")
    values = dict.fromkeys(((n.row, n.column) for n in table.numbers), papers.Derived(1.0))
    values["Prior CTG", "both"] = papers.Derived(53.9547)  # 53.95, 53.9
    values["Prior CTG", "topic"] = papers.Derived(64.9647)  # 64.96, 65.0
    marked = lpf._marked(values, table)
    assert marked["Prior CTG", "both"].why == "rounded twice in print: 53.955, 53.95, 53.9"
    assert [key for key, derived in marked.items() if derived.why] == [("Prior CTG", "both")]


@pytest.mark.usefixtures("open_data")
def test_known_values():
    assert values("lpf.10")["GeDi", "dist1"] == pytest.approx(10.10, abs=0.005)
    assert values("lpf.9a")["GeDi", "SLOR"] == pytest.approx(11.55, abs=0.005)
    assert values("lpf.8a")["GeDi", "majority"] == pytest.approx(97.40, abs=0.005)
    assert values("cdm.10")["G-Eval (GPT-4)", "binarised"] == pytest.approx(0.6706, abs=5e-5)
    assert values("cdm.2")["DEAM", "FED overall"] == pytest.approx(0.5472, abs=5e-5)
    assert values("thesis.10")["Pearson", "Survey 2"] == pytest.approx(0.6798, abs=5e-5)
    assert values("ctrleval.1")["sentiment", "length"] == pytest.approx(54.24, abs=0.005)


def test_without_data_nothing_is_derived_and_the_files_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LEVELFIELD_DATA", str(tmp_path))
    for table in papers.tables():
        for o in papers.derive(table).outcomes:
            from_print = o.derived.why.startswith(
                ("of the printed numbers", "the sum of the print")
            )
            assert (o.verdict is Verdict.CANNOT) != from_print
    [gap] = {o.derived.gap for o in reproduce("thesis.11").outcomes}
    assert gap is not None
    assert gap.what == "BART.human.txt and 8 more"
    assert gap.command == "levelfield data fetch formality-judgements"
    assert len(gap.files) == 9


def test_a_missing_run_is_named_and_spoils_only_its_row_and_the_ranks(
    rated_data: Path, only: Callable[..., Path]
):
    lacking = "gedi-pplm_prompts-sentiment-None-len100-789"
    folder = rated_data / "lpf" / "results" / "sentiment"
    only(*(f"lpf/results/sentiment/{p.name}" for p in folder.iterdir() if p.name != lacking))
    for o in reproduce("lpf.8a").outcomes:
        if o.number.row == "GeDi" or o.number.column.endswith("rank"):
            assert o.verdict is Verdict.CANNOT
            assert o.derived.gap is not None
            assert f"evaluation_results_{lacking}.json" in o.derived.gap.what
            [path] = o.derived.gap.files
            assert path.endswith(f"{lacking}/evaluation_results_{lacking}.json")
        else:
            assert o.verdict is Verdict.SAME


@pytest.mark.usefixtures("open_data")
def test_a_paper_that_can_be_derived_in_part_says_so_number_by_number():
    gaps = {o.number.row: str(o.derived.gap) for o in reproduce("cdm.10").outcomes}
    assert gaps["G-Eval (GPT-4)"] == "None"
    assert "commongen_test_bad_vicuna.txt" in gaps["G-Eval (LLaMa2-7b-Vicuna)"]
    columns = {o.number.column: o for o in reproduce("cdm.2").outcomes if o.number.row == "DEAM"}
    assert columns["FED coherence"].verdict is Verdict.SAME
    gap = columns["DSTC9 overall"].derived.gap
    assert gap is not None
    assert any("dstc9" in path for path in gap.files)


@pytest.mark.usefixtures("open_data")
def test_cases_have_the_mean_rank_of_equal_ratings():
    outcomes = values("ctrleval.figure6")
    assert outcomes["coherence 2", "human"] == pytest.approx(4.6)
    assert outcomes["coherence 2", "human rank"] == 126.5
    assert values("ctrleval.figure7")["attribute relevance 2", "human rank"] == 3.5


def test_correlations_on_two_attributes_need_no_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LEVELFIELD_DATA", str(tmp_path))
    outcomes = [o for o in reproduce("lpf.text").outcomes if ", multiple" in o.number.row]
    assert [o.verdict for o in outcomes] == [Verdict.SAME] * 4
    assert {o.derived.why for o in outcomes} == {"of the printed numbers of lpf.9d"}


@pytest.mark.usefixtures("open_data")
def test_pairs_of_text_and_rater_with_rouge_of_raw_texts_are_nearer_to_the_thesis_and_not_equal():
    [table] = papers.tables("thesis.3")
    distances = []
    for scoring in (papers.Scoring(), papers.Scoring(pairs=True)):
        outcomes = papers.derive(table, scoring).outcomes
        assert {o.verdict for o in outcomes} == {Verdict.OTHER}
        rouge = [o for o in outcomes if o.number.column in thesis.ROUGE and o.number.row != "Mean"]
        distances.append(median(abs(o.difference or 0) for o in rouge))
    assert distances == pytest.approx([0.0289, 0.0035], abs=5e-5)


@pytest.mark.usefixtures("open_data")
def test_a_metric_with_another_model_is_correlated_with_people_where_it_is_defined(
    tiny_folders: dict[str, Path],
):
    def rated(metric: Metric, samples: Sequence[Sample]) -> Scores:
        people = np.array([s.ratings["attribute relevance"]["mean"] for s in samples])
        people[:3] = np.nan
        undefined = {s.id: "made up" for s in samples[:3]}
        ids = tuple(s.id for s in samples)
        return Scores(metric.name, ids, people, undefined, metric.signature, True, None)

    [table] = papers.tables("ctrleval.4")
    done = papers.derive(table, papers.Scoring(str(tiny_folders["t5"]), rated))
    mine = {o.number.column: o for o in done.outcomes if o.number.row == "CTRLEval"}
    for statistic in "rρτ":
        outcome = mine[f"sentiment {statistic}"]
        assert outcome.verdict is Verdict.OTHER
        assert outcome.derived.value == pytest.approx(1)
        assert "3 of 360 texts are undefined" in outcome.derived.why
        assert "data_topic.txt" in str(mine[f"topic {statistic}"].derived.gap)


@pytest.mark.usefixtures("open_data")
def test_a_table_of_several_models_has_the_rows_of_the_model_that_was_asked_for(
    tiny_folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
):
    names: list[str] = []

    def scored(metric: Metric, samples: Sequence[Sample]) -> Scores:
        names.append(metric.name)
        aspect = metric.name.partition(".")[2].replace("-", " ")
        people = np.array([s.ratings[aspect]["mean"] for s in samples])
        ids = tuple(s.id for s in samples)
        return Scores(metric.name, ids, people, {}, metric.signature, True, None)

    model = str(tiny_folders["t5"])
    monkeypatch.setitem(ctrleval.MODELS["7"], "T5-base", model)
    [table] = papers.tables("ctrleval.7")
    done = papers.derive(table, papers.Scoring(model, scored))
    by_row = {o.number.row: o for o in done.outcomes if "parameters" not in o.number.column}
    assert len(names) == 3
    assert by_row["T5-base"].derived.value == pytest.approx(1)
    gap = by_row["T5-small"].derived.gap
    assert gap is not None
    assert gap.command == "levelfield reproduce ctrleval.7 --model google-t5/t5-small"


# keywords and two attributes: the same arithmetic on made-up runs


def made_up(dataset: str, seed: int, control: str, **results: object) -> PublishedRun:
    return PublishedRun(
        f"x-{dataset}-{control}-None-len9-{seed}", "x", dataset, control, "", 9, seed, results
    )


def test_keyword_columns_are_percentages_and_their_average_takes_all_four():
    coverage = {"soft": 1.0, "strict": 0.5, "coverage_score": 0.9, "original_coverage_score": 0.6}
    run = made_up("pplm_prompts", 1, "keywords", word_coverage={"overall": coverage})
    measures = lpf._measures("keywords")
    assert [measures[c](run) for c in ("any", "all", "extended coverage", "coverage")] == [
        [100.0],
        [50.0],
        [90.0],
        [60.0],
    ]
    mean, sd = lpf._mean_and_sd([run], measures["average"])
    assert mean.value == pytest.approx(75)
    assert sd.value == pytest.approx((425.0) ** 0.5)  # 25² + 25² + 15² + 15² = 1700, over four


def test_two_attributes_are_averaged_within_a_run():
    def run(dataset: str, s: float, t: float) -> PublishedRun:
        scores = {"overall": 10.0, "sentiment": s, "topic": t}
        results = {k: {"accuracy": v} for k, v in scores.items()}
        return made_up(dataset, 1, "multiple", multiple=results)

    runs = [run("pplm_prompts", 90, 50), run("sts_benchmark_test", 80, 60)]
    mean, sd = lpf._mean_and_sd(runs, lpf._measures("multiple")["average"])
    assert (mean.value, sd.value) == (pytest.approx(70), pytest.approx(0))
    sentiment, _ = lpf._mean_and_sd(runs, lpf._measures("multiple")["sentiment"])
    assert sentiment.value == pytest.approx((35 * 90 + 625 * 80) / 660)


def test_results_without_a_field_say_which():
    mean, _ = lpf._mean_and_sd(
        [made_up("pplm_prompts", 1, "keywords")], lpf._measures("keywords")["any"]
    )
    assert mean.value is None
    assert "word_coverage" in str(mean.gap)


def test_a_run_whose_results_lack_a_measure_is_left_out_of_it_and_named():
    scores = {k: {"accuracy": 50.0} for k in ("overall", "sentiment", "topic")}
    whole = [made_up("pplm_prompts", n, "multiple", multiple=scores) for n in range(11)]
    short = made_up("owt_neutral_prompts", 11, "multiple")
    mean, sd = lpf._mean_and_sd([*whole, short], lpf._measures("multiple")["both"])
    assert (mean.value, sd.value) == (pytest.approx(50), pytest.approx(0))
    assert mean.why == sd.why == f"11 of 12 runs: {short.name} has no 'multiple'"


def test_control_of_prior_ctg_on_two_attributes_rests_on_the_11_runs_with_whole_results(
    monkeypatch: pytest.MonkeyPatch,
):
    path = re.compile(r"results/multiple/(prior_ctg-[^/]+)/evaluation_results_\1\.json")
    sizes = {m[1]: f.bytes for f in dataset("lpf").files if (m := path.fullmatch(f.path))}
    twelfth = lpf.LEFT_OUT["13", "Prior CTG"]
    assert len(sizes) == 12
    assert twelfth == min(sizes, key=lambda name: sizes[name])
    [fact] = [f for f in papers.read_paper("lpf").facts if "11 of its 12 runs" in f.what]
    assert twelfth in fact.evidence
    assert all(f"{n:,}" in fact.evidence for name, n in sizes.items() if "-owt_" in name)

    def run(name: str) -> PublishedRun:
        value = 0.0 if name == twelfth else 50.0
        scores = {k: {"accuracy": value} for k in ("overall", "sentiment", "topic")}
        distinct = {"overall": dict.fromkeys(("dist1", "dist2", "dist3"), value / 100)}
        results = {"multiple": scores, "distinct-n": distinct}
        return replace(lpf_runs.named(Path(name) / "x"), results=results)

    here = {name: run(name) for name in sizes}
    monkeypatch.setattr(lpf.Runs, "of", lambda _: lpf.Runs(dict.fromkeys(here, ""), here))
    [table] = papers.tables("lpf.13")
    numbers = (n for n in table.numbers if n.row == "Prior CTG" and "SLOR" not in n.column)
    derived = lpf.derive(replace(table, numbers=tuple(numbers)), papers.Scoring())
    for column in ("both", "sentiment", "topic", "average"):
        assert derived["Prior CTG", column].value == pytest.approx(50)
        assert derived["Prior CTG", column].why.startswith(f"11 of 12 runs: {twelfth} is left out")
    assert (derived["Prior CTG", "dist1"].value or 0) < 49
    assert derived["Prior CTG", "dist1"].why == ""


@pytest.mark.parametrize("control", ["keywords", "multiple"])
def test_tables_12_and_13_differ_only_where_they_were_rounded_twice(
    rated_data: Path, monkeypatch: pytest.MonkeyPatch, control: str
):
    monkeypatch.setenv("LEVELFIELD_DATA", str(rated_data))
    done = reproduce({"keywords": "lpf.12", "multiple": "lpf.13"}[control])
    if done.counts[Verdict.CANNOT]:
        pytest.skip(f"the runs with control of {control} are not all here")
    values = {(o.number.row, o.number.column): o.derived.value for o in done.outcomes}
    if control == "multiple":
        row = [values["Prior CTG", column] for column in ("both", "sentiment", "topic", "average")]
        assert row == pytest.approx([53.946, 85.539, 64.914, 75.227], abs=5e-4)
    columns = (*lpf.COVERAGES, *lpf.BOTH, "average")
    differing = [o for o in done.outcomes if o.verdict is Verdict.DIFFERS]
    assert all("rounded twice" in o.derived.why for o in differing if o.number.column in columns)


def test_equal_values_share_the_better_rank():
    values = {"a": papers.Derived(12.961), "b": papers.Derived(12.958), "c": papers.Derived(13.0)}
    ranks = lpf._ranks(values, 2, lowest=False)
    assert {row: d.value for row, d in ranks.items()} == {"a": 2.0, "b": 2.0, "c": 1.0}


def test_an_id_names_a_table_its_parts_or_a_paper():
    assert [t.id for t in papers.tables("lpf.8")] == ["lpf.8a", "lpf.8b"]
    assert [t.id for t in papers.tables("lpf.9c")] == ["lpf.9c"]
    assert {t.paper for t in papers.tables("thesis")} == {"thesis"}
    with pytest.raises(UserError, match=r"no table 'lpf\.88'; did you mean .*lpf\.8"):
        papers.tables("lpf.88")
