"""The rater's pages in headless Chromium, as people use them."""

from __future__ import annotations

import re
import shutil
from contextlib import ExitStack
from dataclasses import replace

import pytest
from rating_server import served
from rating_study import small_study

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from levelfield.rating.store import Store
from levelfield.rating.web.app import create_app

pytestmark = pytest.mark.browser
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ODD_NAMES = ("constructor", "__proto__", "valueOf")
OFFLINE = ("ERR_INTERNET_DISCONNECTED", "ERR_CONNECTION_REFUSED", "503", "409")


@pytest.fixture(scope="module")
def chromium():
    sync = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine")
    with sync.sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield started
        started.close()


class Place:
    """A study that is served, and browsers that look at it; troubles of any page fail the test."""

    def __init__(self, chromium, store, base, stack):
        self.chromium, self.store, self.base, self.stack = chromium, store, base, stack
        self.troubles = []
        self.expected = ()

    def context(self, **options):
        options = {"viewport": {"width": 1280, "height": 800}, **options}
        context = self.chromium.new_context(**options)
        context.set_default_timeout(60_000)
        self.stack.callback(context.close)
        return context

    def page(self, context=None, **options):
        page = (context or self.context(**options)).new_page()
        page.on("console", lambda message: self.troubles.append(message.text))
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        return page

    def link(self, slot=0):
        return f"{self.base}/r/{self.store.new_link(slot)}"

    def state(self, slot=0):
        mine = [r for r in self.store.raters() if r.slot == slot and not r.replaced]
        return mine[0]

    def items(self, slot=0):
        return self.store.frozen.slots[slot].items

    def answers(self, number, slot=0):
        return self.state(slot).answers.get(self.items(slot)[number].item, {})


@pytest.fixture
def place_of(chromium, tmp_path):
    with ExitStack() as stack:
        places = []

        def made(frozen=None, **options):
            frozen = frozen or small_study(items=3, practice=False, examples=False)
            store = Store.create(tmp_path / f"{len(places)}.sqlite", frozen)
            stack.callback(store.close)
            base = stack.enter_context(served(create_app(store, organiser=False, **options)))
            places.append(Place(chromium, store, base, stack))
            return places[-1]

        yield made
        for place in places:
            unexpected = [t for t in place.troubles if not any(e in t for e in place.expected)]
            assert unexpected == []


def to_rating(place, page, slot=0):
    """Past the welcome and the instructions."""
    page.goto(place.link(slot))
    page.get_by_role("button", name="Begin").click()
    page.get_by_label("I have read this").check()
    page.get_by_role("button", name="Begin").click()
    page.get_by_role("button", name="Go on").click()
    ready(page)


def ready(page):
    """The script has the items of the study, so that it needs the network for nothing else."""
    page.wait_for_selector("html.js")
    page.wait_for_load_state("networkidle")


def sliders(page):
    return page.locator("[role=slider]")


def click_slider(page, number, share):
    bar = sliders(page).nth(number)
    box = bar.locator(".reach").bounding_box()
    bar.click(position={"x": 12 + share * box["width"], "y": box["height"] / 2})


def answer_all(page, share=0.5):
    for number in range(sliders(page).count()):
        click_slider(page, number, share)


def expect(locator):
    from playwright.sync_api import expect

    return expect(locator)


def saved(page):
    expect(page.locator("#saved")).to_have_text(re.compile(r"^Saved \d\d:\d\d$"), timeout=60_000)


def value_of(page, criterion):
    return page.locator(f"input[name='c.{criterion}']")


def text_of(page, selector):
    return page.locator(selector).text_content().strip()


# the whole way


def test_by_mouse_from_link_to_code(place_of):
    place = place_of(small_study(items=4))
    page = place.page()
    page.goto(place.link())
    page.get_by_role("button", name="Begin").click()
    assert page.url == f"{place.base}/study"
    page.get_by_label("I have read this").check()
    page.get_by_role("button", name="Begin").click()
    page.get_by_role("button", name="Go on").click()
    assert page.locator("article.example").count() == 2
    page.get_by_role("button", name="Go on").click()
    for share, said in ((0.1, "try once more"), (0.9, "That fits")):
        click_slider(page, 0, share)
        page.get_by_role("button", name="Check my answers").click()
        page.get_by_text(said).wait_for()
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


# questions


