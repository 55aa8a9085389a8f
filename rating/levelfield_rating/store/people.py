"""Raters: their state, progress, and what they may still do."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, replace

from levelfield_rating.answers import TRIES, Answer, passes
from levelfield_rating.store.journal import instant, is_closed, note, said
from levelfield_rating.store.records import Phase, RaterState, RequestRefused
from levelfield_rating.store.study import StoredStudy

PHASES_OF_RATER = 1_000
"""How often a rater can go on to a phase, or back."""
_CODE_LETTERS = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
"""Without what is misread: 0 and O, 1 and I."""
_CODE_LENGTH = 12
_PREVIEW_CODE = "PREVIEW"


@dataclass(frozen=True)
class Person:
    """A rater's row."""

    id: int
    name: str
    slot: int
    preview: bool
    phase: Phase
    consent: str
    completion_code: str
    first_seen: str | None
    last_seen: str | None
    replaced: bool


def person(db: sqlite3.Connection, rater: str) -> Person:
    """Returns the rater of this name.

    Raises:
        RequestRefused: 404, there is none.
    """
    query = """
        SELECT id, name, slot, preview, phase, consent, completion_code, first_seen, last_seen,
               replaced_at IS NOT NULL
        FROM rater WHERE name = ?
    """
    row = db.execute(query, (rater,)).fetchone()
    if row is None:
        raise RequestRefused(404, "there is no such rater")
    return replace(Person(*row), preview=bool(row[3]), replaced=bool(row[-1]))


def may_write(db: sqlite3.Connection, who: Person) -> None:
    """Raises `RequestRefused` if the rater may not write any more."""
    if who.replaced:
        raise RequestRefused(403, "this link is no longer yours")
    if who.phase == "withdrawn":
        raise RequestRefused(409, "you have withdrawn from the study")
    if is_closed(db) and not who.preview:
        raise RequestRefused(403, "the study is closed")


def touch(db: sqlite3.Connection, rater: int, time: str) -> None:
    """Records that somebody was active now."""
    query = "UPDATE rater SET first_seen = coalesce(first_seen, ?1), last_seen = ?1 WHERE id = ?2"
    db.execute(query, (time, rater))


def largest_clock(db: sqlite3.Connection, rater: int) -> int:
    query = "SELECT coalesce(max(clock), 0) FROM rating_event WHERE rater = ?"
    ((clock,),) = db.execute(query, (rater,)).fetchall()
    return int(clock)


def practice_tries(
    db: sqlite3.Connection, study: StoredStudy, rater: int
) -> dict[str, tuple[int, bool]]:
    """Returns practice item -> (tries used, passed); items not tried are left out."""
    query = """
        SELECT item, attempt, criterion, value FROM rating_event JOIN event_value USING (seq)
        WHERE rater = ? AND kind = 'practice'
    """
    answers: dict[str, dict[int, dict[str, Answer]]] = {}
    for item, attempt, criterion, value in db.execute(query, (rater,)):
        if item in study.practice:
            answers.setdefault(item, {}).setdefault(attempt, {})[criterion] = said(value)
    return {
        item: (
            max(tries),
            any(passes(study.practice[item].accept, t) for t in tries.values()),
        )
        for item, tries in answers.items()
    }


def state(db: sqlite3.Connection, study: StoredStudy, who: Person) -> RaterState:
    """Returns the state of a rater."""
    keys = study.keys(who.slot)
    answers: dict[str, dict[str, Answer]] = {}
    comments: dict[str, str] = {}
    problems = set()
    query = "SELECT kind, item, criterion, value FROM current_rating WHERE rater = ? ORDER BY seq"
    for kind, item, criterion, value in db.execute(query, (who.id,)):
        if item not in keys:  # of a study that was replaced before anybody rated: a preview's
            continue
        if kind == "rating":
            answers.setdefault(item, {})[criterion] = said(value)
        elif kind == "comment" and said(value):
            comments[item] = said(value)
        elif kind == "problem" and said(value):
            problems.add(item)
    return RaterState(
        slot=who.slot,
        rater=who.name,
        phase=who.phase,
        consent=who.consent,
        answers=answers,
        comments=comments,
        problems=frozenset(problems),
        practice=practice_tries(db, study, who.id),
        clock=largest_clock(db, who.id),
        first_seen=instant(who.first_seen),
        last_seen=instant(who.last_seen),
        completion_code=who.completion_code,
        preview=who.preview,
        replaced=who.replaced,
    )


