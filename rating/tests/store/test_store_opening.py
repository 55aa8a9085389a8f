from __future__ import annotations

import sqlite3
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from levelfield_rating.store import RatingStore, StoreError, StoreUnavailable, database
from levelfield_rating.store.database import Database, migrations
from raters_of_store import STUDY, begin, dump, go_on, rating, refrozen, refused


def test_a_new_store_has_the_study_and_nothing_else(store: RatingStore, path: Path) -> None:
    assert store.frozen == STUDY
    assert store.raters() == []
    assert [row.kind for row in store.log()] == ["study"]
    assert {link.state for link in store.links()} == {"none"}
    assert len(store.links()) == len(STUDY.slots)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes().startswith(b"SQLite format 3")


def test_answers_are_there_when_the_store_is_opened_again(store: RatingStore, path: Path) -> None:
    rater = begin(store)
    store.record(rater, [rating()])
    before, log = store.state(rater), list(store.log())
    store.close()
    for again in (
        RatingStore.open(path),
        RatingStore.create(path, STUDY),
        RatingStore.open(path, read_only=True),
    ):
        assert again.state(rater) == before
        assert list(again.log()) == log
        again.close()


def test_the_same_study_frozen_again_opens_the_store_with_its_first_ids(
    store: RatingStore, path: Path
) -> None:
    rater = begin(store)
    store.record(rater, [rating()])
    again = RatingStore.create(path, refrozen(STUDY))
    assert again.frozen == STUDY
    assert again.frozen.digest == STUDY.digest
    again.close()


def test_an_allocation_of_the_same_files_by_another_version_opens_the_store_as_it_is(
    store: RatingStore, path: Path
) -> None:
    rater = begin(store)
    store.record(rater, [rating()])
    turned = replace(STUDY, slots=tuple(reversed(STUDY.slots)))
    RatingStore.create(path, turned).close()
    assert RatingStore.open(path).frozen == STUDY
    with pytest.raises(StoreError, match="slots"):
        RatingStore.create(path, replace(turned, source_digest="1" * 64))


def test_a_changed_study_takes_the_place_of_one_that_nobody_has_rated(
    store: RatingStore, path: Path
) -> None:
    token = store.new_link(0)
    rater = begin(store, 1, until="rating")
    preview = store.session(store.preview(0))
    assert preview is not None
    last = begin(store, 3, until="welcome")
    changed = replace(refrozen(STUDY), title="Other words", slots=refrozen(STUDY).slots[:3])
    other = RatingStore.create(path, changed)
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
    store: RatingStore, path: Path, kind: str
) -> None:
    values = {"rating": 3, "comment": "odd", "problem": True}
    criterion = "style" if kind == "rating" else ""
    rater = begin(store)
    store.record(rater, [rating(kind=kind, value=values[kind], criterion=criterion)])
    before = dump(path)
    with pytest.raises(StoreError, match=r"title.*`version = 2`"):
        RatingStore.create(path, replace(STUDY, title="Other words"))
    assert dump(path) == before


def test_what_only_previews_rated_does_not_hold_a_study_fast(
    store: RatingStore, path: Path
) -> None:
    rater = store.session(store.preview(0))
    assert rater is not None
    go_on(store, rater, "done")
    changed = replace(STUDY, title="Other words")
    assert RatingStore.create(path, changed).frozen == changed


def test_a_study_whose_only_rater_has_withdrawn_was_rated(store: RatingStore, path: Path) -> None:
    rater = begin(store)
    store.record(rater, [rating()])
    store.withdraw(rater)
    with pytest.raises(StoreError, match="title"):
        RatingStore.create(path, replace(STUDY, title="Other words"))


def test_opening_what_is_not_there_says_so_and_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such store"):
        RatingStore.open(tmp_path / "none.sqlite")
    with pytest.raises(StoreError, match="can't be made"):
        RatingStore.create(tmp_path / "none" / "study.sqlite", STUDY)
    assert list(tmp_path.iterdir()) == []