def test_a_slider_has_no_thumb_until_it_is_answered_and_says_no_number(place_of):
    place = place_of()
    page = place.page()
    to_rating(place, page)
    bar = sliders(page).first
    assert not page.locator(".thumb").first.is_visible()
    assert bar.get_attribute("aria-valuetext") == "no answer yet"
    bar.focus()
    assert not page.locator(".thumb").first.is_visible()
    said = []
    for key in ("ArrowLeft", "ArrowUp", "PageUp", "PageUp", "End", "ArrowRight", "Home"):
        page.keyboard.press(key)
        said.append(bar.get_attribute("aria-valuetext"))
    assert page.locator(".thumb").first.is_visible()
    assert said[0] == "slightly towards “disagree”"
    assert said[-2:] == ["fully “agree”", "fully “disagree”"]
    snapshot = page.locator("fieldset").first.aria_snapshot()
    assert not re.search(r"\d", snapshot.replace('group "1 ', "").replace("/url", ""))
    saved(page)
    assert place.answers(0) == {"style": 1}


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


def test_buttons_can_stand_in_for_sliders(place_of):
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


# trouble


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


def test_what_was_answered_offline_is_sent_when_the_page_is_opened_again(place_of):
    place = place_of()
    place.expected = OFFLINE
    context = place.context()
    page = place.page(context)
    to_rating(place, page)
    context.set_offline(True)
    answer_all(page, 1)
    page.get_by_text("waiting for the network").wait_for()
    page.close()
    context.set_offline(False)
    page = place.page(context)
    page.goto(f"{place.base}/study")
    saved(page)
    assert set(place.answers(0).values()) == {100}
    assert page.locator("input[name='c.style']").input_value() == "100"
    assert page.evaluate("Object.keys(localStorage).filter(k => k.includes('event')).length") == 0


def test_a_store_that_is_full_shows_not_saved_and_is_tried_again(place_of, monkeypatch):
    from levelfield.rating.store import StoreUnavailable

    place = place_of()
    place.expected = OFFLINE
    page = place.page()
    to_rating(place, page)

    def full(*_):
        raise StoreUnavailable("full")

    monkeypatch.setattr(Store, "record", full)
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
    route.fulfill(response=response)
    ready(page)
    expect(value_of(page, "style")).to_have_value(value)
    expect(sliders(page).nth(0).locator(".thumb")).to_be_visible()


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
    page.wait_for_timeout(500)
    assert not page.evaluate("Object.keys(localStorage).some(key => key.includes('.event.'))")
    assert place.answers(0) == {"content": 100}


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


# everybody


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("scale", ["slider", "likert", "pairwise", "ranking"])
def test_axe_finds_nothing_serious_on_any_page(place_of, scale, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    place = place_of(small_study(scale=scale, items=3))
    place.expected = ("422",)
    page = place.page(color_scheme=scheme)
    found = []

    def look(name):
        options = {
            "resultTypes": ["violations"],
            "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
        }
        for one in axe.run(page, options=options).response["violations"]:
            if one["impact"] in ("serious", "critical", "moderate"):
                found.append((name, one["id"], [node["html"][:200] for node in one["nodes"]]))

    def follow(role, name):
        """To the page behind it: a look before that has come would be at the one that goes."""
        with page.expect_navigation():
            page.get_by_role(role, name=name).click()

    page.goto(place.link())
    look("entry")
    follow("button", "Begin")
    look("welcome")
    page.get_by_label("I have read this").check()
    follow("button", "Begin")
    look("instructions")
    follow("button", "Go on")
    look("examples")
    follow("button", "Go on")
    ready(page)
    look("practice")
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
        look("practised")
    follow("button", "Begin the rating")
    ready(page)
    look("item")
    page.get_by_role("button", name="Next").click()
    page.locator(".keys summary").click()
    page.get_by_text("Comment or problem").click()
    look("item, open")
    page.get_by_role("button", name="Leave it open").click()
    page.get_by_text("2 of 3").wait_for()
    look("second item")
    for _ in range(2):
        page.get_by_role("button", name="Next").click()
        page.get_by_role("button", name="Leave it open").click()
    page.get_by_text("Almost done").wait_for()
    look("review")
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
    assert found == []


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
        serious = [v["id"] for v in axe.run(page).response["violations"]]
        assert (name, serious) == (name, [])
        if name == "review":
            page.get_by_role("button", name="Finish").click()
            page.wait_for_selector("#code")
