"""The rater's way over HTTP, with plain forms: from the link to the code."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from levelfield_rating.web.context import Strings
from plain_browser import rate_all, rating
from rating_study import SLIDERS, small_study


@pytest.mark.parametrize("scale", ["slider", "likert", "pairwise", "ranking"])
def test_plain_forms_lead_from_the_link_to_the_code(browser_of, scale):
    browser = browser_of(small_study(scale=scale))
    browser.to_rating(slot=1)
    rate_all(browser)
    assert browser.state.phase == "review"
    page = browser.send("/study/enter", phase="done")
    code = browser.state.completion_code
    assert code
    assert code in page.text
    assert f'href="https://example.org/done?code={code}"' in page.text
    for placed in browser.items:
        answers = browser.state.answers[placed.item]
        order = placed.order
        for criterion in browser.store.frozen.criteria:
            shown = {
                "slider": 100,
                "likert": 2,
                "pairwise": order[1] if len(order) > 1 else None,
                "ranking": None,
            }[scale]
            if scale == "ranking":
                expected = {order[0]: 1, order[1]: 1, order[2]: 3}
                shown = tuple(expected[k] for k in range(3))
            assert answers[criterion.id] == shown


def test_nobody_goes_on_without_agreeing(browser_of):
    browser = browser_of()
    browser.open_link()
    page = browser.send("/study/welcome")
    assert page.status_code == 422
    assert "tick the box" in page.text
    assert browser.send("/study/welcome", agree="0").status_code == 422
    assert browser.state.phase == "welcome"
    assert browser.state.consent == ""
    browser.send("/study/welcome", agree="1")
    assert browser.state.consent == "1"


def test_practice_has_two_tries_and_then_goes_on(browser_of):
    browser = browser_of()
    browser.open_link()
    browser.send("/study/welcome", agree="1")
    browser.send("/study/enter", phase="examples")
    browser.send("/study/enter", phase="practice")
    assert browser.send("/study/enter", phase="rating").status_code == 409
    nothing = browser.send("/study/practice/pracA1", **{"try": "0"})
    assert nothing.status_code == 422
    assert "Not answered yet: Style" in nothing.text
    page = browser.send("/study/practice/pracA1", **{"try": "0", "s.style": "0"})
    assert "try once more" in page.text
    assert "“shall”" in page.text
    page = browser.send("/study/practice/pracA1", **{"try": "0", "s.style": "0"})  # sent twice
    assert browser.state.practice["pracA1"] == (1, False)
    page = browser.send("/study/practice/pracA1", **{"try": "1", "s.style": "1"})
    assert "We would have answered differently" in page.text
    assert "“shall”" in page.text
    assert "1 of 4" in browser.send("/study/enter", phase="rating").text


@pytest.mark.parametrize("scale", ["slider", "ranking"])
def test_practice_that_nothing_is_checked_by_is_answered_once_and_explained(browser_of, scale):
    """A study file can't say which order is right."""
    study = small_study(scale=scale)
    (task,) = study.practice
    browser = browser_of(replace(study, practice=(replace(task, accept={}),)))
    browser.open_link()
    browser.send("/study/welcome", agree="1")
    for phase in ("examples", "practice"):
        page = browser.send("/study/enter", phase=phase)
    assert page.text.count("<fieldset") == len(study.criteria)
    path = f"/study/practice/{task.opaque}"
    assert browser.send(path, **{"try": "0"}).status_code == 422
    answers = {
        "slider": {f"s.{c.id}": "3" for c in study.criteria},
        "ranking": {f"c.{c.id}.{n}": str(n + 1) for c in study.criteria for n in range(3)},
    }
    page = browser.send(path, **{"try": "0"}, **answers[scale]).text
    assert "look at “shall”" in page
    assert Strings("en")("practice_passed") not in page
    browser.send("/study/enter", phase="rating")
    assert browser.state.phase == "rating"


