from __future__ import annotations

import contextlib
import math
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from rating_study import small_study

from levelfield.rating import database
from levelfield.rating.database import Database, migrations
from levelfield.rating.model import Frozen, Placed, Slot
from levelfield.rating.store import (
    Event,
    Phase,
    Refused,
    Store,
    StoreError,
    StoreUnavailable,
)

STUDY = small_study(items=3, raters=2, surveys=2)
START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Now:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> datetime:
        return self.at


@pytest.fixture
def path() -> Iterator[Path]:
    memory = Path("/dev/shm")  # much is written, and nothing needs to stay
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder) / "study.sqlite"


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def store(path: Path, now: Now) -> Iterator[Store]:
    store = Store.create(path, STUDY, now=now)
    yield store
    store.close()


def begin(store: Store, slot: int = 0, until: Phase = "rating") -> str:
    """A rater who has come as far as this."""
    secret = store.exchange(store.new_link(slot))
    assert secret is not None
    rater = store.session(secret)
    assert rater is not None
    go_on(store, rater, until)
    return rater


def go_on(store: Store, rater: str, until: Phase) -> None:
    if until == "welcome":
        return
    store.consent(rater, store.frozen.consent_version)
    for phase in ("instructions", "examples", "practice", "rating", "review", "done"):
        if phase == "rating":
            for practice in store.frozen.practice:
                store.record(rater, tries(store, practice.opaque, good=True))
        if phase == "done":
            rate_all(store, rater)
        store.enter(rater, phase)  # type: ignore[arg-type]
        if phase == until:
            return


def tries(store: Store, opaque: str, *, good: bool, tag: str = "") -> list[Event]:
    """One try at a practice item."""
    (practice,) = [one for one in store.frozen.practice if one.opaque == opaque]
    return [
        Event(f"{opaque}-{name}-{good}{tag}-{os.urandom(4).hex()}", "practice", opaque, name,
              high if good else low - 1, 1)
        for name, (low, high) in practice.accept.items()
    ]  # fmt: skip


def rate_all(store: Store, rater: str, value: int = 40) -> None:
    state = store.state(rater)
    store.record(
        rater,
        [
            Event(f"{rater}-{placed.opaque}-{criterion.id}", "rating", placed.opaque,
                  criterion.id, value, state.clock + 1)
            for placed in store.frozen.slots[state.slot].items
            for criterion in store.frozen.criteria
        ],
    )  # fmt: skip


def rating(uuid: str = "u1", value: Any = 50, clock: Any = 1, **fields: Any) -> Event:
    """A rating of the first item of the first slot."""
    event = Event(uuid, "rating", STUDY.slots[0].items[0].opaque, "style", value, clock)
    return replace(event, **fields)


def dump(path: Path) -> list[str]:
    """All that is in the file."""
    db = sqlite3.connect(path)
    try:
        return list(db.iterdump())
    finally:
        db.close()


def refused(action: Callable[[], object]) -> int:
    with pytest.raises(Refused) as caught:
        action()
    return caught.value.status


def refrozen(frozen: Frozen) -> Frozen:
    """The same study frozen once more: other opaque ids."""
    slots = tuple(
        Slot(s.name, s.survey, tuple(Placed(p.item, f"new{p.opaque}", p.order) for p in s.items))
        for s in frozen.slots
    )
    practice = tuple(replace(one, opaque=f"new{one.opaque}") for one in frozen.practice)
    return replace(frozen, slots=slots, practice=practice)


# Making and opening


def test_a_new_store_has_the_study_and_nothing_else(store: Store, path: Path) -> None:
    assert store.frozen == STUDY
    assert store.raters() == []
    assert [row.kind for row in store.log()] == ["study"]
    assert {link.state for link in store.links()} == {"none"}
    assert len(store.links()) == len(STUDY.slots)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes().startswith(b"SQLite format 3")


def test_what_was_said_is_there_when_the_store_is_opened_again(store: Store, path: Path) -> None:
    rater = begin(store)
    store.record(rater, [rating()])
    before, log = store.state(rater), list(store.log())
    store.close()
    for again in (Store.open(path), Store.create(path, STUDY), Store.open(path, read_only=True)):
        assert again.state(rater) == before
        assert list(again.log()) == log
        again.close()


def test_the_same_study_frozen_again_opens_the_store_with_its_first_ids(
    store: Store, path: Path
) -> None:
    rater = begin(store)
    store.record(rater, [rating()])
    again = Store.create(path, refrozen(STUDY))
    assert again.frozen == STUDY
    assert again.frozen.digest == STUDY.digest
    again.close()


def test_an_allocation_of_the_same_files_by_another_version_opens_the_store_as_it_is(
    store: Store, path: Path
) -> None:
    rater = begin(store)
    store.record(rater, [rating()])
    turned = replace(STUDY, slots=tuple(reversed(STUDY.slots)))
    Store.create(path, turned).close()
    assert Store.open(path).frozen == STUDY
    with pytest.raises(StoreError, match="slots"):
        Store.create(path, replace(turned, source_digest="1" * 64))


