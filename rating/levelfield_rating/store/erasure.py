"""Erasure of withdrawn raters' answers from the file and from its write-ahead log.

SQLite keeps old pages in the log while anybody reads them. Then the erasure is pending: the store
notes so, tries again in the background, and goes on after a restart.
"""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
import threading

from levelfield_rating.store.database import Database
from levelfield_rating.store.records import StoreError, StoreUnavailable

_AGAIN_S = 1.0
_PATIENCE_S = 1.0
"""How long a withdrawal waits for those who read."""
_BRIEFLY_S = 0.02
"""The same in the background: nobody can write meanwhile."""


def note_erasure(db: sqlite3.Connection) -> None:
    """Notes, in the transaction that deletes, that old pages have to be overwritten."""
    values = ("erasure", secrets.token_bytes(8))  # distinguishes a later withdrawal
    db.execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", values)


def noted_erasure(db: sqlite3.Connection) -> bytes | None:
    """Returns the mark of the last withdrawal if its erasure is pending."""
    row = db.execute("SELECT value FROM setting WHERE name = 'erasure'").fetchone()
    return None if row is None else bytes(row[0])


class Eraser:
    """Finishes the erasures of one open store.

    Another process that has the store open may finish them too.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def is_pending(self) -> bool:
        with self._database.reading() as db:
            return noted_erasure(db) is not None

    def erase(self) -> None:
        """Erases now if nobody reads old pages for long, else in the background."""
        if not self._erased(_PATIENCE_S):
            self.go_on()

    def go_on(self) -> None:
        """Sees to it that what is pending is finished in the background."""
        with self._lock:
            if self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(target=self._try_again, daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Ends the background's tries, after a last one."""
        self._stopped.set()
        thread = self._thread  # which may end, and be forgotten, at this moment
        if thread is not None:
            thread.join()
            self._erased(_BRIEFLY_S)

    def _try_again(self) -> None:
        while not self._stopped.wait(_AGAIN_S):
            if not self._erased(_BRIEFLY_S):
                continue
            with self._lock:  # a withdrawal of this moment finds the thread, or that it is gone
                if self._erased(_BRIEFLY_S):
                    self._thread = None
                    return

    def _erased(self, patience_s: float) -> bool:
        """Tries once; returns whether nothing is pending any more."""
        with contextlib.suppress(StoreError, StoreUnavailable):
            with self._database.reading() as db:
                mark = noted_erasure(db)
            if mark is None:
                return True
            if self._database.empty_log(patience_s):
                with self._database.writing() as db:
                    query = "DELETE FROM setting WHERE name = 'erasure' AND value = ?"
                    db.execute(query, (mark,))
                return not self.is_pending()
        return False
