"""Run folders of HELM become samples: an instance and trial each, with its statistics."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from levelfield.io import load_samples, open_samples
from levelfield.io.logged import logged_scores
from others_logs import ANSWERS, QUESTIONS, helm_request, problem, write_helm

VALUES = {
    "exact_match": {("id0", 0): 1.0, ("id1", 0): 0.0},
    "f1_score": {("id0", 0): 0.75, ("id1", 0): None},
}


def test_an_instance_is_a_sample_with_the_statistics_of_all_metrics(tmp_path: Path):
    samples = load_samples(write_helm(tmp_path / "run", VALUES))
    assert [s.id for s in samples] == ["id0", "id1"]
    first = samples[0]
    assert first.text == "id0 answers"
    assert first.context == (f"{QUESTIONS[0]} (id0)",)
    assert first.references == (ANSWERS[0],)
    assert (first.system, first.dataset, first.seed) == ("lakes/small", "lakes:season=winter", None)
    assert first.extra["request"] == f"Answer: {QUESTIONS[0]}"
    assert logged_scores(first).scores == {"exact_match": 1.0, "f1_score": 0.75}
    assert str(dict(logged_scores(samples[1]).scores)) == "{'exact_match': 0.0, 'f1_score': nan}"


def test_trials_are_seeds(tmp_path: Path):
    values = {"exact_match": {(id, trial): 1.0 for id in ("id0", "id1") for trial in (0, 1)}}
    samples = load_samples(write_helm(tmp_path / "run", values, trials=2))
    assert [(s.id, s.seed) for s in samples] == [
        ("id0/0", 0), ("id0/1", 1), ("id1/0", 0), ("id1/1", 1),
    ]  # fmt: skip


def test_facts_are_the_means_of_stats(tmp_path: Path):
    (run,) = open_samples([write_helm(tmp_path / "run", VALUES)]).inputs
    assert run.facts().means == {
        ("lakes:season=winter", "exact_match"): 0.5,
        ("lakes:season=winter", "f1_score"): 0.75,
    }


def test_perturbed_instances_and_calibration_are_left_out(tmp_path: Path):
    perturbed = {"perturbation": {"name": "typos", "robustness": True}}
    requests = [
        helm_request("id0", "right"),
        helm_request("id0", "wrong", instance=perturbed),
        helm_request("id0", "calibrated", request_mode="calibration", reference_index=0),
    ]
    (sample,) = load_samples(write_helm(tmp_path / "run", VALUES, requests=requests))
    assert sample.text == "right"


def test_of_references_that_are_scored_one_by_one_the_text_is_the_predicted_one(tmp_path: Path):
    requests = [helm_request("id0", f"option {i}", reference_index=i) for i in range(3)]
    values = {"predicted_index": {("id0", 0): 1.0}}
    (sample,) = load_samples(write_helm(tmp_path / "run", values, requests=requests))
    assert sample.text == "option 1"


def test_another_split_is_another_data_set(tmp_path: Path):
    requests = [helm_request("id0", "x"), helm_request("id1", "y", instance={"split": "valid"})]
    samples = load_samples(write_helm(tmp_path / "run", VALUES, requests=requests))
    assert [s.dataset for s in samples] == ["lakes:season=winter", "lakes:season=winter (valid)"]


def test_a_run_without_a_spec_bears_the_name_of_its_folder_without_the_model(tmp_path: Path):
    run = write_helm(tmp_path / "lakes:season=winter,model=lakes_small", VALUES)
    (run / "run_spec.json").unlink()
    assert load_samples(run)[0].dataset == "lakes:season=winter"


def test_the_file_with_the_requests_names_the_run_as_well(tmp_path: Path):
    run = write_helm(tmp_path / "run", VALUES)
    assert load_samples(run / "scenario_state.json") == load_samples(run)


def test_without_statistics_there_are_texts(tmp_path: Path):
    run = write_helm(tmp_path / "run", VALUES)
    (run / "per_instance_stats.json").unlink()
    (run / "stats.json").unlink()
    (source,) = open_samples([run]).inputs
    assert source.facts().means == {}
    assert logged_scores(load_samples(run)[0]).scores == {}


@pytest.mark.parametrize("name", ["scenario_state.json", "per_instance_stats.json"])
def test_a_file_that_is_cut_off_is_named(tmp_path: Path, name: str):
    run = write_helm(tmp_path / "run", VALUES)
    text = (run / name).read_text()
    (run / name).write_text(text[:-60])
    assert f"{name}: not JSON: " in problem(run)


def test_an_instance_without_an_id_and_one_that_stands_twice_are_refused(tmp_path: Path):
    run = write_helm(
        tmp_path / "a", VALUES, requests=[helm_request("id0", "x", instance={"id": None})]
    )
    assert "request 1: expected a request with instance.id" in problem(run)
    run = write_helm(tmp_path / "b", VALUES, requests=[helm_request("id0", "x")] * 2)
    assert 'request 2: id "id0" was used at' in problem(run)


def test_a_run_without_requests_is_refused(tmp_path: Path):
    run = write_helm(tmp_path / "run", VALUES, requests=[])
    assert problem(run) == f"no samples in {run}; is it the file you mean?"


def test_statistics_that_are_cut_off_leave_a_note(tmp_path: Path):
    run = write_helm(tmp_path / "run", VALUES)
    (run / "stats.json").write_text("[{")
    (source,) = open_samples([run]).inputs
    assert source.facts().notes[0].startswith("stats.json was not read: not JSON")


def test_trials_without_examples_are_draws(tmp_path: Path):
    values = {"exact_match": {(id, trial): 1.0 for id in ("id0", "id1") for trial in (0, 1)}}
    run = write_helm(tmp_path / "run", values, trials=2)
    state = json.loads((run / "scenario_state.json").read_text())
    state["adapter_spec"]["max_train_instances"] = 0
    (run / "scenario_state.json").write_text(json.dumps(state))
    samples = load_samples(run)
    assert [(s.id, s.seed, logged_scores(s).draw) for s in samples] == [
        ("id0/0", None, 0), ("id0/1", None, 1), ("id1/0", None, 0), ("id1/1", None, 1),
    ]  # fmt: skip


def test_a_request_that_failed_has_a_reason_and_what_helm_counts(tmp_path: Path):
    requests = [helm_request("id0", "x"), helm_request("id1", "", result={"success": False})]
    first, second = load_samples(write_helm(tmp_path / "run", VALUES, requests=requests))
    assert logged_scores(first).reasons == {}
    logged = logged_scores(second)
    assert logged.reasons == {"": "the request failed"}
    assert logged.counted == {"exact_match": 0.0}
    assert math.isnan(logged.scores["exact_match"])