def test_a_changed_study_takes_the_place_of_one_that_nobody_has_rated(
    store: Store, path: Path
) -> None:
    token = store.new_link(0)
    rater = begin(store, 1, until="rating")
    preview = store.session(store.preview(0))
    assert preview is not None
    last = begin(store, 3, until="welcome")
    changed = replace(refrozen(STUDY), title="Other words", slots=refrozen(STUDY).slots[:3])
    other = Store.create(path, changed)
    assert other.frozen == changed
    assert store.state(rater).phase == "welcome"
    assert store.frozen == changed, "a server that runs sees the new study as well"
    assert other.exchange(token) is not None, "links that were sent stay good"
    assert store.state(last).replaced
    assert [row.detail for row in other.log() if row.kind == "study"] == [
        STUDY.digest,
        changed.digest,
    ]
    assert refused(lambda: other.record(rater, [rating()])) == 404
    go_on(other, rater, "done")
    assert other.state(rater).phase == "done"
    other.close()


@pytest.mark.parametrize("kind", ["rating", "comment", "problem"])
def test_a_changed_study_is_refused_after_the_first_rating_and_a_new_version_is_offered(
    store: Store, path: Path, kind: str
) -> None:
    said = {"rating": 3, "comment": "odd", "problem": True}
    criterion = "style" if kind == "rating" else ""
    rater = begin(store)
    store.record(rater, [rating(kind=kind, value=said[kind], criterion=criterion)])
    before = dump(path)
    with pytest.raises(StoreError, match=r"title.*`version = 2`"):
        Store.create(path, replace(STUDY, title="Other words"))
    assert dump(path) == before


def test_what_only_previews_rated_does_not_hold_a_study_fast(store: Store, path: Path) -> None:
    rater = store.session(store.preview(0))
    assert rater is not None
    go_on(store, rater, "done")
    changed = replace(STUDY, title="Other words")
    assert Store.create(path, changed).frozen == changed


def test_a_study_whose_only_rater_has_withdrawn_was_rated(store: Store, path: Path) -> None:
    rater = begin(store)
    store.record(rater, [rating()])
    store.withdraw(rater)
    with pytest.raises(StoreError, match="title"):
        Store.create(path, replace(STUDY, title="Other words"))


def test_opening_what_is_not_there_says_so_and_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such store"):
        Store.open(tmp_path / "none.sqlite")
    with pytest.raises(StoreError, match="can't be made"):
        Store.create(tmp_path / "none" / "study.sqlite", STUDY)
    assert list(tmp_path.iterdir()) == []


