"""The log of a study, except for ratings, and the common count of all its events."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from levelfield_rating.store.records import LogRow


def utc_now() -> datetime:
    return datetime.now(UTC)


def stamp(time: datetime) -> str:
    """Returns a time as the store keeps it: UTC, microseconds, sorts as text."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def instant(text: str | None) -> datetime | None:
    """Returns a time that the store kept."""
    return None if text is None else datetime.fromisoformat(text)


def next_seq(db: sqlite3.Connection) -> int:
    """Returns the number of what happens next; only for use inside a transaction that writes."""
    query = """
        SELECT 1 + max(coalesce((SELECT max(seq) FROM rating_event), 0),
                       coalesce((SELECT max(seq) FROM journal), 0))
    """
    ((seq,),) = db.execute(query).fetchall()
    return int(seq)


def note(
    db: sqlite3.Connection,
    time: str,
    kind: str,
    *,
    slot: int | None = None,
    rater: int | None = None,
    detail: str = "",
) -> None:
    """Writes down that something happened."""
    row = (next_seq(db), time, kind, slot, rater, detail)
    db.execute("INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?)", row)


def is_closed(db: sqlite3.Connection) -> bool:
    query = (
        "SELECT kind FROM journal WHERE kind IN ('closed', 'reopened') ORDER BY seq DESC LIMIT 1"
    )
    return bool(db.execute(query).fetchone() == ("closed",))


def exclusions(db: sqlite3.Connection) -> Mapping[str, str]:
    """Returns the reason of every exclusion that holds now, by rater."""
    query = """
        SELECT name, kind, detail FROM journal JOIN rater ON rater.id = journal.rater
        WHERE kind IN ('excluded', 'included') ORDER BY seq
    """
    excluded: dict[str, str] = {}
    for name, kind, reason in db.execute(query):
        excluded.pop(name, None)
        if kind == "excluded":
            excluded[name] = reason
    return excluded


def log(db: sqlite3.Connection) -> Iterator[LogRow]:
    """Yields everything that happened, in order; nothing of previews."""
    query = """
        SELECT e.seq, e.at, e.kind, r.slot, r.name, e.item, e.criterion, v.value, e.attempt,
               e.clock, v.client_ms, e.uuid, ''
        FROM rating_event AS e JOIN rater AS r ON r.id = e.rater
        LEFT JOIN event_value AS v USING (seq)
        WHERE r.preview = 0
        UNION ALL
        SELECT j.seq, j.at, j.kind, coalesce(j.slot, r.slot), coalesce(r.name, ''), '', '', NULL,
               NULL, NULL, NULL, '', j.detail
        FROM journal AS j LEFT JOIN rater AS r ON r.id = j.rater
        WHERE coalesce(r.preview, 0) = 0
        ORDER BY 1
    """
    for seq, time, kind, slot, rater, item, criterion, value, *rest in db.execute(query):
        yield LogRow(
            seq,
            datetime.fromisoformat(time),
            kind,
            slot,
            rater,
            item,
            criterion,
            said(value),
            *rest,
        )


def said(value: str | None) -> Any:
    """Returns an answer from the form in which the store keeps it."""
    answer = None if value is None else json.loads(value)
    return tuple(answer) if isinstance(answer, list) else answer
