"""Events of raters: understood, checked and written, all of a request or none."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from levelfield_rating.answers import TRIES, Answer, BadAnswer, checked
from levelfield_rating.store.journal import next_seq
from levelfield_rating.store.people import (
    Person,
    largest_clock,
    may_write,
    person,
    practice_tries,
    touch,
)
from levelfield_rating.store.records import Event, RequestRefused, Saved
from levelfield_rating.store.study import StoredStudy

LONGEST_COMMENT = 4_000
"""Characters."""
MOST_EVENTS = 1_000
"""In one request."""
EVENTS_OF_ITEM = 1_000
"""Everything that a rater says about one item, each change counted."""
TEXT_OF_RATER = 4_000_000
"""Bytes of a rater's comments as they are stored, each version counted."""
_LARGEST = 2**53 - 1
"""The largest whole number that every client writes exactly."""
_CLOCK_JUMP = 1_000_000
"""How far ahead of what is known a clock may be, so that nobody can use it up."""
_UUID = re.compile(r"[0-9A-Za-z_-]{1,64}")


def record(
    db: sqlite3.Connection, study: StoredStudy, time: str, rater: str, events: Sequence[Event]
) -> list[Saved]:
    """Writes events inside the caller's transaction; see `RatingStore.record`."""
    if not 1 <= len(events) <= MOST_EVENTS:
        raise RequestRefused(422, f"send 1 to {MOST_EVENTS:,} events at once")
    who = person(db, rater)
    largest = largest_clock(db, who.id)
    tries = practice_tries(db, study, who.id)
    attempted: dict[str, set[str]] = {}
    saved = []
    for untrusted in events:
        event = _understood(study, who, untrusted)
        earlier = _earlier(db, who, event)
        if earlier is not None:
            saved.append(earlier)
            continue
        _may_say(db, who, event)
        if event.clock > largest + _CLOCK_JUMP:
            raise RequestRefused(422, "the clock is too far ahead")
        largest = max(largest, event.clock)
        attempt = None
        if event.kind == "practice":
            used, passed = tries.get(event.item, (0, False))
            if passed or used >= TRIES:
                raise RequestRefused(409, "this practice item is finished")
            if event.criterion in attempted.setdefault(event.item, set()):
                raise RequestRefused(422, "a try is one answer per criterion")
            attempted[event.item].add(event.criterion)
            attempt = used + 1
        _check_room(db, who, event)
        saved.append(_insert(db, study, who, event, attempt, time))
    if any(not study.practice[item].accept.keys() <= done for item, done in attempted.items()):
        raise RequestRefused(422, "a try at a practice item answers all of it at once")
    if not all(entry.duplicate for entry in saved):
        touch(db, who.id, time)
    return [replace(entry, clock=largest) for entry in saved]


def _understood(study: StoredStudy, who: Person, event: Event) -> Event:
    """Returns the event with the item's key for its opaque id and the value in its one form.

    Raises:
        RequestRefused: 404 an item of another slot, 422 anything else that is not valid.
    """
    if not (isinstance(event.uuid, str) and _UUID.fullmatch(event.uuid)):
        raise RequestRefused(422, "an event needs a UUID")
    if not _is_whole(event.clock, 1):
        raise RequestRefused(422, "the clock is a whole number from 1")
    if event.client_ms is not None and not _is_whole(event.client_ms, 0):
        raise RequestRefused(422, "times are whole milliseconds from 0")
    if not (isinstance(event.item, str) and isinstance(event.criterion, str)):
        raise RequestRefused(422, "items and criteria are named by text")
    if event.kind not in ("rating", "practice", "comment", "problem"):
        raise RequestRefused(422, "an event is a rating, a comment, a problem or practice")
    if event.kind == "practice":
        practice = study.practice.get(event.item)
        if practice is None:
            raise RequestRefused(404, "there is no such item")
        return replace(event, value=_answer(study, len(practice.candidates), event))
    key = study.key(who.slot, event.item)
    if key is None:
        raise RequestRefused(404, "there is no such item")
    if event.kind == "rating":
        candidates = len(study.frozen.items[key].candidates)
        return replace(event, item=key, value=_answer(study, candidates, event))
    if event.criterion:
        raise RequestRefused(422, "comments and problems have no criterion")
    if event.kind == "problem" and not isinstance(event.value, bool):
        raise RequestRefused(422, "there is a problem or there is none")
    if event.kind == "comment":
        _check_comment(event.value)
    return replace(event, item=key)


