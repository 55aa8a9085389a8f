"""The segment cache: values of samples under signatures, kept between runs and processes.

A value is looked up by a hash of the metric's signature and the fields of the sample that the
metric reads, so that equal samples are scored once whatever their ids, and a run that was
interrupted goes on where it stopped. SQLite in WAL mode: several processes may use one cache.
Every row has a checksum, since SQLite has none: a text whose row fails it is scored again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.core.strings import one_line
from levelfield.io.writing import FULL, user_cache

_SCHEMA = 2
_INFINITE = "the value is infinite"
"""The reason of earlier versions, which kept no infinite value; such a text is scored again."""
_WITHOUT_CHECKSUMS = 1
_PATIENCE_S = 60.0
_COLUMNS = "key, metric, value, undefined, cut, parts"
_TABLE = """
CREATE TABLE IF NOT EXISTS segments (
    key BLOB PRIMARY KEY, metric TEXT, value REAL, undefined TEXT, cut INTEGER, parts BLOB,
    checksum BLOB
) WITHOUT ROWID
"""
_MEND = "`levelfield cache clear` removes it"
_NOT_OF_THE_FILE = (
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
)
"""Errors of a folder, a disk or rights, which no other content of the file would mend."""
_ERRORS = (sqlite3.Error, MemoryError, UnicodeDecodeError)
"""What comes of a damaged file; the last if SQLite's message names what is in it."""


class CacheError(UserError):
    """The cache can't be used; scoring goes on without it."""


class Segment(NamedTuple):
    """What is kept of one sample: NaN is stored as null, with its reason."""

    value: float | None
    undefined: str | None
    cut: bool
    parts: list[tuple[str, float, float]] | None


class Contents(NamedTuple):
    """What a cache holds: metric -> values, and its size on disk."""

    segments: Mapping[str, int]
    bytes: int


def cache_path() -> Path:
    """The cache's file: in `$LEVELFIELD_CACHE`, else in the user's cache folder."""
    return user_cache() / "segments.sqlite"


def sample_key(signature: str, sample: Sample, fields: frozenset[str]) -> bytes:
    """16 bytes that stand for what a metric with this signature reads of a sample."""
    read = {name: getattr(sample, name) for name in sorted(fields)}
    return hashlib.blake2b(_ENCODE([signature, read]).encode(), digest_size=16).digest()


def _plain(value: object) -> object:
    """A value of a sample's field that JSON has no form for: a mapping, or a table's date, say."""
    return dict(value) if isinstance(value, Mapping) else f"{type(value).__name__}:{value!r}"


_ENCODE = json.JSONEncoder(sort_keys=True, default=_plain).encode


