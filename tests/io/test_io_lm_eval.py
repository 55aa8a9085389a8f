"""Runs of lm-evaluation-harness become samples: a document each, with its scores of all filters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from levelfield.core.errors import InputError, UserError
from levelfield.io import load_samples, open_samples
from levelfield.io.logged import logged_scores
from others_logs import ANSWERS, DATE, QUESTIONS, lm_eval_line, problem, write_lm_eval

LINES = [
    lm_eval_line(id, {"exact_match": hit}, filter=filter)
    for filter, hits in (("strict", (1, 0, 0)), ("flexible", (1, 1, 0)))
    for id, hit in enumerate(hits)
]


def test_a_document_is_a_sample_with_the_scores_of_its_filters(tmp_path: Path):
    samples = load_samples(write_lm_eval(tmp_path / "run", {"lakes": LINES}))
    assert [s.id for s in samples] == ["0", "1", "2"]
    first = samples[0]
    assert first.text == " It is 12 metres."
    assert first.context == (f"Q: {QUESTIONS[0]} (0)\nA:",)
    assert first.references == (ANSWERS[0],)
    assert (first.system, first.dataset) == ("lakes/small", "lakes")
    assert [dict(logged_scores(s).scores) for s in samples] == [
        {"exact_match,strict": 1.0, "exact_match,flexible": 1.0},
        {"exact_match,strict": 0.0, "exact_match,flexible": 1.0},
        {"exact_match,strict": 0.0, "exact_match,flexible": 0.0},
    ]


def test_facts_are_the_results_with_their_directions(tmp_path: Path):
    lines = [lm_eval_line(i, {"exact_match": 1, "perplexity": 2.0}) for i in range(2)]
    (run,) = open_samples([write_lm_eval(tmp_path / "run", {"lakes": lines})]).inputs
    facts = run.facts()
    assert facts.means == {
        ("lakes", "exact_match,none"): 1.0,
        ("lakes", "perplexity,none"): 2.0,
    }
    assert facts.directions == {
        ("lakes", "exact_match,none"): "higher",
        ("lakes", "perplexity,none"): "lower",
    }


def test_tasks_of_a_run_are_data_sets_with_ids_of_their_own(tmp_path: Path):
    run = write_lm_eval(tmp_path / "run", {"lakes": LINES[:3], "boats": LINES[:2]})
    samples = load_samples(run)
    assert sorted(s.id for s in samples) == ["boats/0", "boats/1", "lakes/0", "lakes/1", "lakes/2"]
    assert {s.dataset for s in samples} == {"boats", "lakes"}


def test_a_folder_its_results_and_one_file_of_samples_name_the_same_run(tmp_path: Path):
    run = write_lm_eval(tmp_path / "run", {"lakes": LINES})
    whole = load_samples(run)
    assert load_samples(run / f"results_{DATE}.json") == whole
    assert load_samples(run / f"samples_lakes_{DATE}.jsonl") == whole


def test_of_choices_the_text_is_the_one_that_is_most_likely(tmp_path: Path):
    line = lm_eval_line(
        0,
        {"acc": 1.0},
        arguments={
            f"gen_args_{i}": {"arg_0": "Q: Where?\nA:", "arg_1": f" {place}"}
            for i, place in enumerate(("north", "south"))
        },
        resps=[[["-4.5", "False"]], [["-1.25", "True"]]],
        filtered_resps=[["-4.5", "False"], ["-1.25", "True"]],
    )
    (sample,) = load_samples(write_lm_eval(tmp_path / "run", {"places": [line]}))
    assert sample.text == " south"
    assert sample.context == ("Q: Where?\nA:",)


def test_a_chat_in_the_prompt_is_turns(tmp_path: Path):
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where?"}]
    arguments = {"gen_args_0": {"arg_0": json.dumps(chat), "arg_1": {}}}
    line = lm_eval_line(0, {"acc": 1}, arguments=arguments)
    (sample,) = load_samples(write_lm_eval(tmp_path / "run", {"places": [line]}))
    assert sample.context == ("Where?",)
    assert sample.extra["instructions"] == "Be brief."


def test_lines_of_older_versions_name_neither_filter_nor_metrics(tmp_path: Path):
    line = lm_eval_line(0, {"acc": 1.0}, filter=None, arguments=[["Q: Where?", {}]])
    (sample,) = load_samples(write_lm_eval(tmp_path / "run", {"places": [line]}))
    assert logged_scores(sample).scores == {"acc,none": 1.0}
    assert sample.context == ("Q: Where?",)


def test_a_metric_that_is_no_number_is_no_score(tmp_path: Path):
    line = lm_eval_line(0, {"bleu": ["a", "b"], "acc": True, "f1": None})
    (sample,) = load_samples(write_lm_eval(tmp_path / "run", {"places": [line]}))
    assert list(logged_scores(sample).scores) == ["acc,none", "f1,none"]
    assert logged_scores(sample).scores["acc,none"] == 1.0


def test_the_document_decides_whether_two_runs_asked_the_same(tmp_path: Path):
    lines = [lm_eval_line(0, {"acc": 1}), lm_eval_line(0, {"acc": 1}, doc_hash="other")]
    contents = [
        logged_scores(load_samples(write_lm_eval(tmp_path / str(i), {"t": [line]}))[0]).content
        for i, line in enumerate(lines)
    ]
    assert contents == ["doc0", "other"]


def test_columns_that_map_names_are_there(tmp_path: Path):
    run = write_lm_eval(tmp_path / "run", {"lakes": LINES})
    mapping = {"id": "doc_hash", "text": "filtered_resps.0", "source": "doc.question"}
    (first, *_) = load_samples(run, mapping=mapping)
    assert (first.id, first.text, first.source) == ("doc0", ANSWERS[0], QUESTIONS[0])


def test_the_same_document_twice_is_refused(tmp_path: Path):
    run = write_lm_eval(tmp_path / "run", {"lakes": [*LINES[:2], LINES[1]]})
    assert 'doc_id 1 occurs twice under the filter "strict"' in problem(run)


def test_two_runs_in_a_folder_are_refused_and_each_is_read_by_its_results(tmp_path: Path):
    run = write_lm_eval(tmp_path / "run", {"lakes": LINES})
    later = "2026-11-03T09-00-00.5"
    write_lm_eval(run, {"lakes": LINES[:1]}, date=later)
    assert problem(run).startswith(f"{run}: holds the results of 2 runs (")
    assert len(load_samples(run / f"results_{later}.json")) == 1
    assert len(load_samples(run / f"results_{DATE}.json")) == 3


def test_results_without_samples_say_what_to_run(tmp_path: Path):
    run = write_lm_eval(tmp_path / "run", {"lakes": LINES})
    (run / f"samples_lakes_{DATE}.jsonl").unlink()
    assert "run lm-eval with --log_samples" in problem(run)
    assert "run lm-eval with --log_samples" in problem(run / f"results_{DATE}.json")


def test_a_broken_line_and_broken_results_are_named(tmp_path: Path):
    run = write_lm_eval(tmp_path / "run", {"lakes": LINES})
    samples = run / f"samples_lakes_{DATE}.jsonl"
    samples.write_text(samples.read_text() + '{"doc_id": 9,\n{"doc": 1}\n')
    with pytest.raises(InputError) as caught:
        open_samples([run]).check()
    broken, nameless = caught.value.problems
    assert f"{samples.name}:7: not JSON" in broken
    assert f"{samples.name}:8: expected doc_id, found None" in nameless
    (run / f"results_{DATE}.json").write_text("{")
    assert f"results_{DATE}.json: not JSON" in problem(run)


def test_an_empty_file_of_samples_is_refused(tmp_path: Path):
    run = write_lm_eval(tmp_path / "run", {"lakes": []})
    assert problem(run) == f"no samples in {run}; is it the file you mean?"


def test_another_folder_is_refused(tmp_path: Path):
    with pytest.raises(UserError, match="is a folder; name the files in it"):
        open_samples([tmp_path])


LATER = "2026-11-03T09-00-00.5"


def test_samples_of_two_runs_without_results_are_not_mixed(tmp_path: Path):
    run = write_lm_eval(tmp_path / "run", {"lakes": LINES})
    write_lm_eval(run, {"lakes": LINES[:1]}, date=LATER)
    for results in run.glob("results_*"):
        results.unlink()
    assert problem(run).startswith(f"{run}: holds the results of 2 runs (")
    assert len(load_samples(run / f"samples_lakes_{LATER}.jsonl")) == 1


def test_results_of_one_run_beside_samples_of_two_are_refused(tmp_path: Path):
    run = write_lm_eval(tmp_path / "run", {"lakes": LINES})
    write_lm_eval(run, {"lakes": LINES[:1]}, date=LATER)
    (run / f"results_{LATER}.json").unlink()
    assert problem(run).startswith(f"{run}: holds the results of 2 runs (")
    assert len(load_samples(run / f"results_{DATE}.json")) == 3


def test_results_may_have_a_name_of_their_own(tmp_path: Path):
    run = write_lm_eval(tmp_path / "run", {"lakes": LINES}, stem="mine", model="lab/x")
    for path in (run, run / f"mine_{DATE}.json", run / f"samples_lakes_{DATE}.jsonl"):
        (read,) = open_samples([path]).inputs
        assert read.facts().means["lakes", "exact_match,strict"] == pytest.approx(1 / 3)
        assert {s.system for s in load_samples(path)} == {"lab/x"}


def test_the_folder_that_lm_eval_writes_to_holds_one_for_the_model(tmp_path: Path):
    out = tmp_path / "out"
    write_lm_eval(out / "lakes__small", {"lakes": LINES})
    assert load_samples(out) == load_samples(out / "lakes__small")
    (read,) = open_samples([out]).inputs
    digest = read.digest
    (samples,) = (out / "lakes__small").glob("samples_*")
    samples.write_text(samples.read_text() + "\n")
    assert open_samples([out]).inputs[0].digest != digest
    write_lm_eval(out / "lakes__large", {"lakes": LINES}, model="lakes/large")
    assert problem(out) == (
        f'{out}: holds the runs of 2 models ("lakes__large", "lakes__small"); name these folders '
        "one by one"
    )


def test_fewer_documents_than_the_results_state_are_an_error_with_both_counts(tmp_path: Path):
    more = {"n-samples": {"lakes": {"original": 50, "effective": 24}}}
    run = write_lm_eval(tmp_path / "run", {"lakes": LINES}, **more)
    assert problem(run) == (
        f"{run}: samples_lakes_{DATE}.jsonl: holds 3 of the 24 documents that the results state; "
        "copy it again"
    )


def test_a_list_of_numbers_is_kept_and_an_answer_that_no_filter_finds_is_remarked(tmp_path: Path):
    line = lm_eval_line(0, {"word_perplexity": [-5.5, 3]}, filtered_resps=["[invalid]"])
    (sample,) = load_samples(write_lm_eval(tmp_path / "run", {"t": [line]}))
    logged = logged_scores(sample)
    assert logged.lists == {"word_perplexity,none": (-5.5, 3.0)}
    assert logged.remarks == (
        "have no answer that the filter none finds; they count as they are scored",
    )


def test_groups_and_settings_are_facts(tmp_path: Path):
    run = write_lm_eval(
        tmp_path / "run",
        {"a": LINES[:2], "b": LINES[:3]},
        groups={"both": ["a", "b"]},
        config={"model_args": "pretrained=x,dtype=float16", "limit": 5},
    )
    (read,) = open_samples([run]).inputs
    facts = read.facts()
    assert facts.groups == {"both": ("a", "b")}
    assert facts.means["both", "exact_match,strict"] == pytest.approx(2 / 5)
    assert facts.directions["both", "exact_match,strict"] == "higher"
    assert facts.settings["model arguments.dtype"] == "float16"
    assert facts.settings["limit"] == "5"
    assert "model arguments.pretrained" not in facts.settings
