"""The organiser's link: looked at, and opened."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from levelfield_rating.web.context import web_of
from levelfield_rating.web.security import Fields

router = APIRouter()


@router.get("/enter/{token}")
def entry(request: Request, token: str) -> Response:
    """One button, so that a program that looks at links opens nothing."""
    action = f"/organiser/enter/{quote(token, safe='')}"
    return web_of(request).entry(request, "organiser/entry.html", action=action)


@router.post("/enter/{token}")
def exchange(request: Request, token: str, fields: Fields) -> Response:
    web = web_of(request)
    return web.opened(
        request,
        fields,
        lambda: web.store.organiser_exchange(token),
        cookie=web.organiser_cookie,
        to="/organiser",
    )
