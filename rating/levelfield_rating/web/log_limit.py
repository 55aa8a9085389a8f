"""A log that nobody elsewhere can fill."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

LOGGERS = ("asyncio", "uvicorn.error", "levelfield_rating.web.app")
"""Those that write a line because of what a request is like."""


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
            record.msg = f"{record.msg} (more like this are not logged for a while)"
        return True


def limit_logs() -> None:
    """Limits the loggers of the server; again changes nothing."""
    limit = LogLimit()
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(each, LogLimit) for each in logger.filters):
            logger.addFilter(limit)
