"""`levelfield score --task`: the metrics of a task, one table, and joint means."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import Run, finish, start

REWRITES = Path(__file__).parents[2] / "examples" / "rewrites.jsonl"
LIGHT = ["--option", "fluency.infilling-perplexity:model=offline/infill-amateur"]


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    out = tmp_path_factory.mktemp("task") / "scores.jsonl"
    words = ["--task", "style-transfer", "--metric", "corpus-bleu", *LIGHT, "--out", out, "--json"]
    done = finish(start("score", REWRITES, *words))
    assert done.code == 0, done.err
    return done.json


def means(document, metric):
    (found,) = [m for m in document["metrics"] if m["metric"] == metric]
    return {group["group"]: group["mean"] for group in found["groups"]}


@pytest.mark.slow
def test_content_is_measured_against_sources_and_references_in_one_run(document):
    names = [m["metric"] for m in document["metrics"]]
    for measure in ("bleu", "bertscore", "corpus-bleu"):
        assert {f"{measure}.source", f"{measure}.references"} <= set(names)


@pytest.mark.slow
def test_copies_have_the_best_content_against_the_source_and_are_flagged(document):
    assert max(means(document, "bleu.source").items(), key=lambda g: g[1])[0] == "parrot"
    assert means(document, "style.degenerate") == {
        "careful": 0.0,
        "eager": pytest.approx(3 / 12),
        "parrot": pytest.approx(9 / 12),
    }


@pytest.mark.slow
def test_the_joint_means_put_the_system_first_that_keeps_content_and_hits_the_style(document):
    content, style = (means(document, name) for name in ("bleu.references", "control.average"))
    for name, of in (
        ("joint.geometric", lambda c, s: (c * s) ** 0.5),
        ("joint.harmonic", lambda c, s: 2 * c * s / (c + s)),
    ):
        found = means(document, name)
        assert max(found, key=found.get) == "careful"
        for system, value in found.items():
            assert value == pytest.approx(of(content[system] / 100, style[system]))


@pytest.mark.slow
def test_p_is_adjusted_over_the_comparisons_of_each_metric(document):
    assert document["family"] == "metric"
    for metric in document["metrics"]:
        p, p_adjusted = ([c[key] for c in metric["comparisons"]] for key in ("p", "p_adjusted"))
        if p:
            assert min(p_adjusted) >= min(1, min(p) * len(p)) - 1e-12


@pytest.mark.slow
def test_the_table_has_a_row_a_system_under_its_criteria(run: Run, tmp_path):
    done = run("score", REWRITES, "--task", "style-transfer", *LIGHT, "--out", tmp_path / "s.jsonl")
    head = done.out.split("± half")[0]
    assert max(map(len, head.splitlines())) <= 80
    for word in ("content", "style", "fluency", "both", "no rewrite", "careful", "parrot"):
        assert word in head


def test_what_the_samples_lack_is_left_out_with_a_note(run: Run, tmp_path):
    file = tmp_path / "bare.jsonl"
    rows = [{"id": f"{i}", "source": "It rained.", "text": "It poured."} for i in range(2)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run("score", file, "--task", "style-transfer", *LIGHT, "--out", tmp_path / "s.jsonl")
    assert done.code == 0, done.err
    assert "left out: control.average needs 'control'" in done.err
    assert "bleu.source" in done.out
    assert "joint" not in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--task", "style-transfer", "--model", "gpt2"], "models of several kinds"),
        (["--content", "bleu.source", "--metric", "bleu.source"], "--content needs --task"),
        (["--task", "style-transfer", "--content", "blue"], "of which higher is better"),
        (["--task", "style-transfer", "--content", "style.degenerate"], "higher is better"),
        (
            ["--task", "style-transfer", "--option", "fluency:model=offline/nothing"],
            "no embedded model 'offline/nothing'",
        ),
    ],
)
def test_what_does_not_fit_a_task_is_said(run: Run, words, said, tmp_path):
    out = tmp_path / "s.jsonl"
    done = run("score", REWRITES, *words, "--out", out)
    assert said in done.complaint
    assert not out.exists()  # it is said before anything is scored


@pytest.mark.slow
def test_a_corpus_of_all_systems_is_in_no_row_of_the_table(run: Run, tmp_path):
    done = run(
        "score", REWRITES, "--task", "style-transfer", "--metric", "corpus-bleu.source",
        "--corpus-by", "none", *LIGHT, "--out", tmp_path / "s.jsonl",
    )  # fmt: skip
    assert done.code == 0, done.err
    block = next(block for block in done.out.split("\n\n") if "corpus-bleu" in block)
    (row,) = [line for line in block.splitlines() if "parrot" in line]
    assert "–" in row


@pytest.mark.slow
def test_another_metric_of_content_can_stand_in_the_joint_mean(run: Run, tmp_path):
    done = run(
        "score", REWRITES, "--task", "style-transfer", "--content", "bertscore.source", *LIGHT,
        "--out", tmp_path / "s.jsonl", "--json",
    )  # fmt: skip
    found = done.json
    content = means(found, "bertscore.source")["careful"]
    style = means(found, "control.average")["careful"]
    assert means(found, "joint.geometric")["careful"] == pytest.approx((content * style) ** 0.5)


def test_texts_from_keywords_with_several_references_are_scored_as_they_come(run: Run, tmp_path):
    file = tmp_path / "concepts.jsonl"
    rows = [
        {"concepts": ["dog", "throw", "catch"], "target": ["A dog catches what he throws.", "x"],
         "prediction": "I throw a ball for the dog to catch."},
        {"concepts": ["rain"], "target": ["It is raining."], "prediction": "The sun shines."},
    ]  # fmt: skip
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run(
        "score", file, "--task", "style-transfer", "--metric", "keywords.coverage", *LIGHT,
        "--map", "text=prediction", "--map", "references=target",
        "--map", "control.keywords=concepts", "--out", tmp_path / "s.jsonl", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    (found,) = [m for m in done.json["metrics"] if m["metric"] == "keywords.coverage"]
    assert found["overall"]["mean"] == pytest.approx(0.5)
    assert means(done.json, "bleu.references")


def test_sentiment_transfer_in_a_table_with_a_column_a_reference(run: Run, tmp_path):
    file = tmp_path / "yelp.tsv"
    file.write_text(
        "sentence\toutput\tref0\tref1\n"
        "the food was bad .\tthe food was great .\tthe food was good .\tgreat food .\n"
    )
    done = run(
        "score", file, "--metric", "bleu", "--map", "source=sentence", "--map", "text=output",
        "--map", "references.1=ref0", "--map", "references.2=ref1",
        "--control", "sentiment=positive", "--out", tmp_path / "s.jsonl", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert {m["metric"] for m in done.json["metrics"]} == {"bleu.source", "bleu.references"}
