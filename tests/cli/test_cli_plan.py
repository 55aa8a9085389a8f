from __future__ import annotations

import json

import numpy as np
import pytest

from command_line import Run, Write


@pytest.mark.slow
def test_a_pilot_is_planned_from_its_files(run: Run, write: Write):
    rng = np.random.default_rng(0)
    samples = [
        {"id": f"{s}{i}.{k}", "text": "t", "prompt": f"p{i}", "system": s, "seed": k}
        for s in "ab"
        for i in range(12)
        for k in range(2)
    ]
    texts = write("texts.jsonl", samples)
    scores = write(
        "scores.jsonl",
        [
            {"id": s["id"], "metric": "m", "value": float(rng.normal()), "signature": "m|v:0"}
            for s in samples
        ],
    )
    words = ("plan", "systems", scores, "--samples", texts, "--difference", 0.5)
    ran = run(*words)
    assert ran.code == 0, ran
    assert "Inputs that show a difference of 0.5" in ran.out
    assert "pilot: 12 inputs, 2 seeds" in " ".join(ran.out.split())
    document = json.loads(run(*words, "--json").out)
    assert [row["seeds"] for row in document["rows"]] == [1, 2, 3, 5, 10]
    assert document["files"] == [scores, texts]


def test_plans_need_no_pilot(run: Run):
    ran = run("plan", "metrics", "--r", 0.4, "--agreement", 0.5, "--raters", 3)
    assert ran.code == 0, ran
    assert "0.49" in ran.out
    ran = run("plan", "raters", "--agreement", 0.6, "--raters", 3)
    assert ran.code == 0, ran
    assert "101" in ran.out


def test_a_plan_from_nothing_says_what_to_give(run: Run):
    for question, option in (("systems", "--sd"), ("metrics", "--r"), ("raters", "--agreement")):
        ran = run("plan", question)
        assert ran.code == 2
        assert option in ran.err
        assert ran.err.count("\n") == 1


def test_a_margin_is_read_before_anything_is_scored(run: Run, write: Write):
    texts = write(
        "texts.jsonl",
        [
            {"id": f"{s}{i}", "text": f"{s * (i + 1)} {i}", "source": f"a {i}", "system": s}
            for s in "ab"
            for i in range(8)
        ],
    )
    words = ("score", texts, "--metric", "chrf.source", "--no-cache", "--pairs")
    for margin, message in (
        ("x", "margin of all: expected a number above 0, such as 0.5; found x"),
        ("bleu=1", "margin of bleu: nothing is compared by it; there are chrf.source"),
    ):
        ran = run(*words, "--margin", margin)
        assert ran.code == 2
        assert message in ran.err
    ran = run(*words, "--margin", "chrf=100")
    assert ran.code == 0, ran
    assert "by less than 100" in ran.out or "alike within 100" in ran.out
