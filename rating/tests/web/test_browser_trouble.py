"""The rating page in headless Chromium when the network, the store or another window fails it."""

from __future__ import annotations

import pytest

from chromium_pages import (
    OFFLINE,
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
from levelfield_rating.store import RatingStore, events

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_offline_in_the_middle_nothing_is_lost_and_the_page_says_so(place_of):
    place = place_of()
    place.expected = OFFLINE
    context = place.context()
    page = place.page(context)
    to_rating(place, page)
    answer_all(page, 0)
    saved(page)
    context.set_offline(True)
    page.get_by_role("button", name="Next").click()
    for _ in range(2):
        answer_all(page, 1)
        page.get_by_text("Not saved yet – waiting for the network").wait_for()
        assert "Saved" not in text_of(page, "#saved")
        page.get_by_role("button", name="Next").click()
    page.get_by_text("3 of 3").first.wait_for()
    assert place.answers(1) == {}
    context.set_offline(False)
    page.get_by_text("Everything is answered").wait_for()
    assert all(set(place.answers(n).values()) == {100 if n else 1} for n in range(3))


def answered_offline(place_of):
    """Opens a page without a network whose first text is answered, and nothing is sent."""
    place = place_of()
    place.expected = OFFLINE
    page = place.page()
    to_rating(place, page)
    page.context.set_offline(True)
    answer_all(page, 1)
    page.get_by_text("waiting for the network").wait_for()
    return place, page


def test_keys_pressed_while_the_network_comes_back_leave_no_old_trouble(place_of):
    place, page = answered_offline(place_of)
    page.context.set_offline(False)
    # down and up again, so that nothing new is to be saved
    page.evaluate("""async () => {
        const bar = document.querySelector("[role=slider]");
        const waiting = () => document.querySelector("#saved.waiting");
        for (let n = 0; n < 300 && waiting(); n++) {
            for (const key of ["ArrowLeft", "ArrowRight"]) {
                bar.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
            }
            await new Promise((then) => setTimeout(then, 50));
        }
    }""")
    saved(page)
    assert set(place.answers(0).values()) == {100}


def test_what_was_answered_offline_is_sent_when_the_page_is_opened_again(place_of):
    place, page = answered_offline(place_of)
    context = page.context
    page.close()
    context.set_offline(False)
    page = place.page(context)
    page.goto(f"{place.base}/study")
    saved(page)
    assert set(place.answers(0).values()) == {100}
    assert page.locator("input[name='c.style']").input_value() == "100"
    assert page.evaluate("Object.keys(localStorage).filter(k => k.includes('event')).length") == 0


def test_a_store_that_is_full_shows_not_saved_and_is_tried_again(place_of, monkeypatch):
    from levelfield_rating.store import StoreUnavailable

    place = place_of()
    place.expected = OFFLINE
    page = place.page()
    to_rating(place, page)

    def full(*_):
        raise StoreUnavailable("full")

    monkeypatch.setattr(RatingStore, "record", full)
    click_slider(page, 0, 1)
    page.get_by_text("Not saved yet – the study can't be reached").wait_for()
    monkeypatch.undo()
    saved(page)
    assert place.answers(0) == {"style": 100}


def test_a_reload_shows_what_was_answered(place_of):
    place = place_of()
    page = place.page()
    to_rating(place, page)
    answer_all(page, 0.25)
    page.get_by_text("Comment or problem").click()
    page.get_by_label("Comment (if").fill("<b>really?</b>")
    saved(page)
    page.get_by_role("button", name="Next").click()
    page.get_by_text("2 of 3").wait_for()
    click_slider(page, 1, 1)
    page.reload()
    ready(page)
    assert "2 of 3" in text_of(page, "#counter")
    assert page.locator("input[name='c.content']").input_value() == "100"
    assert page.locator("input[name='c.style']").input_value() == ""
    page.go_back()
    ready(page)
    page.get_by_text("1 of 3").wait_for()
    values = page.locator("fieldset input[type=hidden]").evaluate_all(
        "all => all.map(i => i.value)"
    )
    assert values == [str(place.answers(0)[c.id]) for c in place.store.frozen.criteria]
    assert page.get_by_label("Comment (if").input_value() == "<b>really?</b>"


def test_passing_over_a_slider_before_the_network_answers_changes_nothing(place_of):
    """The buttons under a slider know ten places only; the slider knows where it was."""
    place = place_of()
    page = place.page()
    to_rating(place, page)
    for number, share in enumerate((0.33, 0.57, 0.81)):
        click_slider(page, number, share)
    saved(page)
    before, clock = place.answers(0), place.state().clock
    page.route("**/api/state*", lambda _: None)  # never answers
    page.goto(f"{place.base}/study/item/{place.items()[0].opaque}")
    page.wait_for_selector("html.js")
    for number in range(3):
        sliders(page).nth(number).focus()
    page.locator("#next").click()
    expect(page.locator("#counter")).to_contain_text("2 of 3")
    assert place.answers(0) == before
    assert place.state().clock == clock


def test_an_answer_of_before_does_not_hide_what_was_saved_since(place_of):
    place = place_of()
    page = place.page()
    to_rating(place, page)
    held = []
    page.route("**/api/state*", lambda route: held.append((route, route.fetch())), times=1)
    page.evaluate("window.dispatchEvent(new Event('focus'))")
    while not held:
        page.wait_for_timeout(20)
    click_slider(page, 0, 0.7)
    saved(page)
    value = str(place.answers(0)["style"])
    route, response = held[0]
    with page.expect_request_finished(lambda request: "/api/state" in request.url):
        route.fulfill(response=response)
    expect(value_of(page, "style")).to_have_value(value)
    expect(sliders(page).nth(0).locator(".thumb")).to_be_visible()


def test_the_last_answer_wins_in_two_windows(place_of):
    place = place_of()
    context = place.context()
    first, second = place.page(context), place.page(context)
    to_rating(place, first)
    second.goto(f"{place.base}/study")
    ready(second)
    for _ in range(3):
        click_slider(first, 0, 0)
        click_slider(first, 0, 0.5)
    saved(first)
    click_slider(second, 0, 1)
    saved(second)
    assert place.answers(0)["style"] == 100
    expect(value_of(first, "style")).to_have_value("100", timeout=60_000)
    click_slider(first, 1, 0)
    saved(first)
    expect(value_of(second, "content")).to_have_value("1", timeout=60_000)


def test_a_window_goes_on_after_the_link_was_opened_again(place_of):
    place = place_of()
    place.expected = ("403",)
    context = place.context()
    page = place.page(context)
    link = place.link()
    page.goto(link)
    page.get_by_role("button", name="Begin").click()
    page.get_by_label("I have read this").check()
    page.get_by_role("button", name="Begin").click()
    page.get_by_role("button", name="Go on").click()
    ready(page)
    other = place.page(context)
    other.goto(link)
    other.get_by_role("button", name="Begin").click()
    ready(other)
    click_slider(page, 0, 1)
    saved(page)
    assert place.answers(0) == {"style": 100}


def test_answers_of_one_person_never_become_another_persons(place_of):
    place = place_of()
    place.expected = ("403",)
    context = place.context()
    page, other = place.page(context), place.page(context)
    to_rating(place, page, 0)
    to_rating(place, other, 1)
    click_slider(page, 0, 1)
    page.get_by_text("please open your link again").wait_for()
    assert place.answers(0, 1) == {}
    assert place.answers(0, 0) == {}


def test_an_answer_that_is_refused_is_not_called_saved_and_holds_nothing_up(place_of):
    place = place_of()
    place.expected = ("422",)
    page = place.page()
    to_rating(place, page)
    bad = '{"uuid":"x","kind":"rating","item":"%s","criterion":"style","value":101,"clock":1}'
    page.evaluate(
        "([value]) => { const key = document.getElementById('item').dataset.storage;"
        " localStorage.setItem(`levelfield.${key}.event.x`, value); }",
        [bad % place.items()[0].opaque],
    )
    click_slider(page, 1, 1)
    page.get_by_text("this answer was not accepted").wait_for()
    page.wait_for_function("() => !Object.keys(localStorage).some(key => key.includes('.event.'))")
    assert place.answers(0) == {"content": 100}


def test_more_changes_than_the_study_keeps_are_reported_and_hold_nothing_up(place_of, monkeypatch):
    monkeypatch.setattr(events, "EVENTS_OF_ITEM", 1)
    place = place_of()
    place.expected = ("429",)
    page = place.page()
    to_rating(place, page)
    click_slider(page, 0, 1)
    saved(page)
    click_slider(page, 0, 0)
    page.get_by_text("more changes were made here than the study keeps").wait_for()
    page.wait_for_function("() => !Object.keys(localStorage).some(key => key.includes('.event.'))")
    assert place.answers(0) == {"style": 100}


def test_the_browser_keeps_nothing_after_the_end(place_of):
    place = place_of()
    page = place.page()
    to_rating(place, page)
    for _ in range(3):
        answer_all(page)
        page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Finish").click()
    page.wait_for_selector("html.js #code")
    kept = page.evaluate("Object.keys(localStorage)")
    assert [key for key in kept if not key.startswith("levelfield.settings.")] == []


def test_a_policy_against_scripts_is_in_force(place_of):
    place = place_of()
    place.expected = ("Content Security Policy", "EvalError", "unsafe-eval")
    page = place.page()
    to_rating(place, page)
    page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.taken = 1';"
        " document.body.append(s); }"
    )
    assert page.evaluate("window.taken") is None
    assert place.troubles
