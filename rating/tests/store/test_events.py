from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

from levelfield_rating.store import Event, Phase, RatingStore, RequestRefused
from raters_of_store import START, STUDY, Now, begin, dump, rate_all, rating, refused, tries
from rating_study import small_study


def test_what_is_saved_says_when_and_is_what_counts(store: RatingStore, now: Now) -> None:
    rater = begin(store)
    now.at = START + timedelta(seconds=5, microseconds=7)
    key = STUDY.slots[0].items[0].item
    first, second, third = store.record(
        rater,
        [
            rating("a", 10, 3, client_ms=1200),
            rating("b", "Is this <b>meant</b>? 🙂\x00", 4, kind="comment", criterion=""),
            rating("c", True, 4, kind="problem", criterion=""),
        ],
    )
    assert first.at == second.at == now.at
    assert first.seq < second.seq < third.seq
    assert {saved.clock for saved in (first, second, third)} == {4}
    assert not first.duplicate
    state = store.state(rater)
    assert state.answers == {key: {"style": 10}}
    assert state.comments == {key: "Is this <b>meant</b>? 🙂\x00"}
    assert state.problems == {key}
    assert state.clock == 4
    assert state.last_seen == now.at
    store.record(
        rater,
        [
            rating("d", "", 5, kind="comment", criterion=""),
            rating("e", False, 5, kind="problem", criterion=""),
        ],
    )
    assert store.state(rater).comments == {}
    assert store.state(rater).problems == frozenset()
    row = next(row for row in store.log() if row.uuid == "a")
    assert (row.value, row.client_ms, row.item, row.rater, row.slot) == (10, 1200, key, rater, 0)


def test_the_largest_clock_counts_whatever_comes_last_and_the_later_of_equal_ones(
    store: RatingStore, path: Path
) -> None:
    rater = begin(store)
    key = STUDY.slots[0].items[0].item
    for uuid, value, clock, counts in (
        ("a", 10, 5, 10),
        ("b", 20, 3, 10),
        ("c", 30, 5, 30),
        ("d", 40, 4, 30),
        ("e", 50, 6, 50),
    ):
        store.record(rater, [rating(uuid, value, clock)])
        assert store.state(rater).answers[key]["style"] == counts
        with sqlite3.connect(path) as db:
            assert db.execute("SELECT value FROM current_rating").fetchall() == [(str(counts),)]


def test_an_event_sent_again_is_answered_as_it_was_at_any_time(
    store: RatingStore, now: Now
) -> None:
    rater = begin(store)
    (first,) = store.record(rater, [rating(client_ms=5)])
    now.at += timedelta(days=1)
    (again,) = store.record(rater, [rating(client_ms=5)])
    assert again == replace(first, duplicate=True)
    seen = store.state(rater).last_seen
    assert seen == START, "a repetition is nothing new"
    rate_all(store, rater)
    store.enter(rater, "review")
    store.enter(rater, "done")
    store.close_study("enough")
    (late,) = store.record(rater, [rating(client_ms=5)])
    assert late.duplicate
    assert (late.seq, late.at) == (first.seq, first.at)
    assert sum(row.uuid == "u1" for row in store.log()) == 1


def test_an_event_twice_in_one_request_is_one_event(store: RatingStore) -> None:
    rater = begin(store)
    first, second = store.record(rater, [rating(), rating()])
    assert (first.duplicate, second.duplicate) == (False, True)
    assert first.seq == second.seq


@pytest.mark.parametrize(
    "other",
    [
        rating(value=51),
        rating(clock=2),
        rating(client_ms=7),
        rating(criterion="content"),
        rating(item=STUDY.slots[0].items[1].opaque),
        rating(kind="comment", criterion="", value="50"),
        rating(kind="problem", criterion="", value=True),
    ],
)
def test_the_same_uuid_with_another_body_is_refused(
    store: RatingStore, path: Path, other: Event
) -> None:
    rater = begin(store)
    store.record(rater, [rating()])
    before = dump(path)
    assert refused(lambda: store.record(rater, [other])) == 409
    assert refused(lambda: store.record(rater, [rating("u2", clock=9), other])) == 409
    assert dump(path) == before


