"""How the questions of the rating page are answered in headless Chromium."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from chromium_pages import (
    answer_all,
    click_slider,
    expect,
    ready,
    saved,
    sliders,
    text_of,
    to_rating,
    value_of,
)
from rating_study import small_study

pytestmark = [pytest.mark.browser, pytest.mark.slow]


ODD_NAMES = ("constructor", "__proto__", "valueOf")


def test_a_slider_has_no_thumb_until_it_is_answered_and_says_no_number(place_of):
    place = place_of()
    page = place.page()
    to_rating(place, page)
    bar = sliders(page).first
    assert not page.locator(".thumb").first.is_visible()
    assert bar.get_attribute("aria-valuetext") == "no answer yet"
    bar.focus()
    assert not page.locator(".thumb").first.is_visible()
    labels = []
    for key in ("ArrowLeft", "ArrowUp", "PageUp", "PageUp", "End", "ArrowRight", "Home"):
        page.keyboard.press(key)
        labels.append(bar.get_attribute("aria-valuetext"))
    assert page.locator(".thumb").first.is_visible()
    assert labels[0] == "slightly towards “disagree”"
    assert labels[-2:] == ["fully “agree”", "fully “disagree”"]
    snapshot = page.locator("fieldset").first.aria_snapshot()
    assert not re.search(r"\d", snapshot.replace('group "1 ', "").replace("/url", ""))
    saved(page)
    assert place.answers(0) == {"style": 1}


def test_only_the_last_answer_is_shown_as_saved(place_of):
    place = place_of()
    page = place.page()
    to_rating(place, page)
    press = """keys => {
        const bar = document.querySelector("[role=slider]");
        for (const key of keys) {
            bar.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
        }
        return document.getElementById("saved").textContent;
    }"""
    status = page.locator("#saved")
    assert status.text_content() == ""
    write = """texts => {
        const comment = document.getElementById("comment");
        for (const text of texts) {
            comment.value = text;
            comment.dispatchEvent(new InputEvent("input"));
        }
        return document.getElementById("saved").textContent;
    }"""
    assert page.evaluate(write, ["a", ""]) == "Saving…"
    expect(status).to_have_text("")  # there is nothing to save
    assert page.evaluate(press, ["End"]) == "Saving…"
    saved(page)
    assert page.evaluate(press, ["ArrowLeft"]) == "Saving…"
    saved(page)
    assert place.answers(0) == {"style": 99}
    assert page.evaluate(press, ["Home", "ArrowRight", "End", "ArrowLeft"]) == "Saving…"
    saved(page)
    assert place.answers(0) == {"style": 99}
    assert len([event for event in place.store.log() if event.kind == "rating"]) == 2


def test_a_slider_takes_every_whole_number_and_no_other(place_of):
    place = place_of()
    page = place.page()
    to_rating(place, page)
    steps = {"ArrowLeft": 50, "PageUp": 60, "ArrowDown": 59, "PageDown": 49, "End": 100}
    page.keyboard.press("1")
    for key, value in steps.items():
        page.keyboard.press(key)
        assert page.locator("input[name='c.style']").input_value() == str(value)
    page.keyboard.press("ArrowRight")
    assert page.locator("input[name='c.style']").input_value() == "100"
    box = sliders(page).nth(1).bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 100, middle)
    page.mouse.down()
    page.mouse.move(box["x"] - 300, middle)
    page.mouse.up()
    page.get_by_role("button", name="Back").hover()
    saved(page)
    assert place.answers(0) == {"style": 100, "content": 1}


def test_a_drag_is_one_answer(place_of):
    place = place_of()
    page = place.page()
    to_rating(place, page)
    box = sliders(page).first.bounding_box()
    page.mouse.move(box["x"] + 50, box["y"] + 20)
    page.mouse.down()
    for k in range(20):
        page.mouse.move(box["x"] + 50 + 10 * k, box["y"] + 20)
    page.mouse.up()
    saved(page)
    assert len([row for row in place.store.log() if row.kind == "rating"]) == 1


def test_going_on_with_something_open_goes_there_and_says_which(place_of):
    place = place_of()
    page = place.page()
    to_rating(place, page)
    click_slider(page, 0, 0.5)
    page.get_by_role("button", name="Next").click()
    assert "Not answered yet: Content, Fluency" in text_of(page, "#open-words")
    assert (
        page.evaluate("document.activeElement.closest('fieldset').dataset.criterion") == "content"
    )
    click_slider(page, 1, 0.5)
    click_slider(page, 2, 0.5)
    assert not page.locator("#open").is_visible()
    page.get_by_role("button", name="Next").click()
    page.get_by_text("2 of 3").wait_for()
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Leave it open").click()
    page.get_by_text("3 of 3").wait_for()
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Leave it open").click()
    page.get_by_role("button", name="Text 2: Style, Content, Fluency").click()
    page.get_by_text("2 of 3").wait_for()


def test_pairs_are_answered_with_1_2_and_0(place_of):
    place = place_of(small_study(scale="pairwise", items=3, practice=False, examples=False))
    page = place.page()
    to_rating(place, page, 1)
    order = place.items(1)[0].order
    assert order == (1, 0)
    page.keyboard.press("1")
    page.keyboard.press("0")
    page.keyboard.press("Enter")
    page.get_by_text("2 of 3").wait_for()
    page.keyboard.press("2")
    saved(page)
    assert place.answers(0, 1) == {"style": 1, "content": -1}
    assert place.answers(1, 1) == {"style": place.items(1)[1].order[1]}


def test_texts_are_ordered_by_keyboard_with_ties(place_of):
    place = place_of(small_study(scale="ranking", items=3, practice=False, examples=False))
    page = place.page()
    to_rating(place, page, 1)
    order = place.items(1)[0].order
    question = page.locator("fieldset").first
    assert "Not ordered yet" in question.text_content()
    page.keyboard.press("1")
    button = question.get_by_role("button", name="Move Text 3 up")
    button.press("Enter")
    assert "Text 3: place 2, shared" in question.text_content()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert "Text 3: place 1, shared" in question.text_content()
    page.keyboard.press("ArrowUp")
    assert "Text 3: place 1" in question.text_content()
    assert page.evaluate("document.activeElement.dataset.move") == "up2"
    question.get_by_role("button", name="Move Text 1 down").press("Space")
    saved(page)
    shown = [place.answers(0, 1)["style"][position] for position in order]
    assert shown == [2, 2, 1]
    page.reload()
    ready(page)
    places = page.locator("fieldset").first.locator(".place").all_text_contents()
    assert places == ["1.", "2.", "2."]


def test_number_keys_can_be_switched_off_and_do_not_disturb_a_comment(place_of):
    place = place_of(small_study(scale="pairwise", items=3, practice=False, examples=False))
    page = place.page()
    to_rating(place, page)
    page.get_by_text("Comment or problem").click()
    page.get_by_label("Comment (if").fill("")
    page.get_by_label("Comment (if").press_sequentially("12 is fine\n0")
    page.get_by_label("There is a problem").check()
    page.locator(".keys summary").click()
    page.get_by_label("Use number keys").uncheck()
    page.locator("#task").focus()
    page.keyboard.press("1")
    saved(page)
    assert place.answers(0) == {}
    item = place.items()[0].item
    assert place.state().comments == {item: "12 is fine\n0"}
    assert place.state().problems == {item}


def test_buttons_can_replace_sliders(place_of):
    place = place_of()
    page = place.page()
    to_rating(place, page)
    click_slider(page, 0, 0.3)
    saved(page)
    exact = place.answers(0)["style"]
    page.locator(".keys summary").click()
    page.get_by_label("Answer with buttons").check()
    page.wait_for_selector("fieldset input[type=radio]")
    ready(page)
    question = page.locator("fieldset").first
    assert question.locator("input:checked").count() == 1
    page.locator("fieldset").nth(1).get_by_label("almost “agree”").check()
    saved(page)
    assert place.answers(0) == {"style": exact, "content": 89}


def test_a_criterion_may_have_any_name_that_a_study_file_takes(place_of):
    frozen = small_study(items=3, practice=False, examples=False)
    odd = tuple(replace(c, id=i) for c, i in zip(frozen.criteria, ODD_NAMES, strict=True))
    place = place_of(replace(frozen, criteria=odd))
    page = place.page()
    to_rating(place, page)
    assert [value_of(page, name).input_value() for name in ODD_NAMES] == ["", "", ""]
    answer_all(page, 0.5)
    saved(page)
    assert place.answers(0).keys() == set(ODD_NAMES)
