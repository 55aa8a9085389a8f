"""Logs of Inspect become samples, in each of their forms."""

from __future__ import annotations

import json
import math
import zipfile
from pathlib import Path

import pytest

from levelfield.core.sample import Sample
from levelfield.io import load_samples, open_samples
from levelfield.io.formats import FORMATS, format_at
from levelfield.io.logged import LoggedScores, logged_scores
from others_logs import (
    ANSWERS,
    QUESTIONS,
    inspect_log,
    inspect_sample,
    problem,
    write_inspect_eval,
    write_inspect_json,
)

LOG = inspect_log(
    "lab/large",
    {
        "match": {(1, 1): "C", (2, 1): "I", (3, 1): "P"},
        "notes": {(1, 1): {"clear": 0.5, "kind": True}, (2, 1): {"clear": 1, "kind": "no"}},
    },
)


def scores(samples: list[Sample]) -> dict[str, dict[str, float]]:
    logged = [(sample.id, logged_scores(sample)) for sample in samples]
    return {id: dict(of_log.scores) for id, of_log in logged if of_log is not None}


@pytest.fixture(params=["json", "eval", "zstandard"])
def written(request: pytest.FixtureRequest, tmp_path: Path):
    """Writes a log in one of its forms, and returns the file."""

    def write(log: dict[str, object], name: str = "log") -> Path:
        if request.param == "json":
            return write_inspect_json(tmp_path / f"{name}.json", log)
        zstandard = request.param == "zstandard"
        return write_inspect_eval(tmp_path / f"{name}.eval", log, zstandard=zstandard)

    return write


def test_samples_have_what_was_asked_answered_and_wanted(written):
    samples = load_samples(written(LOG))
    assert [s.id for s in samples] == ["1", "2", "3"]
    first = samples[0]
    assert first.text == f"It is {ANSWERS[1]}."
    assert first.context == (f"{QUESTIONS[1]} (1)",)
    assert first.references == (ANSWERS[1],)
    assert (first.system, first.dataset, first.seed) == ("lab/large", "lakes", None)
    assert first.extra["metadata"] == {"season": "winter"}


def test_scores_are_numbers_as_inspect_counts_them(written):
    assert scores(load_samples(written(LOG))) == {
        "1": {"match": 1.0, "notes.clear": 0.5, "notes.kind": 1.0},
        "2": {"match": 0.0, "notes.clear": 1.0, "notes.kind": 0.0},
        "3": {"match": 0.5},
    }


def test_facts_are_the_means_that_the_log_states(written):
    (log,) = open_samples([written(LOG)]).inputs
    assert log.facts is not None
    facts = log.facts()
    assert facts.means["lakes", "match"] == pytest.approx(0.5, abs=1e-12)
    assert facts.directions["lakes", "match"] == "higher"
    assert facts.notes == ()


def test_epochs_are_draws_within_an_item_and_no_seeds(written):
    values = {(id, epoch): "C" for id in (1, 2) for epoch in (1, 2)}
    samples = load_samples(written(inspect_log("m", {"match": values}, epochs=2)))
    assert [(s.id, s.seed, s.extra["epoch"]) for s in samples] == [
        ("1/1", None, 1), ("1/2", None, 2), ("2/1", None, 1), ("2/2", None, 2),
    ]  # fmt: skip
    logged = {s.id: logged_scores(s) for s in samples}
    assert {id: (of_log.item, of_log.draw) for id, of_log in logged.items()} == {
        "1/1": ("1", 1), "1/2": ("1", 2), "2/1": ("2", 1), "2/2": ("2", 2),
    }  # fmt: skip


def test_a_value_that_is_no_number_is_none_and_a_list_is_no_score(written):
    values = {
        "match": {(1, 1): float("nan"), (2, 1): "unclear", (3, 1): 1},
        "list": {(1, 1): [1, 2]},
    }
    values_of = scores(load_samples(written(inspect_log("m", values))))
    assert [math.isnan(values_of[id]["match"]) for id in "123"] == [True, True, False]
    assert "list" not in values_of["1"]


