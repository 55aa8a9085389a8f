"""Writers that are killed at any moment lose nothing that was acknowledged, and double nothing."""

from __future__ import annotations

import random
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from forked import Forked, fork
from levelfield_rating.store import RatingStore
from rating_study import small_study


class Writers:
    """Processes that rate, one a rater, and are started again when they are killed."""

    def __init__(self, path: Path, raters: list[str], folder: Path) -> None:
        self._path, self._folder = path, folder
        self._running = {rater: self._start(rater) for rater in raters}
        self.killed = 0

    def acknowledged_by(self, rater: str) -> Path:
        return self._folder / f"{rater}.acknowledged"

    def kill(self, raters: list[str]) -> None:
        """Kills without a word, as a machine does that is out of memory. Then all go on."""
        hit = [rater for rater in raters if self._running[rater].poll() is None]
        for rater in hit:
            self._running[rater].send_signal(signal.SIGKILL)
        for rater in hit:
            if self._running[rater].wait() == -signal.SIGKILL:
                self.killed += 1
                self._running[rater] = self._start(rater)

    def wait(self, limit_s: float) -> None:
        end = time.monotonic() + limit_s
        for rater, process in self._running.items():
            assert process.wait(max(1.0, end - time.monotonic())) == 0, rater

    def stop(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()

    def _start(self, rater: str) -> Forked:
        acknowledged = self.acknowledged_by(rater)
        out = self._folder / f"{rater}.output"
        return fork("store_processes:rate", self._path, rater, acknowledged, out=out)


def rate_and_kill(
    folder: Path, *, raters: int, items: int, kills: int, all_at_once: bool, limit_s: float
) -> None:
    frozen = small_study(
        items=items, raters=raters, scale="likert", control=False, practice=False, examples=False
    )
    path = folder / "study.sqlite"
    store = RatingStore.create(path, frozen)
    names = []
    for slot in range(raters):
        rater = store.session(store.exchange(store.new_link(slot)) or "")
        assert rater is not None
        store.consent(rater, frozen.consent_version)
        store.enter(rater, "instructions")
        store.enter(rater, "rating")
        names.append(rater)
    answers_each = items * len(frozen.criteria)
    drawn = random.Random(5)
    writers = Writers(path, names, folder)
    try:
        done = 0
        for turn in range(kills):
            goal = (turn + 1) * raters * answers_each // (kills + 2)
            while done < goal:  # at no particular moment, but spread over the whole study
                time.sleep(drawn.uniform(0.001, 0.02))
                files = [writers.acknowledged_by(name) for name in names]
                done = sum(file.read_bytes().count(b"\n") for file in files if file.exists())
            every = all_at_once and turn % 2 == 0
            writers.kill(names if every else drawn.sample(names, max(1, raters // 4)))
        writers.wait(limit_s)
        assert writers.killed >= kills // 2, "the writers were too fast to be killed"
    finally:
        writers.stop()

    acknowledged = {
        uuid for name in names for uuid in writers.acknowledged_by(name).read_text().split()
    }
    rows = [row for row in store.log() if row.kind == "rating"]
    uuids = [row.uuid for row in rows]
    assert acknowledged <= set(uuids), "something acknowledged is lost"
    assert len(uuids) == len(set(uuids)) == raters * answers_each
    assert len({row.seq for row in rows}) == len(rows)
    for row in rows:
        n = int(row.uuid.rpartition("-")[2])
        assert (row.uuid, row.value) == (f"{row.rater}-{n}", 1 + (7 * n) % 5)
    for state in store.raters():
        assert sum(len(answers) for answers in state.answers.values()) == answers_each
        store.enter(state.rater, "review")
        assert store.enter(state.rater, "done").completion_code
    store.close()
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_few_writers_that_are_killed_lose_and_double_nothing(memory: Path) -> None:
    rate_and_kill(memory, raters=2, items=200, kills=2, all_at_once=True, limit_s=120)


@pytest.mark.slow
def test_twenty_writers_of_5000_ratings_killed_ten_times_lose_and_double_nothing(
    memory: Path,
) -> None:
    rate_and_kill(memory, raters=20, items=125, kills=10, all_at_once=True, limit_s=900)
