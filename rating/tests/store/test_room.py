"""What one link can make the store keep is bounded."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from levelfield_rating.store import RatingStore, access, events, people
from raters_of_store import STUDY, Now, begin, rate_all, rating, refused

SECOND_ITEM = STUDY.slots[0].items[1].opaque


def test_a_link_opens_so_often_and_a_new_one_goes_on(
    store: RatingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "SESSIONS_OF_LINK", 3)
    token = store.new_link(0)
    sessions = [store.exchange(token) or "" for _ in range(3)]
    size = len(list(store.log()))
    assert refused(lambda: store.exchange(token)) == 429
    assert len(list(store.log())) == size
    assert {store.session(session) for session in sessions} == {"r1"}, "those that are open stay"
    assert store.exchange(store.new_link(1)) is not None


def test_the_organisers_link_opens_so_often(
    store: RatingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "SESSIONS_OF_LINK", 2)
    secret = store.organiser_secret()
    assert all(store.organiser_exchange(secret) for _ in range(2))
    assert refused(lambda: store.organiser_exchange(secret)) == 429


def test_a_new_link_of_the_same_rater_opens_again(
    store: RatingStore, now: Now, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "SESSIONS_OF_LINK", 1)
    token = store.new_link(0)
    assert store.exchange(token)
    now.at += timedelta(seconds=1)
    session = store.exchange(store.new_link(0)) or ""
    assert store.session(session) == "r1"
    assert refused(lambda: store.exchange(token)) == 429


def test_an_item_is_changed_so_often_and_others_go_on(
    store: RatingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "EVENTS_OF_ITEM", 4)
    rater = begin(store)
    sent = [rating(f"u{n}", n, n) for n in range(1, 5)]
    store.record(rater, sent)
    assert refused(lambda: store.record(rater, [rating("u5", 5, 5)])) == 429
    assert refused(lambda: store.record(rater, [rating("u6", 6, 6, criterion="content")])) == 429
    assert all(saved.duplicate for saved in store.record(rater, sent)), (
        "what is there is acknowledged"
    )
    store.record(rater, [rating("u7", 7, 7, item=SECOND_ITEM)])


def test_comments_of_a_rater_fill_so_much(
    store: RatingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "TEXT_OF_RATER", 100)
    rater, other = begin(store), begin(store, 1)
    comment = rating("c1", "x" * 60, 1, kind="comment", criterion="")
    store.record(rater, [comment])
    more = rating("c2", "é" * 10, 2, kind="comment", criterion="", item=SECOND_ITEM)
    assert refused(lambda: store.record(rater, [more])) == 429, "ten times six bytes"
    store.record(rater, [rating("c3", "x" * 10, 2, kind="comment", criterion="")])
    store.record(rater, [rating("u1")])
    elsewhere = rating("c4", "x" * 60, kind="comment", criterion="")
    item = STUDY.slots[1].items[0].opaque
    store.record(other, [replace(elsewhere, item=item)])


def test_who_went_back_too_often_can_still_finish(
    store: RatingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    rater = begin(store)
    monkeypatch.setattr(people, "PHASES_OF_RATER", 8)
    for _ in range(2):
        store.enter(rater, "review")
        store.enter(rater, "rating")
    store.enter(rater, "review")
    assert refused(lambda: store.enter(rater, "rating")) == 429
    rate_all(store, rater)
    assert store.enter(rater, "done").completion_code
