"""Answers by form and by the script's API, and what is refused."""

from __future__ import annotations

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield_rating.answers import shown_answer, standard_ranks, stored_answer
from levelfield_rating.model import RatingCriterion
from levelfield_rating.store import RatingStore
from levelfield_rating.web.shown import SLIDER_STEPS, step_of
from plain_browser import rate_all, rating, was
from rating_study import small_study

PAIR = RatingCriterion("style", "Style", "Which?", "pairwise")


RANKS = RatingCriterion("style", "Style", "Order.", "ranking")


BAD = [0, 101, -1, True, False, 3.5, 3.0, "3", None, [], [3], {}, 10**30, "NaN"]


@pytest.mark.parametrize("scale", ["slider", "pairwise", "ranking"])
def test_what_is_no_answer_is_refused_and_changes_nothing(browser_of, scale):
    browser = browser_of(small_study(scale=scale))
    browser.to_rating()
    item = browser.items[0].opaque
    right = {"slider": 5, "pairwise": 1, "ranking": [1, 2, 2]}[scale]
    for value in [*BAD, -2, 3 if scale == "pairwise" else 101, [1, 1, 1, 1], [1, 2, True]]:
        if scale == "pairwise" and value in (0, -1) and type(value) is int:
            continue
        events = [rating(browser.items[1].opaque, right), rating(item, value)]
        assert browser.api(events).status_code == 422, value
    assert browser.state.answers == {}
    assert browser.api([rating(item, right)]).status_code == 200


def test_anything_but_a_list_of_events_is_refused(browser_of):
    browser = browser_of()
    browser.to_rating()
    bodies = [b"", b"{", b"[NaN]", b'{"events": [NaN]}', b'"x"', b"[]", b"[1]", b"[[]]", b"\xff"]
    for body in (*bodies, b"[" * 100_000, json.dumps([{}] * 1_000).encode()):
        headers = {"X-CSRF-Token": browser.csrf}
        answer = browser.client.post("/api/events", content=body, headers=headers)
        assert answer.status_code == 422, body[:20]


def test_an_event_of_another_form_is_refused(browser_of):
    browser = browser_of()
    browser.to_rating()
    changes = [
        {"uuid": 5},
        {"uuid": ""},
        {"kind": "practice"},
        {"kind": "other"},
        {"kind": []},
        {"item": None},
        {"criterion": None},
        {"criterion": "none"},
        {"clock": "1"},
        {"clock": True},
        {"clock": 0},
        {"client_ms": -1},
        {"client_ms": 1.5},
        {"kind": "comment", "criterion": "", "value": "half of a pair \ud83d"},
        {"kind": "problem", "criterion": "", "value": 1},
    ]
    for change in changes:
        answer = browser.api([{**rating(browser.items[0].opaque, 5), **change}])
        assert answer.status_code == 422, change
    assert browser.state.answers == {}


def test_another_raters_item_is_not_there(browser_of):
    browser = browser_of(small_study(surveys=2))
    browser.to_rating()
    foreign = browser.store.frozen.slots[2].items[0].opaque
    for item in (foreign, "unknown", browser.items[0].item):
        assert browser.api([rating(item, 5)]).status_code == 404
        assert browser.get(f"/study/item/{item}").status_code == 404
        assert browser.post(f"/study/item/{item}", {"csrf": browser.csrf}).status_code == 404


def test_answers_come_at_their_time_only(browser_of):
    browser = browser_of()
    browser.open_link()
    item = browser.items[0].opaque
    assert browser.api([rating(item, 5)]).status_code == 409
    assert browser.send("/study/enter", phase="done").status_code == 409
    assert browser.send("/study/enter", phase="nothing").status_code == 422
    browser = browser_of()
    browser.to_rating(1)
    rate_all(browser)
    browser.send("/study/enter", phase="done")
    item = browser.items[0].opaque
    assert browser.api([rating(item, 5)]).status_code == 409
    assert browser.send(f"/study/item/{item}", **{"s.style": "1"}).status_code == 409
    assert browser.state.answers[browser.items[0].item]["style"] == 100


def test_the_same_event_twice_is_one_and_another_body_is_refused(browser_of):
    browser = browser_of()
    browser.to_rating()
    event = rating(browser.items[0].opaque, 5)
    first, second = browser.api([event]), browser.api([event])
    assert [r.json()["saved"][0]["duplicate"] for r in (first, second)] == [False, True]
    assert first.json()["saved"][0]["at"] == second.json()["saved"][0]["at"]
    assert browser.api([{**event, "value": 6}]).status_code == 409
    assert browser.state.answers[browser.items[0].item]["style"] == 5


def test_sending_a_form_twice_writes_once(browser_of):
    browser = browser_of()
    browser.to_rating()
    for _ in range(3):
        browser.send(f"/study/item/{browser.items[0].opaque}", **{"s.style": "3", "comment": "ok"})
    rows = [row for row in browser.store.log() if row.kind in ("rating", "comment")]
    assert [row.value for row in rows] == [34, "ok"]


