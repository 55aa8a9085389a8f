"""The SQLite file under the store: connections, transactions, numbered migrations, backup."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from levelfield.io.writing import temporary_folder
from levelfield_rating.store.records import StoreError, StoreUnavailable

_APPLICATION = 0x4C465254
"""Marks the file as ours: `LFRT`."""
_OLDEST = (3, 37, 0)
"""The first SQLite with strict tables."""
_PATIENCE_S = 20.0
_MIGRATION = re.compile(r"(\d{4})\.sql")


def migrations() -> list[str]:
    """Returns the SQL that leads from each version of the store to the next, oldest first."""
    folder = files("levelfield_rating.store") / "migrations"
    numbered = sorted(entry.name for entry in folder.iterdir() if _MIGRATION.fullmatch(entry.name))
    return [(folder / name).read_text(encoding="utf-8") for name in numbered]


class Database:
    """A store's file; one connection for each call under way, one writer at a time.

    What SQLite says of a disk or a lock becomes `StoreUnavailable`; every transaction is then
    rolled back.

    Args:
        create: makes the file, readable by its owner only, if it isn't there.
        read_only: writes are `StoreUnavailable`.

    Raises:
        StoreError: no such file, not a store, or made by a later version.
        StoreUnavailable: it can't be read, or a new one can't be written.
    """

    def __init__(self, path: Path, *, create: bool = False, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self._idle: list[sqlite3.Connection] = []
        self._guard = threading.Lock()
        self._writer = threading.Lock()
        self._closed = False
        if sqlite3.sqlite_version_info < _OLDEST:
            raise StoreError(
                f"the store needs SQLite {'.'.join(map(str, _OLDEST))} or later, and this Python "
                f"has {sqlite3.sqlite_version}"
            )
        try:
            if create and not path.exists():
                os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
                _sync(path.parent)
            elif not path.is_file():
                raise StoreError(
                    f"{path}: no such store; `levelfield rate serve` creates it from the study file"
                )
            self._file = _identity(path)
        except OSError as error:
            raise StoreError(f"{path}: the store can't be made: {error.strerror}") from error
        try:
            with _explained(path), self._connection() as db:
                _migrate(db, path, read_only=read_only)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes all connections; no other call may be under way."""
        with self._guard:
            self._closed = True
            for connection in self._idle:
                connection.close()
            self._idle.clear()

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yields a connection that sees one consistent state of the store."""
        with _explained(self.path), self._connection() as db:
            db.execute("BEGIN")
            try:
                yield db
            finally:
                _roll_back(db)

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yields a transaction that is on the disk when the block is left, or never happened."""
        if self.read_only:
            raise StoreUnavailable(f"{self.path} is opened for reading only")
        self._check_in_place()
        with _explained(self.path), self._writer, self._connection() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            finally:
                _roll_back(db)

    def backup(self, to: Path) -> None:
        """Copies the store to one file, as of one moment, while others write.

        Raises:
            StoreError: there is something at `to`, or it can't be written.
        """
        with contextlib.ExitStack() as stack:
            try:
                part = stack.enter_context(temporary_folder(to.parent)) / "store"
                os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            except OSError as error:
                raise StoreError(f"{to}: the backup can't be made: {error.strerror}") from error
            self._copy(part, to)

    def _copy(self, part: Path, to: Path) -> None:
        try:
            with (
                self._connection() as db,
                contextlib.closing(sqlite3.connect(part, isolation_level=None)) as copy,
            ):
                db.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")
                ((verdict,),) = copy.execute("PRAGMA quick_check(1)").fetchall()
            if verdict != "ok":
                raise StoreError(f"{to}: the copy is damaged ({verdict}), and so may the store be")
            _sync(part)
            if to.exists():
                raise FileExistsError
            part.replace(to)
            _sync(to.parent)
        except FileExistsError as error:
            raise StoreError(f"{to} already exists; name a new file for the backup") from error
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{to}: the backup can't be written: {error}") from error

    def empty_log(self, patience_s: float) -> bool:
        """Brings the write-ahead log into the file and empties it; returns whether that was done.

        It can't be while another connection reads. Nobody can write while this one waits.
        """
        try:
            with self._connection() as db:
                db.execute(f"PRAGMA busy_timeout = {patience_s * 1000:.0f}")
                try:
                    ((busy, *_),) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                finally:
                    db.execute(f"PRAGMA busy_timeout = {_PATIENCE_S * 1000:.0f}")
        except sqlite3.Error:
            return False
        return not busy

    def _check_in_place(self) -> None:
        """Refuses a file that was moved away or deleted, to which SQLite would go on writing."""
        try:
            in_place = _identity(self.path) == self._file
        except OSError:
            in_place = False
        if not in_place:
            raise StoreUnavailable(
                f"{self.path} was moved, deleted or replaced while it was open; put it back"
            )

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Yields a connection for this call alone.

        None belongs to a thread: threads of a server come and go, and would leave theirs open.
        """
        with self._guard:
            if self._closed:
                raise StoreUnavailable(f"{self.path} is closed")
            connection = self._idle.pop() if self._idle else None
        connection = connection or _connect(self.path, read_only=self.read_only)
        try:
            yield connection
        finally:
            with self._guard:
                if self._closed:
                    connection.close()
                else:
                    self._idle.append(connection)


def _connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    query = "?mode=rw"
    if read_only:
        # a file that nobody writes and whose folder can't be written has no log to share
        alone = not path.with_name(path.name + "-wal").exists()
        still = alone and not os.access(path.parent, os.W_OK)
        query = "?mode=ro&immutable=1" if still else "?mode=ro"
    db = sqlite3.connect(
        path.absolute().as_uri() + query,
        uri=True,
        timeout=_PATIENCE_S,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        for pragma in ("foreign_keys", "recursive_triggers", "secure_delete"):
            db.execute(f"PRAGMA {pragma} = ON")
        db.execute("PRAGMA synchronous = FULL")
        if not read_only:
            _keep_log(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _keep_log(db: sqlite3.Connection, path: Path) -> None:
    """Turns the write-ahead log on; SQLite doesn't wait by itself while another process does it."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            ((mode,),) = db.execute("PRAGMA journal_mode = WAL").fetchall()
            break
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    if mode != "wal":
        raise StoreError(
            f"{path}: no write-ahead log can be kept there, as on network folders; put the store "
            "on a local disk"
        )


