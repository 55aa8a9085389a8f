"""A rater's link: looked at, and opened."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from levelfield_rating.web.context import web_of
from levelfield_rating.web.security import Fields

router = APIRouter()


@router.get("/")
def root(request: Request) -> Response:
    return RedirectResponse(web_of(request).url("/study"), status_code=303)


@router.api_route("/r/{token}", methods=["GET", "HEAD"])
def entry(request: Request, token: str) -> Response:
    """One button: programs that look at links in mails send no POST, so they use nothing up."""
    return web_of(request).entry(request, "entry.html", action=f"/r/{quote(token, safe='')}")


@router.post("/r/{token}")
def exchange(request: Request, token: str, fields: Fields) -> Response:
    web = web_of(request)
    return web.opened(
        request, fields, lambda: web.store.exchange(token), cookie=web.cookie, to="/study"
    )
