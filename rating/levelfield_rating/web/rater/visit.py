"""A request of a rater: who it is, what a write needs, and what a plain form says."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from levelfield_rating.answers import Answer
from levelfield_rating.model import Frozen, Placed, RatingCriterion
from levelfield_rating.store.records import Event, RaterState
from levelfield_rating.web.context import Web, web_of
from levelfield_rating.web.security import Turned, check_csrf, csrf_token
from levelfield_rating.web.shown import form_answer, step_of


@dataclass(frozen=True)
class Visit:
    """A request of a rater whom we know.

    Attributes:
        storage: where the browser keeps what is not sent yet. It belongs to a rater of a study:
            another person at the same browser has another one.
    """

    web: Web
    secret: str
    state: RaterState

    @property
    def study(self) -> Frozen:
        return self.web.store.frozen

    @property
    def placed(self) -> tuple[Placed, ...]:
        """The rater's items, in order."""
        return self.study.placed(self.state.slot)

    @property
    def csrf(self) -> str:
        return csrf_token(self.secret)

    @property
    def storage(self) -> str:
        ids = "".join(placed.opaque for placed in self.placed)
        named = f"{self.study.digest} {self.state.rater}"
        return hmac.new(ids.encode(), named.encode(), hashlib.sha256).hexdigest()[:24]

    def page(self, template: str, *, status: int = 200, **context: Any) -> Response:
        return self.web.page(
            template,
            status=status,
            csrf=self.csrf,
            state=self.state,
            storage=self.storage,
            step_of=step_of,
            words=self.web.strings.some("js_"),
            **context,
        )

    def to(self, path: str) -> Response:
        return RedirectResponse(self.web.url(path), status_code=303)


def current_visit(request: Request) -> Visit:
    """Returns the visit that a request belongs to.

    Raises:
        Turned: 401 if the browser has no session, or one that is over.
    """
    web = web_of(request)
    secret = request.cookies.get(web.cookie, "")
    rater = web.store.session(secret) if secret else None
    if rater is None:
        raise Turned(401, "")
    return Visit(web, secret, web.store.state(rater))


def write_visit(request: Request, token: str) -> Visit:
    """Returns the visit of a write: session, its token, its limit."""
    visit = current_visit(request)
    check_csrf(visit.secret, token)
    limit_writes(visit)
    return visit


def limit_writes(visit: Visit, number: float = 1.0) -> None:
    """Counts writes of a rater, in whichever of their sessions.

    Raises:
        Turned: 429 if there were too many of late.
    """
    if not visit.web.writes.take(visit.state.rater, number):
        raise Turned(429, "")


def form_answer_of(
    criterion: RatingCriterion, fields: Mapping[str, str], texts: int, now: Answer | None = None
) -> Answer | None:
    try:
        return form_answer(criterion, fields, texts, now)
    except ValueError as error:
        raise Turned(422, "") from error


def form_event(visit: Visit, kind: Any, item: str, criterion: str, value: Any) -> Event:
    """Returns what a form says; sent twice at the same moment, it is the same event."""
    clock = visit.state.clock + 1
    body = json.dumps([kind, item, criterion, value, clock])
    name = hmac.new(visit.secret.encode(), body.encode(), hashlib.sha256).hexdigest()
    return Event(name, kind, item, criterion, value, clock)