def test_other_files_are_refused_and_left_as_they_are(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("These are notes, and they are long enough to be read as a page. " * 20)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE birds (name TEXT)")
    for file, words in ((text, "no store"), (other, "not a store")):
        before = file.read_bytes()
        for action in (lambda file=file: Store.open(file),
                       lambda file=file: Store.create(file, STUDY)):  # fmt: skip
            with pytest.raises(StoreError, match=words):
                action()
        assert sqlite_content(file, before)


def sqlite_content(file: Path, before: bytes) -> bool:
    """Whether the file is as before, but for the mark that it keeps a write-ahead log."""
    now = bytearray(file.read_bytes())
    if before.startswith(b"SQLite"):
        now[18:20] = before[18:20]
        now[24:28], now[92:100] = before[24:28], before[92:100]  # counters of changes
    return bytes(now) == before


def test_a_store_of_a_later_version_is_refused_with_what_to_do(store: Store, path: Path) -> None:
    store.close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {len(migrations()) + 1}")
    for read_only in (False, True):
        with pytest.raises(StoreError, match="later one"):
            Store.open(path, read_only=read_only)


def test_a_store_that_was_killed_before_it_was_made_is_made(path: Path) -> None:
    path.touch()
    assert Store.create(path, STUDY).frozen == STUDY


def test_a_later_version_takes_an_earlier_store_on_and_keeps_what_is_in_it(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rater = begin(store)
    store.record(rater, [rating()])
    state = store.state(rater)
    store.close()
    later = [
        *migrations(),
        "ALTER TABLE rater ADD COLUMN remark TEXT;\n-- a comment\n"
        "CREATE TRIGGER t AFTER DELETE ON access\nBEGIN\n  SELECT 1;\n  SELECT 2;\nEND;\n",
        "CREATE TABLE extra (a INTEGER) STRICT;",
    ]
    monkeypatch.setattr(database, "migrations", lambda: later)
    with pytest.raises(StoreError, match="earlier version"):
        Store.open(path, read_only=True)
    for _ in range(2):
        again = Store.open(path)
        assert again.state(rater) == state
        again.close()
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(later),)
        assert db.execute("SELECT remark FROM rater").fetchone() == (None,)


def test_a_migration_that_fails_leaves_the_store_as_it_was(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(store)
    store.close()
    before = dump(path)
    steps = [*migrations(), "CREATE TABLE extra (a INTEGER);\nDROP TABLE nothing;"]
    with monkeypatch.context() as patched:
        patched.setattr(database, "migrations", lambda: steps)
        with pytest.raises(sqlite3.OperationalError):
            Store.open(path)
    assert dump(path) == before
    Store.open(path).close()


def test_a_store_without_a_study_says_so(path: Path) -> None:
    Database(path, create=True).close()
    with pytest.raises(StoreError, match="has no study"):
        Store.open(path)


def test_a_study_of_a_later_format_is_refused(store: Store, path: Path) -> None:
    store.close()
    with sqlite3.connect(path) as db:
        document = replace(STUDY, format=99).document()
        db.execute("INSERT INTO study (digest, document, at) VALUES ('', ?, '')", (document,))
    with pytest.raises(StoreError, match="format 99"):
        Store.open(path)
    with pytest.raises(StoreError, match="format 99"):
        Store.create(path, STUDY)


def test_a_store_that_is_closed_answers_nothing_more(store: Store) -> None:
    store.close()
    with pytest.raises(StoreUnavailable):
        store.raters()
    store.close()


# Links


def test_a_link_opens_the_same_rater_again_and_again(store: Store) -> None:
    token = store.new_link(2)
    first, second = store.exchange(token), store.exchange(token)
    assert first is not None
    assert second is not None
    assert first != second
    assert store.session(first) == store.session(second) == "r1"
    assert store.state("r1").slot == 2


def test_states_of_links_say_how_far_each_is(store: Store, now: Now) -> None:
    store.new_link(0)
    now.at += timedelta(hours=1)
    store.exchange(store.new_link(1))
    store.new_link(2)
    store.revoke(2)
    states = store.links()
    assert [(one.slot, one.rater, one.state) for one in states] == [
        (0, "r1", "made"),
        (1, "r2", "used"),
        (2, "r3", "revoked"),
        (3, "", "none"),
    ]
    assert [one.when for one in states] == [START, now.at, now.at, None]


def test_a_new_link_ends_the_unused_one_but_not_the_used_one(store: Store) -> None:
    unused = store.new_link(0)
    used = store.new_link(0)
    assert store.exchange(unused) is None
    session = store.exchange(used)
    third = store.new_link(0)
    assert store.exchange(used) is not None
    assert store.exchange(third) is not None
    assert session is not None
    assert store.session(session) == "r1"
    assert store.links()[0].state == "used"


def test_revoking_ends_links_and_sessions_and_a_new_link_resumes(store: Store) -> None:
    token = store.new_link(0)
    session = store.exchange(token)
    assert session is not None
    rater = store.session(session)
    assert rater is not None
    go_on(store, rater, "rating")
    store.record(rater, [rating()])
    store.revoke(0)
    assert store.session(session) is None
    assert store.exchange(token) is None
    again = store.exchange(store.new_link(0))
    assert again is not None
    assert store.session(again) == rater
    assert store.state(rater).answers == {STUDY.slots[0].items[0].item: {"style": 50}}


def test_a_slot_given_to_another_keeps_the_ratings_under_the_old_name_and_out_of_results(
    store: Store,
) -> None:
    old_token = store.new_link(0)
    session = store.exchange(old_token)
    assert session is not None
    go_on(store, "r1", "rating")
    store.record("r1", [rating()])
    token = store.reassign(0)
    assert store.session(session) is None
    assert store.exchange(old_token) is None
    new = store.exchange(token)
    assert new is not None
    assert store.session(new) == "r2"
    assert store.state("r2").answers == {}
    assert store.state("r2").slot == 0
    assert store.state("r1").replaced
    assert store.state("r1").answers[STUDY.slots[0].items[0].item] == {"style": 50}
    assert list(store.excluded()) == ["r1"]
    assert refused(lambda: store.record("r1", [rating("u2")])) == 403
    assert refused(lambda: store.enter("r1", "review")) == 403
    assert [state.rater for state in store.raters()] == ["r1", "r2"]
    store.include("r1", "they were good")
    assert store.excluded() == {}


@pytest.mark.parametrize("token", ["", "x", "é" * 43, "\ud800", "x" * 10_000, None, 7])
def test_what_is_no_token_opens_nothing(store: Store, token: Any) -> None:
    store.new_link(0)
    assert store.exchange(token) is None
    assert store.session(token) is None
    assert not store.is_organiser(token)
    assert not store.organiser_session(token)
    assert store.organiser_exchange(token) is None


def test_secrets_of_one_kind_open_nothing_of_another(store: Store) -> None:
    link = store.new_link(0)
    session = store.exchange(link)
    organiser = store.organiser_secret()
    organising = store.organiser_exchange(organiser)
    assert session is not None
    assert organising is not None
    for secret in (link, organiser, organising):
        assert store.session(secret) is None
    for secret in (session, organiser, organising):
        assert store.exchange(secret) is None
    for secret in (link, session, organising):
        assert not store.is_organiser(secret)
    for secret in (link, session, organiser):
        assert not store.organiser_session(secret)


def test_no_secret_is_in_the_file(store: Store, path: Path) -> None:
    secrets = [store.new_link(0), store.preview(1), store.organiser_secret()]
    secrets += [store.exchange(secrets[0]) or "", store.organiser_exchange(secrets[2]) or ""]
    content = b"".join(file.read_bytes() for file in path.parent.iterdir())
    for secret in secrets:
        assert len(secret) == 43, "256 bits"
        assert secret.encode() not in content
    assert len(set(secrets)) == len(secrets)


def test_a_fresh_organiser_link_ends_the_one_before_but_not_sessions(store: Store) -> None:
    first = store.organiser_secret()
    session = store.organiser_exchange(first)
    assert session is not None
    second = store.organiser_secret()
    assert not store.is_organiser(first)
    assert store.is_organiser(second)
    assert store.organiser_session(session)
    store.end_organiser_sessions()
    assert not store.organiser_session(session)
    assert store.is_organiser(second)


def test_the_key_of_the_server_survives_a_restart_and_is_no_other_store_s(
    store: Store, path: Path, tmp_path: Path
) -> None:
    assert len(store.server_key) == 32
    assert Store.open(path).server_key == store.server_key
    assert Store.create(tmp_path / "other.sqlite", STUDY).server_key != store.server_key


@pytest.mark.parametrize("slot", [-1, len(STUDY.slots), 10**6])
def test_a_slot_that_is_not_there_is_the_organiser_s_mistake(store: Store, slot: int) -> None:
    for action in (store.new_link, store.revoke, store.reassign, store.preview):
        with pytest.raises(StoreError, match="there is no slot"):
            action(slot)


def test_previews_are_in_nothing_that_is_counted(store: Store) -> None:
    rater = store.session(store.preview(1))
    assert rater is not None
    go_on(store, rater, "done")
    state = store.state(rater)
    assert state.preview
    assert state.completion_code == "PREVIEW"
    assert store.raters() == []
    assert {link.state for link in store.links()} == {"none"}
    assert [row.kind for row in store.log()] == ["study"]
    assert begin(store, 1) == "r1"


# Phases


def test_a_rater_comes_from_the_welcome_to_a_completion_code(store: Store, now: Now) -> None:
    rater = begin(store, until="welcome")
    assert store.state(rater).phase == "welcome"
    assert store.state(rater).first_seen == START
    now.at += timedelta(minutes=20)
    go_on(store, rater, "done")
    state = store.state(rater)
    assert state.phase == "done"
    assert state.last_seen == now.at
    assert len(state.completion_code) == 12
    assert state.completion_code != store.state(begin(store, 1, until="done")).completion_code


def test_a_crowd_platform_s_code_is_the_same_for_all(path: Path) -> None:
    store = Store.create(path, replace(STUDY, completion="C0FFEE"))
    codes = {store.state(begin(store, slot, until="done")).completion_code for slot in (0, 1)}
    assert codes == {"C0FFEE"}


def test_opening_the_link_again_does_not_count_as_doing_something(store: Store, now: Now) -> None:
    token = store.new_link(0)
    store.exchange(token)
    now.at += timedelta(days=2)
    store.exchange(token)
    assert store.state("r1").last_seen == START
    store.enter("r1", "welcome")
    assert store.state("r1").last_seen == now.at


ALLOWED = {
    "welcome": ("welcome", "instructions"),
    "instructions": ("instructions", "examples"),
    "examples": ("examples", "practice"),
    "practice": ("practice", "rating"),
    "rating": ("rating", "review"),
    "review": ("review", "rating", "done"),
    "done": ("done",),
}


@pytest.mark.parametrize("here", ALLOWED)
def test_there_is_no_way_from_phase_to_phase_but_the_ones_of_the_study(
    store: Store, path: Path, here: Any
) -> None:
    rater = begin(store, until=here)
    if here == "welcome":
        store.consent(rater, "1")
    if here == "practice":
        store.record(rater, tries(store, "pracA1", good=True))
    if here == "review":
        rate_all(store, rater)
    before = dump(path)
    for there in (*get_args(Phase), "nowhere"):
        if there not in ALLOWED[here]:
            assert refused(lambda there=there: store.enter(rater, there)) == 409
    assert dump(path) == before
    for there in ALLOWED[here]:
        if here == "review":
            store.enter(rater, "review")
        assert store.enter(rater, there).phase == there  # type: ignore[arg-type]


def test_phases_of_which_the_study_has_nothing_are_passed_over(path: Path) -> None:
    store = Store.create(path, replace(STUDY, examples=(), practice=()))
    rater = begin(store, until="instructions")
    assert store.enter(rater, "examples").phase == "rating"
    other = begin(store, 1, until="instructions")
    assert store.enter(other, "rating").phase == "rating"


def test_nobody_goes_on_without_agreeing_to_the_wording_of_today(store: Store) -> None:
    rater = begin(store, until="welcome")
    assert refused(lambda: store.enter(rater, "instructions")) == 409
    assert refused(lambda: store.consent(rater, "0")) == 409
    assert store.state(rater).consent == ""
    store.consent(rater, "1")
    store.consent(rater, "1")
    assert store.state(rater).consent == "1"
    assert store.enter(rater, "instructions").phase == "instructions"
    assert [row.detail for row in store.log() if row.kind == "consent"] == ["1"]


def test_where_there_is_nothing_to_agree_to_nobody_needs_to(path: Path) -> None:
    words = replace(STUDY.words, consent=" \n")
    store = Store.create(path, replace(STUDY, words=words))
    rater = begin(store, until="welcome")
    assert store.enter(rater, "instructions").phase == "instructions"


def test_practice_ends_when_it_is_passed_or_after_two_tries(store: Store) -> None:
    rater = begin(store, until="practice")
    assert refused(lambda: store.enter(rater, "rating")) == 409
    store.record(rater, tries(store, "pracA1", good=False))
    assert store.state(rater).practice == {"pracA1": (1, False)}
    assert refused(lambda: store.enter(rater, "rating")) == 409
    store.record(rater, tries(store, "pracA1", good=False))
    assert store.state(rater).practice == {"pracA1": (2, False)}
    assert refused(lambda: store.record(rater, tries(store, "pracA1", good=True))) == 409
    assert store.enter(rater, "rating").phase == "rating"

    other = begin(store, 1, until="practice")
    store.record(other, tries(store, "pracA1", good=True))
    assert store.state(other).practice == {"pracA1": (1, True)}
    assert refused(lambda: store.record(other, tries(store, "pracA1", good=True))) == 409
    assert store.enter(other, "rating").phase == "rating"


def test_a_try_answers_all_that_the_practice_asks_once_and_nothing_else(path: Path) -> None:
    (practice,) = STUDY.practice
    practice = replace(practice, accept={"style": (60, 100), "content": (1, 50)})
    store = Store.create(path, replace(STUDY, practice=(practice,)))
    rater = begin(store, until="practice")
    style, content = tries(store, "pracA1", good=True)
    for batch in (
        [style],
        [content],
        [style, content, replace(style, uuid="again")],
        [style, replace(content, criterion="grammar")],
        [style, replace(content, value=0)],
    ):
        assert refused(lambda batch=batch: store.record(rater, batch)) == 422
    assert store.state(rater).practice == {}
    store.record(rater, [content, style, replace(style, uuid="more", criterion="fluency")])
    assert store.state(rater).practice == {"pracA1": (1, True)}


def test_practice_sent_twice_is_one_try(store: Store) -> None:
    rater = begin(store, until="practice")
    batch = tries(store, "pracA1", good=False)
    store.record(rater, batch)
    assert all(saved.duplicate for saved in store.record(rater, batch))
    assert store.state(rater).practice == {"pracA1": (1, False)}


def test_nobody_is_done_with_something_unrated(store: Store) -> None:
    rater = begin(store, until="review")
    rate = [
        rating(f"u{n}", item=placed.opaque, criterion=criterion.id)
        for n, (placed, criterion) in enumerate(
            (placed, criterion)
            for placed in STUDY.slots[0].items
            for criterion in STUDY.criteria
        )
    ]  # fmt: skip
    store.record(rater, rate[:-1])
    before = store.state(rater)
    assert refused(lambda: store.enter(rater, "done")) == 409
    assert store.state(rater) == before
    store.record(rater, rate[-1:])
    assert store.enter(rater, "done").phase == "done"


# Recording


def test_what_is_saved_says_when_and_is_what_counts(store: Store, now: Now) -> None:
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
    assert {one.clock for one in (first, second, third)} == {4}
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
    store: Store, path: Path
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


def test_an_event_sent_again_is_answered_as_it_was_at_any_time(store: Store, now: Now) -> None:
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


def test_an_event_twice_in_one_request_is_one_event(store: Store) -> None:
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
def test_the_same_uuid_with_another_body_is_refused(store: Store, path: Path, other: Event) -> None:
    rater = begin(store)
    store.record(rater, [rating()])
    before = dump(path)
    assert refused(lambda: store.record(rater, [other])) == 409
    assert refused(lambda: store.record(rater, [rating("u2", clock=9), other])) == 409
    assert dump(path) == before


def test_another_rater_s_uuid_is_refused(store: Store) -> None:
    one, two = begin(store, 0), begin(store, 1)
    key = STUDY.slots[0].items[0].item
    (same,) = [placed for placed in STUDY.slots[1].items if placed.item == key]
    theirs = rating(item=same.opaque)  # equal in all but who says it
    store.record(one, [rating()])
    assert refused(lambda: store.record(two, [theirs])) == 409


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
def rated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Path]:
    """A store with a rater who rates; for requests that change nothing."""
    path = tmp_path_factory.mktemp("rated") / "study.sqlite"
    store = Store.create(path, STUDY)
    begin(store)
    return store, path


@pytest.mark.parametrize("name", WRONG)
def test_what_can_t_be_said_is_refused_with_the_right_status_and_changes_nothing(
    rated: tuple[Store, Path], name: str
) -> None:
    store, path = rated
    status, event = WRONG[name]
    before = dump(path)
    assert refused(lambda: store.record("r1", [event])) == status
    good = rating("good", item=STUDY.slots[0].items[2].opaque)
    for batch in ([good, event], [event, good]):
        assert refused(lambda batch=batch: store.record("r1", batch)) == status
    assert dump(path) == before


def test_the_longest_comment_is_taken_whole(store: Store) -> None:
    rater = begin(store)
    text = "🙂é" * 2000
    store.record(rater, [rating(kind="comment", criterion="", value=text)])
    assert list(store.state(rater).comments.values()) == [text]


def test_no_events_or_too_many_at_once_are_refused(store: Store) -> None:
    rater = begin(store)
    assert refused(lambda: store.record(rater, [])) == 422
    many = [rating(f"u{n}", clock=n + 1) for n in range(1001)]
    assert refused(lambda: store.record(rater, many)) == 422
    assert len(store.record(rater, many[:1000])) == 1000


def test_foreign_and_unknown_items_are_refused_in_the_same_words(store: Store) -> None:
    rater = begin(store)
    reasons = set()
    for item in ("nothing", STUDY.slots[1].items[0].opaque, STUDY.slots[2].items[0].opaque):
        with pytest.raises(Refused) as caught:
            store.record(rater, [rating(item=item)])
        reasons.add(caught.value.reason)
    assert len(reasons) == 1


@pytest.mark.parametrize("phase", get_args(Phase))
def test_ratings_are_taken_while_rating_and_reviewing_only(
    store: Store, path: Path, phase: Any
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
def test_practice_is_taken_while_practising_only(store: Store, phase: Any) -> None:
    rater = begin(store, until=phase)
    batch = tries(store, "pracA1", good=True)
    assert refused(lambda: store.record(rater, batch)) == 409


def test_a_rater_that_is_not_there_is_refused(store: Store) -> None:
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
    store = Store.create(path, frozen)
    rater = begin(store)
    placed, criterion = frozen.slots[0].items[0], frozen.criteria[0].id
    for clock, answer in enumerate(answers, 1):
        event = Event(f"u{clock}", "rating", placed.opaque, criterion, answer, clock)
        store.record(rater, [event])
        wanted = tuple(answer) if isinstance(answer, list) else answer
        assert store.state(rater).answers == {placed.item: {criterion: wanted}}
        assert [row.value for row in store.log() if row.kind == "rating"][-1] == wanted
        assert store.record(rater, [event])[0].duplicate


# Withdrawing, excluding, closing


def test_who_withdraws_is_forgotten_but_for_the_fact(store: Store, path: Path) -> None:
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


def test_who_withdraws_frees_the_slot_for_another(store: Store) -> None:
    rater = begin(store)
    store.withdraw(rater)
    session = store.exchange(store.reassign(0))
    assert session is not None
    assert store.state(store.session(session) or "").phase == "welcome"


def test_exclusions_have_reasons_and_all_of_them_stay_in_the_log(store: Store) -> None:
    one, two = begin(store, 0), begin(store, 1)
    store.exclude(one, "too fast")
    store.exclude(two, "asked to")
    store.include(one, "was a mistake")
    store.exclude(two, "asked to, in writing")
    assert store.excluded() == {two: "asked to, in writing"}
    assert [(row.kind, row.rater, row.detail) for row in store.log()][-4:] == [
        ("excluded", one, "too fast"),
        ("excluded", two, "asked to"),
        ("included", one, "was a mistake"),
        ("excluded", two, "asked to, in writing"),
    ]
    assert store.record(one, [rating()]), "nobody is told"
    for rater, reason in (("r9", "gone"), (one, " ")):
        with pytest.raises(StoreError):
            store.exclude(rater, reason)


def test_a_closed_study_takes_nothing_but_withdrawals_until_it_is_opened_again(
    store: Store, path: Path
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


def test_the_log_has_everything_in_one_order(store: Store, now: Now) -> None:
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


# The file itself


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE rating_event SET clock = 9",
        "DELETE FROM rating_event",
        "REPLACE INTO rating_event SELECT * FROM rating_event",
        "UPDATE event_value SET value = '99'",
        "DELETE FROM event_value",
        "UPDATE journal SET detail = ''",
        "DELETE FROM journal",
        "UPDATE study SET document = '{}'",
        "DELETE FROM study",
        "DELETE FROM rater",
        "UPDATE rater SET phase = 'resting'",
        "UPDATE rater SET slot = 'first'",
        "INSERT INTO event_value VALUES (10000, '1', NULL)",
        "INSERT INTO rating_event SELECT 99, uuid, rater, study, kind, item, criterion, attempt,"
        " clock, at FROM rating_event",
        "INSERT INTO rating_event SELECT 99, 'x', 77, study, kind, item, criterion, attempt,"
        " clock, at FROM rating_event LIMIT 1",
        "INSERT INTO access VALUES (x'00', 'link', 1, '', NULL, NULL)",
    ],
)
def test_the_file_itself_refuses_to_have_its_past_changed(
    store: Store, path: Path, statement: str
) -> None:
    rater = begin(store)
    store.record(rater, [rating()])
    before = dump(path)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("PRAGMA recursive_triggers = ON")
    with pytest.raises(sqlite3.IntegrityError):
        db.execute(statement)
    db.close()
    assert dump(path) == before


def test_nobody_comes_back_from_withdrawal(store: Store, path: Path) -> None:
    store.withdraw(begin(store))
    with sqlite3.connect(path) as db, pytest.raises(sqlite3.IntegrityError, match="final"):
        db.execute("UPDATE rater SET phase = 'rating'")


def test_the_file_is_kept_with_a_log_and_full_sync(store: Store) -> None:
    with store._database.reading() as db:
        pragmas = {
            name: db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "foreign_keys", "user_version")
        }
    assert pragmas == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "user_version": len(migrations()),
    }


