"""The page as a reader uses it, in headless Chromium."""

import re

import pytest
from made_up import BROKEN_WORDS, METRICS, one, report_of, run, wide_report

from levelfield.show import write_page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "page.html"
    shown = [*run(), one("evil", text="<script>document.title='taken'</script>", values=dict.
             fromkeys(METRICS, -2.0))]  # fmt: skip
    write_page(file, report_of(shown, command="levelfield score " + "long " * 40))
    return file


@pytest.fixture
def page(chromium, path):
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    troubles, requests = [], []
    opened.on("console", lambda message: troubles.append(message.text))
    opened.on("pageerror", lambda error: troubles.append(str(error)))
    opened.on("request", lambda request: requests.append(request.url))
    opened.goto(path.as_uri())
    yield opened
    assert troubles == []
    assert requests == [path.as_uri()]
    context.close()


def column(page, index):
    cells = page.locator(f"#table > tbody > tr > td:nth-child({index})")
    return cells.evaluate_all("cells => cells.map(c => c.dataset.v ?? c.textContent)")


def test_a_number_column_sorts_by_value_with_undefined_last(page):
    head = page.locator("#table > thead th", has_text="consistency")
    for direction, reverse in (("ascending", False), ("descending", True)):
        head.locator("button").press("Enter")
        assert head.get_attribute("aria-sort") == direction
        values = column(page, 6)
        defined = [float(v) for v in values if v]
        assert "" not in values[: len(defined)]
        assert len(defined) < len(values)
        assert defined == sorted(defined, reverse=reverse)
    assert page.locator("[aria-sort]").count() == 1


def test_comparisons_sort_too(page):
    page.locator(".comparisons button", has_text="p adjusted").click()
    values = page.locator(".comparisons tbody td:nth-child(8)").evaluate_all(
        "cells => cells.map(c => Number(c.dataset.v))"
    )
    assert values == sorted(values)


def test_rows_are_found_by_text_system_and_undefined(page):
    page.fill("#find", "BAKERY")
    assert page.locator("#table > tbody > tr:visible").count() == 6
    assert page.locator("#count").text_content() == "6 of 61 samples"
    page.select_option("#group", label="reranked")
    assert page.locator("#table > tbody > tr:visible").count() == 2
    page.fill("#find", "")
    page.select_option("#group", label="all")
    page.check("#undefined")
    assert 0 < page.locator("#table > tbody > tr:visible").count() < 10


def test_parts_of_other_rows_are_not_searched(page):
    page.fill("#find", "in one word")
    assert page.locator("#table > tbody > tr:visible").count() == 0


def test_a_row_opens_to_its_parts_by_keyboard(page):
    details = page.locator("#table details").first
    inside = details.locator(".breakdown").first
    assert not inside.is_visible()
    details.locator("summary").press("Enter")
    assert inside.is_visible()


@pytest.mark.slow
def test_all_rows_open_at_once(page):
    page.click("#toggle")
    assert page.locator("#table details[open]").count() == 61
    assert page.locator("#toggle").text_content() == "Close all"


def test_a_script_in_a_text_is_shown_and_not_run(page):
    assert page.title() == "Three ways to continue a sentence"
    page.fill("#find", "<script>")
    assert page.locator("#table > tbody > tr:visible").count() == 1


def test_a_signature_is_copied(page):
    button = page.locator("button.copy").first
    button.click()
    code = page.locator(".signatures code").first
    assert page.evaluate("getSelection().toString()") == code.text_content()
    from playwright.sync_api import expect

    expect(button).to_have_text(re.compile("Copied|Selected"))


@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 1000, 1020, 1280])
def test_no_word_of_a_values_parts_is_broken(page, width):
    page.set_viewport_size({"width": width, "height": 700})
    page.click("#toggle")
    assert page.evaluate(BROKEN_WORDS, ".parts td") == []


@pytest.mark.thinned
@pytest.mark.parametrize("width", [320, 400, 800, 1280])
def test_nothing_makes_the_page_scroll_sideways(page, width):
    page.set_viewport_size({"width": width, "height": 700})
    page.click("#toggle")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_without_scripts_rows_still_open(chromium, path):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    page.locator("#table summary").first.click()
    assert page.locator("#table .breakdown").first.is_visible()
    assert not page.locator("#tools").is_visible()
    context.close()


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    file = tmp_path_factory.mktemp("wide") / "page.html"
    write_page(file, wide_report(prompts=12))
    return file.as_uri()


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 1200, 1900])
def test_no_head_is_broken_and_at_1200_px_no_column_is_cut_off(chromium, wide, width):
    with chromium.new_context(viewport={"width": width, "height": 800}) as context:
        page = context.new_page()
        page.goto(wide)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(BROKEN_WORDS, "thead th") == []
        results = page.locator(".result-table").locator("..")
        assert (results.evaluate("f => f.scrollWidth - f.clientWidth") > 0) == (width == 360)
        right = page.locator("#table > tbody > tr > td").evaluate_all(
            "cells => Math.max(...cells.map(c => c.getBoundingClientRect().right))"
        )
        assert right <= width


@pytest.mark.thinned
@pytest.mark.parametrize("metric", ["questions.understandability", "control.balanced-accuracy"])
def test_a_column_of_values_is_as_wide_as_the_longest_word_of_its_head(chromium, tmp_path, metric):
    write_page(tmp_path / "page.html", report_of([one(values={metric: 0.5})], (metric,)))
    with chromium.new_context(viewport={"width": 1200, "height": 800}) as context:
        page = context.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        assert page.evaluate(BROKEN_WORDS, "thead th") == []


@pytest.mark.thinned
@pytest.mark.parametrize(("mode", "dark"), [("light", False), ("dark", True)])
def test_figures_follow_the_mode(chromium, path, mode, dark):
    with chromium.new_context(color_scheme=mode) as context:
        page = context.new_page()
        page.goto(path.as_uri())
        card, ink = page.evaluate(
            """[["figure .card", "background-color"], ["figure svg text", "fill"]].map(
                 ([what, which]) =>
                   getComputedStyle(document.querySelector(what))[which].match(/\\d+/g)[0])"""
        )
        assert (int(card) < 60, int(ink) > 150) == (dark, dark)