class SegmentCache:
    """A cache file, open for reading and writing.

    Attributes:
        failure: why the last values could not be kept; empty while all is well.
        damaged: number of rows found so far that are not as they were written.
        adopted: number of values of a version without checksums that got theirs at this opening.

    Raises:
        CacheError: the file can't be made or is not a cache of ours.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failure = ""
        self.damaged = self.adopted = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=_PATIENCE_S, isolation_level=None)
        except (OSError, *_ERRORS) as error:
            raise _unusable(path, "used", error) from error
        try:
            # bytes that are not UTF-8 are damage to one row, not to all that are read with it
            self._db.text_factory = lambda raw: raw.decode("utf-8", "replace")
            _wait_for_turn(lambda: self._db.execute("PRAGMA journal_mode = WAL"))
            self._db.execute("PRAGMA synchronous = NORMAL")
            if self._schema() != _SCHEMA:
                with self._transaction():
                    self._become_ours()
        except (*_ERRORS, CacheError) as error:
            self._db.close()
            if isinstance(error, CacheError):
                raise
            raise _unusable(path, "used", error) from error

    def _schema(self) -> int:
        (schema,) = self._db.execute("PRAGMA user_version").fetchone()
        return int(schema)

    def _become_ours(self) -> None:
        """Makes the table, or gives the rows of a version without checksums theirs."""
        schema = self._schema()
        if schema not in (0, _WITHOUT_CHECKSUMS, _SCHEMA):
            raise CacheError(f"cache {self.path} is of another version; {_MEND}")
        if schema == _WITHOUT_CHECKSUMS:
            (state,) = self._db.execute("PRAGMA integrity_check").fetchone()
            if state != "ok":
                raise CacheError(f"cache {self.path} is damaged ({one_line(state)}); {_MEND}")
            self._db.create_function("checksum_of", 6, _checksum, deterministic=True)
            self._db.execute("ALTER TABLE segments ADD COLUMN checksum BLOB")
            rows = self._db.execute(f"UPDATE segments SET checksum = checksum_of({_COLUMNS})")
            self.adopted = rows.rowcount
        self._db.execute(_TABLE)
        self._db.execute(f"PRAGMA user_version = {_SCHEMA}")

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def close(self) -> None:
        self._db.close()

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Segment]:
        """The segments that are there and as they were written."""
        segments = {}
        for start in range(0, len(keys), 500):
            batch = keys[start : start + 500]
            marks = ",".join("?" * len(batch))
            query = f"SELECT checksum, {_COLUMNS} FROM segments WHERE key IN ({marks})"
            for checksum, *row in self._run(query, batch):
                try:
                    segment = _unpacked(checksum, *row)
                except (zlib.error, ValueError, TypeError):
                    self.damaged += 1
                else:
                    if segment.undefined != _INFINITE:
                        segments[row[0]] = segment
        return segments

    def put(self, metric: str, segments: Mapping[bytes, Segment]) -> None:
        """Keeps segments, all or none of them."""
        rows = []
        for key, segment in segments.items():
            parts = segment.parts
            row = (
                key,
                metric,
                0.0 if segment.value == 0 else segment.value,  # SQLite knows no -0.0
                segment.undefined,
                int(segment.cut),
                None if parts is None else zlib.compress(json.dumps(parts).encode()),
            )
            rows.append((*row, _checksum(*row)))
        try:
            with self._transaction():
                insert = "INSERT OR REPLACE INTO segments VALUES (?, ?, ?, ?, ?, ?, ?)"
                self._db.executemany(insert, rows)
        except _ERRORS as error:
            raise _unusable(self.path, "written", error) from error

    def contents(self) -> Contents:
        """What is in it."""
        query = "SELECT metric, count(*) FROM segments GROUP BY metric ORDER BY metric"
        return Contents(dict(self._run(query)), self.path.stat().st_size)

    def clear(self) -> int:
        """Forgets everything; returns the number of values.

        Raises:
            CacheError: what is left is not as a new cache.
        """
        try:
            (count,) = self._db.execute("SELECT count(*) FROM segments").fetchone()
            with self._transaction():
                self._db.execute("DROP TABLE segments")
                self._db.execute(_TABLE)
            self._db.execute("VACUUM")
            (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            (state,) = self._db.execute("PRAGMA integrity_check").fetchone()
        except _ERRORS as error:
            raise CacheError(f"cache {self.path} can't be cleared: {error}") from error
        if tables != 1 or state != "ok":
            raise CacheError(f"cache {self.path} can't be cleared: it is damaged")
        return int(count)

    def _run(self, query: str, values: Sequence[bytes] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(query, tuple(values)).fetchall()
        except _ERRORS as error:
            raise _unusable(self.path, "read", error) from error


def _wait_for_turn(action: Callable[[], object]) -> None:
    """Does what SQLite refuses at once, not waiting, while another process does the same."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            action()
            return
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _unusable(path: Path, problem: str, error: BaseException) -> CacheError:
    return CacheError(f"cache {path} can't be {problem} ({one_line(error)}); {_mend(path, error)}")


def _mend(path: Path, error: BaseException) -> str:
    """Returns what helps; to clear a cache needs room and frees little, and not where it isn't."""
    if _is_busy(error):
        return "another process is busy with it"
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    elsewhere = "set $LEVELFIELD_CACHE to a folder"
    if code == sqlite3.SQLITE_FULL or (isinstance(error, OSError) and error.errno in FULL):
        return f"make room on the disk of {path.parent}, or {elsewhere} on another"
    if isinstance(error, OSError) or code in _NOT_OF_THE_FILE:
        return f"{elsewhere} that can be written"
    return _MEND


def _is_busy(error: object) -> bool:
    code = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def clear_cache(path: Path) -> int | None:
    """Empties a cache in any state; returns the number of values, None if it can't be known.

    One that is damaged or of another version is removed, unless a process is writing to it.

    Raises:
        CacheError: it can't be removed, or another process is busy with it.
    """
    try:
        cache = SegmentCache(path)
        try:
            return cache.clear()
        finally:
            cache.close()
    except CacheError as error:
        if _is_busy(error.__cause__):
            raise CacheError(f"cache {path} is in use; try again when that process ends") from error
    try:
        for suffix in ("", "-wal", "-shm", "-journal"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    except OSError as error:
        raise CacheError(
            f"cache {path} can't be removed ({error.strerror}); remove it yourself, or set "
            "$LEVELFIELD_CACHE to another folder"
        ) from error
    return None


def _checksum(*row: object) -> bytes:
    """8 bytes that stand for a row, the key among its columns."""
    return hashlib.blake2b(repr(row).encode(), digest_size=8).digest()


def _unpacked(
    checksum: object,
    key: bytes,
    metric: str,
    value: object,
    undefined: object,
    cut: object,
    packed: bytes | None,
) -> Segment:
    """A row as a segment; an error if it is not as it was written."""
    if checksum != _checksum(key, metric, value, undefined, cut, packed):
        raise ValueError("the checksum is another one")
    parts = None if packed is None else json.loads(zlib.decompress(packed))
    if isinstance(value, float) and undefined is None:
        return Segment(value, None, bool(cut), parts)
    if value is None and isinstance(undefined, str):
        return Segment(None, undefined, bool(cut), parts)
    raise ValueError("neither a value nor a reason")
