"""A server that is killed at any moment, or whose disk says no, loses and doubles no rating."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from forked import ROOT, Forked, environment, fork
from rating_client import Rater
from rating_server import served
from served_process import LEVELFIELD, ServedStudy, run_command
from study_folder import rewrites, write_study

from levelfield.rating.store import RatingStore
from levelfield.rating.web.app import create_app

CRITERIA = """
[[criteria]]
id = "content"
title = "Content"
statement = "Both say the same."
scale = "slider"

[[criteria]]
id = "fluency"
title = "Fluency"
statement = "It reads well."
scale = "likert"
points = 5

[words]
consent = "We keep what you say."
"""
SYSTEMS = ("plain", "florid", "terse", "loud", "shy")


def study_file(folder: Path, *, sources: int, surveys: int, raters: int) -> Path:
    records = rewrites(sources, SYSTEMS)
    design = f'[design]\nkind = "direct"\nsurveys = {surveys}\nraters = {raters}'
    return write_study(folder, records, design, criteria=CRITERIA)


def no_more_than(size: int) -> None:
    """A limit on files that may be raised again, as on a disk that is full for a while."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def assert_sound(store: Path) -> None:
    with contextlib.closing(sqlite3.connect(store)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


class Raters:
    """Clients in processes of their own, one a link."""

    def __init__(self, folder: Path, revisions: int) -> None:
        self.files: list[Path] = []
        self._folder, self._revisions = folder, revisions
        self._running: list[Forked] = []

    def start(self, links: list[str]) -> None:
        for seed, link in enumerate(links):
            file = self._folder / f"{seed}.acknowledged"
            process = fork(
                "rating_client:main", link, file, seed, self._revisions, out=self._tries(seed)
            )
            self.files.append(file)
            self._running.append(process)

    def acknowledged(self) -> int:
        assert not any(process.poll() for process in self._running), "a rater has given up"
        return sum(file.read_bytes().count(b"\n") for file in self.files if file.exists())

    def wait(self, limit_s: float) -> list[dict[str, int]]:
        """What became of the requests of each."""
        end = time.monotonic() + limit_s
        ended = [p.wait(timeout=max(1.0, end - time.monotonic())) for p in self._running]
        assert ended == [0] * len(self._running)
        return [json.loads(self._tries(n).read_text()) for n in range(len(self._running))]

    def stop(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()

    def _tries(self, seed: int) -> Path:
        return self._folder / f"{seed}.tries"


def rate_and_kill(
    folder: Path, *, sources: int, surveys: int, raters: int, revisions: int, kills: int
) -> None:
    """Rates everything while the server is killed, exports, and compares with what was
    acknowledged. Some servers are killed while they start, besides `kills`."""
    server = ServedStudy(study_file(folder, sources=sources, surveys=surveys, raters=raters))
    people = surveys * raters
    wanted = sources * len(SYSTEMS) * raters * 2
    events = wanted + people * revisions
    drawn = random.Random(7)
    began = time.monotonic()
    clients = Raters(folder, revisions)
    early = 0
    try:
        clients.start(server.links)
        for turn in range(kills):
            goal = (turn + 1) * events // (kills + 2)
            while clients.acknowledged() < goal:
                assert time.monotonic() - began < 1800, "too slow"
                time.sleep(drawn.uniform(0.001, 0.03))
            time.sleep(drawn.uniform(0, 0.05))
            server.kill()
            server.start()
            if turn % 3 == 1:
                time.sleep(drawn.uniform(0, 2))
                server.kill()
                server.start()
                early += 1
        tries = clients.wait(1200)
        took = time.monotonic() - began
        out = folder / "exported"
        run_command(folder, "rate", "export", server.file, "--out", out)
    finally:
        clients.stop()
        server.stop()

    assert len(tries) == people
    away = [sum(n for what, n in one.items() if what.endswith("Error")) for one in tries]
    assert all(away), "not every rater has noticed that the server was away"
    unheard = sum(one.get("hung up", 0) for one in tries)
    assert unheard, "every answer was heard"
    assert "Traceback" not in server.complaints.read_text()

    log = [row for row in lines_of(out / "events.jsonl") if row["kind"] == "rating"]
    study = json.loads((out / "study.json").read_text(encoding="utf-8"))
    item_of = {p["opaque"]: p["item"] for slot in study["slots"] for p in slot["items"]}
    logged = {row["uuid"]: row for row in log}
    assert len(logged) == len(log) == events, "something is there twice, or not at all"
    assert len({row["seq"] for row in log}) == events

    current: dict[tuple[str, str, str], tuple[int, int]] = {}
    names = []
    for file in clients.files:
        acknowledged = lines_of(file)
        said_by = {logged[event["uuid"]]["rater"] for event in acknowledged}  # none is lost
        assert len(said_by) == 1
        (rater,) = said_by
        names.append(rater)
        for event in acknowledged:
            row = logged.pop(event["uuid"])
            assert row["item"] == item_of[event["item"]]
            for name in ("criterion", "value", "clock", "client_ms", "at"):
                assert row[name] == event[name]
            (sample,) = study["items"][row["item"]]["candidates"][0]["samples"]
            key = (sample, event["criterion"], rater)
            current[key] = max(current.get(key, (0, 0)), (event["clock"], event["value"]))
    assert logged == {}, "an event that no rater has sent"
    assert len(set(names)) == people

    exported = {
        (record["id"], aspect, rater): value
        for record in lines_of(out / "ratings.jsonl")
        for aspect, ratings in record["ratings"].items()
        for rater, value in ratings.items()
    }
    assert len(exported) == wanted
    assert exported == {key: value for key, (_, value) in current.items()}
    assert_sound(server.store)
    print(
        f"{people} raters, {events} events of {wanted} ratings in {took:.1f} s, killed {kills} "
        f"times and {early} times while starting; {sum(away)} requests without an answer, "
        f"{unheard} answers not waited for, "
        f"{sum(one.get('503', 0) for one in tries)} of 503, "
        f"{sum(one.get('429', 0) for one in tries)} of 429"
    )


def test_a_server_that_is_killed_loses_and_doubles_nothing(memory: Path) -> None:
    rate_and_kill(memory, sources=10, surveys=2, raters=2, revisions=6, kills=2)


@pytest.mark.slow
def test_a_server_of_20_raters_and_5000_ratings_killed_ten_times_loses_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    rate_and_kill(tmp_path, sources=100, surveys=4, raters=5, revisions=25, kills=10)


# One rater, whose server is killed or whose disk says no


@pytest.fixture
def server(memory: Path) -> Iterator[ServedStudy]:
    made = ServedStudy(study_file(memory, sources=8, surveys=1, raters=1))
    yield made
    made.stop()


@dataclass(frozen=True)
class Visitor:
    """A rater who asks once and looks at the answer.

    Attributes:
        http: with the rater's cookie.
        items: opaque ids.
    """

    http: httpx.Client
    csrf: str
    items: tuple[str, ...]

    def event(self, item: int, value: int, clock: int) -> dict[str, Any]:
        named = {"uuid": str(uuid.uuid4()), "kind": "rating", "item": self.items[item]}
        return {**named, "criterion": "content", "value": value, "clock": clock}

    def comment(self, item: int, clock: int) -> dict[str, Any]:
        named = {"uuid": str(uuid.uuid4()), "kind": "comment", "item": self.items[item]}
        return {**named, "value": f"Remark {clock}. " * 300, "clock": clock}

    def send(self, *events: dict[str, Any], **fields: Any) -> tuple[int, dict[str, Any]]:
        """Status and what was said."""
        headers = {"X-CSRF-Token": self.csrf}
        answer = self.http.post("/api/events", headers=headers, json={"events": events}, **fields)
        return answer.status_code, answer.json()

    def form(self, item: int, **fields: str) -> tuple[int, str]:
        data = {"csrf": self.csrf, "go": "back", **fields}
        answer = self.http.post(f"/study/item/{self.items[item]}", data=data)
        return answer.status_code, answer.text

    def answers(self) -> dict[int, int]:
        """Item -> what is saved of its content."""
        current = self.http.get("/api/state?items=0").json()["current"]
        found = {n: current[item]["answers"].get("content") for n, item in enumerate(self.items)}
        return {n: value for n, value in found.items() if value is not None}


def visitor_of(link: str) -> Visitor:
    rater = Rater(link)
    state = rater.begin()
    return Visitor(rater.http, state["csrf"], tuple(state["current"]))


def assert_not_saved(visitor: Visitor, item: int, clock: int) -> None:
    """Both ways to rate say so, and it is true; what is there can be read."""
    before = visitor.answers()
    assert_refused(visitor, item, clock)
    assert visitor.answers() == before
    assert visitor.http.get("/study").status_code in (200, 303)


def assert_refused(visitor: Visitor, item: int, clock: int) -> None:
    status, said = visitor.send(visitor.event(item, 5, clock))
    assert (status, set(said)) == (503, {"error"})
    status, page = visitor.form(item, **{"c.content": "6"})
    assert status == 503
    assert "Not saved" in page
    onwards = {"csrf": visitor.csrf, "phase": "review"}
    assert visitor.http.post("/study/enter", data=onwards).status_code == 503


def assert_can_t_be_used(status: int, out: str, errors: str) -> None:
    assert status == 2, errors
    assert "/organiser/" not in out
    *warnings, last = errors.splitlines()
    assert all(line.startswith("warning: ") for line in warnings), errors
    assert last.startswith("error: the store can't be used: ")


def test_a_session_and_its_token_go_on_after_the_server_was_killed(server: ServedStudy) -> None:
    visitor = visitor_of(server.links[0])
    first = visitor.event(0, 40, 1)
    assert visitor.send(first)[0] == 200
    server.kill()
    server.start()
    server.wait_until_ready()
    visitor.http.headers["Connection"] = "close"
    status, said = visitor.send(first, visitor.event(1, 50, 2))
    assert status == 200
    assert [one["duplicate"] for one in said["saved"]] == [True, False]
    assert visitor.form(2, **{"c.content": "60"})[0] == 303
    assert visitor.answers() == {0: 40, 1: 50, 2: 60}
    assert server.said.read_text().count("/r/") == 1, "no link is given out a second time"


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="no limit of a running process here")
def test_on_a_full_disk_raters_are_told_so_and_sending_again_later_saves(
    server: ServedStudy,
) -> None:
    visitor = visitor_of(server.links[0])
    assert server.process is not None
    log = server.store.with_name(server.store.name + "-wal")
    room = log.stat().st_size + 100_000
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    acknowledged, refused, clock = {}, [], 0
    for item in range(len(visitor.items)):
        clock += 2
        events = [visitor.event(item, 1 + item, clock - 1), visitor.comment(item, clock)]
        status, said = visitor.send(*events)
        if status == 200:
            acknowledged[item] = 1 + item
        else:
            assert (status, set(said)) == (503, {"error"})
            refused.append(events)
    assert acknowledged, "the disk was full from the beginning"
    assert refused, "the disk was never full"
    assert visitor.answers() == acknowledged
    assert_not_saved(visitor, len(visitor.items) - 1, clock + 1)

    server.kill()
    stuck = subprocess.run(
        [*LEVELFIELD, *server.words],
        capture_output=True,
        text=True,
        env=environment(),
        preexec_fn=lambda: no_more_than(0),
    )
    assert_can_t_be_used(stuck.returncode, stuck.stdout, stuck.stderr)
    server.start()
    server.wait_until_ready()
    assert visitor.answers() == acknowledged
    for events in refused:
        status, said = visitor.send(*events)
        assert status == 200
        assert not any(one["duplicate"] for one in said["saved"])
    assert visitor.answers() == {item: 1 + item for item in range(len(visitor.items))}
    server.stop()
    assert_sound(server.store)


def test_a_store_that_is_taken_away_is_not_saved_to_until_it_is_back(server: ServedStudy) -> None:
    visitor = visitor_of(server.links[0])
    assert visitor.send(visitor.event(0, 40, 1))[0] == 200
    elsewhere = server.store.with_name("elsewhere.sqlite")
    server.store.rename(elsewhere)
    assert_refused(visitor, 1, 2)
    waiting = visitor.event(1, 50, 2)
    assert visitor.send(waiting)[0] == 503
    elsewhere.rename(server.store)
    status, said = visitor.send(waiting)
    assert (status, said["saved"][0]["duplicate"]) == (200, False)
    assert visitor.answers() == {0: 40, 1: 50}


def anybody_may_enter(folder: Path) -> bool:
    return all(above.stat().st_mode & 0o001 for above in (folder, *folder.parents))


@pytest.mark.skipif(
    os.geteuid() == 0 and not all(map(anybody_may_enter, (ROOT, Path(sys.prefix)))),
    reason="root may write anywhere, and no other user may enter this checkout",
)
def test_a_server_does_not_begin_on_a_store_that_this_user_can_t_write(
    memory: Path,
) -> None:
    with tempfile.TemporaryDirectory() as name:  # all of whose parents anybody may enter
        folder = Path(name)
        server = ServedStudy(study_file(folder, sources=4, surveys=1, raters=1))
        try:
            visitor = visitor_of(server.links[0])
            assert visitor.send(visitor.event(0, 40, 1))[0] == 200
            server.kill()
            for file in folder.iterdir():
                file.chmod(0o444)
            folder.chmod(0o555)
            out, errors = memory / "output", memory / "errors"
            refused = fork("served_process:serve_as_nobody", *server.words, out=out, errors=errors)
            status = refused.wait()
            folder.chmod(0o755)
            for file in folder.iterdir():
                file.chmod(0o644)
            assert_can_t_be_used(status, out.read_text(), errors.read_text())
            server.start()
            server.wait_until_ready()
            assert visitor.send(visitor.event(1, 50, 2))[0] == 200
            assert visitor.answers() == {0: 40, 1: 50}
        finally:
            server.stop()


def test_a_store_that_can_only_be_read_is_shown_and_not_saved_to(server: ServedStudy) -> None:
    visitor = visitor_of(server.links[0])
    assert visitor.send(visitor.event(0, 40, 1))[0] == 200
    server.kill()
    with (
        contextlib.closing(RatingStore.open(server.store, read_only=True)) as store,
        served(create_app(store)) as address,
    ):
        http = httpx.Client(base_url=address, cookies=visitor.http.cookies)
        reader = replace(visitor, http=http)
        assert reader.answers() == {0: 40}
        assert_not_saved(reader, 1, 2)
        waiting = reader.event(1, 50, 2)
        assert reader.send(waiting)[0] == 503
        link = server.links[0].partition("/r/")[2]
        assert reader.http.post(f"/r/{link}").status_code == 503
    server.start()
    server.wait_until_ready()
    status, said = visitor.send(waiting)
    assert (status, said["saved"][0]["duplicate"]) == (200, False)
    assert visitor.answers() == {0: 40, 1: 50}
