"""Sentences and numbers of the page."""

import math
import re

import pytest
from made_up import METRICS, one, report_of, run

from levelfield.scoring.standing import Scale, p_value, scale_of
from levelfield.show.page import render
from levelfield.show.words import best_first, headline

COHERENCE = METRICS[:1]


def summary_of(shown, **more):
    return report_of(shown, COHERENCE, **more).summaries[0]


def said(shown, **more):
    return headline(summary_of(shown, **more), "system").striptags()


def two_systems(difference, prompts=9, noise=0.1):
    return [
        one(
            f"{system}{p}",
            group=system,
            prompt=f"P{p}",
            text=f"P{p} it is.",
            values={METRICS[0]: p + difference * k + noise * ((p * 7 + k * 3) % 5)},
        )
        for k, system in enumerate(("x", "y"))
        for p in range(prompts)
    ]


def test_a_shown_difference_comes_with_its_interval_p_and_inputs():
    words = said(two_systems(2.0))
    assert "y has the best mean" in words
    assert "On equal inputs it is better than x (difference 2.0 [1.8, 2.3]," in words
    assert "adjusted p = 0.0039, 9 inputs" in words


def test_the_best_mean_is_not_called_better_when_nothing_is_shown():
    words = said(two_systems(0.01, noise=1.0))
    assert "has the best mean" in words
    assert "No difference is shown between it and x" in words
    assert "better than" not in words


def test_identical_systems_share_the_best_mean():
    words = said(two_systems(0.0, noise=0.0))
    assert "x and y share the best mean" in words
    assert "No difference is shown between x and y (difference 0" in words


def test_of_several_best_means_it_is_named_whose_differences_are_told():
    shown = [
        one(f"{s}-{p}", group=s, prompt=f"P{p}", values={METRICS[0]: level + p / 9})
        for s, level in (("x", 2), ("y", 2), ("z", 0))
        for p in range(9)
    ]
    assert "On equal inputs x is better than z (difference 2" in said(shown)


def test_texts_that_share_no_inputs_are_not_said_to():
    shown = [
        one(f"{s}{p}", group=s, prompt=f"{s} {p}", values={METRICS[0]: level + p / 9})
        for s, level in (("x", 2), ("y", 0))
        for p in range(9)
    ]
    words = said(shown)
    assert "On independent texts it is better than y (difference 2" in words
    assert "18 texts" in words
    assert "inputs" not in words
    html = render(report_of(shown, COHERENCE))
    assert re.search(r'<td class="num" data-v="18">18 texts', html)


def test_systems_without_equal_inputs_are_not_compared():
    shown = [one("1", group="x", prompt="P"), one("2", group="y", prompt="Q")]
    assert "y can't be compared with x: no shared inputs" in said(shown)


def test_labels_are_told_as_a_range():
    words = said(two_systems(2.0), compare=False)
    assert "systems are not compared" in words
    assert "best mean" not in words


def test_one_sample_has_a_mean_and_says_why_there_is_no_interval():
    assert said([one()]) == "The mean is 0.500 (no interval: one value, n = 1)."


def test_nothing_defined_says_why():
    shown = [one(values={}, undefined={METRICS[0]: "empty text"})]
    assert said(shown) == "No value: the metric is undefined for all 1 sample (empty text)."


def test_names_are_escaped():
    shown = [one(group="<script>alert(1)</script>"), one("2", group="y")]
    assert "<script" not in headline(summary_of(shown), "system")


def test_many_systems_are_counted_rather_than_named():
    shown = [
        one(f"{k}-{p}", group=f"system {k}", prompt=f"P{p}", values={METRICS[0]: k + p / 7})
        for k in range(7)
        for p in range(3)
    ]
    assert "and 3 more" in said(shown)


def test_the_best_comes_first_in_either_direction():
    summary = summary_of(two_systems(2.0))
    assert [g.group for g in best_first(summary)] == ["y", "x"]
    lower = report_of(run()).summaries[0]
    means = [g.mean.value for g in best_first(lower)]
    assert means == sorted(means, reverse=True)


@pytest.mark.parametrize(
    ("scale", "value", "text"),
    [
        (Scale(2, False), -0.001, "0.00"),
        (Scale(0, False), 12345.6, "12,346"),
        (Scale(3, True), -1.5e-9, "−1.5e−09"),
        (Scale(3, False), math.nan, "–"),
    ],
)
def test_numbers_are_written_as_readers_expect(scale, value, text):
    assert scale(value) == text


def test_decimals_follow_the_narrowest_interval():
    assert scale_of(summary_of(two_systems(1.0))).places == 1
    tiny = [one(str(i), prompt=f"P{i}", values={METRICS[0]: 1e-9 * i}) for i in range(5)]
    assert scale_of(summary_of(tiny)).scientific


@pytest.mark.parametrize("p", [0.0499999, 0.05, 0.0500001, 0.0504, 0.9999])
def test_a_written_p_is_on_its_side_of_the_threshold(p):
    assert (float(p_value(p)) <= 0.05) == (p <= 0.05)


def test_a_p_is_never_written_as_zero():
    assert p_value(0.0) == "< 2e-308"
    assert p_value(math.nan) == "–"