def test_a_backup_is_a_store_of_one_file_and_never_over_another(
    store: Store, tmp_path: Path
) -> None:
    rater = begin(store)
    store.record(rater, [rating()])
    folder = tmp_path / "backups"
    folder.mkdir()
    store.backup(folder / "copy.sqlite")
    assert [file.name for file in folder.iterdir()] == ["copy.sqlite"]
    assert stat.S_IMODE((folder / "copy.sqlite").stat().st_mode) == 0o600
    copy = Store.open(folder / "copy.sqlite")
    assert list(copy.log()) == list(store.log())
    assert copy.state(rater) == store.state(rater)
    copy.close()
    before = (folder / "copy.sqlite").read_bytes()
    with pytest.raises(StoreError, match="is there already"):
        store.backup(folder / "copy.sqlite")
    with pytest.raises(StoreError, match="can't be made"):
        store.backup(tmp_path / "none" / "copy.sqlite")
    assert (folder / "copy.sqlite").read_bytes() == before
    assert [file.name for file in folder.iterdir()] == ["copy.sqlite"]


def test_a_backup_made_while_raters_write_has_all_that_was_acknowledged_before_it(
    store: Store, tmp_path: Path
) -> None:
    rater = begin(store)
    acknowledged: list[str] = []
    enough = threading.Event()

    def write() -> None:
        n = 0
        while not enough.is_set():
            n += 1
            # a pair of events that only a torn copy would part
            store.record(rater, [rating(f"a{n}", clock=n), rating(f"b{n}", clock=n)])
            acknowledged.append(f"a{n}")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for n in range(5):
            before = list(acknowledged)
            store.backup(tmp_path / f"copy{n}.sqlite")
            copy = Store.open(tmp_path / f"copy{n}.sqlite", read_only=True)
            uuids = {row.uuid for row in copy.log()}
            copy.close()
            assert set(before) <= uuids
            assert {u[1:] for u in uuids if u[:1] == "a"} == {u[1:] for u in uuids if u[:1] == "b"}
    finally:
        enough.set()
        writer.join()
    assert acknowledged


