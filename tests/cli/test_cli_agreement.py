from __future__ import annotations

import json

import numpy as np
import pytest

from command_line import Run, Write, records
from levelfield.agree.agreement import agreement
from levelfield.io import load_ratings


@pytest.fixture
def rated(write: Write) -> str:
    rng = np.random.default_rng(0)
    rows = []
    for i in range(20):
        for aspect in ("content", "style"):
            level = rng.uniform(20, 80)
            for rater in ("ann", "bo"):
                value = round(float(level + rng.normal(scale=9)), 1)
                more = {"survey": 1 + i % 2, "source": f"source {i // 2}"}
                rows.append({"id": i, "aspect": aspect, "rater": rater, "value": value, **more})
    return write("ratings.jsonl", rows)


def test_tables_for_people(run: Run, rated: str):
    ran = run("agreement", rated, "--worst", 3)
    assert ran.code == 0, ran
    for title in ("AC2 (interval)", "Intraclass", "Two raters", "Raters", "Largest"):
        assert title in ran.out
    assert "mean of aspects" in ran.out
    assert "ann, bo" in ran.out
    assert "agreement|aspects:content,style|by:none|level:interval|clusters:shared" in ran.out


def test_every_coefficient_has_a_number_in_each_group(run: Run, rated: str):
    lines = run("agreement", rated).out.splitlines()
    head = next(line for line in lines if "(1,1)" in line)
    assert head.split() == ["aspect", "(1,1)", "(2,1)", "(3,1)", "(1,k)", "(2,k)", "(3,k)", "items"]
    row = lines[lines.index(head) + 1].split()
    assert len(row) == 8
    assert row[0] == "content"


def test_one_json_document_for_programs(run: Run, rated: str):
    ran = run("agreement", rated, "--json", "--by", "survey", "--worst", 2, "--level", "ordinal")
    assert ran.code == 0, ran
    assert ran.err == ""
    said = ran.json
    assert (said["by"], said["level"], len(said["worst"])) == ("survey", "ordinal", 2)
    assert [(g["aspect"], g["part"]) for g in said["groups"]][:4] == [
        ("content", "1"),
        ("content", "2"),
        ("content", "all"),
        ("style", "1"),
    ]
    first = said["groups"][0]
    assert first["items"] == 10
    assert first["alpha"]["low"] < first["alpha"]["value"] < first["alpha"]["high"]
    assert list(first["icc"]) == [f"ICC({form},{k})" for k in "1k" for form in (1, 2, 3)]
    assert first["pairs"][0]["pearson"]["n"] == 10
    assert [r["rater"] for r in first["raters"]] == ["ann", "bo"]


@pytest.mark.parametrize(
    ("words", "keywords"),
    [
        ((), {}),
        (("--by", "survey", "--level", "ordinal"), {"by": "survey", "level": "ordinal"}),
        (("--aspect", "style", "--worst", 2), {"aspects": ["style"], "worst": 2}),
        (("--seed", 5, "--level", "nominal"), {"seed": 5, "level": "nominal"}),
    ],
)
def test_a_python_call_gives_the_document_of_the_command(run: Run, rated: str, words, keywords):
    document = run("agreement", rated, "--json", *words).json
    assert agreement([rated], **keywords).to_dict() == document
    assert agreement(rated, **keywords).to_dict() == document


def test_equal_seeds_say_equal_things(run: Run, rated: str):
    words = ("agreement", rated, "--json", "--aspect", "style")
    first = run(*words, "--seed", 3)
    assert first.out == run(*words, "--seed", 3).out
    alpha, other = (ran.json["groups"][0]["alpha"] for ran in (first, run(*words, "--seed", 4)))
    assert alpha["value"] == other["value"]
    assert alpha["low"] != other["low"]


def test_z_scores_can_be_read_as_ratings_again(run: Run, rated: str):
    ran = run("agreement", rated, "--zscores", "z.jsonl")
    assert "wrote z.jsonl" in ran.err
    z = load_ratings(["z.jsonl"], mapping={"value": "z"})
    assert len(z.ratings) == 80
    ann = [r.value for r in z.ratings if (r.rater, r.aspect) == ("ann", "style")]
    assert (np.mean(ann), np.std(ann)) == pytest.approx((0, 1))
    ran = run("agreement", rated, "--zscores", "-")
    assert len([json.loads(line) for line in ran.out.splitlines()]) == 80


def test_why_there_are_no_numbers(run: Run, write: Write):
    rows = [{"id": i, "aspect": "style", "rater": "ann", "value": 3} for i in range(4)]
    ran = run("agreement", write("one.jsonl", rows), "--zscores", "z.jsonl")
    assert ran.code == 0, ran
    assert "note: α: one rater only (style)" in ran.err
    assert records("z.jsonl")[0] == {
        "id": "0",
        "aspect": "style",
        "rater": "ann",
        "value": 3.0,
        "z": None,
        "undefined": "all of these ratings by ann are 3",
    }
    said = run("agreement", "one.jsonl", "--json").json["groups"][0]
    assert said["alpha"]["value"] is None
    assert said["alpha"]["undefined"] == "one rater only"


