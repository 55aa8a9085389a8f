"""A request of the organiser: who it is, what a write needs, and words for numbers and times."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from levelfield.stats.estimate import Estimate
from levelfield_rating.model import Frozen
from levelfield_rating.web.context import Web, web_of
from levelfield_rating.web.security import Turned, check_csrf, csrf_token


@dataclass(frozen=True)
class Desk:
    """A request of the organiser."""

    web: Web
    secret: str

    @property
    def study(self) -> Frozen:
        return self.web.store.frozen

    def page(self, name: str, *, problem: str = "", **context: Any) -> Response:
        """Renders the page of a name, with what all pages may show.

        Args:
            problem: why the request failed; empty if it did not.
        """
        return self.web.page(
            f"organiser/{name}.html",
            status=422 if problem else 200,
            here=name,
            problem=problem,
            csrf=csrf_token(self.secret),
            closed=self.web.store.closed(),
            excluded=self.web.store.excluded(),
            titles={criterion.id: criterion.title for criterion in self.study.criteria},
            now=self.web.now(),
            when=when,
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


def number(x: float, digits: int = 2) -> str:
    return f"{x:.{digits}f}" if math.isfinite(x) else "–"


def value(e: Estimate, digits: int = 2) -> str:
    """Returns a value with its interval."""
    if not math.isfinite(e.value):
        return "–"
    if math.isnan(e.low + e.high):
        return number(e.value, digits)
    return f"{e.value:.{digits}f} [{e.low:.{digits}f}, {e.high:.{digits}f}]"


def share(x: float) -> str:
    return f"{x:.0%}" if math.isfinite(x) else "–"


def duration(spent: timedelta | None) -> str:
    if spent is None:
        return ""
    minutes = spent.total_seconds() / 60
    return f"{minutes:.0f} min" if minutes >= 1 else f"{spent.total_seconds():.0f} s"


def when(moment: datetime | None, now: datetime) -> str:
    """Returns how long ago, in words."""
    if moment is None:
        return "never"
    seconds = max(0.0, (now - moment).total_seconds())
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            n = int(seconds // length)
            return f"{n} {unit}{'s' * (n != 1)} ago"
    return "just now"
