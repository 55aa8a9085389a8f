from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from forked import environment, fork
from levelfield_rating.store import RatingStore, StoreUnavailable
from raters_of_store import STUDY, begin, dump, rating


def test_on_a_full_disk_a_rating_is_not_saved_and_nothing_acknowledged_is_lost(
    path: Path,
) -> None:
    store = RatingStore.create(path, STUDY)
    rater = begin(store)
    out = path.with_name("acknowledged")
    assert fork("store_processes:fill_disk", path, out=out).wait() == 0
    acknowledged = out.read_text().split()
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
from raters_of_store import STUDY, begin, fill
from levelfield_rating.store import RatingStore, StoreError
small = sys.argv[1]
if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small]).returncode:
    sys.exit(77)
path = Path(small) / "study.sqlite"
store = RatingStore.create(path, STUDY)
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
store = RatingStore.open(path)
assert {row.uuid for row in store.log() if row.kind in ("rating", "comment")} == set(acknowledged)
assert fill(store, rater)[1] is None
print(len(acknowledged))
"""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a small file system can't be mounted by this user")
    command = ["unshare", "--mount", sys.executable, "-c", code, str(tmp_path)]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment())
    output = process.stdout  # what was mounted is gone with the process
    if process.returncode in (1, 77) and not output:
        probe = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)]
        if subprocess.run(probe, capture_output=True).returncode:
            pytest.skip("no file system can be mounted here")
    assert process.returncode == 0
    assert int(output) > 0


def test_a_store_that_can_t_be_grown_says_that_it_did_not_save(
    store: RatingStore, path: Path
) -> None:
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


def test_a_store_opened_for_reading_saves_nothing(store: RatingStore, path: Path) -> None:
    rater = begin(store)
    reader = RatingStore.open(path, read_only=True)
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


def test_a_read_only_file_refuses_writes_and_can_be_read(
    memory: Path,
) -> None:
    with tempfile.TemporaryDirectory() as name:  # all of whose parents anybody may enter
        folder = Path(name)
        store = RatingStore.create(folder / "study.sqlite", STUDY)
        rater = begin(store)
        store.record(rater, [rating()])
        answers = store.state(rater).answers
        store.close()
        (folder / "study.sqlite").chmod(0o444)
        folder.chmod(0o555)
        out = memory / "output"
        process = fork("store_processes:read_as_nobody", folder / "study.sqlite", out=out)
        status = process.wait()
        folder.chmod(0o755)
    assert status == 0
    assert out.read_text().splitlines() == [str(answers), "StoreUnavailable"]


@pytest.mark.parametrize("by", ["moved", "deleted", "replaced"])
def test_a_file_that_is_taken_away_while_it_is_open_takes_no_ratings(
    store: RatingStore, path: Path, by: str
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
    store: RatingStore, path: Path
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
