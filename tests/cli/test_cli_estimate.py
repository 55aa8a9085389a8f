"""`levelfield estimate` as a user has it, up to the rating app and back."""

from __future__ import annotations

import json

import pytest

from levelfield.agree.estimate import estimate
from levelfield_rating.plan.freezing import freeze
from levelfield_rating.results.ratings import records

STUDY = """id = "more"
title = "More"
samples = ["next.jsonl"]
[[criteria]]
id = "quality"
title = "Quality"
statement = "The text is good."
"""


@pytest.fixture
def files(write):
    texts = [
        {"id": str(i), "text": f"Text {i} is here.", "prompt": f"p{i // 2}", "system": "ab"[i % 2],
         "control": {"sentiment": "positive"}}
        for i in range(40)
    ]  # fmt: skip
    scores = [
        {"id": t["id"], "metric": "judge", "value": i * 7 % 11, "signature": "judge|v:1"}
        for i, t in enumerate(texts)
    ]
    ratings = [
        {**t, "ratings": {"quality": {"x": i * 7 % 11 + i % 2}}}
        for i, t in enumerate(texts)
        if i % 4 < 2
    ]
    write("texts.jsonl", texts)
    return write("s.jsonl", scores), write("r.jsonl", ratings)


def test_the_table_shows_both_intervals_and_the_document_the_same(run, files):
    words = ("estimate", files[0], "--ratings", files[1], "--samples", "texts.jsonl")
    done = run(*words)
    assert done.code == 0, done.err
    for word in ("Quality with judge", "prediction-", "worth", "a − b", "estimate|weight:tuned"):
        assert word in done.out
    document = run(*words, "--json").json
    assert document == estimate([files[0]], [files[1]], samples=["texts.jsonl"]).to_dict()
    assert "\\toprule" in run(*words, "--latex", "-").out


def test_drawn_texts_go_through_the_rating_app_with_their_probabilities(run, files, write, here):
    words = ("estimate", files[0], "--ratings", files[1], "--samples", "texts.jsonl")
    done = run(*words, "--next", "6", "--out", "next.jsonl")
    assert done.code == 0, done.err
    assert run(*words, "--next", "6", "--out", "next.jsonl").code == 0  # of its own kind
    drawn = [json.loads(line) for line in (here / "next.jsonl").read_text().splitlines()]
    assert len(drawn) == 6
    assert all(text["control"] == {"sentiment": "positive"} for text in drawn)
    exported = records(freeze(write("STUDY.toml", STUDY)), ())
    places = ("drawn_by", "strata", "stratum", "inclusion_probability")
    assert {r["id"]: [r[p] for p in places] for r in exported} == {
        t["id"]: [t[p] for p in places] for t in drawn
    }
    answers = [{**r, "ratings": {"quality": {"r1": int(r["id"]) * 7 % 11}}} for r in exported]
    done = run(*words, "--ratings", write("results.jsonl", answers))
    assert done.code == 0, done.err
    assert "strata of judge" in done.out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--next", "6"), "give both"),
        (("--out", "next.jsonl"), "give both"),
        (("--next", "21", "--out", "next.jsonl"), "20 texts are not rated"),
        (("--next", "6", "--out", "texts.jsonl"), "an input"),
    ],
)
def test_a_draw_that_cannot_be_is_one_line(run, files, words, complaint):
    done = run("estimate", files[0], "--ratings", files[1], "--samples", "texts.jsonl", *words)
    assert complaint in done.complaint
