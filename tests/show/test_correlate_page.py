"""The page and the LaTeX table of metrics against ratings."""

import re

import numpy as np
import pytest
from made_up import BROKEN_WORDS

from levelfield.agree.evaluation import evaluate
from levelfield.agree.join import join
from levelfield.core.sample import Sample
from levelfield.io.ratings import Rated, Rating
from levelfield.io.scores import ScoreColumn
from levelfield.io.tables import comment_lines, escape_latex, escape_markdown
from levelfield.show.correlate_page import (
    CorrelateReport,
    matrix,
    render_correlate_page,
    write_correlate_page,
)
from levelfield.show.figures import SHAPES
from levelfield.stats.resampling import Resampling

QUICK = Resampling(resamples=60, permutations=199)
"""So many permutations that a p of 6 comparisons can be below 0.05 (6 × 1/200)."""
EVIL = "<script>document.title='taken'</script>"


def found(metrics=3, names=("plain", "steered", EVIL), constant=True, sources=30, **how):
    rng = np.random.default_rng(0)
    ratings, samples = [], {}
    values = {f"metric_{i}.{EVIL if i == 0 else 'x'}": {} for i in range(metrics)}
    if constant:
        values["flat"] = {}
    for s in range(sources):
        for system in names:
            id = f"{s}-{system}"
            samples[id] = Sample(id=id, text="text", source=f"s{s}", system=system)
            quality = rng.normal()
            for aspect in ("content & form", EVIL):
                ratings.append(Rating(id, aspect, "ann", float(np.clip(round(quality * 2), -3, 3))))
            for i, of in enumerate(values.values()):
                of[id] = quality + i * rng.normal()
            if constant:
                values["flat"][id] = 1.0
    columns = [ScoreColumn(m, f"{m}|v:1", v) for m, v in values.items()]
    table = join(columns, Rated(tuple(ratings), samples))
    return evaluate(table, resampling=QUICK, **how)


def page(evaluation, **more):
    return render_correlate_page(
        CorrelateReport(title="t", created="today", evaluation=evaluation, **more)
    )


@pytest.mark.thinned
@pytest.mark.parametrize("how", [{}, {"group": "system"}, {"group": "source"}, {"level": "system"}])
def test_every_text_is_escaped_and_nothing_is_loaded(how):
    html = page(found(with_drift=True, **how), notes=[EVIL], files=[EVIL], command=EVIL)
    assert "<script>document.title" not in html
    assert not re.search(r'(?:src|href)="(?!#)', html)
    assert "url(http" not in html
    assert ">nan<" not in html.lower()


def test_it_shows_plots_heat_comparisons_and_drift():
    html = page(found(with_drift=True))
    # two aspects, three metrics that vary; drift by system and by quality
    assert html.count("<svg role") == 2 * 3 + 2 * 2
    assert html.count('<table class="heat">') == 4
    assert (
        html.count('<table class="heat difference">') == html.count('<table class="heat r">') == 2
    )
    assert html.count("constant metric") >= 2
    assert 'id="comparisons"' in html
    assert 'aria-label="Systems"' in html


def test_every_two_metrics_meet_in_a_matrix_that_says_which_differences_are_shown():
    evaluation = found(metrics=4, constant=False, systems="these")
    html = page(evaluation)
    section = html[html.index('id="comparisons"') : html.index('id="methods"')]
    assert section.index('class="heat difference"') < section.index("<details")
    assert section.index("<details") < section.index('class="comparisons"')
    for ranking in evaluation.comparisons.rankings:
        m = matrix(evaluation, ranking)
        mine = [c for c in evaluation.comparisons.comparisons if c.aspect == ranking.aspect]
        shown = [c.better(evaluation.alpha) for c in mine if c.better(evaluation.alpha)]
        assert shown
        cells = {
            (a, b): m.cells[i][j] for i, a in enumerate(m.metrics) for j, b in enumerate(m.metrics)
        }
        assert {pair for pair, d in cells.items() if d and d.shown == "more"} == set(shown)
        for (a, b), d in cells.items():
            assert (d is None) == (a == b)
            if d:
                assert d.value == -cells[b, a].value
                assert (d.p, d.r) == (cells[b, a].p, cells[b, a].r)
    shown = sum(c.better(evaluation.alpha) is not None for c in evaluation.comparisons.comparisons)
    assert section.count("▲ +") == section.count("▼ −") == shown


def test_equal_evaluations_give_equal_pages():
    assert page(found()) == page(found())


@pytest.mark.slow
def test_of_many_metrics_the_strongest_are_drawn_and_it_is_said():
    html = page(found(metrics=10, constant=False))
    assert html.count("<svg role") == 2 * 8
    assert "The 8 of 10 metrics with the highest correlations" in html


def test_a_plot_of_means_of_systems_says_of_how_many():
    names = ("a", "b", "c", "d")
    html = page(found(metrics=1, names=names, constant=False, sources=9, level="system"))
    assert re.search(r"Pearson r [^<]*, 4 systems<", html)
    assert not re.search(r"Pearson r [^<]*n = 36", html)


def test_one_metric_of_one_system_needs_no_comparison():
    html = page(found(metrics=1, names=("",), constant=False))
    assert 'id="comparisons"' not in html
    assert 'aria-label="Systems"' not in html


