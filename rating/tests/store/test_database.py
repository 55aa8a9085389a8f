from __future__ import annotations

import contextlib
import sqlite3
import stat
import threading
import time
from pathlib import Path

import pytest

from forked import fork
from levelfield_rating.store import RatingStore, StoreError, database
from levelfield_rating.store.database import migrations
from raters_of_store import STUDY, begin, dump, rating
from rating_study import small_study


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
    store: RatingStore, path: Path, statement: str
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


def test_nobody_comes_back_from_withdrawal(store: RatingStore, path: Path) -> None:
    store.withdraw(begin(store))
    with sqlite3.connect(path) as db, pytest.raises(sqlite3.IntegrityError, match="final"):
        db.execute("UPDATE rater SET phase = 'rating'")


def test_the_file_is_kept_with_a_log_and_full_sync(store: RatingStore) -> None:
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
    store: RatingStore, tmp_path: Path
) -> None:
    rater = begin(store)
    store.record(rater, [rating()])
    folder = tmp_path / "backups"
    folder.mkdir()
    store.backup(folder / "copy.sqlite")
    assert [file.name for file in folder.iterdir()] == ["copy.sqlite"]
    assert stat.S_IMODE((folder / "copy.sqlite").stat().st_mode) == 0o600
    copy = RatingStore.open(folder / "copy.sqlite")
    assert list(copy.log()) == list(store.log())
    assert copy.state(rater) == store.state(rater)
    copy.close()
    before = (folder / "copy.sqlite").read_bytes()
    with pytest.raises(StoreError, match="already exists"):
        store.backup(folder / "copy.sqlite")
    with pytest.raises(StoreError, match="can't be made"):
        store.backup(tmp_path / "none" / "copy.sqlite")
    assert (folder / "copy.sqlite").read_bytes() == before
    assert [file.name for file in folder.iterdir()] == ["copy.sqlite"]


def test_a_backup_made_while_raters_write_has_all_that_was_acknowledged_before_it(
    store: RatingStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the rater goes on until the last copy is made
    monkeypatch.setattr("levelfield_rating.store.events.EVENTS_OF_ITEM", 1_000_000)
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
            copy = RatingStore.open(tmp_path / f"copy{n}.sqlite", read_only=True)
            uuids = {row.uuid for row in copy.log()}
            copy.close()
            assert set(before) <= uuids
            assert {u[1:] for u in uuids if u[:1] == "a"} == {u[1:] for u in uuids if u[:1] == "b"}
        assert writer.is_alive()
    finally:
        enough.set()
        writer.join()
    assert acknowledged


def test_threads_write_side_by_side_and_nothing_is_lost_or_doubled(store: RatingStore) -> None:
    raters = [begin(store, slot) for slot in range(4)]
    saved: list[tuple[str, int]] = []

    def write(slot: int) -> None:
        opaque = STUDY.slots[slot].items[0].opaque
        for n in range(1, 26):
            event = rating(f"{slot}-{n}", n, n, item=opaque)
            saved.extend(
                (record.uuid, record.seq) for record in store.record(raters[slot], [event])
            )

    threads = [threading.Thread(target=write, args=(slot,)) for slot in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = {row.uuid: row.seq for row in store.log() if row.kind == "rating"}
    assert rows == dict(saved)
    assert len(saved) == len(rows) == 100
    assert len(set(rows.values())) == 100


def test_two_stores_of_one_file_see_each_other_s_writes(store: RatingStore, path: Path) -> None:
    other = RatingStore.open(path)
    rater = begin(store)
    for n in range(1, 11):
        (store if n % 2 else other).record(rater, [rating(f"u{n}", n, n)])
        assert store.state(rater) == other.state(rater)
    assert other.record(rater, [rating("u1", 1, 1)])[0].duplicate
    assert store.state(rater).clock == 10
    other.close()


def test_a_store_made_by_many_at_the_same_moment_is_one_store(path: Path) -> None:
    start = path.with_name("start")
    outs = [path.with_name(f"{n}.output") for n in range(4)]
    processes = [
        fork("store_processes:create", path, n, start, out=out) for n, out in enumerate(outs)
    ]
    while not all(out.exists() and out.read_text() == "ready\n" for out in outs):
        time.sleep(0.001)
    start.touch()
    assert [process.wait() for process in processes] == [0] * 4
    assert len({out.read_text() for out in outs}) == 1
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
            result = self._db.execute(statement)
            if "application_id" in statement and not self.overtaken:
                self.overtaken = True
                RatingStore.create(path, small_study()).close()
            return result

    path.touch()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        slow = Slow(db)
        database._migrate(slow, path, read_only=False)
        assert slow.overtaken
        assert db.execute("SELECT count(*) FROM study").fetchone() == (1,)


def test_threads_that_come_and_go_leave_no_connections_open(store: RatingStore, path: Path) -> None:
    rater = begin(store)
    before = files_open_under(path)
    for _ in range(20):
        thread = threading.Thread(target=store.state, args=(rater,))
        thread.start()
        thread.join()
    assert files_open_under(path) == before


def files_open_under(path: Path) -> int:
    """Returns the number of descriptors of this process on a store, whatever else it opens."""
    count = 0
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            count += str(link.readlink()).startswith(str(path))
    return count
