"""No page of a rater has a barrier that axe finds."""

from __future__ import annotations

import pytest

from chromium_pages import answer_all, ready, to_rating, violations
from rating_study import small_study

pytestmark = pytest.mark.browser


TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
OF_COLOURS = ("color-contrast", "link-in-text-block")
"""The rules that a dark page may break and a light one keep."""


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["slider", "likert", "pairwise", "ranking"])
def test_axe_finds_nothing_serious_on_any_page_light_or_dark(place_of, scale):
    """Pages without a question are the same for every scale, and are looked at for one."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    place = place_of(small_study(scale=scale, items=3))
    place.expected = ("422",)
    page = place.page(color_scheme="light")
    serious = []

    def look(name, *, question=False):
        if not question and scale != "slider":
            return
        for scheme, rules in (("light", TAGS), ("dark", OF_COLOURS)):
            page.emulate_media(color_scheme=scheme)
            for violation in violations(page, axe, runOnly=rules):
                if violation["impact"] in ("serious", "critical", "moderate"):
                    nodes = [node["html"][:200] for node in violation["nodes"]]
                    serious.append((name, scheme, violation["id"], nodes))
        page.emulate_media(color_scheme="light")

    def follow(role, name):
        """Goes to the linked page, and waits for it, so that the next look sees it."""
        with page.expect_navigation():
            page.get_by_role(role, name=name).click()

    page.goto(place.link())
    look("entry")
    follow("button", "Begin")
    look("welcome")
    page.get_by_label("I have read this").check()
    follow("button", "Begin")
    look("instructions", question=True)
    follow("button", "Go on")
    look("examples", question=True)
    follow("button", "Go on")
    ready(page)
    look("practice", question=True)
    for _ in range(2):
        if scale == "slider":
            page.keyboard.press("1")
            page.keyboard.press("Home")
        elif scale == "ranking":
            page.get_by_role("button", name="This order is right").click()
        else:
            page.locator("fieldset label").nth(1).click()
        follow("button", "Check my answers")
        ready(page)
        look("practised", question=True)
    follow("button", "Begin the rating")
    ready(page)
    look("item", question=True)
    page.get_by_role("button", name="Next").click()
    page.locator(".keys summary").click()
    page.get_by_text("Comment or problem").click()
    look("item, open", question=True)
    page.get_by_role("button", name="Leave it open").click()
    page.get_by_text("2 of 3").wait_for()
    look("second item", question=True)
    for _ in range(2):
        page.get_by_role("button", name="Next").click()
        page.get_by_role("button", name="Leave it open").click()
    page.get_by_text("Almost done").wait_for()
    look("review", question=True)
    if scale == "slider":
        follow("link", "Withdraw")
        look("withdraw")
        page.get_by_role("button", name="Withdraw and delete").click()
        page.get_by_text("You have withdrawn").wait_for()
        look("withdrawn")
        page.goto(f"{place.base}/r/none")
        page.get_by_role("button", name="Begin").click()
        page.get_by_text("not valid").wait_for()
        place.expected = ("422", "404")
        look("no such link")
    assert serious == []


@pytest.mark.slow
def test_axe_finds_nothing_at_all_at_the_end(place_of):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    place = place_of()
    page = place.page(viewport={"width": 320, "height": 640})
    to_rating(place, page)
    for _ in range(3):
        answer_all(page)
        page.get_by_role("button", name="Next").click()
    page.get_by_text("Everything is answered").wait_for()
    for name in ("review", "thanks"):
        serious = [v["id"] for v in violations(page, axe)]
        assert (name, serious) == (name, [])
        if name == "review":
            page.get_by_role("button", name="Finish").click()
            page.wait_for_selector("#code")
