"""The organiser's pages in headless Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from chromium_pages import violations
from rating_server import served
from simulated_raters import comment, direct_study, opened, rate, rater_of

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from levelfield_rating.model import Item
from levelfield_rating.store import RatingStore
from levelfield_rating.web.app import create_app

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PAGES = ("", "/links", "/texts", "/comments", "/reliability", "/results", "/export")


def answer(item: Item, _criterion: str) -> int:
    return 90 if item.control else 20 + crc32(item.key.encode()) % 60


@pytest.fixture
def store(tmp_path: Path) -> RatingStore:
    study_store = opened(tmp_path, direct_study({"owl": 80, "fox": 60, "elk": 35}, sources=8))
    for slot in range(3):
        rate(study_store, slot, answer)
    comment(study_store, rater_of(study_store, 3), 3, "<b>Is this</b> one whole?", problem=True)
    study_store.exclude("r1", "asleep")
    return study_store


@pytest.fixture
def base(store: RatingStore) -> Iterator[str]:
    with served(lambda address: create_app(store, address=address)) as base:
        yield base


def signed_in(chromium, store: RatingStore, base: str, troubles: list[str]):
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(20_000)
    page = context.new_page()
    page.on("console", lambda message: troubles.append(message.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.goto(f"{base}/organiser/enter/{store.organiser_secret()}")
    page.get_by_role("button", name="Open").click()
    page.wait_for_url("**/organiser")
    return page


def test_no_page_has_a_barrier_an_overflow_or_a_trouble_wide_or_narrow(
    chromium, store: RatingStore, base: str
):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    troubles: list[str] = []
    page = signed_in(chromium, store, base, troubles)
    for path in (*PAGES, f"/enter/{store.organiser_secret()}"):
        page.goto(f"{base}/organiser{path}")
        for width in (1280, 320):
            page.set_viewport_size({"width": width, "height": 800})
            barriers = violations(page, axe)
            assert not [(v["id"], v["nodes"][0]["html"]) for v in barriers], (path, width)
            wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert page.evaluate(wider) <= 0, (path, width)
    assert troubles == []


def test_the_organiser_previews_watches_excludes_and_exports(
    chromium, store: RatingStore, base: str
):
    troubles: list[str] = []
    page = signed_in(chromium, store, base, troubles)
    with page.context.expect_event(
        "response", lambda response: response.url.endswith("/study")
    ):  # in a tab of its own
        page.get_by_role("button", name="Preview survey 1, rater 1").first.click()
    preview = page.context.new_page()
    preview.goto(f"{base}/study")
    assert "Preview: nothing that you answer here counts." in preview.content()
    preview.close()
    row = page.get_by_role("row").filter(has_text="r2").first
    row.get_by_text("Exclude").first.click()
    row.get_by_label("Reason").fill("fell asleep")
    row.get_by_role("button", name="Exclude").click()
    page.get_by_text("no: fell asleep").wait_for()
    assert store.excluded()["r2"] == "fell asleep"
    page.goto(f"{base}/organiser/export")
    with page.expect_download() as download:
        page.get_by_role("link", name="All files as ZIP").click()
    assert download.value.suggested_filename == "simulated-v1.zip"
    assert troubles == []


def test_the_overview_keeps_itself_fresh_but_not_under_somebodys_hands(
    chromium, store: RatingStore, base: str
):
    troubles: list[str] = []
    page = signed_in(chromium, store, base, troubles)
    page.clock.install()
    page.goto(f"{base}/organiser")
    page.get_by_text("3 of 4 raters are done").wait_for()
    row = page.get_by_role("row").filter(has_text="r2").first
    row.get_by_text("Exclude").first.click()
    row.get_by_label("Reason").fill("half a sent")
    store.exclude("r3", "seen live")
    page.clock.run_for(40_000)
    assert row.get_by_label("Reason").input_value() == "half a sent"
    row.get_by_text("Exclude").first.click()  # closes it again
    page.get_by_role("heading", name="Overview").click()
    page.evaluate("document.activeElement.blur()")
    page.clock.run_for(40_000)
    page.get_by_text("no: seen live").wait_for()
    assert troubles == []