def test_another_rater_s_uuid_is_refused(store: RatingStore) -> None:
    first, two = begin(store, 0), begin(store, 1)
    key = STUDY.slots[0].items[0].item
    (same,) = [placed for placed in STUDY.slots[1].items if placed.item == key]
    copied = rating(item=same.opaque)  # equal in all but who says it
    store.record(first, [rating()])
    assert refused(lambda: store.record(two, [copied])) == 409


WRONG: Mapping[str, tuple[int, Event]] = {
    **{
        f"value {value!r}": (422, rating(value=value))
        for value in (
            0, 101, -1, 10**30, 1.0, 50.5, math.nan, math.inf, True, False, "50", "", None, (),
            (50,), [50], {"value": 50}, b"2",
        )
    },
    **{
        f"clock {clock!r}": (422, rating(clock=clock))
        for clock in (0, -1, 1.0, math.nan, True, "1", None, 2**53, 2**80, 5_000_000)
    },
    **{
        f"time {ms!r}": (422, rating(client_ms=ms))
        for ms in (-1, 1.5, math.nan, True, "1", 2**53, 2**80)
    },
    **{
        f"uuid {uuid!r}": (422, rating(uuid))
        for uuid in ("", "x" * 65, "a b", "é", "\ud800", "a\x00", "a\n", None, 7)
    },
    "unknown kind": (422, rating(kind="vote")),
    "kind that is no text": (422, rating(kind=[])),
    "unknown criterion": (422, rating(criterion="grammar")),
    "no criterion": (422, rating(criterion="")),
    "criterion that is no text": (422, rating(criterion=None)),
    "item that is no text": (422, rating(item=7)),
    "unknown item": (404, rating(item="nothing")),
    "no item": (404, rating(item="")),
    "another rater's item": (404, rating(item=STUDY.slots[1].items[0].opaque)),
    "another survey's item": (404, rating(item=STUDY.slots[2].items[0].opaque)),
    "an item by its key": (404, rating(item=STUDY.slots[0].items[0].item)),
    "an item by its place": (404, rating(item="0")),
    "an item with half a character": (404, rating(item="\ud800")),
    "practice as an item": (404, rating(item="pracA1")),
    "an item as practice": (404, rating(kind="practice")),
    "practice after practice": (409, rating(kind="practice", item="pracA1")),
    "comment with a criterion": (422, rating(kind="comment", value="x")),
    "comment too long": (422, rating(kind="comment", criterion="", value="x" * 4001)),
    "comment with half a character": (422, rating(kind="comment", criterion="", value="\ud800")),
    "comment that is a number": (422, rating(kind="comment", criterion="", value=1)),
    "comment that is yes": (422, rating(kind="comment", criterion="", value=True)),
    "problem that is text": (422, rating(kind="problem", criterion="", value="true")),
    "problem that is a number": (422, rating(kind="problem", criterion="", value=1)),
    "problem with a criterion": (422, rating(kind="problem", value=True)),
}  # fmt: skip


@pytest.fixture(scope="module")
def rated(tmp_path_factory: pytest.TempPathFactory) -> tuple[RatingStore, Path]:
    """A store with a rater who rates; for requests that change nothing."""
    path = tmp_path_factory.mktemp("rated") / "study.sqlite"
    store = RatingStore.create(path, STUDY)
    begin(store)
    return store, path


@pytest.mark.parametrize("name", WRONG)
def test_an_invalid_event_is_refused_with_the_right_status_and_changes_nothing(
    rated: tuple[RatingStore, Path], name: str
) -> None:
    store, path = rated
    status, event = WRONG[name]
    before = dump(path)
    assert refused(lambda: store.record("r1", [event])) == status
    good = rating("good", item=STUDY.slots[0].items[2].opaque)
    for batch in ([good, event], [event, good]):
        assert refused(lambda batch=batch: store.record("r1", batch)) == status
    assert dump(path) == before


