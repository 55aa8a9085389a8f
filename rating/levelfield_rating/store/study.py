"""The study in a store: whose opaque id is which item, what follows what, what replaces it."""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from levelfield_rating.model import Frozen, Practice, RatingCriterion
from levelfield_rating.store import access, journal
from levelfield_rating.store.records import Phase, StoreError

ORDER: tuple[Phase, ...] = (
    "welcome",
    "instructions",
    "examples",
    "practice",
    "rating",
    "review",
    "done",
)


@dataclass(frozen=True)
class StoredStudy:
    """A frozen study under its number in the store."""

    id: int
    frozen: Frozen

    @cached_property
    def criteria(self) -> Mapping[str, RatingCriterion]:
        return {criterion.id: criterion for criterion in self.frozen.criteria}

    @cached_property
    def practice(self) -> Mapping[str, Practice]:
        return {practice.opaque: practice for practice in self.frozen.practice}

    @cached_property
    def _keys(self) -> tuple[Mapping[str, str], ...]:
        return tuple(
            {placed.opaque: placed.item for placed in slot.items} for slot in self.frozen.slots
        )

    def key(self, slot: int, opaque: str) -> str | None:
        """Returns the item that a slot's rater knows by this id; None if there is none."""
        return self._keys[slot].get(opaque) if slot < len(self._keys) else None

    def keys(self, slot: int) -> frozenset[str]:
        """Returns the items of a slot; none if the study has no such slot any more."""
        return frozenset(self._keys[slot].values() if slot < len(self._keys) else ())

    def reached(self, now: Phase, target: Phase) -> Phase | None:
        """Returns the phase that going on to `target` leads to; None if there is no such way.

        Phases that are empty in the study (no examples, no practice) are skipped.
        """
        if now == "withdrawn" or target not in ORDER:
            return None
        if now == "review" and target == "rating":
            return target
        start, end = ORDER.index(now), ORDER.index(target)
        while self._is_empty(ORDER[end]):
            end += 1
        open_between = any(not self._is_empty(phase) for phase in ORDER[start + 1 : end])
        return ORDER[end] if start <= end and not open_between else None

    def _is_empty(self, phase: Phase) -> bool:
        return (phase == "examples" and not self.frozen.examples) or (
            phase == "practice" and not self.frozen.practice
        )


def differences(stored: Frozen, frozen: Frozen) -> list[str]:
    """Returns the names of the parts that differ between two studies; none for the same study.

    Opaque ids don't count: each freezing of a study draws new ones. Nor does the allocation, if
    both were made from the same files: a later version of this package may allocate otherwise,
    and the stored allocation remains valid.
    """
    before, after = _comparable(stored), _comparable(frozen)
    differing = [name for name in before if before[name] != after[name]]
    if stored.source_digest and stored.source_digest == frozen.source_digest:
        return [name for name in differing if name not in ("items", "slots", "samples", "format")]
    return differing


def _comparable(frozen: Frozen) -> dict[str, Any]:
    raw = asdict(frozen)
    for placed in [
        *(placed for slot in raw["slots"] for placed in slot["items"]),
        *raw["practice"],
    ]:
        placed["opaque"] = ""
    return raw


def study_number(db: sqlite3.Connection) -> int | None:
    """Returns the number of the study that is rated; None if the store has none."""
    ((number,),) = db.execute("SELECT max(id) FROM study").fetchall()
    return None if number is None else int(number)


def stored_study(db: sqlite3.Connection, path: Path, number: int) -> StoredStudy:
    """Reads the study of this number.

    Raises:
        StoreError: a later version wrote it, or it is damaged.
    """
    query = "SELECT document, digest FROM study WHERE id = ?"
    ((document, digest),) = db.execute(query, (number,)).fetchall()
    return StoredStudy(number, _frozen(path, document, digest))


def _frozen(path: Path, document: str, digest: str) -> Frozen:
    if hashlib.sha256(document.encode()).hexdigest() != digest:
        raise StoreError(f"{path} is damaged: its study is not as it was frozen; use a backup")
    try:
        return Frozen.from_document(document)
    except ValueError as error:
        raise StoreError(f"{path}: {error}") from error


def put_study(db: sqlite3.Connection, path: Path, frozen: Frozen, time: str) -> None:
    """Puts a study into a store; another one takes its place while nobody has rated.

    Raises:
        StoreError: the store has ratings of another study.
    """
    row = db.execute("SELECT document, digest FROM study ORDER BY id DESC LIMIT 1").fetchone()
    if row is None:
        key = secrets.token_bytes(32)
        db.execute("INSERT INTO setting VALUES ('server_key', ?)", (key,))
    else:
        stored = _frozen(path, *row)
        differing = differences(stored, frozen)
        if not differing:
            return
        if _has_ratings(db):
            raise StoreError(
                f"{path} has ratings of this study as it was (changed since: "
                f"{', '.join(differing)}); restore the study file, or give it `version = "
                f"{stored.version + 1}` and a store of its own"
            )
        _begin_again(db, time, len(frozen.slots))
    values = (frozen.digest, frozen.document(), time)
    db.execute("INSERT INTO study (digest, document, at) VALUES (?, ?, ?)", values)
    journal.note(db, time, "study", detail=frozen.digest)


def _has_ratings(db: sqlite3.Connection) -> bool:
    query = """
        SELECT 1 FROM rating_event JOIN rater ON rater.id = rating_event.rater
        WHERE preview = 0 AND kind <> 'practice' LIMIT 1
    """
    return db.execute(query).fetchone() is not None


def _begin_again(db: sqlite3.Connection, time: str, slots: int) -> None:
    """Sends everybody who has a slot back to the welcome; ends previews."""
    db.execute(
        "UPDATE access SET revoked_at = ? WHERE revoked_at IS NULL"
        " AND rater IN (SELECT id FROM rater WHERE preview = 1)",
        (time,),
    )
    db.execute(
        "UPDATE rater SET phase = 'welcome', completion_code = '' WHERE phase <> 'withdrawn'"
    )
    query = "SELECT id FROM rater WHERE preview = 0 AND replaced_at IS NULL AND slot >= ?"
    for (rater,) in db.execute(query, (slots,)).fetchall():
        access.replace(db, time, rater, "the study has fewer slots now")
