"""The page, the CSV file and the LaTeX tables of a study."""

from __future__ import annotations

import csv
import itertools
import math
import random
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up import BROKEN_WORDS

from levelfield.core.sample import Sample
from levelfield.show.figures import apart
from levelfield.show.study_page import (
    StudyPage,
    frontiers,
    headline,
    main_measure,
    render_study_page,
    write_study_csv,
    write_study_latex,
    write_study_page,
)
from levelfield.stats.estimate import Estimate
from levelfield.stats.resampling import Resampling
from levelfield.study.aggregate import aggregate
from levelfield.study.aggregate.results import TableEntry, places
from levelfield.study.audit import Example, Finding
from levelfield.study.cells import Cell, CellKey, Cost, GroupValue, Rate
from levelfield.study.report import COLUMNS, drawn_texts, study_latex, study_markdown

QUICK = Resampling(resamples=100, permutations=200)
EVIL = "<script>document.title='taken'</script>"
VALUES = ("positive", "negative")
FINDINGS = (
    Finding("leftover-markup", "note", "plain", "", "", None, f"Says {EVIL}.", 1, 9, ()),
    Finding(
        "wrong-request", "serious", EVIL, "x", "sentiment", 3, "3 of 9 texts continue another "
        "prompt.", 3, 9, (Example(f"id {EVIL}", f"text {EVIL}"),),
    ),
)  # fmt: skip


def cells(systems=("plain", "steered", EVIL), prompts=8, seeds=(1, 2)):
    """Texts with two judges, SLOR and a corpus metric; the second system is the best."""
    made = []
    for i, system in enumerate(systems):
        for dataset in ("news & more", EVIL):
            for seed in seeds:
                rng = random.Random(f"{system}{dataset}{seed}")
                samples = tuple(
                    Sample(
                        f"{i}/{dataset}/{seed}/{p}/{v}",
                        f"prompt {p} goes on",
                        system=system,
                        seed=seed,
                        dataset=dataset,
                        prompt=f"prompt {p}",
                        control={"sentiment": v},
                    )
                    for p in range(prompts)
                    for v in VALUES
                )
                chance = 0.95 if i == 1 else 0.4
                made.append(
                    Cell(
                        CellKey(system, dataset, "sentiment", seed),
                        samples,
                        scores={
                            "fluency.slor": {s.id: 10 + i + rng.random() for s in samples},
                            "fluency.perplexity": {s.id: 30 - i + rng.random() for s in samples},
                            "control.majority": {
                                s.id: float(rng.random() < chance) for s in samples
                            },
                        },
                        votes={
                            "sentiment": {
                                judge: {
                                    s.id: str(s.control["sentiment"])
                                    if rng.random() < chance
                                    else "other"
                                    for s in samples
                                }
                                for judge in ("one", EVIL)
                            }
                        },
                        groups=(GroupValue("diversity.distinct-1", "positive", 0.1 * (i + 1), 8),),
                        cost=Cost(2.0 * (i + 1) * len(samples), len(samples), 900, 3_000_000_000),
                        signatures={"fluency.slor": f"fluency.slor|{EVIL}"},
                    )
                )
    return made


def summary(*args, **more):
    return aggregate(cells(*args, **more), resampling=QUICK)


def page(found=None, **more):
    settings = {"title": "A study", "created": "today", "findings": FINDINGS} | more
    return render_study_page(StudyPage(summary=found or summary(), **settings))


def text_of(html):
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_every_text_is_escaped_and_nothing_is_loaded():
    html = page(title=EVIL, notes=[EVIL], files=[EVIL], command=EVIL)
    assert "<script>document.title" not in html
    assert not re.search(r'(?:src|href)="(?!#)', html)
    assert "url(http" not in html
    assert ">nan<" not in html.lower()


def test_it_says_who_is_best_and_whether_that_is_shown():
    [control] = summary(seeds=(1, 2, 3, 4)).controls
    said = text_of(headline(control, control.measure("average")))
    assert said.startswith("steered is best: ")
    assert "the difference is shown" in said
    assert "n = 32; 4 seeds each: t test with prompts and seeds as samples" in said
    said = text_of(headline(control, control.measure("diversity.distinct-1")))
    assert "no test of the difference" in said