def test_the_longest_comment_is_taken_whole(store: RatingStore) -> None:
    rater = begin(store)
    text = "🙂é" * 2000
    store.record(rater, [rating(kind="comment", criterion="", value=text)])
    assert list(store.state(rater).comments.values()) == [text]


def test_no_events_or_too_many_at_once_are_refused(store: RatingStore) -> None:
    rater = begin(store)
    assert refused(lambda: store.record(rater, [])) == 422
    many = [rating(f"u{n}", clock=n + 1) for n in range(1001)]
    assert refused(lambda: store.record(rater, many)) == 422
    assert len(store.record(rater, many[:1000])) == 1000


def test_foreign_and_unknown_items_are_refused_in_the_same_words(store: RatingStore) -> None:
    rater = begin(store)
    reasons = set()
    for item in ("nothing", STUDY.slots[1].items[0].opaque, STUDY.slots[2].items[0].opaque):
        with pytest.raises(RequestRefused) as caught:
            store.record(rater, [rating(item=item)])
        reasons.add(caught.value.reason)
    assert len(reasons) == 1


@pytest.mark.parametrize("phase", get_args(Phase))
def test_ratings_are_taken_while_rating_and_reviewing_only(
    store: RatingStore, path: Path, phase: Any
) -> None:
    rater = begin(store, until="rating" if phase == "withdrawn" else phase)
    if phase == "withdrawn":
        store.withdraw(rater)
    before = dump(path)
    for event in (
        rating("new"),
        rating("new", kind="comment", criterion="", value="x"),
        rating("new", kind="problem", criterion="", value=True),
    ):
        if phase in ("rating", "review"):
            store.record(rater, [replace(event, uuid=f"new-{event.kind}")])
        else:
            assert refused(lambda event=event: store.record(rater, [event])) == 409
            assert dump(path) == before


@pytest.mark.parametrize(
    "phase", [p for p in get_args(Phase) if p not in ("practice", "withdrawn")]
)
def test_practice_is_taken_while_practising_only(store: RatingStore, phase: Any) -> None:
    rater = begin(store, until=phase)
    batch = tries(store, "pracA1", good=True)
    assert refused(lambda: store.record(rater, batch)) == 409


def test_a_rater_that_is_not_there_is_refused(store: RatingStore) -> None:
    assert refused(lambda: store.state("r9")) == 404
    assert refused(lambda: store.record("r9", [rating()])) == 404
    assert refused(lambda: store.enter("r9", "rating")) == 404
    assert refused(lambda: store.consent("r9", "1")) == 404
    assert refused(lambda: store.withdraw("r9")) == 404


@pytest.mark.parametrize(
    ("scale", "answers"),
    [("likert", [1, 5]), ("pairwise", [0, 1, -1]), ("ranking", [(1, 2, 3), (2, 2, 1), [1, 1, 1]])],
)
def test_answers_of_every_scale_come_back_as_they_were_given(
    path: Path, scale: str, answers: list[Any]
) -> None:
    if scale == "ranking":
        answers = [(1, 2, 3), (3, 2, 1), [1, 1, 1], (2, 2, 1)][:3]
    frozen = small_study(scale=scale, practice=False)
    store = RatingStore.create(path, frozen)
    rater = begin(store)
    placed, criterion = frozen.slots[0].items[0], frozen.criteria[0].id
    for clock, answer in enumerate(answers, 1):
        event = Event(f"u{clock}", "rating", placed.opaque, criterion, answer, clock)
        store.record(rater, [event])
        expected = tuple(answer) if isinstance(answer, list) else answer
        assert store.state(rater).answers == {placed.item: {criterion: expected}}
        assert [row.value for row in store.log() if row.kind == "rating"][-1] == expected
        assert store.record(rater, [event])[0].duplicate
