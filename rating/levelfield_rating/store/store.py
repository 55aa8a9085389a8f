"""The store of a rating study: one SQLite file in which nothing acknowledged is ever lost.

A call that writes returns after the transaction is on the disk, or raises and has changed nothing.
Answers are appended, never changed; the current ones are a view of them: for each rater, item and
criterion the event with the largest (clock, seq). Withdrawal is the one exception: it deletes a
rater's answers, and keeps only that there were some.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path

from levelfield_rating.model import Frozen
from levelfield_rating.store import access, journal, people
from levelfield_rating.store.database import Database
from levelfield_rating.store.erasure import Eraser, note_erasure, noted_erasure
from levelfield_rating.store.events import record as record_events
from levelfield_rating.store.records import (
    Event,
    LinkState,
    LogRow,
    Phase,
    RaterState,
    RequestRefused,
    Saved,
    StoreError,
)
from levelfield_rating.store.study import (
    StoredStudy,
    put_study,
    stored_study,
    study_number,
)

Clock = Callable[[], datetime]


class RatingStore:
    """A store that is open. `RatingStore.create` and `RatingStore.open` make one.

    Any thread may call any method; every process opens the file for itself. What raters do raises
    `RequestRefused`, what the organiser does `StoreError`, and both `StoreUnavailable` if the disk
    says no, with nothing changed.
    """

    def __init__(self, database: Database, *, now: Clock = journal.utc_now) -> None:
        self._database = database
        self._now = now
        self._study: StoredStudy | None = None
        self._eraser = Eraser(database)
        with database.reading() as db:
            self._current(db)
        self.is_erasing()

    @classmethod
    def create(cls, path: Path, frozen: Frozen, *, now: Clock = journal.utc_now) -> RatingStore:
        """Opens the store of this study, or makes it.

        Each freezing of a study draws new opaque ids: if the store has the same study, raters see
        the stored one. Another study replaces it as long as nobody has rated; raters and their
        links stay, and everybody begins again at the welcome.

        Raises:
            StoreError: the store has ratings of another study, is none, or can't be made.
        """
        database = Database(path, create=True)
        try:
            with database.writing() as db:
                put_study(db, path, frozen, journal.stamp(now()))
            return cls(database, now=now)
        except BaseException:
            database.close()
            raise

    @classmethod
    def open(
        cls, path: Path, *, read_only: bool = False, now: Clock = journal.utc_now
    ) -> RatingStore:
        """Opens the store that is there.

        Raises:
            StoreError: there is none.
        """
        database = Database(path, read_only=read_only)
        try:
            return cls(database, now=now)
        except BaseException:
            database.close()
            raise

    def close(self) -> None:
        self._eraser.close()
        self._database.close()

    @property
    def path(self) -> Path:
        return self._database.path

    @property
    def frozen(self) -> Frozen:
        """The study as it is rated."""
        assert self._study is not None  # read when the store was opened
        return self._study.frozen

    @property
    def server_key(self) -> bytes:
        """32 bytes of this store alone, by which cookies are named; they survive a restart."""
        with self._database.reading() as db:
            ((key,),) = db.execute("SELECT value FROM setting WHERE name = 'server_key'").fetchall()
        return bytes(key)

    # Links

    def new_link(self, slot: int) -> str:
        """Makes a token for whoever has the slot; ends an earlier one that was not used."""
        with self._writing() as (db, time):
            return access.make_link(db, time, self._slot(slot))

    def revoke(self, slot: int) -> None:
        """Ends the links and sessions of who has the slot."""
        with self._writing() as (db, time):
            rater = access.rater_of_slot(db, self._slot(slot))
            if rater is not None:
                access.revoke(db, time, rater)

    def reassign(self, slot: int) -> str:
        """Makes a token for a new person; excludes the old one, whose ratings are kept."""
        with self._writing() as (db, time):
            rater = access.rater_of_slot(db, self._slot(slot))
            if rater is not None:
                access.replace(db, time, rater, access.REPLACED)
            token = access.make_link(db, time, slot)
            journal.note(db, time, "reassigned", rater=access.rater_of_slot(db, slot))
            return token

    def links(self) -> list[LinkState]:
        """Returns the link of every slot."""
        with self._reading() as db:
            return [access.link_of_slot(db, slot) for slot in range(len(self.frozen.slots))]

    def exchange(self, token: str) -> str | None:
        """Returns a session's secret for a link's token; None if the link is unknown or revoked.

        Raises:
            RequestRefused: 429, it has been opened too often.
        """
        if not self._is_valid(token, "link"):  # don't wait for the disk to turn a stranger away
            return None
        with self._writing() as (db, time):
            return access.exchange(db, time, token)

    def session(self, secret: str) -> str | None:
        """Returns whose session it is; None if it is unknown or revoked."""
        with self._reading() as db:
            return access.rater_of_session(db, secret)

    def preview(self, slot: int) -> str:
        """Returns a session's secret of a rater who is in no result, export or log."""
        with self._writing() as (db, time):
            rater = access.make_rater(db, time, self._slot(slot), preview=True)
            return access.make_secret(db, time, "session", rater)

    # Raters

    def state(self, rater: str) -> RaterState:
        """Returns the state of a rater.

        Raises:
            RequestRefused: 404, there is no such rater.
        """
        with self._reading() as db:
            return people.state(db, self._current(db), people.person(db, rater))

    def consent(self, rater: str, version: str) -> None:
        """Records the rater's consent to this version of the agreement.

        Raises:
            RequestRefused: 409, the agreement has another version.
        """
        with self._writing() as (db, time):
            people.consent(db, self._current(db), time, people.person(db, rater), version)

    def withdraw(self, rater: str) -> None:
        """Deletes a rater's answers for good, from the file too, even in a closed study.

        While another process reads the store, `is_erasing` is true and the file still has it.
        """
        with self._writing() as (db, time):
            people.withdraw(db, time, people.person(db, rater))
            note_erasure(db)
        self._eraser.erase()

    def is_erasing(self) -> bool:
        """Returns whether the file may still have deleted answers, and goes on erasing them."""
        pending = self._eraser.is_pending()
        if pending and not self._database.read_only:
            self._eraser.go_on()
        return pending

    def enter(self, rater: str, phase: Phase) -> RaterState:
        """Goes on to a phase: to rating when practice is finished, to done when all is rated.

        Phases of which the study has nothing are passed over. Entering the phase one is in changes
        nothing. The one way back is from review to rating.

        Raises:
            RequestRefused: 409, or 429 after very many ways there and back.
        """
        with self._writing() as (db, time):
            study = self._current(db)
            people.enter(db, study, time, people.person(db, rater), phase)
            return people.state(db, study, people.person(db, rater))

    def record(self, rater: str, events: Sequence[Event]) -> list[Saved]:
        """Writes events of a rater, all of them or none.

        An event that already exists, sent again with an equal body, is answered as it was then,
        at any time. The events of one call about one practice item are one try at it.

        Raises:
            RequestRefused: 403, 404, 409, 422 or 429.
        """
        with self._writing() as (db, time):
            return record_events(db, self._current(db), time, rater, events)

    def raters(self) -> list[RaterState]:
        """Returns all who were given a link, replaced and withdrawn ones included; no previews."""
        with self._reading() as db:
            study = self._current(db)
            names = db.execute("SELECT name FROM rater WHERE preview = 0 ORDER BY id").fetchall()
            return [people.state(db, study, people.person(db, name)) for (name,) in names]

    # The organiser

    def exclude(self, rater: str, reason: str) -> None:
        """Leaves a rater out of results."""
        self._decide("excluded", rater, reason)

    def include(self, rater: str, reason: str) -> None:
        """Takes an exclusion back."""
        self._decide("included", rater, reason)

    def excluded(self) -> Mapping[str, str]:
        """Returns the reason of every exclusion that holds now, by rater."""
        with self._reading() as db:
            return journal.exclusions(db)

    def log(self) -> Iterator[LogRow]:
        """Yields everything that happened, in order, as of one moment; nothing of previews."""
        with self._reading() as db:
            rows = list(journal.log(db))
        yield from rows

    def backup(self, to: Path) -> None:
        """Copies the store to one file, as of one moment, while others write.

        Raises:
            StoreError: something already exists, or it can't be written.
        """
        self._database.backup(to)

    def closed(self) -> bool:
        with self._reading() as db:
            return journal.is_closed(db)

    def close_study(self, reason: str) -> None:
        """Ends the rating: from now on raters change nothing, but may withdraw."""
        self._open_or_close("closed", reason)

    def reopen(self, reason: str) -> None:
        self._open_or_close("reopened", reason)

    def organiser_secret(self) -> str:
        """Makes a secret for the organiser's link; ends the one before, but no session."""
        with self._writing() as (db, time):
            query = """
                UPDATE access SET revoked_at = ? WHERE kind = 'organiser' AND revoked_at IS NULL
            """
            db.execute(query, (time,))
            return access.make_secret(db, time, "organiser")

    def is_organiser(self, secret: str) -> bool:
        """Returns whether it is the secret of the organiser's link."""
        return self._is_valid(secret, "organiser")

    def organiser_exchange(self, secret: str) -> str | None:
        """Returns a session's secret for the organiser's; None if that is not valid.

        Raises:
            RequestRefused: 429, it has been opened too often.
        """
        if not self.is_organiser(secret):
            return None
        with self._writing() as (db, time):
            return access.exchange_organiser(db, time, secret)

    def organiser_session(self, secret: str) -> bool:
        """Returns whether it is the secret of an organiser's session."""
        return self._is_valid(secret, "organiser-session")

    def end_organiser_sessions(self) -> None:
        """Signs the organiser out everywhere."""
        with self._writing() as (db, time):
            query = """
                UPDATE access SET revoked_at = ?
                WHERE kind = 'organiser-session' AND revoked_at IS NULL
            """
            db.execute(query, (time,))

    def _is_valid(self, secret: str, kind: str) -> bool:
        with self._reading() as db:
            return access.is_valid(db, secret, kind)

    def _decide(self, kind: str, rater: str, reason: str) -> None:
        if not reason.strip():
            raise StoreError(f"say why {rater} is {kind}; the reason is kept in the log")
        with self._writing() as (db, time):
            try:
                who = people.person(db, rater)
            except RequestRefused as error:
                raise StoreError(f"there is no rater {rater!r}") from error
            journal.note(db, time, kind, rater=who.id, detail=reason)

    def _open_or_close(self, kind: str, reason: str) -> None:
        with self._writing() as (db, time):
            if journal.is_closed(db) != (kind == "closed"):
                journal.note(db, time, kind, detail=reason)

    def _slot(self, slot: int) -> int:
        if not 0 <= slot < len(self.frozen.slots):
            raise StoreError(f"there is no slot {slot}; the study has {len(self.frozen.slots)}")
        return slot

    def _current(self, db: sqlite3.Connection) -> StoredStudy:
        """Returns the study, read again only if another process has put another in its place."""
        number = study_number(db)
        if number is None:
            raise StoreError(f"{self.path} has no study; `levelfield rate serve` adds one")
        if self._study is None or self._study.id != number:
            self._study = stored_study(db, self.path, number)
        return self._study

    def _reading(self) -> AbstractContextManager[sqlite3.Connection]:
        return self._database.reading()

    @contextmanager
    def _writing(self) -> Iterator[tuple[sqlite3.Connection, str]]:
        with self._database.writing() as db:
            self._current(db)
            pending = noted_erasure(db) is not None  # by another process, perhaps
            yield db, journal.stamp(self._now())
        if pending:
            self._eraser.go_on()