def test_messages_make_the_context_and_references_to_attachments_are_followed(written):
    sample = inspect_sample(
        1,
        1,
        {},
        input=[
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Look:"}, {"type": "image"}]},
            {"role": "user", "content": "attachment://abc"},
        ],
        output={"choices": [{"message": {"role": "assistant", "content": "attachment://def"}}]},
        attachments={"abc": "a lake", "def": "It is a lake."},
    )
    (sample,) = load_samples(written(inspect_log("m", {}, samples=[sample])))
    assert sample.context == ("Look:", "a lake")
    assert sample.text == "It is a lake."
    assert sample.extra["instructions"] == "Be brief."


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ({"completion": "short"}, "short"),
        ({}, "It is 12 metres."),
        ({"choices": []}, "It is 12 metres."),
        ({"choices": 7}, "It is 12 metres."),
        (None, "It is 12 metres."),
    ],
)
def test_without_a_choice_the_text_is_the_completion_or_the_last_message(written, output, text):
    log = inspect_log("m", {}, samples=[inspect_sample(3, 1, {}, output=output)])
    assert load_samples(written(log))[0].text == text


def test_a_sample_that_failed_has_an_empty_text_and_no_scores(written):
    failed = inspect_sample(1, 1, {}, output={}, messages=[], error={"message": "…"})
    samples = load_samples(written(inspect_log("m", {}, samples=[{**failed, "scores": None}])))
    assert samples[0].text == ""
    assert scores(samples) == {"1": {}}


def test_a_log_is_told_by_its_content(written, tmp_path: Path):
    log = written(LOG)
    other = tmp_path / "renamed.data"
    other.write_bytes(log.read_bytes())
    assert format_at(other) is FORMATS["inspect"]
    assert len(load_samples(other)) == 3


def test_records_with_such_fields_are_no_log(tmp_path: Path):
    record = '{"text": "x", "eval": 1, "status": 2}'
    for suffix, content in (("json", f"[{record}]"), ("jsonl", record)):
        path = tmp_path / f"texts.{suffix}"
        path.write_text(content)
        assert format_at(path) is FORMATS[suffix]


def test_a_sample_in_chunks_is_read_with_its_attachments(tmp_path: Path):
    path = tmp_path / "log.eval"
    output = {"choices": [{"message": {"role": "assistant", "content": "attachment://3"}}]}
    shell = {**inspect_sample(7, 2, {"match": "C"}, output=output), "message_refs": [[0, 1]]}
    shell = {n: v for n, v in shell.items() if n not in ("messages", "events", "attachments")}
    members = {
        "_journal/start.json": {"version": 3, "eval": LOG["eval"]},
        "samples/7_epoch_2/sample.json": shell,
        "samples/7_epoch_2/skeleton.json": {},
        "samples/7_epoch_2/messages/0.json": [],
        "samples/7_epoch_2/attachments/0.json": ["a", "b"],
        "samples/7_epoch_2/attachments/2.json": ["c", "the fourth"],
        "header.json": {n: LOG[n] for n in ("version", "status", "eval")},
    }
    with zipfile.ZipFile(path, "w") as file:
        for name, member in members.items():
            file.writestr(name, json.dumps(member))
    (sample,) = load_samples(path)
    assert (sample.id, sample.text) == ("7/2", "the fourth")
    assert logged_scores(sample).scores == {"match": 1.0}


def test_logs_of_2024_keep_header_and_results_apart(tmp_path: Path):
    path = tmp_path / "old.eval"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("start.json", json.dumps({"version": 2, "eval": LOG["eval"]}))
        file.writestr("samples/1_epoch_1.json", json.dumps(LOG["samples"][0]))
        results = {"scores": LOG["results"]["scores"]}
        file.writestr("results.json", json.dumps({"status": "success", "results": results}))
    (log,) = open_samples([path]).inputs
    assert log.facts().means["lakes", "match"] == pytest.approx(0.5, abs=1e-12)
    assert load_samples(path)[0].dataset == "lakes"


