from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from levelfield_rating.store import RatingStore, StoreError
from raters_of_store import START, Now, begin, dump, go_on, rating, refused


def test_who_withdraws_is_forgotten_but_for_the_fact(store: RatingStore, path: Path) -> None:
    rater = begin(store)
    comment = "A remark by which anybody could tell who wrote it."
    store.record(
        rater, [rating(value=77), rating("u2", comment, kind="comment", criterion="", client_ms=5)]
    )
    other = begin(store, 1, until="done")
    before = store.state(other)
    store.withdraw(rater)
    store.withdraw(rater)
    state = store.state(rater)
    assert state.phase == "withdrawn"
    assert (state.answers, state.comments, state.practice) == ({}, {}, {})
    assert state.consent == ""
    rows = [row for row in store.log() if row.rater == rater]
    assert {row.uuid for row in rows} >= {"u1", "u2"}
    assert all(row.value is None and row.client_ms is None for row in rows)
    assert sum(row.kind == "withdrawn" for row in rows) == 1
    assert store.state(other) == before
    files = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert comment.encode() not in files
    for action in (
        lambda: store.record(rater, [rating("u3")]),
        lambda: store.record(rater, [rating(value=77)]),
        lambda: store.enter(rater, "rating"),
        lambda: store.consent(rater, "1"),
    ):
        assert refused(action) == 409


def test_who_withdraws_frees_the_slot_for_another(store: RatingStore) -> None:
    rater = begin(store)
    store.withdraw(rater)
    session = store.exchange(store.reassign(0))
    assert session is not None
    assert store.state(store.session(session) or "").phase == "welcome"


def test_exclusions_have_reasons_and_all_of_them_stay_in_the_log(store: RatingStore) -> None:
    first, two = begin(store, 0), begin(store, 1)
    store.exclude(first, "too fast")
    store.exclude(two, "asked to")
    store.include(first, "was a mistake")
    store.exclude(two, "asked to, in writing")
    assert store.excluded() == {two: "asked to, in writing"}
    assert [(row.kind, row.rater, row.detail) for row in store.log()][-4:] == [
        ("excluded", first, "too fast"),
        ("excluded", two, "asked to"),
        ("included", first, "was a mistake"),
        ("excluded", two, "asked to, in writing"),
    ]
    assert store.record(first, [rating()]), "nobody is told"
    for rater, reason in (("r9", "gone"), (first, " ")):
        with pytest.raises(StoreError):
            store.exclude(rater, reason)


def test_a_closed_study_takes_nothing_but_withdrawals_until_it_is_opened_again(
    store: RatingStore, path: Path
) -> None:
    rater, fresh = begin(store), begin(store, 1, until="welcome")
    store.record(rater, [rating()])
    store.close_study("enough raters")
    store.close_study("enough raters")
    assert store.closed()
    before = dump(path)
    for action in (
        lambda: store.record(rater, [rating("u2")]),
        lambda: store.record(rater, [rating(), rating("u2")]),
        lambda: store.enter(rater, "review"),
        lambda: store.consent(fresh, "1"),
    ):
        assert refused(action) == 403
    assert dump(path) == before
    preview = store.session(store.preview(0))
    assert preview is not None
    go_on(store, preview, "done")
    store.reopen("two more")
    assert not store.closed()
    store.record(rater, [rating("u2", clock=2)])
    store.close_study("now it is enough")
    store.withdraw(rater)
    assert store.state(rater).phase == "withdrawn"
    assert [row.kind for row in store.log() if row.kind in ("closed", "reopened")] == [
        "closed",
        "reopened",
        "closed",
    ]


def test_the_log_has_everything_in_one_order(store: RatingStore, now: Now) -> None:
    rater = begin(store)
    store.record(rater, [rating()])
    now.at -= timedelta(hours=3)  # a server's clock that is put right
    store.exclude(rater, "a reason")
    rows = list(store.log())
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    assert [row.kind for row in rows] == [
        "study", "link", "opened", "consent", "phase", "phase", "phase", "practice", "phase",
        "rating", "excluded",
    ]  # fmt: skip
    assert rows[-1].at == START - timedelta(hours=3)