def _is_whole(value: object, low: int) -> bool:
    return type(value) is int and low <= value <= _LARGEST


def _answer(study: StoredStudy, candidates: int, event: Event) -> Answer:
    criterion = study.criteria.get(event.criterion)
    if criterion is None:
        raise RequestRefused(422, "there is no such criterion")
    try:
        return checked(criterion, candidates, event.value)
    except BadAnswer as error:
        raise RequestRefused(422, str(error)) from error


def _check_comment(value: object) -> None:
    if not isinstance(value, str):
        raise RequestRefused(422, "a comment is text")
    if len(value) > LONGEST_COMMENT:
        raise RequestRefused(422, f"a comment has at most {LONGEST_COMMENT:,} characters")
    try:
        value.encode()
    except UnicodeEncodeError as error:  # halves of a surrogate pair
        raise RequestRefused(422, "the comment contains invalid characters") from error


def _earlier(db: sqlite3.Connection, who: Person, event: Event) -> Saved | None:
    """Returns what was saved, if the same event already exists.

    Raises:
        RequestRefused: 409, another event has its UUID, or a withdrawal deleted its content.
    """
    query = """
        SELECT seq, at, rater, kind, item, criterion, clock, value, client_ms
        FROM rating_event LEFT JOIN event_value USING (seq) WHERE uuid = ?
    """
    row = db.execute(query, (event.uuid,)).fetchone()
    if row is None:
        return None
    seq, time, *body = row
    if tuple(body) != (who.id, *_body(event)):
        raise RequestRefused(409, "another event has this UUID")
    return Saved(event.uuid, seq, datetime.fromisoformat(time), True, 0)


def _may_say(db: sqlite3.Connection, who: Person, event: Event) -> None:
    may_write(db, who)
    if event.kind == "practice":
        if who.phase != "practice":
            raise RequestRefused(409, "this is not the time to practise")
    elif who.phase not in ("rating", "review"):
        raise RequestRefused(409, "this is not the time to rate")


def _check_room(db: sqlite3.Connection, who: Person, event: Event) -> None:
    """Bounds what one link can make the store keep; practice has few tries."""
    query = "SELECT count(*) FROM rating_event WHERE rater = ? AND kind <> 'practice' AND item = ?"
    ((events,),) = db.execute(query, (who.id, event.item)).fetchall()
    if events >= EVENTS_OF_ITEM:
        raise RequestRefused(429, f"the store keeps {EVENTS_OF_ITEM:,} changes per item")
    if event.kind == "comment":
        query = """
            SELECT coalesce(sum(length(value)), 0) FROM rating_event JOIN event_value USING (seq)
            WHERE rater = ? AND kind = 'comment'
        """
        ((stored,),) = db.execute(query, (who.id,)).fetchall()
        if stored + len(json.dumps(event.value)) > TEXT_OF_RATER:
            raise RequestRefused(429, f"the store keeps {TEXT_OF_RATER:,} bytes of comments")


def _insert(
    db: sqlite3.Connection,
    study: StoredStudy,
    who: Person,
    event: Event,
    attempt: int | None,
    time: str,
) -> Saved:
    seq = next_seq(db)
    kind, item, criterion, clock, value, client_ms = _body(event)
    db.execute(
        "INSERT INTO rating_event VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (seq, event.uuid, who.id, study.id, kind, item, criterion, attempt, clock, time),
    )
    db.execute("INSERT INTO event_value VALUES (?, ?, ?)", (seq, value, client_ms))
    return Saved(event.uuid, seq, datetime.fromisoformat(time), False, 0)


def _body(event: Event) -> tuple[Any, ...]:
    value = json.dumps(event.value)
    return event.kind, event.item, event.criterion, event.clock, value, event.client_ms