def test_a_practice_item_that_is_passed_is_praised(browser_of):
    browser = browser_of()
    browser.open_link()
    browser.send("/study/welcome", agree="1")
    browser.send("/study/enter", phase="examples")
    browser.send("/study/enter", phase="practice")
    page = browser.send("/study/practice/pracA1", **{"try": "0", "c.style": "77"})
    assert "That fits" in page.text
    assert browser.state.practice["pracA1"] == (1, True)


@pytest.mark.parametrize(("examples", "practice"), [(False, False), (True, False), (False, True)])
def test_what_a_study_has_not_is_passed_over(browser_of, examples, practice):
    browser = browser_of(small_study(examples=examples, practice=practice))
    assert "1 of 4" in browser.to_rating().text


def test_who_withdraws_is_asked_first_and_then_forgotten(browser_of):
    browser = browser_of()
    browser.to_rating()
    rate_all(browser)
    assert "Withdraw and delete" in browser.get("/study/withdraw").text
    assert browser.state.phase == "review"
    page = browser.send("/study/withdraw")
    assert "You have withdrawn" in page.text
    assert browser.state.answers == {}
    assert "You have withdrawn" in browser.follow(browser.get("/study")).text
    assert browser.api([rating(browser.items[0].opaque, 5)]).status_code == 409


def test_every_page_of_a_rater_offers_withdrawal(browser_of):
    browser = browser_of()
    pages = [browser.open_link(), browser.send("/study/welcome", agree="1")]
    pages += [browser.send("/study/enter", phase="examples")]
    pages += [browser.send("/study/enter", phase="practice")]
    other = browser_of()
    pages += [other.to_rating(1), other.get("/study/instructions")]
    rate_all(other)
    pages += [other.get("/study"), other.send("/study/enter", phase="done")]
    for page in pages:
        assert 'href="/study/withdraw"' in page.text


def test_after_a_day_the_questions_are_shown_once_more(browser_of):
    late = [timedelta(0)]
    browser = browser_of(now=lambda: datetime.now(UTC) + late[0])
    browser.to_rating()
    assert browser.get("/study").status_code == 303
    late[0] = timedelta(hours=25)
    page = browser.get("/study")
    assert "Welcome back" in page.text
    for criterion in SLIDERS:
        assert criterion.statement in page.text
    assert f'href="/study/item/{browser.items[0].opaque}"' in page.text


def test_review_says_what_is_open_and_goes_there(browser_of):
    browser = browser_of()
    browser.to_rating()
    for placed in browser.items:
        page = browser.send(f"/study/item/{placed.opaque}", **{"s.style": "0", "go": "later"})
    assert "Text 3: Content, Fluency" in page.text
    page = browser.send("/study/enter", phase="done")
    assert page.status_code == 409
    assert "Something is still open" in page.text
    page = browser.send("/study/enter", phase="rating", item=browser.items[2].opaque)
    assert "3 of 4" in page.text


def test_going_on_with_something_open_says_which_and_keeps_the_rest(browser_of):
    browser = browser_of()
    browser.to_rating()
    item = browser.items[0]
    page = browser.send(f"/study/item/{item.opaque}", **{"s.style": "0", "problem": "yes"})
    assert page.status_code == 422
    assert "Not answered yet: Content, Fluency" in page.text
    assert "Saved " in page.text
    assert browser.state.answers[item.item] == {"style": 1}
    assert browser.state.problems == {item.item}
    page = browser.send(f"/study/item/{item.opaque}", go="later", problem="yes")
    assert "2 of 4" in page.text


def test_a_preview_looks_the_same_under_a_banner(browser_of):
    browser = browser_of()
    secret = browser.store.preview(0)
    browser.client.cookies.set(browser.client.app.state.web.cookie, secret)
    page = browser.get("/study")
    assert "nothing that you answer here counts" in page.text
    assert "Welcome" in page.text