def test_a_form_sent_twice_at_the_same_moment_is_one_try(browser_of, monkeypatch):
    browser = browser_of()
    browser.open_link()
    browser.send("/study/welcome", agree="1")
    for phase in ("examples", "practice"):
        browser.send("/study/enter", phase=phase)
    barrier, record = threading.Barrier(2), RatingStore.record

    def together(self, rater, events):
        barrier.wait(30)  # both requests have seen the same state
        return record(self, rater, events)

    monkeypatch.setattr(RatingStore, "record", together)
    fields = {"csrf": browser.csrf, "try": "0", **browser.bad()}
    with ThreadPoolExecutor(2) as pool:
        sent = [
            pool.submit(browser.client.post, "/study/practice/pracA1", data=fields)
            for _ in range(2)
        ]
        assert [response.result().status_code for response in sent] == [303, 303]
    assert browser.state.practice == {"pracA1": (1, False)}


def test_a_form_says_only_what_was_changed_in_it(browser_of):
    """Two windows without a script: the older one takes nothing back that it never showed."""
    browser = browser_of()
    older = browser.to_rating().text
    first = browser.items[0]
    path = f"/study/item/{first.opaque}"
    newer = {"s.style": "7", "comment": "Odd.", "problem": "yes", "was": was(older)}
    browser.send(path, **newer, go="later")
    browser.send(path, **{"s.content": "2"}, comment="", was=was(older), go="later")
    state = browser.state
    assert state.answers[first.item] == {"style": SLIDER_STEPS[7], "content": SLIDER_STEPS[2]}
    assert state.comments == {first.item: "Odd."}
    assert state.problems == {first.item}
    now = was(browser.get(path).text)
    browser.send(path, **{"s.style": "7", "s.content": "3"}, comment="", was=now, go="later")
    state = browser.state
    assert state.answers[first.item] == {"style": SLIDER_STEPS[7], "content": SLIDER_STEPS[3]}
    assert (state.comments, state.problems) == ({}, frozenset())


@pytest.mark.parametrize(
    "previous",
    ["", "[]", "{}", "null", '{"answers": {"style": Infinity}}', '{"answers": [1]}', "[" * 9999],
)
def test_what_a_form_says_of_before_is_not_trusted(browser_of, previous):
    browser = browser_of()
    browser.to_rating()
    first = browser.items[0]
    browser.send(f"/study/item/{first.opaque}", **{"s.style": "7"}, was=previous, go="later")
    assert browser.state.answers == {first.item: {"style": SLIDER_STEPS[7]}}


def test_a_plain_form_leaves_alone_what_a_slider_says_more_exactly(browser_of):
    browser = browser_of()
    browser.to_rating()
    item = browser.items[0]
    browser.api([rating(item.opaque, 57)])
    page = browser.get(f"/study/item/{item.opaque}").text
    checked = re.findall(r'name="s\.style" value="(\d)" checked', page)
    assert checked == ["5"]
    browser.send(f"/study/item/{item.opaque}", **{"s.style": "5", "go": "back"})
    assert browser.state.answers[item.item]["style"] == 57
    browser.send(f"/study/item/{item.opaque}", **{"s.style": "6", "go": "back"})
    assert browser.state.answers[item.item]["style"] == 67


def test_a_comment_is_kept_as_written(browser_of):
    browser = browser_of()
    browser.to_rating()
    item = browser.items[0]
    text = '=1+1\n<b>"quotes"</b> & ünïcode 🙂'
    browser.send(f"/study/item/{item.opaque}", comment=text.replace("\n", "\r\n"))
    assert browser.state.comments[item.item] == text
    page = browser.get(f"/study/item/{item.opaque}").text
    assert "<b>" not in page
    assert browser.send(f"/study/item/{item.opaque}", comment="x" * 4001).status_code == 422


@given(st.permutations(range(4)), st.lists(st.integers(1, 4), min_size=4, max_size=4))
def test_a_ranking_goes_to_the_store_and_back(order, numbers):
    ranks = standard_ranks(numbers)
    stored = stored_answer(RANKS, order, list(ranks))
    assert shown_answer(RANKS, order, stored) == ranks
    assert all(stored[position] == rank for rank, position in zip(ranks, order, strict=True))


@given(st.permutations(range(2)), st.sampled_from([-1, 0, 1]))
def test_a_choice_of_two_goes_to_the_store_and_back(order, value):
    assert shown_answer(PAIR, order, stored_answer(PAIR, order, value)) == value


def test_the_buttons_of_a_slider_are_even_and_mirrored():
    assert SLIDER_STEPS[0] == 1
    assert SLIDER_STEPS[-1] == 100
    assert all(a + b == 101 for a, b in zip(SLIDER_STEPS, reversed(SLIDER_STEPS), strict=True))
    assert [step_of(value) for value in SLIDER_STEPS] == list(range(10))
    nearest = [min(range(10), key=lambda k: abs(SLIDER_STEPS[k] - v)) for v in range(1, 101)]
    assert [step_of(value) for value in range(1, 101)] == nearest
