"""What the rater's pages say and what they never tell."""

from __future__ import annotations

import re
import string
from dataclasses import replace

import pytest

from levelfield_rating.store import RatingStore, StoreUnavailable
from levelfield_rating.web.context import Strings, catalogue, rendered
from plain_browser import rate_all, rating
from rating_study import SCRIPT, SECRETS, small_study


@pytest.mark.thinned
@pytest.mark.parametrize("scale", ["slider", "likert", "pairwise", "ranking"])
def test_no_byte_of_a_session_tells_a_system_a_sample_a_control_or_the_seed(browser_of, scale):
    browser = browser_of(small_study(scale=scale, items=5))
    browser.to_rating()
    browser.get("/api/state")
    browser.api([rating("nothing", 5)])
    browser.api([rating(browser.items[0].opaque, 1_000)])
    for placed in browser.items:
        browser.get(f"/study/item/{placed.opaque}")
    browser.get("/study/instructions")
    rate_all(browser)
    browser.send("/study/enter", phase="done")
    for name in ("rate.js", "rate.css", "icon.svg", "other"):
        browser.get(f"/static/{name}")
    browser.get("/organiser")
    browser.get("/study/withdraw")
    session = browser.bytes.lower()
    assert len(session) > 30_000
    rater = f"\\b{browser.rater}\\b".encode()
    assert not re.search(rater, session)
    words = ["shuffled", "dropped", "not-lowest", "fail_rule"]
    forbidden = [*words, '"control"', '"samples"', '"seq"']
    for name in (*SECRETS, *forbidden, browser.store.frozen.digest, "survey 1"):
        assert name.lower().encode() not in session, name


def test_a_control_looks_like_every_other_item(browser_of):
    browser = browser_of()
    browser.to_rating()
    document = browser.get("/api/state").json()
    controls = {p.opaque for p in browser.items if browser.store.frozen.items[p.item].control}
    assert len(controls) == 1
    assert len({tuple(item) for item in document["items"]}) == 1
    assert len({tuple(values) for values in document["current"].values()}) == 1


def test_texts_are_literal_in_their_language_and_direction(browser_of):
    browser = browser_of(small_study(items=6, control=False))
    browser.to_rating()
    pages = "".join(browser.get(f"/study/item/{p.opaque}").text for p in browser.items)
    assert "<script>document" not in pages
    assert "&lt;script&gt;document.title=" in pages
    assert re.search(r'<bdi dir="rtl" lang="ar">سوف', pages)
    document = browser.get("/api/state").json()
    assert SCRIPT in {item["texts"][0]["text"] for item in document["items"]}


def test_an_empty_text_is_announced_as_missing(browser_of):
    frozen = small_study()
    items = dict(frozen.items)
    first = items[frozen.slots[0].items[0].item]
    empty = replace(first.candidates[0], part=replace(first.candidates[0].part, text=" \n"))
    items[first.key] = replace(first, candidates=(empty,))
    browser = browser_of(replace(frozen, items=items))
    assert "(no text)" in browser.to_rating().text


@pytest.mark.parametrize(
    ("text", "never"),
    [
        ("<script>alert(1)</script>", "<script"),
        ("<img src=x onerror=alert(1)>", "<img"),
        ("[a](javascript:alert(1))", 'href="javascript'),
        ("[a](data:text/html,x)", 'href="data'),
        ("![a](https://example.org/a.png)", "<img"),
        ("<a href='x' onclick='y'>a</a>", "<a "),
        ("`<b>`", "<b>"),
        ("&lt;script&gt;", "<script"),
    ],
)
def test_markdown_of_a_study_carries_nothing_that_runs(text, never):
    assert never not in rendered(text).lower()


def test_markdown_keeps_what_words_need():
    html = rendered("# Head\n\n- **one**\n- [two](https://example.org)\n\n|a|b|\n|-|-|\n|1|2|")
    for tag in (
        "<h2>Head</h2>",
        "<strong>one</strong>",
        'href="https://example.org"',
        "<td>1</td>",
    ):
        assert tag in html


def test_texts_are_not_handed_out_before_they_are_rated(browser_of):
    browser = browser_of()
    browser.open_link()
    early = browser.get("/api/state").json()
    assert early["phase"] == "welcome"
    assert "items" not in early
    browser = browser_of()
    browser.to_rating()
    assert len(browser.get("/api/state").json()["items"]) == len(browser.items)


def test_a_slider_says_no_number(browser_of):
    browser = browser_of()
    page = browser.to_rating().text
    fieldset = page[page.index("<fieldset") : page.index("</fieldset>")]
    visible = re.sub(r"<[^>]+>", "", fieldset.replace('aria-hidden="true">1<', "><"))
    assert not re.search(r"\d", visible)
    assert len(set(Strings("en").steps("bad", "good"))) == 10


def test_a_store_that_cant_be_written_to_says_not_saved(browser_of, monkeypatch):
    browser = browser_of()
    browser.to_rating()
    item = browser.items[0].opaque

    def full(*_):
        raise StoreUnavailable("database or disk is full")

    monkeypatch.setattr(RatingStore, "record", full)
    assert browser.api([rating(item, 5)]).status_code == 503
    page = browser.send(f"/study/item/{item}", **{"s.style": "1"})
    assert page.status_code == 503
    assert "Not saved" in page.text
    assert "disk" not in page.text
    monkeypatch.undo()
    assert browser.state.answers == {}


def test_a_bug_is_a_plain_page(browser_of, monkeypatch):
    browser = browser_of()
    browser.open_link()

    def broken(*_):
        raise RuntimeError("SECRET of the code")

    monkeypatch.setattr(RatingStore, "state", broken)
    for path in ("/study", "/api/state"):
        answer = browser.get(path)
        assert answer.status_code == 500
        assert "SECRET" not in answer.text
        assert "Traceback" not in answer.text


def test_a_closed_study_says_so_and_takes_nothing(browser_of):
    browser = browser_of()
    browser.to_rating()
    browser.store.close_study("enough")
    item = browser.items[0].opaque
    page = browser.send(f"/study/item/{item}", **{"s.style": "1"})
    assert page.status_code == 403
    assert "closed" in page.text
    assert browser.api([rating(item, 5)]).json() == {"error": "closed"}


def test_the_german_catalogue_has_every_word_with_its_gaps():
    def gaps(text):
        return sorted(name for _, name, _, _ in string.Formatter().parse(text) if name)

    english, german = catalogue()["en"], catalogue()["de"]
    assert list(english) == list(german)
    assert all(gaps(english[name]) == gaps(german[name]) for name in english)
    same = {name for name in english if english[name] == german[name]}
    assert same <= {"text_n", "js_text_n", "review_item"}


def test_a_study_in_german_has_german_pages(browser_of):
    browser = browser_of(small_study(language="de-AT"))
    page = browser.to_rating().text
    assert '<html lang="de"' in page
    assert "1 von 4" in page
    assert "Zurück" in page


def test_a_language_that_is_not_there_is_english(browser_of):
    page = browser_of(small_study(language="xx")).open_link().text
    assert '<html lang="en"' in page
    assert 'lang="xx"' in page
