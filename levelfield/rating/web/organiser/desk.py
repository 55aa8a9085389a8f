"""A request of the organiser: who it is, and what a write needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from levelfield.rating.model import Frozen
from levelfield.rating.web.context import Web, web_of
from levelfield.rating.web.organiser.wording import number, share, value
from levelfield.rating.web.security import Turned, check_csrf, csrf_token, is_https


@dataclass(frozen=True)
class Desk:
    """A request of the organiser."""

    web: Web
    secret: str
    request: Request

    @property
    def study(self) -> Frozen:
        return self.web.store.frozen

    def page(self, template: str, *, status: int = 200, **context: Any) -> Response:
        return self.web.page(
            f"organiser/{template}",
            status=status,
            csrf=csrf_token(self.secret),
            closed=self.web.store.closed(),
            number=number,
            value=value,
            share=share,
            **context,
        )

    def to(self, path: str) -> Response:
        return RedirectResponse(self.web.url(f"/organiser{path}"), status_code=303)

    def address(self, token: str) -> str:
        """Returns the link that a rater opens."""
        request, web = self.request, self.web
        host = request.headers.get("host", "")
        if web.behind_proxy:
            forwarded = request.headers.get("x-forwarded-host", "")
            host = forwarded.split(",")[-1].strip() or host
        scheme = "https" if is_https(request, behind_proxy=web.behind_proxy) else "http"
        return f"{scheme}://{host}{web.url('/r/' + quote(token, safe=''))}"


def open_desk(request: Request) -> Desk:
    """Returns the organiser's visit.

    Raises:
        Turned: 401 without a session of the organiser.
    """
    web = web_of(request)
    secret = request.cookies.get(web.organiser_cookie, "")
    if not secret or not web.store.organiser_session(secret):
        raise Turned(401, "")
    return Desk(web, secret, request)


def write_desk(request: Request, fields: Mapping[str, str]) -> Desk:
    desk = open_desk(request)
    check_csrf(desk.secret, fields.get("csrf", ""))
    return desk