def test_an_unfinished_log_is_read_and_says_so(tmp_path: Path):
    log = inspect_log("m", {"match": {(1, 1): "C"}}, status="started")
    path = write_inspect_eval(tmp_path / "log.eval", log)
    (read,) = open_samples([path]).inputs
    assert len(load_samples(path)) == 1
    assert read.facts().notes == ("its status is started, so samples may be missing",)
    assert read.facts().means == {}


def test_an_empty_log_is_refused(written):
    path = written(inspect_log("m", {}, samples=[]))
    assert problem(path) == f"no samples in {path}; is it the file you mean?"


def test_two_samples_of_one_id_in_a_document_are_refused(tmp_path: Path):
    log = inspect_log("m", {}, samples=[inspect_sample(1, 1, {})] * 2)
    path = write_inspect_json(tmp_path / "log.json", log)
    assert 'sample 2: id "1" was used at' in problem(path)


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (7, "expected a sample, which is an object with an id"),
        ({"input": "x"}, "expected a sample, which is an object with an id"),
        ({"id": 1, "epoch": "two"}, "epoch: expected a whole number"),
        ({"id": 1, "epoch": 10**40}, "epoch: expected a whole number"),
    ],
)
def test_a_malformed_sample_is_named(tmp_path: Path, sample: object, message: str):
    log = inspect_log("m", {}, samples=[])
    path = write_inspect_json(tmp_path / "log.json", {**log, "samples": [sample]})
    assert problem(path).startswith(f"{path}:sample 1: {message}")


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_a_log_that_is_cut_off_is_refused(tmp_path: Path, share: float):
    path = write_inspect_json(tmp_path / "log.json", LOG)
    text = path.read_text()
    path.write_text(text[: int(share * len(text))])
    assert "can't be read as a log of Inspect: not JSON: " in problem(path)
    path = write_inspect_eval(tmp_path / "log.eval", LOG)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    assert "can't be read as a log of Inspect: not a whole zip file" in problem(path)


