"""Figures: inline, small, and the same bytes every time."""

import xml.etree.ElementTree as ET

import numpy as np
from made_up import METRICS, one, report_of, run

from levelfield.report.figures import MOST_POINTS, means_figure


def figure_of(shown, metric=METRICS[0]):
    return means_figure(report_of(shown, (metric,)).summaries[0])


def test_a_figure_is_one_element_that_loads_nothing():
    svg = figure_of(run())
    assert ET.fromstring(svg).tag == "svg"
    assert "<image" not in svg
    assert "metadata" not in svg
    assert "http" not in svg


def test_equal_summaries_give_equal_bytes():
    assert figure_of(run()) == figure_of(run())


def test_figures_of_two_metrics_have_no_identifier_in_common():
    figures = [ET.fromstring(figure_of(run(), metric)) for metric in METRICS[:2]]
    ids = [{e.get("id") for e in figure.iter() if e.get("id")} for figure in figures]
    assert ids[0]
    assert not ids[0] & ids[1]


def test_names_stay_text_whatever_they_hold():
    name = "a $x_1$ <b> & 系统 🙂"
    svg = figure_of([one(group=name), one("2", group="y")])
    assert "a $x_1$ &lt;b&gt; &amp; 系统 🙂" in svg


def test_a_long_name_is_cut():
    assert "…" in figure_of([one(group="very " * 30), one("2", group="y")])


def test_many_values_are_thinned():
    rng = np.random.default_rng(0)
    shown = [
        one(str(i), group=f"s{i % 10}", prompt=f"P{i}", values={METRICS[0]: v})
        for i, v in enumerate(rng.normal(size=3000))
    ]
    svg = figure_of(shown)
    assert len(svg) < 60 * MOST_POINTS


def test_no_value_makes_no_figure():
    assert figure_of([one(values={}, undefined={METRICS[0]: "empty text"})]) == ""


def test_one_value_makes_a_figure():
    assert "<svg" in figure_of([one()])


def test_equal_values_make_a_figure():
    assert "<svg" in figure_of([one(str(i), prompt=f"P{i}") for i in range(5)])