def _migrate(db: sqlite3.Connection, path: Path, *, read_only: bool) -> None:
    steps = migrations()
    for _ in steps:
        db.execute("BEGIN")  # of one moment: another process may be making the store
        try:
            version = _version(db, path, latest=len(steps))
        finally:
            _roll_back(db)
        if version == len(steps):
            return
        if read_only:
            raise StoreError(
                f"{path} was made by an earlier version; open it once with `levelfield rate serve`"
            )
        db.execute("BEGIN IMMEDIATE")
        try:
            version = _version(db, path, latest=len(steps))  # another process may have been faster
            if version < len(steps):
                for statement in _statements(steps[version]):
                    db.execute(statement)
                db.execute(f"PRAGMA application_id = {_APPLICATION}")
                db.execute(f"PRAGMA user_version = {version + 1}")
            db.execute("COMMIT")
        finally:
            _roll_back(db)


def _version(db: sqlite3.Connection, path: Path, *, latest: int) -> int:
    ((application,),) = db.execute("PRAGMA application_id").fetchall()
    ((version,),) = db.execute("PRAGMA user_version").fetchall()
    ((tables,),) = db.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    if application != _APPLICATION and (application or version or tables):
        raise StoreError(f"{path} is a database, but not a store of ratings; name another file")
    if version > latest:
        raise StoreError(
            f"{path} has version {version} of the store, and this levelfield supports {latest}; "
            "use the version of levelfield that it was served with, or a later one"
        )
    return int(version)


def _statements(script: str) -> Iterator[str]:
    """Yields the statements of a script, those of triggers whole."""
    collected = ""
    for line in script.splitlines(keepends=True):
        collected += line
        if sqlite3.complete_statement(collected):
            yield collected
            collected = ""
    if collected.strip():
        raise ValueError(f"a migration ends in the middle of a statement: {collected[:80]!r}")


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        if isinstance(error, UnicodeDecodeError) or str(error).startswith("Could not decode"):
            raise StoreError(f"{path} is damaged: it holds text that is not UTF-8") from error
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            raise StoreError(f"{path} is damaged or is not a store of ratings: {error}") from error
        if isinstance(error, sqlite3.OperationalError) and code != sqlite3.SQLITE_ERROR:
            raise StoreUnavailable(f"{path}: {error}") from error
        raise


def _roll_back(db: sqlite3.Connection) -> None:
    with contextlib.suppress(sqlite3.Error):
        if db.in_transaction:
            db.execute("ROLLBACK")


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