def test_a_zip_file_without_a_header_and_one_with_a_broken_sample_are_refused(tmp_path: Path):
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("readme.txt", "no log")
    assert "a zip file without header.json" in problem(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("header.json", json.dumps({"status": "success", "eval": {}}))
        file.writestr("samples/1_epoch_1.json", '{"id": 1')
    assert ":sample 1: can't be read as a log of Inspect: samples/1_epoch_1.json: not JSON" in (
        problem(path)
    )


def test_a_long_log_is_not_held(tmp_path: Path):
    import tracemalloc

    samples = [inspect_sample(i, 1, {"match": 1}, store={"x": "y" * 50_000}) for i in range(200)]
    path = write_inspect_json(tmp_path / "log.json", inspect_log("m", {}, samples=samples))
    assert path.stat().st_size > 10_000_000
    tracemalloc.start()
    assert open_samples([path]).check().n == 200
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6_000_000


def test_a_sample_of_too_many_values_is_refused_before_it_is_parsed(written, monkeypatch):
    monkeypatch.setattr("levelfield.core.limits.RECORD_VALUES", 2_000)
    sample = inspect_sample(1, 1, {}, store={"x": [{}] * 1_500})
    assert "more than 2,000 values in one record" in problem(
        written(inspect_log("m", {}, samples=[sample]))
    )


def test_the_item_is_the_sample_and_the_content_what_was_asked(written):
    (first, *_) = load_samples(written(LOG))
    logged = logged_scores(first)
    assert isinstance(logged, LoggedScores)
    assert logged.item == "1"
    changed = json.loads(json.dumps(LOG))
    changed["samples"][0]["input"] = "Something else?"
    (other, *_) = load_samples(written(changed, "other"))
    assert logged_scores(other).content != logged.content
    (same, *_) = load_samples(written(LOG, "same"))
    assert logged_scores(same).content == logged.content


def with_results(samples: list[dict], **results: object) -> dict:
    log = inspect_log("m", {"match": {(1, 1): "C"}}, samples=samples)
    return {**log, "results": {**log["results"], **results}}


@pytest.mark.parametrize("epochs", [1, 2])
def test_ids_may_have_slashes(written, epochs: int):
    ids = [f"HumanEval/{i}" for i in range(12)]
    samples = [
        {**inspect_sample(1, epoch, {"match": "C"}), "id": id}
        for id in ids
        for epoch in range(1, epochs + 1)
    ]
    path = written(with_results(samples, total_samples=12 * epochs))
    logged = [logged_scores(s) for s in load_samples(path)]
    assert [of_log.item for of_log in logged] == [id for id in ids for _ in range(epochs)]


@pytest.mark.parametrize("zstandard", [False, True])
def test_of_a_sample_that_was_run_again_the_last_run_counts(tmp_path: Path, zstandard: bool):
    first, second = (inspect_sample(1, 1, {"match": value}) for value in "IC")
    log = with_results([first, inspect_sample(2, 1, {}), second], total_samples=2)
    path = write_inspect_eval(tmp_path / "log.eval", log, zstandard=zstandard)
    samples = load_samples(path)
    assert [s.id for s in samples] == ["1", "2"]
    assert logged_scores(samples[0]).scores == {"match": 1.0}
    (read,) = open_samples([path]).inputs
    assert read.facts().notes == ("samples run again, of which the last run counts: 1",)


def test_fewer_samples_than_the_results_state_are_an_error_with_both_counts(written):
    path = written(with_results([inspect_sample(i, 1, {}) for i in range(3)], total_samples=24))
    assert problem(path) == (
        f"{path}: holds 3 of the 24 samples that its results state; copy it again"
    )
    stopped = with_results([inspect_sample(1, 1, {})], total_samples=24, logged_samples=1)
    assert len(load_samples(written(stopped, "stopped"))) == 1
    cancelled = {**with_results([inspect_sample(1, 1, {})], total_samples=24), "status": "error"}
    assert len(load_samples(written(cancelled, "cancelled"))) == 1


def test_a_list_is_told_from_a_number(written):
    sample = inspect_sample(1, 1, {"list": [1, 0.5], "words": ["a", "b"], "number": 2})
    logged = logged_scores(load_samples(written(inspect_log("m", {}, samples=[sample])))[0])
    assert logged.scores == {"number": 2.0}
    assert logged.lists == {"list": (1.0, 0.5), "words": ()}


def test_a_score_has_a_value_or_a_reason(written):
    samples = [
        inspect_sample(1, 1, {"q": "C"}),
        inspect_sample(2, 1, {"q": "I"}),
        inspect_sample(3, 1, {"q": float("nan")}),
        inspect_sample(4, 1, {"q": float("nan")}),
        inspect_sample(5, 1, {"q": "good"}),
    ]
    samples[1]["scores"]["q"]["explanation"] = "Grade not found in model output: none"
    samples[2]["scores"]["q"]["reason"] = "scoring_failed"
    samples[3]["scores"]["q"]["metadata"] = {"unscored_reason": "my_reason"}
    logged = [
        logged_scores(s) for s in load_samples(written(inspect_log("m", {}, samples=samples)))
    ]
    assert [of_log.reasons.get("q") for of_log in logged] == [
        None, "the grader gave no grade", "the scorer failed", "unscored: my_reason",
        "its value is not a number",
    ]  # fmt: skip
    assert [math.isnan(of_log.scores["q"]) for of_log in logged] == [False, *[True] * 4]
    assert [of_log.counted for of_log in logged] == [{}, {"q": 0.0}, {}, {}, {"q": 0.0}]


def test_attachments_are_found_in_time_that_grows_with_the_log(tmp_path: Path):
    from levelfield.io.archive import Archive
    from levelfield.io.formats.inspect_log import _Attachments

    names = [f"samples/{i}_epoch_1/attachments/0.json" for i in range(2_000)]

    class Names(list):
        reads = 0

        def __iter__(self):
            Names.reads += 1
            return super().__iter__()

    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as file:
        for name in names:
            file.writestr(name, '["a", "b"]')
    with Archive(path) as archive:
        archive.names = Names(archive.names)
        attachments = _Attachments(archive)
        resolve = [attachments.of(f"{i}_epoch_1") for i in range(2_000)]
        assert Names.reads == 1
        assert resolve[1_999]("1") == "b"
        assert resolve[0]("7") == resolve[0]("x") == ""
        assert attachments.of("none_epoch_1") is None
