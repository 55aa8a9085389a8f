"""Who may open which pages: links, sessions, previews and the organiser's secret.

Secrets are 256 random bits. The store keeps their sha256 only, so that nobody who reads the file
can open a page with what is in it.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3

from levelfield_rating.store.journal import instant, note
from levelfield_rating.store.records import LinkState, RequestRefused

SESSIONS_OF_LINK = 500
"""How often one link can be opened."""
_LONGEST_SECRET = 200
REPLACED = "the slot was given to another person"
"""Why a replaced rater is left out of results."""


def hashed(secret: object) -> bytes:
    """Returns the hash of a secret; what can't be a secret has a hash that no secret has."""
    if not isinstance(secret, str) or len(secret) > _LONGEST_SECRET or not secret.isascii():
        return b""
    return hashlib.sha256(secret.encode()).digest()


def make_secret(db: sqlite3.Connection, time: str, kind: str, rater: int | None = None) -> str:
    secret = secrets.token_urlsafe(32)
    query = "INSERT INTO access (hash, kind, rater, made_at) VALUES (?, ?, ?, ?)"
    db.execute(query, (hashed(secret), kind, rater, time))
    return secret


def rater_of_slot(db: sqlite3.Connection, slot: int) -> int | None:
    """Returns the rater who has the slot now."""
    query = "SELECT id FROM rater WHERE slot = ? AND preview = 0 AND replaced_at IS NULL"
    row = db.execute(query, (slot,)).fetchone()
    return None if row is None else int(row[0])


def make_rater(db: sqlite3.Connection, time: str, slot: int, *, preview: bool = False) -> int:
    ((number,),) = db.execute(
        "SELECT 1 + count(*) FROM rater WHERE preview = ?", (preview,)
    ).fetchall()
    name = f"preview-{number}" if preview else f"r{number}"
    query = "INSERT INTO rater (name, slot, preview, made_at) VALUES (?, ?, ?, ?)"
    rater = db.execute(query, (name, slot, int(preview), time)).lastrowid
    assert rater is not None  # an INSERT gives one
    return rater


def make_link(db: sqlite3.Connection, time: str, slot: int) -> str:
    """Makes a link for whoever has the slot; ends an earlier one that was not used."""
    rater = rater_of_slot(db, slot)
    if rater is None:
        rater = make_rater(db, time, slot)
    db.execute(
        "UPDATE access SET revoked_at = ? WHERE rater = ? AND kind = 'link'"
        " AND used_at IS NULL AND revoked_at IS NULL",
        (time, rater),
    )
    note(db, time, "link", rater=rater)
    return make_secret(db, time, "link", rater)


def revoke(db: sqlite3.Connection, time: str, rater: int) -> None:
    """Ends links and sessions of a rater."""
    db.execute(
        "UPDATE access SET revoked_at = ? WHERE rater = ? AND revoked_at IS NULL", (time, rater)
    )
    note(db, time, "revoked", rater=rater)


def replace(db: sqlite3.Connection, time: str, rater: int, reason: str) -> None:
    """Takes the slot from a rater, whose ratings are kept but left out of results."""
    revoke(db, time, rater)
    db.execute("UPDATE rater SET replaced_at = ? WHERE id = ?", (time, rater))
    note(db, time, "excluded", rater=rater, detail=reason)


def exchange(db: sqlite3.Connection, time: str, token: str) -> str | None:
    """Makes a session for a link that is not revoked; again, another one of the same rater.

    Raises:
        RequestRefused: 429, the link has been opened too often.
    """
    query = """
        SELECT rater, used_at, made_at FROM access
        WHERE hash = ? AND kind = 'link' AND revoked_at IS NULL
    """
    row = db.execute(query, (hashed(token),)).fetchone()
    if row is None:
        return None
    rater, used_at, made_at = row
    query = "SELECT count(*) FROM access WHERE rater = ? AND kind = 'session' AND made_at >= ?"
    _check_sessions(db, query, (rater, made_at))
    if used_at is None:
        db.execute("UPDATE access SET used_at = ? WHERE hash = ?", (time, hashed(token)))
    seen = "UPDATE rater SET first_seen = ?1, last_seen = ?1 WHERE id = ?2 AND first_seen IS NULL"
    db.execute(seen, (time, rater))
    note(db, time, "opened", rater=rater)
    return make_secret(db, time, "session", rater)


def exchange_organiser(db: sqlite3.Connection, time: str, secret: str) -> str | None:
    """Makes a session for the secret of the organiser's link; see `exchange`."""
    if not is_valid(db, secret, "organiser"):
        return None
    query = """
        SELECT count(*) FROM access
        WHERE kind = 'organiser-session' AND made_at >= (SELECT made_at FROM access WHERE hash = ?)
    """
    _check_sessions(db, query, (hashed(secret),))
    return make_secret(db, time, "organiser-session")


def _check_sessions(db: sqlite3.Connection, query: str, values: tuple[object, ...]) -> None:
    ((sessions,),) = db.execute(query, values).fetchall()
    if sessions >= SESSIONS_OF_LINK:
        raise RequestRefused(429, f"a link can be opened {SESSIONS_OF_LINK:,} times")


def rater_of_session(db: sqlite3.Connection, secret: str) -> str | None:
    query = """
        SELECT name FROM access JOIN rater ON rater.id = access.rater
        WHERE hash = ? AND kind = 'session' AND revoked_at IS NULL
    """
    row = db.execute(query, (hashed(secret),)).fetchone()
    return None if row is None else str(row[0])


def is_valid(db: sqlite3.Connection, secret: str, kind: str) -> bool:
    query = "SELECT 1 FROM access WHERE hash = ? AND kind = ? AND revoked_at IS NULL"
    return db.execute(query, (hashed(secret), kind)).fetchone() is not None


def link_of_slot(db: sqlite3.Connection, slot: int) -> LinkState:
    """Returns the furthest a link of the slot's rater has come: used, made, revoked, none."""
    query = """
        SELECT name, kind, access.used_at, access.made_at, access.revoked_at
        FROM rater LEFT JOIN access ON access.rater = rater.id AND kind = 'link'
        WHERE slot = ? AND preview = 0 AND replaced_at IS NULL
    """
    state = LinkState(slot, "", "none", None)
    for name, kind, used_at, made_at, revoked_at in db.execute(query, (slot,)):
        if kind is None:
            link = LinkState(slot, name, "none", None)
        elif revoked_at is not None:
            link = LinkState(slot, name, "revoked", instant(revoked_at))
        elif used_at is not None:
            link = LinkState(slot, name, "used", instant(used_at))
        else:
            link = LinkState(slot, name, "made", instant(made_at))
        state = max(state, link, key=_progress)
    return state


def _progress(link: LinkState) -> tuple[int, bool, str]:
    rank = ("none", "revoked", "made", "used").index(link.state)
    return rank, link.rater != "", str(link.when)