@pytest.mark.parametrize("systems", [("a",), ("a", "b", "c")])
def test_every_dot_is_in_the_figure(systems):
    # above 64 dots a path of lines without length would be simplified away
    html = page(found(metrics=1, names=systems, constant=False, sources=120))
    svg = html[html.index("<svg role") :]
    paths = re.findall(r' d="([^"]*)"', svg[: svg.index("</svg>")])
    of_shapes = [SHAPES[i] for i in range(len(systems))]
    for lines, corners in ((len(s.lines), sum(map(len, s.lines))) for s in of_shapes):
        assert any(
            p.count("M") == 120 * lines and p.count("L") == 120 * (corners - lines) for p in paths
        )


def test_at_system_level_the_dots_are_systems_with_their_names():
    names = [f"system {i}" for i in range(6)]
    how = {"level": "system", "systems": "these", "wanted": ("pearson",), "sources": 10}
    html = page(found(metrics=1, names=names, constant=False, **how))
    svg = html[html.index("<svg role") :]
    svg = svg[: svg.index("</svg>")]
    assert re.findall(r">(system \d+)</text>", svg) != []
    assert set(re.findall(r">(system \d+)</text>", svg)) == set(names)
    # three ticks are paths as well; the dots are the one with as many lines as there are systems
    assert [p.count("M") for p in re.findall(r' d="([^"]*)"', svg)].count(6) == 1
    assert "A dot is the mean of a system" in html
    assert 'aria-label="Systems"' not in html


def test_the_legend_gives_each_of_16_systems_a_mark_of_its_own():
    html = page(found(metrics=1, names=[f"s{i}" for i in range(16)], constant=False, sources=5))
    legend = html[html.index('aria-label="Systems"') :]
    marks = re.findall(r"<li>(<svg.*?</svg>)<bdi>s\d+", legend[: legend.index("</ul>")])
    assert len(set(marks)) == 16


def test_latex_escapes_and_marks_the_best_of_each_column():
    text = found().to_latex()
    assert "content \\& form" in text
    assert "\\textless{}script\\textgreater{}" in text
    assert text.count("\\textbf") >= 6
    assert "flat & -- & --" in text
    rows = [line for line in text.splitlines() if line.startswith(("metric\\_", "flat"))]
    assert len(rows) == 4
    assert {row.count("&") for row in rows} == {8}


def test_latex_of_any_character():
    assert escape_latex("a\\b~c^d\ne") == (
        "a\\textbackslash{}b\\textasciitilde{}c\\textasciicircum{}d e"
    )


@pytest.mark.parametrize("escape", [escape_latex, escape_markdown, lambda t: comment_lines([t])[0]])
def test_no_control_character_of_a_name_reaches_a_document(escape):
    assert not {"\x1b", "\a", "\u202e"}.intersection(escape("a\x1b[31mb\ac\u202ed"))


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("width", [1200, 360])
def test_in_a_browser_it_fits_sorts_and_stays_silent(chromium, tmp_path, width):
    file = tmp_path / "page.html"
    write_correlate_page(
        file, CorrelateReport(title="t", created="today", evaluation=found(with_drift=True))
    )
    with chromium.new_context(viewport={"width": width, "height": 900}) as context:
        opened = context.new_page()
        troubles, requests = [], []
        opened.on("console", lambda message: troubles.append(message.text))
        opened.on("pageerror", lambda error: troubles.append(str(error)))
        opened.on("request", lambda request: requests.append(request.url))
        opened.goto(file.as_uri())
        assert opened.title() == "t"
        assert opened.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.evaluate(BROKEN_WORDS, "thead th") == []
        opened.locator(".result-table th button", has_text="Pearson").click()
        keys = opened.locator(".result-table tbody td:nth-child(3)").evaluate_all(
            "cells => cells.map(c => c.dataset.v)"
        )
        numbers = [float(k) for k in keys if k]
        assert numbers == sorted(numbers)
        assert keys[len(numbers) :] == [""] * (len(keys) - len(numbers))
    assert troubles == []
    assert requests == [file.as_uri()]


@pytest.mark.slow
def test_of_many_samples_some_are_drawn_and_the_plot_says_how_many():
    few, many, more = (
        page(found(metrics=1, names=("a",), constant=False, sources=n)) for n in (900, 1500, 4000)
    )
    assert "dots: a random" not in few
    assert many.count("dots: a random 1,000 of 1,500") == 2
    assert more.count("dots: a random 1,000 of 4,000") == 2
    assert len(more) < 1.1 * len(many)


def test_metrics_that_no_test_compares_are_not_said_to_be_alike():
    few = page(found(metrics=2, names=("plain", "steered"), constant=False))
    assert "It is not compared with <b>metric_1.x</b> (2 systems, and a claim" in few
    assert "No difference from" not in few
    assert "≈" not in few
    six = page(found(metrics=2, names="abcdef", constant=False))
    assert "It is not compared with" not in six


def test_a_reason_that_no_value_has_an_interval_stands_once_below_the_numbers():
    few = page(found(metrics=2, names=("plain", "steered"), constant=False))
    reason = "2 systems, and a claim about systems like these needs 6"
    assert f"no intervals: {reason}" in few
    numbers = few[few.index('id="numbers"') : few.index('id="comparisons"')]
    assert numbers.count(reason) == 1
    six = page(found(metrics=2, names="abcdef", constant=False))
    assert "below: its 95 % interval, or why there is none" in six
