"""The rater's whole way in headless Chromium: by mouse, keys, touch, and without JavaScript."""

from __future__ import annotations

import pytest

from chromium_pages import answer_all, click_slider, ready, saved, text_of
from rating_study import small_study

pytestmark = pytest.mark.browser


def test_by_mouse_from_link_to_code(place_of):
    place = place_of(small_study(items=4))
    page = place.page()
    page.goto(place.link())
    page.get_by_role("button", name="Begin").click()
    assert page.url == f"{place.base}/study"
    page.get_by_label("I have read this").check()
    page.get_by_role("button", name="Begin").click()
    page.get_by_role("button", name="Go on").click()
    page.locator("article.example").first.wait_for()
    assert page.locator("article.example").count() == 2
    page.get_by_role("button", name="Go on").click()
    for share, reply in ((0.1, "try once more"), (0.9, "That fits")):
        click_slider(page, 0, share)
        page.get_by_role("button", name="Check my answers").click()
        page.get_by_text(reply).wait_for()
    page.get_by_role("button", name="Begin the rating").click()
    for number in range(4):
        page.get_by_text(f"{number + 1} of 4").wait_for()
        answer_all(page, number / 3)
        saved(page)
        page.get_by_role("button", name="Next").click()
    page.get_by_text("Everything is answered").wait_for()
    page.get_by_role("button", name="Finish").click()
    code = text_of(page, "#code")
    assert code == place.state().completion_code
    assert page.title() == "Rewritten sentences"
    for number in range(4):
        values = set(place.answers(number).values())
        assert all(abs(value - (1 + 33 * number)) <= 1 for value in values)


@pytest.mark.slow
def test_by_keyboard_alone_from_link_to_code(place_of):
    place = place_of(small_study(items=3, examples=False))
    page = place.page()
    page.goto(place.link())

    def tab_to(name, role="button"):
        for _ in range(30):
            page.keyboard.press("Tab")
            focused = page.evaluate(
                "[document.activeElement.getAttribute('role') ?? document.activeElement.tagName,"
                " document.activeElement.textContent.trim()]"
            )
            if focused[0].lower() == role and name in focused[1]:
                return
        raise AssertionError(f"the Tab key does not reach {name}")

    tab_to("Begin")
    page.keyboard.press("Enter")
    page.wait_for_selector("input[name=agree]")
    tab_to("", "input")
    page.keyboard.press("Space")
    tab_to("Begin")
    page.keyboard.press("Enter")
    page.get_by_text("What you are asked").wait_for()
    tab_to("Go on")
    page.keyboard.press("Enter")
    page.wait_for_selector("html.js [role=slider]")
    tab_to("", "slider")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.get_by_text("That fits").wait_for()
    tab_to("Begin the rating")
    page.keyboard.press("Enter")
    page.get_by_text("1 of 3").wait_for()
    ready(page)
    for number in range(3):
        page.get_by_text(f"{number + 1} of 3").wait_for()
        for key, move in (("1", "Home"), ("2", "ArrowRight"), ("3", "PageDown")):
            page.keyboard.press(key)
            page.keyboard.press(move)
        page.keyboard.press("Enter")
    page.get_by_text("Everything is answered").wait_for()
    tab_to("Finish")
    page.keyboard.press("Enter")
    page.wait_for_selector("#code")
    for number in range(3):
        assert place.answers(number) == {"style": 1, "content": 51, "fluency": 41}


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["slider", "likert", "pairwise", "ranking"])
def test_at_320_pixels_by_touch_from_link_to_code(place_of, scale):
    place = place_of(small_study(scale=scale, items=3, practice=False, examples=False))
    page = place.page(viewport={"width": 320, "height": 640}, has_touch=True, is_mobile=True)

    def fits():
        assert page.evaluate("document.documentElement.scrollWidth") <= 320

    page.goto(place.link())
    page.get_by_text("You are invited").wait_for()
    fits()
    page.get_by_role("button", name="Begin").tap()
    page.get_by_label("I have read this").tap()
    fits()
    page.get_by_role("button", name="Begin").tap()
    page.get_by_text("What you are asked").wait_for()
    fits()
    page.get_by_role("button", name="Go on").tap()
    for number in range(3):
        page.get_by_text(f"{number + 1} of 3").wait_for()
        ready(page)
        fits()
        for question in page.locator("fieldset").all():
            if scale == "slider":
                question.locator("[role=slider]").tap()
            elif scale == "ranking":
                question.get_by_role("button", name="This order is right").tap()
            else:
                question.locator("label").last.tap()
        fits()
        saved(page)
        page.get_by_role("button", name="Next").tap()
    page.get_by_role("button", name="Finish").tap()
    page.wait_for_selector("#code")
    fits()
    expected = {"slider": (50, 51), "likert": (5,), "pairwise": (0, 1)}
    for number in range(3):
        for value in place.answers(number).values():
            assert sorted(value) == [1, 2, 3] if scale == "ranking" else value in expected[scale]


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["slider", "likert", "pairwise", "ranking"])
def test_without_javascript_from_link_to_code(place_of, scale):
    place = place_of(small_study(scale=scale, items=3, examples=False, practice=False))
    page = place.page(java_script_enabled=False)
    page.goto(place.link())
    page.get_by_role("button", name="Begin").click()
    page.get_by_label("I have read this").check()
    page.get_by_role("button", name="Begin").click()
    page.get_by_role("button", name="Go on").click()
    page.locator("#next").click()
    place.expected = ("422",)
    assert "Not answered yet" in text_of(page, "#open")
    for _ in range(3):
        for question in page.locator("fieldset").all():
            if scale == "ranking":
                for n, select in enumerate(question.locator("select").all()):
                    select.select_option(str(3 - n))
            else:
                question.locator("input").last.check()
        with page.expect_navigation():
            page.locator("#next").click()
    assert "Everything is answered" in page.content()
    page.get_by_role("button", name="Finish").click()
    assert text_of(page, "#code") == place.state().completion_code
    last = {"slider": 100, "likert": 5}
    for number, placed in enumerate(place.items()):
        for value in place.answers(number).values():
            if scale == "ranking":
                assert [value[position] for position in placed.order] == [3, 2, 1]
            else:
                assert value == (placed.order[1] if scale == "pairwise" else last[scale])
