"""Limits of the server: its connections, how long each may keep it waiting, and what it logs.

uvicorn waits for ever for a request that never ends. A thousand of those use up the descriptors of
a process, and nobody else gets in.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_OTHERS = 300
"""Descriptors for the store, three for each of its connections, and for files."""
_PROGRESS = 64 * 1024


def most_connections() -> int:
    """Returns how many connections the process has descriptors for; 500 at most."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 500 if soft == resource.RLIM_INFINITY else max(32, min(500, soft - _OTHERS))


@dataclass(frozen=True)
class ConnectionLimits:
    """What a connection may take.

    Attributes:
        connections: at once. One more ends the one that has made the server wait longest; if none
            does, it is ended itself.
        head_s: seconds to the end of a request's headers, from the connection or the answer before.
        body_s: seconds from there to the end of its body.
        unread_s: seconds in which the browser takes less than 64 KiB of an answer.
    """

    connections: int = field(default_factory=most_connections)
    head_s: float = 10.0
    body_s: float = 30.0
    unread_s: float = 60.0


class LimitedProtocol(H11Protocol):
    """A connection that ends when it makes the server wait too long."""

    limits = ConnectionLimits()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._awaited = ""
        self._since = 0.0
        self._unread = 0
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        others = [
            connection
            for connection in self.connections
            if isinstance(connection, LimitedProtocol) and not connection.transport.is_closing()
        ]
        super().connection_made(transport)
        if len(others) >= self.limits.connections:
            waiting = (connection for connection in others if connection._awaited)
            min(waiting, key=lambda connection: connection._since, default=self).transport.abort()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._await("", 0.0)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def _watch(self) -> None:
        """Sets the deadline for what the browser has to do next; one that it has already stays."""
        if self.transport.get_write_buffer_size():
            self._await("answer is taken", self.limits.unread_s)
        elif self.conn.their_state is h11.IDLE:
            self._await("headers", self.limits.head_s)
        elif self.conn.their_state is h11.SEND_BODY:
            self._await("body", self.limits.body_s)
        else:
            self._await("", 0.0)

    def _await(self, awaited: str, limit_s: float) -> None:
        if awaited == self._awaited:
            return
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._awaited = awaited
        self._since = self.loop.time()
        self._unread = self.transport.get_write_buffer_size()
        if awaited:
            self._deadline = self.loop.call_later(limit_s, self._is_late)

    def _is_late(self) -> None:
        unread = self.transport.get_write_buffer_size()
        if self._unread and (not unread or unread <= self._unread - _PROGRESS):
            self._awaited = ""
            self._watch()
        else:
            self.transport.abort()


LOGGERS = ("asyncio", "uvicorn.error", "levelfield_rating.web.app")
"""Loggers that write a line for the content of a request."""


class LogLimit(logging.Filter):
    """Passes a message of a logger at most `number` times in `every_s` seconds; the last says so.

    Messages that differ in their values only are the same.
    """

    def __init__(
        self,
        number: int = 20,
        every_s: float = 3600.0,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._number = number
        self._every_s = every_s
        self._now = now
        self._passed: dict[tuple[object, ...], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = record.exc_info[0] if record.exc_info else None
        key = (record.name, record.lineno, record.msg, kind)
        if len(self._passed) > 1_000:  # somebody puts values into messages
            self._passed.clear()
        now = self._now()
        began, passed = self._passed.get(key, (now, 0))
        if now - began >= self._every_s:
            began, passed = now, 0
        if passed == self._number:
            return False
        self._passed[key] = (began, passed + 1)
        if passed + 1 == self._number:
            record.msg = f"{record.msg} (similar messages are not logged for a while)"
        return True


def limit_logs() -> None:
    """Limits the loggers of the server; again changes nothing."""
    limit = LogLimit()
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(each, LogLimit) for each in logger.filters):
            logger.addFilter(limit)
