"""What the pages share: the store, the words, the templates, the limits."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib import resources
from typing import Any

import nh3
from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from levelfield.io.toml import read_toml
from levelfield_rating.address import Address
from levelfield_rating.store import RatingStore, RequestRefused
from levelfield_rating.web import security

FALLBACK = "en"


@cache
def catalogue() -> Mapping[str, Mapping[str, str]]:
    """Returns language -> name -> words."""
    return read_toml(resources.files(__package__) / "strings.toml")


def language_of(tag: str) -> str:
    """Returns the catalogue's language for a language tag: `de-CH` -> `de`; `en` if it lacks it."""
    primary = tag.replace("_", "-").split("-")[0].lower()
    return primary if primary in catalogue() else FALLBACK


class Strings:
    """Words of one language; those that it lacks are English."""

    def __init__(self, tag: str) -> None:
        self.language = language_of(tag)
        self._words = {**catalogue()[FALLBACK], **catalogue()[self.language]}

    def __call__(self, name: str, **values: object) -> str:
        words = self._words[name]
        return words.format_map(values) if values else words

    def some(self, prefix: str) -> dict[str, str]:
        """Returns the words of a page's script: those with `prefix`, which their names lose."""
        return {
            name.removeprefix(prefix): words
            for name, words in self._words.items()
            if name.startswith(prefix)
        }

    def steps(self, low: str, high: str) -> tuple[str, ...]:
        """Returns ten places of a slider in words, from `low` to `high`; no numbers."""
        ends = (low or self("slider_low"), high or self("slider_high"))
        near = [self(f"slider_step_{k}", end=ends[0]) for k in range(5)]
        far = [self(f"slider_step_{k}", end=ends[1]) for k in range(5)]
        return (*near, *reversed(far))


_TAGS = {
    *("p", "br", "hr", "em", "strong", "s", "code", "pre", "blockquote", "a"),
    *("ul", "ol", "li", "h2", "h3", "h4", "h5", "h6"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
_LOWEST_HEADING = 6


@lru_cache(maxsize=256)
def rendered(text: str) -> Markup:
    """Returns HTML of Markdown.

    Headings are one level lower than written: a page has its own first heading.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.disable("image")
    tokens = parser.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + 1, _LOWEST_HEADING)}"
    html = parser.renderer.render(tokens, parser.options, {})
    clean = nh3.clean(
        html,
        tags=_TAGS,
        attributes={"a": {"href"}, "ol": {"start"}},
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer",
    )
    return Markup(clean)  # nh3 has cleaned it


COOKIE_DAYS = 90

STATIC = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


@cache
def static_files() -> dict[str, tuple[bytes, str]]:
    """Returns name -> content and media type."""
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
        address: where browsers reach the app.
        now: server's time, UTC.
        writes: limit for events and other writes of one rater.
        wrong_links: limit for links that are not valid, of everybody together: no address of a
            rater is looked at, and a valid link is never turned away for what others tried.
        study_mark: in names of cookies: two studies on ports of one machine share its cookies.
    """

    store: RatingStore
    address: Address
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    writes: security.Buckets = field(default_factory=lambda: security.Buckets(1_000, 10))
    wrong_links: security.Buckets = field(default_factory=lambda: security.Buckets(60, 1))
    environment: Environment = field(init=False)
    study_mark: str = field(init=False)

    def __post_init__(self) -> None:
        environment = Environment(
            loader=PackageLoader("levelfield_rating.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.globals.update(url=self.url, static=self.static)
        environment.filters["markdown"] = rendered
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

    @property
    def entry_cookie(self) -> str:
        return f"lfe_{self.study_mark}"

    def url(self, path: str) -> str:
        """Returns a path of the app as browsers see it."""
        return self.address.base_path + path

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

    def entry(self, request: Request, template: str, *, action: str) -> Response:
        """Renders the page of a link, whose form opens it in this browser only.

        A form on another site could sign a rater in as somebody else. It knows neither the cookie
        that comes with this page nor, therefore, the form's token.
        """
        cookie = request.cookies.get(self.entry_cookie)
        nonce = cookie or secrets.token_urlsafe(32)
        token = security.csrf_token(nonce)
        response = self.page(template, action=self.url(action), entry_token=token)
        if not cookie:
            self.set_cookie(response, self.entry_cookie, nonce)
        return response

    def opened(
        self,
        request: Request,
        fields: Mapping[str, str],
        exchange: Callable[[], str | None],
        *,
        cookie: str,
        to: str,
    ) -> Response:
        """Exchanges a link for a session, kept in a cookie, and leads the browser to the page `to`.

        Args:
            fields: of the form that `entry` has rendered.
            exchange: the link for a session; None if it is not valid.

        Raises:
            Turned: 403 for a form that this browser was not shown, 404 for a link that is not
                valid, 429 after too many of those, or if this one was opened too often.
        """
        nonce = request.cookies.get(self.entry_cookie, "")
        security.check_csrf(nonce, fields.get("csrf", ""), "entry")
        try:
            secret = exchange()
        except RequestRefused as refused:
            raise security.Turned(refused.status, "often") from refused
        if secret is None and self.wrong_links.take(""):
            raise security.Turned(404, "link")
        if secret is None:
            raise security.Turned(429, "links")
        response = RedirectResponse(self.url(to), status_code=303)
        self.set_cookie(response, cookie, secret, days=COOKIE_DAYS)
        return response

    def set_cookie(
        self, response: Response, name: str, secret: str, *, days: int | None = None
    ) -> None:
        """Gives the browser a secret: not for scripts, not from other sites.

        `Lax`, not `Strict`: who follows a link to the study from a mail must find their session.
        Every write also needs the session's token and the right origin.

        Args:
            days: how long it stays; None until the browser is closed.
        """
        response.set_cookie(
            name,
            secret,
            max_age=None if days is None else days * 24 * 3600,
            path=self.address.base_path or "/",
            secure=self.address.is_https,
            httponly=True,
            samesite="lax",
        )


def web_of(request: Request) -> Web:
    """Returns the running app of a request."""
    web = request.app.state.web
    assert isinstance(web, Web)
    return web
