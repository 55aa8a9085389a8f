"""The rating app as an ASGI application."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from levelfield_rating.address import Address
from levelfield_rating.store import RatingStore
from levelfield_rating.store.records import RequestRefused, StoreUnavailable
from levelfield_rating.web import rater
from levelfield_rating.web.context import Web, static_files, web_of
from levelfield_rating.web.security import Guard, Turned

_log = logging.getLogger(__name__)
_REASONS = ("stale", "closed", "link", "links", "entry", "often", "full")
_SAID = (401, 403, 404, 409, 413, 422, 429, 500, 503)


def create_app(
    store: RatingStore,
    *,
    organiser: bool = True,
    address: Address | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> FastAPI:
    """Returns the app for a store.

    Args:
        organiser: whether the organiser's pages are there too.
        address: where browsers reach the app; `Address()` if None.
        now: server's time.
    """
    address = address or Address()
    app = FastAPI(
        title="levelfield",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # it would lead to the host that the request names
        middleware=[
            Middleware(Guard, address=address),
            Middleware(_LastResort),
        ],
    )
    app.state.web = Web(store, address, now)
    app.include_router(rater.router)
    if organiser:
        from levelfield_rating.web import organiser as pages

        app.include_router(pages.router)
    app.add_api_route("/static/{name}", _static, methods=["GET", "HEAD"])
    app.add_exception_handler(Turned, _turned)
    app.add_exception_handler(RequestRefused, _refused)
    app.add_exception_handler(StoreUnavailable, _unavailable)
    app.add_exception_handler(HTTPException, _http)
    return app


class _LastResort:
    """A bug of ours is a plain page and a traceback on the server's side, with all headers."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self.app(scope, receive, send)
        except ClientDisconnect:
            return  # a rater who hangs up in the middle of a request waits for no answer
        except Exception:
            if scope["type"] != "http":
                raise
            _log.exception("while answering %s", scope.get("method"))
            answer = await say(Request(scope), 500)
            await answer(scope, receive, send)


async def _static(name: str) -> Response:
    if name not in static_files():
        raise HTTPException(404)
    content, media_type = static_files()[name]
    caching = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(content, media_type=media_type, headers=caching)


async def say(request: Request, status: int, reason: str = "") -> Response:
    """An answer that something was not done: JSON below /api/, else a page; never a trace."""
    web = web_of(request)
    if request.scope["path"].removeprefix(web.address.base_path).startswith("/api/"):
        words = {"error": reason or str(status)}
        return JSONResponse(words, status_code=status)
    message = f"error_{reason}"
    if reason not in _REASONS:
        message = f"error_{status if status in _SAID else 500}"
    return web.page("message.html", status=status, text=web.strings(message), hint=reason == "link")


async def _turned(request: Request, error: Exception) -> Response:
    assert isinstance(error, Turned)
    return await say(request, error.status, error.reason)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestRefused)
    reason = "full" if error.status == 429 else ""
    if error.status == 403:
        closed = await run_in_threadpool(web_of(request).store.closed)
        reason = "closed" if closed else ""
    return await say(request, error.status, reason)


async def _unavailable(request: Request, error: Exception) -> Response:
    _log.error("the store can't be used: %s", error)
    return await say(request, 503)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return await say(request, error.status_code if error.status_code in _SAID else 404)
