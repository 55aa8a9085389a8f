"""A rater as a program of its own, which talks to a server as browsers do.

Rates every item through the server, out of order, in batches, some answers twice with another
value, and sends again until the server says that it is saved, with the same UUID. What the server
has acknowledged is appended to FILE, one event a line; what became of the requests is printed.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
import uuid
from collections import Counter
from typing import Any

import httpx

AGAIN = (429, 503)
SLIDER, LIKERT = 100, 5
CRITERIA = {"content": SLIDER, "fluency": LIKERT}
PATIENCE_S = 300.0


class Rater:
    """A browser that never gives up, for a while.

    Attributes:
        http: asks once, with the rater's cookie.
        tries: what became of requests: statuses, names of errors of the connection, `hung up`.
    """

    def __init__(self, link: str) -> None:
        base, _, self._token = link.partition("/r/")
        self.http = httpx.Client(base_url=base, timeout=30)
        self.tries: Counter[str] = Counter()

    def begin(self) -> dict[str, Any]:
        """Goes from the link to the rating; returns the answer of `/api/state`."""
        link = f"/r/{self._token}"
        form = re.search(r'name="csrf" value="(\w+)"', self._ask("GET", link).text)
        assert form is not None
        assert self._ask("POST", link, data={"csrf": form[1]}).status_code == 303
        csrf = self._state()["csrf"]
        while (phase := self._state()["phase"]) != "rating":
            if phase == "welcome":
                self._ask("POST", "/study/welcome", data={"csrf": csrf, "agree": "1"})
            else:
                self._ask("POST", "/study/enter", data={"csrf": csrf, "phase": "rating"})
        return self._state()

    def send(
        self, csrf: str, events: list[dict[str, Any]], *, hang_up: bool = False
    ) -> list[dict[str, Any]]:
        """Sends events; returns those that the server reports as saved.

        Args:
            hang_up: hear no answer at first, so that two equal requests may be under way.
        """
        headers = {"X-CSRF-Token": csrf}
        if hang_up:
            short = httpx.Timeout(30, read=0.001)
            try:
                self.http.post(
                    "/api/events", headers=headers, json={"events": events}, timeout=short
                )
            except httpx.TransportError:
                self.tries["hung up"] += 1
        response = self._ask("POST", "/api/events", headers=headers, json={"events": events}).json()
        assert [event["uuid"] for event in response["saved"]] == [event["uuid"] for event in events]
        return list(response["saved"])

    def finish(self, csrf: str) -> None:
        for phase in ("review", "done"):
            self._ask("POST", "/study/enter", data={"csrf": csrf, "phase": phase})
        assert self._state()["phase"] == "done"

    def _state(self) -> dict[str, Any]:
        return dict(self._ask("GET", "/api/state?items=0").json())

    def _ask(self, method: str, path: str, **body: Any) -> httpx.Response:
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                answer = self.http.request(method, path, **body)
            except httpx.TransportError as error:
                self.tries[type(error).__name__] += 1
                time.sleep(0.1)
            else:
                self.tries[str(answer.status_code)] += 1
                if answer.status_code < 400:
                    return answer
                if answer.status_code not in AGAIN:
                    raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text}")
                time.sleep(0.5)
            if time.monotonic() > until:
                raise RuntimeError(f"{method} {path}: no answer in {PATIENCE_S:.0f} s")


def planned(items: list[str], drawn: random.Random, revisions: int) -> list[dict[str, Any]]:
    """Events in the order in which they are sent, which is not quite that of their clocks."""
    questions = [(item, criterion) for item in items for criterion in CRITERIA]
    drawn.shuffle(questions)
    questions += drawn.sample(questions, revisions)
    events: list[dict[str, Any]] = [
        {
            "uuid": str(uuid.UUID(int=drawn.getrandbits(128), version=4)),
            "kind": "rating",
            "item": item,
            "criterion": criterion,
            "value": drawn.randint(1, CRITERIA[criterion]),
            "clock": clock,
            "client_ms": drawn.randrange(60_000),
        }
        for clock, (item, criterion) in enumerate(questions, 1)
    ]
    # revisions anywhere, also before what they revise: the clock says which holds
    place = {
        event["uuid"]: drawn.uniform(0, len(events))
        if event["clock"] > len(events) - revisions
        else event["clock"] + drawn.uniform(0, 6)
        for event in events
    }
    return sorted(events, key=lambda event: place[event["uuid"]])


def rate(link: str, file: str, seed: int, revisions: int) -> dict[str, int]:
    drawn = random.Random(seed)
    rater = Rater(link)
    state = rater.begin()
    waiting = planned(sorted(state["current"]), drawn, revisions)
    sent: list[tuple[list[dict[str, Any]], list[str]]] = []
    out = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    while waiting:
        size = drawn.choice((1, 1, 1, 1, 2, 5))
        batch, waiting = waiting[:size], waiting[size:]
        saved = rater.send(state["csrf"], batch, hang_up=drawn.random() < 0.1)
        lines = [json.dumps({**e, "at": s["at"]}) for e, s in zip(batch, saved, strict=True)]
        os.write(out, ("\n".join(lines) + "\n").encode())
        sent.append((batch, [event["at"] for event in saved]))
        if drawn.random() < 0.1:  # as a second tab does that shares what waits to be sent
            batch, before = drawn.choice(sent)
            again = rater.send(state["csrf"], batch)
            assert all(event["duplicate"] for event in again), "what was acknowledged is not there"
            assert [event["at"] for event in again] == before
    rater.finish(state["csrf"])
    return dict(rater.tries)


def main(link: str, file: str, seed: str, revisions: str) -> None:
    print(json.dumps(rate(link, file, int(seed), int(revisions))))
