"""Figures: inline, small, and the same bytes every time."""

import itertools
import re
import xml.etree.ElementTree as ET
from importlib import resources

import numpy as np
import pytest
from made_up import METRICS, one, report_of, run
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from levelfield.show.figures import (
    MOST_POINTS,
    SHAPES,
    VARIABLES,
    dots,
    means_figure,
    series_mark,
)


def figure_of(shown, metric=METRICS[0]):
    return means_figure(report_of(shown, (metric,)).summaries[0])


def test_a_figure_is_one_element_that_loads_nothing():
    svg = figure_of(run())
    assert ET.fromstring(svg).tag == "svg"
    assert "<image" not in svg
    assert "metadata" not in svg
    assert "http" not in svg


def test_every_colour_of_a_figure_follows_the_mode_of_the_page():
    styles = re.findall(r'style="([^"]*)"', figure_of(run()))
    colours = [c for style in styles for c in re.findall(r"[^;]*#[0-9a-f]+[^;]*", style)]
    assert colours
    assert all(re.search(r": var\(--[a-z0-9-]+, #[0-9a-f]{6}\)$", c) for c in colours)


def variables():
    """Of the light and the dark mode: variable -> colour."""
    css = resources.files("levelfield.show").joinpath("templates/page.css").read_text()
    light, dark = (dict(re.findall(r"(--[a-z0-9-]+): (#[0-9a-f]{6})", part))
                   for part in re.split("@media screen|html {", css)[:2])  # fmt: skip
    return light, {**light, **dark}


def luminance(colour):
    shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_marks_and_letters_stand_out_from_the_card_in_either_mode(mode):
    colours = variables()[mode]
    assert set(VARIABLES.values()) <= set(colours)
    card = luminance(colours["--card"])
    for variable in VARIABLES.values():
        least = {"--ink": 7, "--muted": 4.5, "--grid": 1, "--leader": 1, "--card": 1}
        low, high = sorted((card, luminance(colours[variable])))
        assert (high + 0.05) / (low + 0.05) >= least.get(variable, 3), variable


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_numbers_can_be_read_on_the_strongest_colour_of_a_heat_map(mode):
    colours = variables()[mode]
    for ground in ("--up", "--down", "--faint"):
        low, high = sorted(luminance(colours[v]) for v in (ground, "--ink"))
        assert (high + 0.05) / (low + 0.05) >= 4.5, ground


def test_series_differ_in_colour_and_shape_from_their_neighbours():
    marks = [series_mark(i) for i in range(64)]
    assert len({(m.colour, SHAPES.index(m.shape)) for m in marks}) == 64
    for mark, other in itertools.pairwise(marks):
        assert mark.colour != other.colour
        assert mark.shape != other.shape


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
    assert "dots: a random 2,000 of 3,000" in svg


def test_dots_of_all_values_need_no_words():
    assert "random" not in figure_of(run())


def test_no_value_makes_no_figure():
    assert figure_of([one(values={}, undefined={METRICS[0]: "empty text"})]) == ""


def test_one_value_makes_a_figure():
    assert "<svg" in figure_of([one()])


def test_equal_values_make_a_figure():
    assert "<svg" in figure_of([one(str(i), prompt=f"P{i}") for i in range(5)])


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e6])
def test_every_single_value_is_painted_on_pixels_too(scale):
    figure = Figure(dpi=100)
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    x = np.array([0.0, 0.5, 1.0]) * scale
    dots(axes, x, np.array([0.2, 0.5, 0.8]), colour="#000000", size=6, alpha=1)
    axes.set_xlim(-max(scale, 1), 2 * max(scale, 1))
    axes.set_ylim(0, 1)
    canvas.draw()
    dark = np.asarray(canvas.buffer_rgba())[..., 0] < 128
    rows = np.flatnonzero(dark.any(axis=1))
    assert np.count_nonzero(np.diff(rows) > 1) == 2  # three dots
    assert dark.sum() == pytest.approx(3 * np.pi * (3 / 72 * 100) ** 2, rel=0.1)
