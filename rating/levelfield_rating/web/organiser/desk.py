"""A request of the organiser: who it is, and what a write needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from levelfield_rating.model import Frozen
from levelfield_rating.web.context import Web, web_of
from levelfield_rating.web.organiser.wording import number, share, value
from levelfield_rating.web.security import Turned, check_csrf, csrf_token


@dataclass(frozen=True)
class Desk:
    """A request of the organiser."""

    web: Web
    secret: str

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

    def link(self, token: str) -> str:
        """Returns the link that a rater opens."""
        return f"{self.web.address.root}/r/{quote(token, safe='')}"


def open_desk(request: Request) -> Desk:
    """Returns the organiser's visit.

    Raises:
        Turned: 401 without a session of the organiser.
    """
    web = web_of(request)
    secret = request.cookies.get(web.organiser_cookie, "")
    if not secret or not web.store.organiser_session(secret):
        raise Turned(401, "")
    return Desk(web, secret)


def write_desk(request: Request, fields: Mapping[str, str]) -> Desk:
    desk = open_desk(request)
    check_csrf(desk.secret, fields.get("csrf", ""))
    return desk
