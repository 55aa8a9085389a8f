"""A server that is killed at any moment loses and doubles no rating."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

from served_process import ServedStudy, run_command
from served_study import SYSTEMS, Raters, assert_sound, lines_of, study_file, visitor_of


def rate_and_kill(
    folder: Path, *, sources: int, surveys: int, raters: int, revisions: int, kills: int
) -> None:
    """Rates everything while the server is killed, exports, and compares with what was
    acknowledged. Some servers are killed while they start, besides `kills`."""
    server = ServedStudy(study_file(folder, sources=sources, surveys=surveys, raters=raters))
    people = surveys * raters
    n_ratings = sources * len(SYSTEMS) * raters * 2
    events = n_ratings + people * revisions
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
    away = [sum(n for name, n in outcomes.items() if name.endswith("Error")) for outcomes in tries]
    assert all(away), "not every rater has noticed that the server was away"
    unheard = sum(outcomes.get("hung up", 0) for outcomes in tries)
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
    assert len(exported) == n_ratings
    assert exported == {key: value for key, (_, value) in current.items()}
    assert_sound(server.store)
    print(
        f"{people} raters, {events} events of {n_ratings} ratings in {took:.1f} s, killed {kills} "
        f"times and {early} times while starting; {sum(away)} requests without an answer, "
        f"{unheard} answers not waited for, "
        f"{sum(outcomes.get('503', 0) for outcomes in tries)} of 503, "
        f"{sum(outcomes.get('429', 0) for outcomes in tries)} of 429"
    )


@pytest.mark.slow
def test_a_server_that_is_killed_loses_and_doubles_nothing(memory: Path) -> None:
    rate_and_kill(memory, sources=10, surveys=2, raters=2, revisions=6, kills=2)


@pytest.mark.slow
def test_a_server_of_20_raters_and_5000_ratings_killed_ten_times_loses_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    rate_and_kill(tmp_path, sources=100, surveys=4, raters=5, revisions=25, kills=10)


def test_a_session_and_its_token_go_on_after_the_server_was_killed(server: ServedStudy) -> None:
    visitor = visitor_of(server.links[0])
    first = visitor.event(0, 40, 1)
    assert visitor.send(first)[0] == 200
    server.kill()
    server.start()
    server.wait_until_ready()
    visitor.http.headers["Connection"] = "close"
    status, body = visitor.send(first, visitor.event(1, 50, 2))
    assert status == 200
    assert [saved["duplicate"] for saved in body["saved"]] == [True, False]
    assert visitor.form(2, **{"c.content": "60"})[0] == 303
    assert visitor.answers() == {0: 40, 1: 50, 2: 60}
    assert server.output.read_text().count("/r/") == 1, "no link is given out a second time"