def test_threads_write_side_by_side_and_nothing_is_lost_or_doubled(store: Store) -> None:
    raters = [begin(store, slot) for slot in range(4)]
    saved: list[tuple[str, int]] = []

    def write(slot: int) -> None:
        opaque = STUDY.slots[slot].items[0].opaque
        for n in range(1, 26):
            event = rating(f"{slot}-{n}", n, n, item=opaque)
            saved.extend((one.uuid, one.seq) for one in store.record(raters[slot], [event]))

    threads = [threading.Thread(target=write, args=(slot,)) for slot in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = {row.uuid: row.seq for row in store.log() if row.kind == "rating"}
    assert rows == dict(saved)
    assert len(saved) == len(rows) == 100
    assert len(set(rows.values())) == 100


def test_two_stores_of_one_file_see_each_other_s_writes(store: Store, path: Path) -> None:
    other = Store.open(path)
    rater = begin(store)
    for n in range(1, 11):
        (store if n % 2 else other).record(rater, [rating(f"u{n}", n, n)])
        assert store.state(rater) == other.state(rater)
    assert other.record(rater, [rating("u1", 1, 1)])[0].duplicate
    assert store.state(rater).clock == 10
    other.close()


def run(code: str, *arguments: object, command: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": f"{here}:{here.parents[1]}"}
    return subprocess.Popen(
        [*command, sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def test_a_store_made_by_many_at_the_same_moment_is_one_store(path: Path) -> None:
    code = """
import sys; from pathlib import Path
from rating_study import small_study
from test_rating_store import refrozen
from levelfield.rating.store import Store
study = small_study()
study = refrozen(study) if int(sys.argv[2]) % 2 else study
print("ready", flush=True); input()
store = Store.create(Path(sys.argv[1]), study)
print(store.frozen.digest, store.server_key.hex(), flush=True)
"""
    processes = [run(code, path, n) for n in range(4)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said = {process.communicate()[0] for process in processes}
    assert all(process.returncode == 0 for process in processes)
    assert len(said) == 1
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM study").fetchone() == (1,)


def test_a_store_that_another_makes_between_two_looks_is_still_one(path: Path) -> None:
    class Slow:
        """A connection that is overtaken after its first question."""

        def __init__(self, db: sqlite3.Connection) -> None:
            self._db = db
            self.overtaken = False

        @property
        def in_transaction(self) -> bool:
            return self._db.in_transaction

        def execute(self, statement: str) -> sqlite3.Cursor:
            found = self._db.execute(statement)
            if "application_id" in statement and not self.overtaken:
                self.overtaken = True
                Store.create(path, small_study()).close()
            return found

    path.touch()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        slow = Slow(db)
        database._migrate(slow, path, read_only=False)
        assert slow.overtaken
        assert db.execute("SELECT count(*) FROM study").fetchone() == (1,)


# When the disk says no


def fill(store: Store, rater: str) -> tuple[list[str], StoreUnavailable | None]:
    """Rates until the store says no: what was acknowledged, and how it said no."""
    acknowledged = []
    remark = "A long remark. " * 200
    for n in range(1, 400):
        events = [
            rating(f"r{n}", 1 + n % 100, n),
            rating(f"c{n}", remark, n, kind="comment", criterion=""),
        ]
        try:
            acknowledged += [saved.uuid for saved in store.record(rater, events)]
        except StoreUnavailable as error:
            return acknowledged, error
    return acknowledged, None


def test_on_a_full_disk_a_rating_is_not_saved_and_nothing_acknowledged_is_lost(
    path: Path,
) -> None:
    code = """
import resource, sys; from pathlib import Path
from test_rating_store import fill
from levelfield.rating.store import Store
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
store = Store.open(Path(sys.argv[1]))
acknowledged, error = fill(store, "r1")
assert error is not None, "the limit was never reached"
assert store.state("r1").answers, "what is there can still be read"
again, error = fill(store, "r1")
assert error is not None
resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
print(" ".join(acknowledged))
"""
    store = Store.create(path, STUDY)
    rater = begin(store)
    process = run(code, path)
    said, _ = process.communicate()
    assert process.returncode == 0
    acknowledged = said.split()
    assert acknowledged
    rows = [row.uuid for row in store.log() if row.kind in ("rating", "comment")]
    assert set(acknowledged) <= set(rows)
    assert len(rows) == len(set(rows))
    assert sum(uuid[0] == "r" for uuid in rows) == sum(uuid[0] == "c" for uuid in rows)
    last = 1 + len(acknowledged) // 2
    assert not store.record(rater, [rating("after", 1, last)])[0].duplicate
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_on_a_file_system_that_is_full_the_same_holds(tmp_path: Path) -> None:
    code = """
import subprocess, sys; from pathlib import Path
from test_rating_store import STUDY, begin, fill
from levelfield.rating.store import Store, StoreError
small = sys.argv[1]
if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small]).returncode:
    sys.exit(77)
path = Path(small) / "study.sqlite"
store = Store.create(path, STUDY)
rater = begin(store)
acknowledged, error = fill(store, rater)
assert error is not None, "it never filled"
try:
    store.backup(path.with_name("copy.sqlite"))
    raise AssertionError("there was room")
except StoreError:
    assert not list(Path(small).glob("*copy*"))
assert {row.uuid for row in store.log() if row.kind in ("rating", "comment")} == set(acknowledged)
store.close()
subprocess.run(["mount", "-o", "remount,size=16m", small], check=True)
store = Store.open(path)
assert {row.uuid for row in store.log() if row.kind in ("rating", "comment")} == set(acknowledged)
assert fill(store, rater)[1] is None
print(len(acknowledged))
"""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a small file system can't be mounted by this user")
    process = run(code, tmp_path, command=("unshare", "--mount"))  # gone with the process
    said, _ = process.communicate()
    if process.returncode in (1, 77) and not said:
        probe = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)]
        if subprocess.run(probe, capture_output=True).returncode:
            pytest.skip("no file system can be mounted here")
    assert process.returncode == 0
    assert int(said) > 0


def test_a_store_that_can_t_be_grown_says_that_it_did_not_save(store: Store, path: Path) -> None:
    rater = begin(store)
    store.record(rater, [rating("first")])
    with store._database.reading() as db:
        (pages,) = db.execute("PRAGMA page_count").fetchone()
    with store._database.writing() as db:
        db.execute(f"PRAGMA max_page_count = {pages}")
    before = dump(path)
    with pytest.raises(StoreUnavailable):
        store.record(rater, [rating("big", "x" * 4000, 2, kind="comment", criterion="")] * 1 + [
            rating(f"big{n}", "x" * 4000, 2, kind="comment", criterion="") for n in range(9)
        ])  # fmt: skip
    assert dump(path) == before
    with store._database.reading() as db:
        db.execute("PRAGMA max_page_count = 1000000")
    assert not store.record(rater, [rating("big", 5, 2)])[0].duplicate


def test_a_store_opened_for_reading_saves_nothing(store: Store, path: Path) -> None:
    rater = begin(store)
    reader = Store.open(path, read_only=True)
    for action in (
        lambda: reader.record(rater, [rating()]),
        lambda: reader.enter(rater, "review"),
        lambda: reader.new_link(0),
        lambda: reader.withdraw(rater),
    ):
        with pytest.raises(StoreUnavailable):
            action()
    assert reader.state(rater) == store.state(rater)
    store.record(rater, [rating()])
    assert reader.state(rater) == store.state(rater), "it sees what is written beside it"


def test_on_a_read_only_file_the_rater_is_told_and_what_is_there_can_be_read() -> None:
    code = """
import os, sys; from pathlib import Path
from test_rating_store import rating
from levelfield.rating import database
from levelfield.rating.database import Database, migrations
from levelfield.rating.store import Store, StoreError, StoreUnavailable
path = Path(sys.argv[1])
known = migrations()
database.migrations = lambda: known  # the checkout may be out of reach for the other user
if os.geteuid() == 0:
    os.setuid(65534)
store = Store.open(path, read_only=True)
print(store.state("r1").answers)
try:
    store = Store.open(path)
    store.record("r1", [rating("u2")])
except (StoreError, StoreUnavailable) as error:
    print(type(error).__name__)
"""
    with tempfile.TemporaryDirectory() as name:  # all of whose parents anybody may enter
        folder = Path(name)
        store = Store.create(folder / "study.sqlite", STUDY)
        rater = begin(store)
        store.record(rater, [rating()])
        wanted = store.state(rater).answers
        store.close()
        (folder / "study.sqlite").chmod(0o444)
        folder.chmod(0o555)
        process = run(code, folder / "study.sqlite")
        said, _ = process.communicate()
        folder.chmod(0o755)
    assert process.returncode == 0
    assert said.splitlines() == [str(wanted), "StoreUnavailable"]


@pytest.mark.parametrize("by", ["moved", "deleted", "replaced"])
def test_a_file_that_is_taken_away_while_it_is_open_takes_no_ratings(
    store: Store, path: Path, by: str
) -> None:
    rater = begin(store)
    store.record(rater, [rating()])
    if by == "replaced":
        store.backup(path.with_name("copy.sqlite"))
        path.with_name("copy.sqlite").replace(path)
    elif by == "deleted":
        path.unlink()
    else:
        path.rename(path.with_name("elsewhere.sqlite"))
    with pytest.raises(StoreUnavailable, match="put it back"):
        store.record(rater, [rating("u2", clock=2)])
    if by == "moved":
        path.with_name("elsewhere.sqlite").rename(path)
        assert not store.record(rater, [rating("u2", clock=2)])[0].duplicate


def test_while_another_process_holds_the_store_a_write_waits_and_then_says_so(
    store: Store, path: Path
) -> None:
    rater = begin(store)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with store._database.reading() as db:
        db.execute("PRAGMA busy_timeout = 50")
    with pytest.raises(StoreUnavailable, match="locked"):
        store.record(rater, [rating()])
    assert store.state(rater).answers == {}, "reading goes on"
    holder.execute("ROLLBACK")
    holder.close()
    assert not store.record(rater, [rating()])[0].duplicate
