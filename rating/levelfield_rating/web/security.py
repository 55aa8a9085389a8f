"""What every request passes: headers, origin, session, token against forged requests, limits.

Nothing here is kept on disk, and no address of a rater is looked at.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Depends
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from levelfield_rating.address import Address

BODY_LIMIT = 256 * 1024
"""Bytes of one request; a hundred events with long comments are less."""

_ELSEWHERE = (
    "This request came from another site, or from another address of this one. "
    "Please open your link exactly as you got it."
)

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "X-Robots-Tag": "noindex",
}


class Turned(Exception):  # noqa: N818 (nobody's error: an answer to a request)
    """A request that is refused: becomes a plain page, or JSON below /api/."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


def csrf_token(secret: str) -> str:
    """Derives a session's token from its secret, so that it lives as long."""
    return hmac.new(secret.encode(), b"levelfield csrf", hashlib.sha256).hexdigest()


def check_csrf(secret: str, token: str, reason: str = "stale") -> None:
    """Refuses a write whose token is not that of the secret in the browser's cookie.

    Raises:
        Turned: 403 for this reason.
    """
    expected = csrf_token(secret).encode()
    if not secret or not hmac.compare_digest(expected, token.encode("utf-8", "replace")):
        raise Turned(403, reason)


async def body_of(request: Request, limit: int = BODY_LIMIT) -> bytes:
    """The body, if it is not too large.

    Raises:
        Turned: 413.
    """
    read = bytearray()
    async for chunk in request.stream():
        read += chunk
        if len(read) > limit:
            raise Turned(413, "too large")
    return bytes(read)


async def form_of(request: Request) -> dict[str, str]:
    """Fields of a form; the last of equal names counts.

    Raises:
        Turned: 413 or 422.
    """
    try:
        text = (await body_of(request)).decode("utf-8")
        fields = parse_qsl(text, keep_blank_values=True, max_num_fields=500)
    except ValueError as error:
        raise Turned(422, "not a form") from error
    return dict(fields)


async def json_of(request: Request) -> Any:
    """Returns a JSON body; refuses `NaN` and `Infinity`, which JSON does not have.

    Raises:
        Turned: 413 or 422.
    """

    def refuse(name: str) -> Any:
        raise ValueError(name)

    try:
        return json.loads(await body_of(request), parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise Turned(422, "not JSON") from error


Fields = Annotated[Mapping[str, str], Depends(form_of)]
"""The fields of a form, as an argument of a route."""

Json = Annotated[Any, Depends(json_of)]
"""A JSON body, as an argument of a route."""


class Buckets:
    """A bucket of tokens for every key; a key is hashed with a key of this process.

    Args:
        size: requests at once.
        a_second: tokens that come back every second.
    """

    def __init__(
        self, size: float, a_second: float, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.size = size
        self.a_second = a_second
        self._now = now
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._left: dict[bytes, tuple[float, float]] = {}

    def take(self, name: str, tokens: float = 1.0) -> bool:
        """Takes tokens if there is one; returns whether there was. `tokens` 0 only looks."""
        key = hashlib.blake2b(name.encode(), key=self._key, digest_size=16).digest()
        now = self._now()
        with self._lock:
            if len(self._left) > 10_000:  # full ones say nothing
                self._left = {
                    k: (left, seen_at)
                    for k, (left, seen_at) in self._left.items()
                    if left + (now - seen_at) * self.a_second < self.size
                }
            left, seen_at = self._left.get(key, (self.size, now))
            left = min(self.size, left + (now - seen_at) * self.a_second)
            if left < 1.0:
                self._left[key] = (left, now)
                return False
            self._left[key] = (left - tokens, now)
            return True


class Guard:
    """ASGI middleware: headers on every response, and no write from another origin.

    `Sec-Fetch-Site` says whether it is another, where a browser sends it (https and localhost).
    `Origin` does elsewhere, but with a plain form it is `null`, for our `Referrer-Policy`. Where
    neither says anything a token is what is left: the session's, or that of a link's page.
    """

    def __init__(self, app: ASGIApp, *, address: Address) -> None:
        self.app = app
        self.address = address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope["root_path"] = self.address.base_path  # whether the proxy takes it off or not
        if scope["path"] == self.address.base_path:
            scope["path"] += "/"

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        headers = Headers(scope=scope)
        refusal = None
        if "content-length" in headers and "transfer-encoding" in headers:
            # a proxy may end the body elsewhere, and take the rest for a request of somebody else
            ends = {"Connection": "close"}
            refusal = PlainTextResponse("Two lengths of a body.", status_code=400, headers=ends)
        elif scope["method"] not in ("GET", "HEAD") and self._foreign(headers):
            refusal = PlainTextResponse(_ELSEWHERE, status_code=403)
        if refusal:
            await refusal(scope, receive, guarded)
            return
        await self.app(scope, receive, guarded)

    def _foreign(self, headers: Headers) -> bool:
        site = headers.get("sec-fetch-site", "none")
        if site != "none":  # of a tunnel, say, whose address the server does not know
            return site != "same-origin"
        origin = headers.get("origin", "null")
        if origin == "null":
            origin = "/".join(headers.get("referer", "null").split("/")[:3])
        return origin != "null" and origin.lower() not in self.address.origins