def consent(
    db: sqlite3.Connection, study: StoredStudy, time: str, who: Person, version: str
) -> None:
    """Writes down that they agreed; again says nothing new."""
    may_write(db, who)
    if version != study.frozen.consent_version:
        raise RequestRefused(409, "the agreement has changed; read it again")
    if who.consent != version:
        db.execute("UPDATE rater SET consent = ? WHERE id = ?", (version, who.id))
        note(db, time, "consent", rater=who.id, detail=version)
    touch(db, who.id, time)


def enter(
    db: sqlite3.Connection, study: StoredStudy, time: str, who: Person, target: Phase
) -> None:
    """Goes on to a phase, or back from review to rating.

    Raises:
        RequestRefused: 409, something before it is not finished, or there is no such way; 429, they
            went there and back too often.
    """
    may_write(db, who)
    reached = study.reached(who.phase, target)
    if reached is None:
        raise RequestRefused(409, f"there is no way from {who.phase} to {target}")
    if reached != who.phase:
        _check_finished(db, study, who, reached)
        query = "SELECT count(*) FROM journal WHERE kind = 'phase' AND rater = ?"
        ((phases,),) = db.execute(query, (who.id,)).fetchall()
        if phases >= PHASES_OF_RATER and reached == "rating":  # nobody is kept from the end
            raise RequestRefused(429, f"a rater can change phase {PHASES_OF_RATER:,} times")
        query = "UPDATE rater SET phase = ? WHERE id = ?"
        db.execute(query, (reached, who.id))
        note(db, time, "phase", rater=who.id, detail=reached)
        if reached == "done":
            code = _completion_code(study, who)
            db.execute("UPDATE rater SET completion_code = ? WHERE id = ?", (code, who.id))
    touch(db, who.id, time)


def _check_finished(
    db: sqlite3.Connection, study: StoredStudy, who: Person, reached: Phase
) -> None:
    frozen = study.frozen
    agreed = who.consent == frozen.consent_version or not frozen.words.consent.strip()
    if not agreed:
        raise RequestRefused(409, "agree first")
    if reached == "rating" and who.phase != "review":
        used = practice_tries(db, study, who.id)
        for item in study.practice:
            count, passed = used.get(item, (0, False))
            if not passed and count < TRIES:
                raise RequestRefused(409, "practise first")
    if reached == "done":
        answers: Mapping[str, Mapping[str, Answer]] = state(db, study, who).answers
        criteria = study.criteria.keys()
        open_items = sum(answers.get(key, {}).keys() < criteria for key in study.keys(who.slot))
        if open_items:
            raise RequestRefused(409, f"{open_items:,} texts are not fully rated")


def _completion_code(study: StoredStudy, who: Person) -> str:
    if who.preview:
        return _PREVIEW_CODE
    if study.frozen.completion != "random":
        return study.frozen.completion
    return "".join(secrets.choice(_CODE_LETTERS) for _ in range(_CODE_LENGTH))


def withdraw(db: sqlite3.Connection, time: str, who: Person) -> None:
    """Deletes a rater's answers; keeps that there were some, when and about what."""
    if who.phase == "withdrawn":
        return
    db.execute("UPDATE rater SET phase = 'withdrawn', consent = '' WHERE id = ?", (who.id,))
    db.execute(
        "DELETE FROM event_value WHERE seq IN (SELECT seq FROM rating_event WHERE rater = ?)",
        (who.id,),
    )
    note(db, time, "withdrawn", rater=who.id)
    touch(db, who.id, time)
