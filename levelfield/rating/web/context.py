"""What the pages share: the store, the words, the templates, the limits."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse

from levelfield.rating.store import RatingStore
from levelfield.rating.web import markdown, security
from levelfield.rating.web.strings import Strings

STATIC = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


@cache
def static_files() -> dict[str, tuple[bytes, str]]:
    """name -> content and media type."""
    folder = resources.files(__package__).joinpath("static")
    return {
        file.name: (file.read_bytes(), STATIC[suffix])
        for file in folder.iterdir()
        if (suffix := "." + file.name.rpartition(".")[2]) in STATIC
    }


@dataclass(frozen=True)
class Web:
    """One running app.

    Attributes:
        base_path: what stands before every path outside, behind a proxy; empty or `/something`.
        behind_proxy: whether `X-Forwarded-*` is believed.
        now: server's time, UTC.
        requests: limit for writes of one session.
        attempts: limit for links that are not valid.
        study_mark: in names of cookies: two studies on ports of one machine share its cookies.
    """

    store: RatingStore
    base_path: str = ""
    behind_proxy: bool = False
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    requests: security.Buckets = field(default_factory=lambda: security.Buckets(300, 5))
    attempts: security.Buckets = field(default_factory=lambda: security.Buckets(20, 0.2))
    environment: Environment = field(init=False)
    study_mark: str = field(init=False)

    def __post_init__(self) -> None:
        environment = Environment(
            loader=PackageLoader("levelfield.rating.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.globals.update(url=self.url, static=self.static)
        environment.filters["markdown"] = markdown.rendered
        object.__setattr__(self, "environment", environment)
        mark = hashlib.sha256(b"cookie" + self.store.server_key).hexdigest()[:8]
        object.__setattr__(self, "study_mark", mark)

    @property
    def strings(self) -> Strings:
        """Words in the language of the study."""
        return Strings(self.store.frozen.language)

    @property
    def cookie(self) -> str:
        return f"lf_{self.study_mark}"

    @property
    def organiser_cookie(self) -> str:
        return f"lfo_{self.study_mark}"

    def url(self, path: str) -> str:
        """Returns a path of the app as browsers see it."""
        return self.base_path + path

    def static(self, name: str) -> str:
        """Address of a static file; changes with its content, so that it may be kept for ever."""
        content, _ = static_files()[name]
        return self.url(f"/static/{name}?v={hashlib.sha256(content).hexdigest()[:12]}")

    def page(self, template: str, *, status: int = 200, **context: Any) -> HTMLResponse:
        """Renders a template as a page."""
        words = self.strings
        html = self.environment.get_template(template).render(
            t=words, study=self.store.frozen, **context
        )
        return HTMLResponse(html, status_code=status)

    def opened(
        self, request: Request, exchange: Callable[[], str | None], *, cookie: str, to: str
    ) -> RedirectResponse:
        """Exchanges a link for a session, kept in a cookie, and leads the browser to the page `to`.

        Args:
            exchange: the link for a session; None if it is not valid.

        Raises:
            Turned: 404 for a link that is not valid, 429 after too many of those.
        """
        client = security.client_of(request, behind_proxy=self.behind_proxy)
        if not self.attempts.take(client, 0):
            raise security.Turned(429, "")
        secret = exchange()
        if secret is None:
            self.attempts.take(client)
            raise security.Turned(404, "link")
        response = RedirectResponse(self.url(to), status_code=303)
        self.set_cookie(response, request, cookie, secret)
        return response

    def set_cookie(
        self, response: HTMLResponse | Any, request: Request, name: str, secret: str
    ) -> None:
        """Gives the browser a session."""
        security.set_cookie(
            response,
            request,
            name,
            secret,
            path=self.base_path,
            behind_proxy=self.behind_proxy,
        )


def web_of(request: Request) -> Web:
    """Returns the running app of a request."""
    web = request.app.state.web
    assert isinstance(web, Web)
    return web