def test_other_files_are_refused_and_left_as_they_are(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("These are notes, and they are long enough to be read as a page. " * 20)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE birds (name TEXT)")
    for file, words in ((text, "damaged or is not a store"), (other, "but not a store")):
        before = file.read_bytes()
        for action in (lambda file=file: RatingStore.open(file),
                       lambda file=file: RatingStore.create(file, STUDY)):  # fmt: skip
            with pytest.raises(StoreError, match=words):
                action()
        assert sqlite_content(file, before)


def sqlite_content(file: Path, before: bytes) -> bool:
    """Returns whether the file is as before, but for the mark that it keeps a write-ahead log."""
    now = bytearray(file.read_bytes())
    if before.startswith(b"SQLite"):
        now[18:20] = before[18:20]
        now[24:28], now[92:100] = before[24:28], before[92:100]  # counters of changes
    return bytes(now) == before


def test_a_store_of_a_later_version_is_refused_with_what_to_do(
    store: RatingStore, path: Path
) -> None:
    store.close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {len(migrations()) + 1}")
    for read_only in (False, True):
        with pytest.raises(StoreError, match="later one"):
            RatingStore.open(path, read_only=read_only)


def test_a_store_that_was_killed_before_it_was_made_is_made(path: Path) -> None:
    path.touch()
    assert RatingStore.create(path, STUDY).frozen == STUDY


def test_a_later_version_takes_an_earlier_store_on_and_keeps_what_is_in_it(
    store: RatingStore, path: Path, monkeypatch: pytest.MonkeyPatch
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
        RatingStore.open(path, read_only=True)
    for _ in range(2):
        again = RatingStore.open(path)
        assert again.state(rater) == state
        again.close()
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(later),)
        assert db.execute("SELECT remark FROM rater").fetchone() == (None,)


def test_a_migration_that_fails_leaves_the_store_as_it_was(
    store: RatingStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(store)
    store.close()
    before = dump(path)
    steps = [*migrations(), "CREATE TABLE extra (a INTEGER);\nDROP TABLE nothing;"]
    with monkeypatch.context() as patched:
        patched.setattr(database, "migrations", lambda: steps)
        with pytest.raises(sqlite3.OperationalError):
            RatingStore.open(path)
    assert dump(path) == before
    RatingStore.open(path).close()


def test_a_store_without_a_study_says_so(path: Path) -> None:
    Database(path, create=True).close()
    with pytest.raises(StoreError, match="has no study"):
        RatingStore.open(path)


def test_a_study_of_a_later_format_is_refused(store: RatingStore, path: Path) -> None:
    store.close()
    with sqlite3.connect(path) as db:
        later = replace(STUDY, format=99)
        values = (later.digest, later.document())
        db.execute("INSERT INTO study (digest, document, at) VALUES (?, ?, '')", values)
    with pytest.raises(StoreError, match="format 99"):
        RatingStore.open(path)
    with pytest.raises(StoreError, match="format 99"):
        RatingStore.create(path, STUDY)


@pytest.mark.parametrize("spoilt", [b"A stucy", b"A st\xc9dy"])
def test_a_study_that_is_not_as_it_was_frozen_is_shown_to_nobody(path: Path, spoilt: bytes) -> None:
    study = replace(STUDY, title="A study")
    RatingStore.create(path, study).close()
    path.write_bytes(path.read_bytes().replace(b"A study", spoilt))
    with pytest.raises(StoreError, match=r"study\.sqlite is damaged"):
        RatingStore.open(path)
    with pytest.raises(StoreError, match=r"study\.sqlite is damaged"):
        RatingStore.create(path, study)


def test_a_store_that_is_closed_answers_nothing_more(store: RatingStore) -> None:
    store.close()
    with pytest.raises(StoreUnavailable):
        store.raters()
    store.close()
