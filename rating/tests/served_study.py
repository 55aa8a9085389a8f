"""A served study of two criteria, raters as processes, and one who looks at every answer."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from forked import Forked, fork
from rating_client import Rater
from study_folder import rewrites, write_study

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
        """Returns the outcomes of each rater's requests."""
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
        """Returns item -> its saved answer about content."""
        current = self.http.get("/api/state?items=0").json()["current"]
        values = {n: current[item]["answers"].get("content") for n, item in enumerate(self.items)}
        return {n: value for n, value in values.items() if value is not None}


def visitor_of(link: str) -> Visitor:
    rater = Rater(link)
    state = rater.begin()
    return Visitor(rater.http, state["csrf"], tuple(state["current"]))


def assert_not_saved(visitor: Visitor, item: int, clock: int) -> None:
    """Asserts that both ways to rate report the failure, save nothing, and can be read."""
    before = visitor.answers()
    assert_refused(visitor, item, clock)
    assert visitor.answers() == before
    assert visitor.http.get("/study").status_code in (200, 303)


def assert_refused(visitor: Visitor, item: int, clock: int) -> None:
    status, body = visitor.send(visitor.event(item, 5, clock))
    assert (status, set(body)) == (503, {"error"})
    status, page = visitor.form(item, **{"c.content": "6"})
    assert status == 503
    assert "Not saved" in page
    onwards = {"csrf": visitor.csrf, "phase": "review"}
    assert visitor.http.post("/study/enter", data=onwards).status_code == 503
