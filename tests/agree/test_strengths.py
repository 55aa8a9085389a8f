"""Strengths of systems, and what is said where there are none."""

from __future__ import annotations

import math

import pytest

import levelfield
from levelfield.agree.strengths import strengths
from levelfield.core.errors import UserError
from levelfield.io.comparisons import PairChoice


def comparisons(aspect="", wins=(1, 1, 0, 1, 0.5, 1)):
    return [
        PairChoice(a, b, float(w), aspect, f"r{n % 2}", f"s{n}")
        for a, b in ("xy", "yz", "xz")
        for n, w in enumerate(wins)
    ]


def test_strengths_are_by_aspect_with_pairs_and_probabilities():
    report = levelfield.strengths([*comparisons("style"), *comparisons("content", (0, 1, 0, 0, 1))])
    assert [(s.aspect, s.system) for s in report.strengths] == [
        *[("style", s) for s in "xyz"], *[("content", s) for s in "zyx"],
    ]  # fmt: skip
    (xy, *_), _ = report.differences[:3], report.differences[3:]
    assert xy.probability == pytest.approx(1 / (1 + math.exp(-xy.estimate.value)))
    assert report.strengths[0].wins == pytest.approx(4.5 * 2 / 12)
    frame = report.to_polars()
    assert frame.height == 12
    assert frame["b"].null_count() == 6
    assert report.to_dict()["strengths"][0]["value"] == report.strengths[0].estimate.value
    assert report.to_latex().count("\\begin{table}") == 4
    assert len(strengths(comparisons("style"), aspects=["style"]).strengths) == 3
    with pytest.raises(UserError, match="nothing is compared on it"):
        strengths(comparisons("style"), aspects=["other"])


def test_what_has_no_scale_is_said():
    report = strengths([*comparisons(), PairChoice("w", "x", 1, "", "r0", "s0")])
    assert report.strengths[-1].system == "w"
    assert "w has no strength: never beaten" in report.notes
    apart = [c._replace(a=c.a.upper(), b=c.b.upper()) for c in comparisons()]
    (note,) = [n for n in strengths([*comparisons(), *apart]).notes if "no common scale" in n]
    assert "X, Y, Z" in note
    assert "x, y, z" in note
    itself = strengths([*comparisons(), PairChoice("x", "x", 1, "", "", "")])
    assert "comparisons of a system with itself are left out: 1" in itself.notes


def test_intervals_are_over_prompts_or_raters():
    by_prompt, by_rater = (strengths(comparisons(), cluster=c) for c in ("prompt", "rater"))
    assert by_prompt.strengths[0].estimate.clusters == 6
    assert by_rater.strengths[0].estimate.clusters == 2
    assert by_prompt.signature != by_rater.signature