def test_a_tie_for_the_best_names_all():
    same = [
        Cell(CellKey(s, "x", "c", 1), groups=(GroupValue("diversity.distinct-1", "", 0.5, 1),))
        for s in ("a", "b")
    ]
    [control] = aggregate(same, resampling=QUICK).controls
    said = text_of(headline(control, control.measures[0]))
    assert "a , b share the best mean: 50.00 %" in said


def test_serious_findings_are_named_above_the_results_and_told_below():
    html = page()
    results = html.index('id="control-1"')
    named = html.index("Numbers are wrong or can’t be compared</b>: ")
    assert "wrong-request" in html[named:results]
    assert results < html.index("wrong-<wbr>request") < html.index("leftover-<wbr>markup")
    assert html.index("Table of results for") < html.index("In short")
    assert "The audit was not run" in page(findings=None)
    assert "The audit: nothing found." in page(findings=())


def test_the_table_has_the_groups_of_the_paper():
    html = page()
    heads = re.findall(r'class="head">([^<]+)<', html)
    assert heads == ["Diversity", "Fluency", "Control effectiveness"]
    # one figure a dataset, two of ranks, one of cost; two matrices of judges
    assert html.count("<svg") == 2 + 2 + 1
    assert html.count('<table class="heat">') == 2


def test_what_systems_wrote_for_a_request_stands_side_by_side_with_its_values():
    study = cells()
    texts = drawn_texts(study)
    html = page(summary(), texts=texts)
    side = html[html.index('class="side"') :]
    side = side[: side.index("</table>")]
    rows = re.findall(r'<th scope="row".*?</tr>', side, flags=re.DOTALL)
    assert len(rows) == len(texts["sentiment"]) == 2 * 8 * 2
    for row in rows:
        assert row.count("<td ") == 3
        assert row.count("<dt>seed</dt>") == 6
        assert row.count("<dt>fluency.<wbr>slor</dt>") == 6
    assert "<script>" not in side
    assert "Texts side by side" not in page(summary())


def test_texts_of_a_study_are_bounded_whatever_its_size():
    many = cells(("a", "b"), prompts=60)
    many += [replace(c, key=c.key._replace(control="topic")) for c in many]
    drawn = drawn_texts(many)
    assert {kind: sum(map(len, inputs)) for kind, inputs in drawn.items()} == {
        "sentiment": 100,
        "topic": 100,
    }


def test_both_kappas_of_a_page_say_what_they_are_of():
    said = text_of(page(findings=None))
    assert len(re.findall("κ", said)) == len(re.findall("κ of (?:right and wrong|labels)", said))
    assert "κ of right and wrong" in said
    assert "κ of labels" in said


@pytest.mark.slow
def test_equal_studies_give_equal_pages():
    assert page() == page()


def at_budgets(*names):
    """The same systems in two tables, but `steered`, whose seeds differ between them."""
    kinds = []
    for name, seeds in zip(names, ((1, 2), (3, 4)), strict=True):
        for cell in cells():
            own = cell.key.system == "steered"
            key = cell.key._replace(control=name)
            made = replace(cell, key=key)
            if own:
                scores = {
                    metric: {id: value + seeds[0] for id, value in values.items()}
                    for metric, values in cell.scores.items()
                }
                made = replace(made, scores=scores)
            kinds.append(made)
    return replace(aggregate(kinds, resampling=QUICK), levels={"sentiment": names})


@pytest.mark.slow
def test_control_against_fluency_joins_the_budgets_of_each_technique():
    at = at_budgets("sentiment at 0.1 nats", "sentiment at 1 nats")
    levels = at.at_levels()["sentiment"]
    figures = dict(frontiers(levels))
    assert set(figures) == {"fluency.slor", "fluency.perplexity"}
    label = re.search('aria-label="([^"]*)"', figures["fluency.slor"])[1]
    y, x = (m.name for m in (main_measure(levels[0]), levels[0].measure("fluency.slor")))
    assert label.startswith(f"{y} against {x}, from the lowest budget on: ")
    points = {
        system: [(level.entry(system, y).mean, level.entry(system, x).mean) for level in levels]
        for system in ("plain", "steered")
    }
    assert points["steered"][0] != points["steered"][1]
    assert "steered " + ", ".join(f"{a:.1f} at {b:.3g}" for a, b in points["steered"]) in label
    assert f"plain {points['plain'][0][0]:.1f} at {points['plain'][0][1]:.3g};" in label
    html = page(at)
    assert "Sentiment: control against fluency" in html
    assert "control against fluency" not in page()


