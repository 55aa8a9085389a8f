"""What goes wrong between a server and us: what may succeed when it is sent again, and what not."""

from __future__ import annotations

import datetime
import email.utils
import json
import math
from typing import TYPE_CHECKING

from levelfield.io.http import HttpAnswer

if TYPE_CHECKING:
    import requests

TOO_LONG = "the server takes no prompt as long as this"
FILTERED = "the server's content filter refuses it"


class FailedForNowError(Exception):
    """A request that may succeed when it is sent again."""

    def __init__(self, said: str, retry_after: float = 0.0) -> None:
        super().__init__(said)
        self.retry_after = retry_after


class RejectedError(Exception):
    """A request that fails however often it is sent."""

    def __init__(self, status: int, said: str, code: str = "") -> None:
        super().__init__(said)
        self.status = status
        self._code = code

    @property
    def concerns_prompt(self) -> str:
        """Why it is this prompt that the server does not take; empty if it is something else."""
        if self.status not in (400, 413, 422):
            return ""
        said = str(self).casefold()
        too_long = self._code == "context_length_exceeded" or "context length" in said
        if too_long or self.status == 413:
            return TOO_LONG
        return FILTERED if self._code == "content_filter" else ""


class StoppedError(Exception):
    """Another thread failed, or the user has had enough."""


def words_of(response: HttpAnswer) -> tuple[str, str]:
    """The code and the words of an error, whichever way a server puts them."""
    try:
        said = response.json()
    except (ValueError, RecursionError):
        return "", response.text
    code: object = ""
    for name in ("error", "message", "detail"):
        if isinstance(said, dict):
            code = said.get("code") or code
            said = said.get(name, said)
    return str(code), said if isinstance(said, str) else json.dumps(said)


def short(words: object) -> str:
    """The words on one line of at most 200 characters."""
    line = " ".join(str(words).split())
    return line if len(line) <= 200 else f"{line[:200]}…"


def failure_of(error: requests.RequestException) -> str:
    """What went wrong with a request, in words."""
    import requests

    match error:
        case requests.exceptions.SSLError():
            return "the server's certificate is not trusted"
        case requests.exceptions.ProxyError():
            return "the proxy does not let it through"
        case (
            requests.exceptions.ChunkedEncodingError() | requests.exceptions.ContentDecodingError()
        ):
            return "the connection breaks off"
        case requests.ConnectionError():
            return "no connection, or it breaks off"
    return type(error).__name__


def retry_after(value: str) -> float:
    """Seconds that a server asks to wait, which it may say as a number or as a date."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            at = email.utils.parsedate_to_datetime(value)
        except ValueError:
            return 0.0
        at = at if at.tzinfo else at.replace(tzinfo=datetime.UTC)
        seconds = (at - datetime.datetime.now(datetime.UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0