def test_samples_with_means_only_have_one_rater(run: Run, write: Write):
    path = write("set.txt", "positive\tA\tA b.\t4\t2\t3\nnegative\tA\tA c.\t3\t2\t1\n")
    ran = run("agreement", path, "--format", "ctrleval")
    assert ran.code == 0
    assert "one rater only" in ran.err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("none.jsonl",), "none.jsonl: No such file"),
        (("ratings.jsonl", "--aspect", "form"), "--aspect form: nothing is rated on it; there are"),
        (("ratings.jsonl", "--by", "wave"), "--by wave: no rated sample has it; there are survey"),
        (("ratings.jsonl", "--map", "value"), "--map value: expected NAME=VALUE"),
        (("ratings.jsonl", "--json", "--zscores", "-"), "only one of --zscores -, --json can"),
        (("ratings.jsonl", "--zscores", "no/z.jsonl"), "no/z.jsonl: there is no folder"),
        (("bad.jsonl",), "bad.jsonl:1: value: expected a number, found the string"),
    ],
)
@pytest.mark.usefixtures("rated")
def test_a_mistake_is_one_line(run: Run, write: Write, words, complaint):
    write("bad.jsonl", [{"id": 1, "aspect": "style", "rater": "ann", "value": "3"}])
    assert run("agreement", *words).complaint.startswith(complaint)


def test_there_are_three_levels(run: Run, rated: str):
    assert (
        '"ratio": expected nominal, ordinal or interval'
        in run("agreement", rated, "--level", "ratio").complaint
    )


def test_markup_in_names_is_shown_as_it_is(run: Run, write: Write):
    rows = [
        {"id": f"[red]{i}", "aspect": "[b]style", "rater": rater, "value": i * i + len(rater)}
        for i in range(4)
        for rater in ("[i]ann", "bo")
    ]
    ran = run("agreement", write("r.jsonl", rows))
    assert ran.code == 0, ran
    for name in ("[red]3", "[b]style", "[i]ann"):
        assert name in ran.out


@pytest.fixture
def judged(write: Write) -> tuple[str, str]:
    rng = np.random.default_rng(0)
    quality = rng.integers(1, 6, 50)
    ratings = [
        {"id": i, "aspect": "style", "rater": rater, "value": int(v)}
        for rater in ("ann", "bo", "cy")
        for i, v in enumerate(np.clip(quality + rng.integers(-1, 2, 50), 1, 5))
    ]
    good, bad = quality.tolist(), rng.permutation(quality).tolist()
    scores = [
        {"id": str(i), "metric": name, "value": v, "signature": f"{name}|v:1"}
        for name, values in (("good", good), ("bad", bad))
        for i, v in enumerate(values)
    ]
    return write("ratings.jsonl", ratings), write("scores.jsonl", scores)


def test_a_judge_is_tested_in_the_place_of_each_rater(run: Run, judged: tuple[str, str]):
    ratings, scores = judged
    ran = run("agreement", ratings, "--judge", scores)
    assert ran.code == 0, ran
    assert "Alternative annotator test, ε = 0.1" in ran.out
    document = run("agreement", ratings, "--judge", scores, "--epsilon", "0.15", "--json").json
    good, bad = document["judges"]
    assert (good["metric"], good["winning_rate"], good["passed"]) == ("good", 1, True)
    assert (bad["metric"], bad["winning_rate"], bad["passed"]) == ("bad", 0, False)
    assert [r["rater"] for r in good["raters"]] == ["ann", "bo", "cy"]
    assert good["epsilon"] == 0.15
    only = run("agreement", ratings, "--judge", scores, "-m", "bad", "--json").json
    assert [j["metric"] for j in only["judges"]] == ["bad"]
    frame = agreement(ratings, judge=scores).to_polars()
    rows = frame.filter(frame["measure"] == "winning rate")
    assert rows["a"].to_list() == ["good", "bad"]
    assert rows["value"].to_list() == [1, 0]


def test_what_a_judge_lacks_is_said(run: Run, judged: tuple[str, str], write: Write):
    ratings, scores = judged
    assert "--metric selects" in run("agreement", ratings, "-m", "good").complaint
    assert "no metric 'x'" in run("agreement", ratings, "--judge", scores, "-m", "x").complaint
    shares = [
        {"id": str(i), "metric": "share", "value": i / 50, "signature": "share|v:1"}
        for i in range(20)
    ]
    ran = run("agreement", ratings, "--judge", write("shares.jsonl", shares))
    assert "outside the range of the ratings on style" in ran.err
    assert "no rater with 30 items" in ran.out


def choice(rater: str, item: int, better: str, **fields: str) -> dict[str, str]:
    names = {"a": "plain", "b": "florid", "item": f"pair {item}", "aspect": "style"}
    return {**names, "better": better, **({"rater": rater} if rater else {}), **fields}


@pytest.mark.parametrize("raters", [("r1", "r2"), ("", "")])
def test_choices_are_ratings_by_names(run: Run, write: Write, raters):
    words = ["a", "b", "equal", "both", "neither"]
    choices = [choice(rater, n, word) for rater in raters for n, word in enumerate(words)]
    ran = run("agreement", write("choices.jsonl", choices), "--json")
    assert ran.code == 0, ran
    (group,) = [g for g in ran.json["groups"] if g["aspect"] == "style"]
    assert group["alpha"]["value"] == 1
    assert bool(group["pairs"]) == bool(raters[0])


def test_choices_that_can_not_be_read_are_one_line(run: Run, write: Write):
    ran = run("agreement", write("choices.jsonl", []))
    assert (ran.code, ran.err.count("\n")) == (2, 1), ran
    twice = [choice("r1", 1, "a"), choice("r1", 1, "b")]
    ran = run("agreement", write("choices.jsonl", twice))
    assert (ran.code, "rater r1 has two judgements" in ran.err) == (2, True), ran


def test_choices_within_one_system_have_sides(run: Run, write: Write):
    texts = {"b": "plain", "sample_a": "p1", "sample_b": "p2"}
    choices = [choice(r, n, "ab"[n], **texts) for r in ("r1", "r2") for n in range(2)]
    ran = run("agreement", write("choices.jsonl", choices), "--json")
    assert (ran.code, ran.json["groups"][0]["alpha"]["value"]) == (0, 1), ran