def test_the_costs_of_systems_are_a_table():
    html = page()
    table = html[html.index('aria-label="Table of costs') :]
    table = table[: table.index("</table>")]
    assert re.findall('data-v="2.0"[^>]*>2<.*?± 0', table)
    assert "2.8 GiB" in table


def test_a_study_of_one_system_and_one_seed_has_a_page():
    html = page(summary(("plain",), seeds=(1,)))
    assert "one seed" in html
    assert "claims are about this run" in html
    assert "Comparisons of systems" not in html


def test_from_rates_alone_the_page_says_what_is_not_known():
    rated = [
        Cell(
            CellKey(s, "x", "sentiment", 1),
            rates=tuple(Rate(j, v, 50.0 + 7 * i) for j in "ab" for i, v in enumerate(VALUES)),
        )
        for s in ("one", "two")
    ]
    html = page(aggregate(rated, resampling=QUICK))
    assert "No intervals: only values of whole cells are known" in html
    assert "Votes are not known" in html


def test_a_kind_of_control_without_any_measure_says_so():
    bare = [replace(c, scores={}, votes={}, groups=(), cost=None) for c in cells()]
    assert "Nothing was measured" in page(aggregate(bare, resampling=QUICK))


def test_an_incomplete_system_is_marked():
    kept = [c for c in cells() if (c.key.system, c.key.dataset) != ("plain", EVIL)]
    html = page(aggregate(kept, resampling=QUICK))
    assert re.search('class="mark" title="has nothing for dataset[^>]*>†<', html)  # * is the best
    assert "Incomplete: plain has nothing for dataset" in html


def test_a_metric_measured_in_two_ways_is_told():
    mixed = cells()
    mixed[0] = replace(mixed[0], signatures={"fluency.slor": "fluency.slor|other"})
    html = page(aggregate(mixed, resampling=QUICK))
    assert "fluency.slor was measured in 2 ways" in html


def test_the_figures_show_the_average_of_the_judges():
    [control] = summary().controls
    assert main_measure(control).name == "average"


def test_the_csv_holds_every_number_with_undefined_ones_empty(tmp_path):
    found = summary()
    write_study_csv(tmp_path / "study.csv", found)
    with (tmp_path / "study.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["control", *COLUMNS]
    keys = {(r["system"], r["measure"], r["dataset"], r["value"]): r for r in rows}
    assert len(keys) == len(rows) == len(found.controls[0].entries)
    for key, e in found.controls[0].entries.items():
        assert float(keys[key]["mean"]) == e.mean
        assert keys[key]["low"] == ("" if math.isnan(e.interval.low) else repr(e.interval.low))
        assert int(keys[key]["n"]) == e.n
    assert "nan" not in (tmp_path / "study.csv").read_text(encoding="utf-8")


def test_latex_is_escaped_and_the_best_is_bold(tmp_path):
    found = summary(("plain_1", "50 % & more", "c"))
    write_study_latex(tmp_path / "study.tex", found)
    tex = (tmp_path / "study.tex").read_text(encoding="utf-8")
    assert tex == study_latex(found)
    assert "plain\\_1" in tex
    assert "50 \\% \\& more" in tex
    row = next(line for line in tex.splitlines() if line.startswith("50 "))
    assert "\\textbf" in row
    assert "shares in percent; " in tex
    assert "bold: shown best (adjusted p $\\le$ 0.05); " in tex
    assert "2 seeds each; " in tex
    assert "weights of datasets: the number of their prompts (" in tex
    assert "as given" not in tex
    assert tex.count("\\begin{tabular}") == tex.count("\\end{tabular}") == 4
    for line in tex.splitlines():
        if line.startswith(("plain", "50 ", "c &")):
            assert line.endswith("\\\\")
    assert "nan" not in tex


def test_the_best_is_what_is_shown_best_on_the_page_and_in_both_kinds_of_tables():
    found = summary(("plain", "steered"))
    [control] = found.controls
    standings = {m.name: control.standings(m.name) for m in control.measures}
    best = sum(s.best for of in standings.values() for s in of.values())
    untested = standings["diversity.distinct-1"].values()
    assert 0 < best < len(standings)
    assert not any(s.best or s.letters for s in untested)
    html = render_study_page(StudyPage("t", "today", found))
    assert html.count(' best"') == best
    assert html.count("*<sup>a</sup>") == best
    assert study_latex(found).count("\\textbf") == best
    assert study_markdown(found).count("**") == 2 * best + 2


def test_signatures_can_be_copied_out_of_latex_and_markdown():
    found = replace(summary(), signatures={"m": ("m|model:a_b@1#2|k:50%|v:1",)})
    assert study_latex(found).startswith("% m|model:a_b@1#2|k:50%|v:1\n")
    assert "```\nm|model:a_b@1#2|k:50%|v:1\n```" in study_markdown(found)


def test_decimals_of_a_study_follow_its_intervals():
    entries = [
        TableEntry("s", "m", "all", "all", m, 0.0, None, 9, 0, Estimate(m, m - h, m + h, 9, 9))
        for m, h in ((1523.4, 61.0), (0.5, 40.0))
    ]
    assert places(entries) == 0
    whole = [replace(e, interval=Estimate(e.mean, math.nan, math.nan, 9, 9)) for e in entries]
    assert places(whole) == 2  # as the study prints


@given(st.lists(st.floats(0, 1), max_size=20), st.floats(0.01, 0.2))
def test_labels_beside_a_plot_never_overlap_and_keep_their_order(heights, least):
    placed = apart(heights, least)
    assert len(placed) == len(heights)
    order = sorted(range(len(heights)), key=lambda i: (heights[i], i))
    for i, j in itertools.pairwise(order):
        assert placed[j] - placed[i] >= least - 1e-9
    if least * len(heights) <= 1:
        assert all(-1e-9 <= place <= 1 + 1e-9 for place in placed)


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("width", [360, 800, 1280])
def test_in_a_browser_it_sorts_by_value_and_never_scrolls_sideways(chromium, width, tmp_path):
    systems = [f"a system with a rather long name {i}" for i in range(12)]
    many = StudyPage("t", "today", summary(systems, prompts=3), FINDINGS)
    write_study_page(tmp_path / "page.html", many)
    with chromium.new_context(viewport={"width": width, "height": 900}) as context:
        shown = context.new_page()
        troubles = []
        shown.on("console", lambda message: troubles.append(message.text))
        shown.on("pageerror", lambda error: troubles.append(str(error)))
        shown.goto((tmp_path / "page.html").as_uri())
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        assert shown.evaluate(BROKEN_WORDS, "thead th") == []
        table = shown.locator("table.result-table").first
        table.locator("button", has_text="slor").click()
        column = shown.evaluate(
            "[...document.querySelector('table.result-table').tBodies[0].rows]"
            ".map(r => Number(r.cells[2].dataset.v))"
        )
        assert column == sorted(column)
        assert len(set(column)) == 12
        # no label of a figure lies on another
        overlaps = shown.evaluate(
            """[...document.querySelectorAll('figure svg')].flatMap(svg => {
              const boxes = [...svg.querySelectorAll('text')].map(t => t.getBoundingClientRect());
              return boxes.flatMap((a, i) => boxes.slice(i + 1).filter(b =>
                a.left < b.right - 1 && b.left < a.right - 1 &&
                a.top < b.bottom - 2 && b.top < a.bottom - 2));
            }).length"""
        )
        assert overlaps == 0
    assert troubles == []


def test_no_name_in_the_csv_is_a_formula(tmp_path):
    write_study_csv(tmp_path / "study.csv", summary(("=1+1", "＠sum", "b;-2+3")))
    with (tmp_path / "study.csv").open(encoding="utf-8", newline="") as file:
        systems = {row["system"] for row in csv.DictReader(file)}
    assert systems == {"'=1+1", "'＠sum", "b;'-2+3"}
