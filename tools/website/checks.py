"""Checks of the built site: links and anchors lead somewhere, pages ask no other server."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}
_LOADING_LINKS = {"stylesheet", "icon", "preload", "preconnect", "modulepreload", "manifest"}


@dataclass
class _HTML(HTMLParser):
    """What a page of HTML names: its anchors, its links, and what it loads."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        words = {name: value or "" for name, value in attrs}
        self.anchors.update(words[name] for name in ("id", "name") if name in words)
        if tag == "a" and "href" in words:
            self.links.append(words["href"])
        if tag == "link" and _LOADING_LINKS & set(words.get("rel", "").split()):
            self.loads.append(words.get("href", ""))
        if tag in _LOADS and words.get(_LOADS[tag]):
            self.loads.append(words[_LOADS[tag]])


def problems_of(site: Path) -> list[str]:
    """Returns what is wrong with a built site, one line each."""
    pages = {}
    for path in sorted(site.rglob("*.html")):
        html = _HTML()
        html.feed(path.read_text("utf-8"))
        pages[path.relative_to(site).as_posix()] = html
    return [line for name, html in pages.items() for line in _problems(site, name, html, pages)]


def _problems(site: Path, name: str, html: _HTML, pages: Mapping[str, _HTML]) -> Iterator[str]:
    for load in html.loads:
        if urlsplit(load).netloc:
            yield f"{name}: loads {load} from another server"
        elif not load.startswith("data:") and not (site / _target(name, load)).is_file():
            yield f"{name}: loads {load}, which is not there"
    for link in html.links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = _target(name, link)
        if not (site / target).is_file():
            yield f"{name}: links to {link}, which is not there"
        elif (
            parts.fragment
            and target in pages
            and unquote(parts.fragment) not in pages[target].anchors
        ):
            yield f"{name}: links to {link}, and {target} has no such anchor"


def _target(name: str, link: str) -> str:
    """Returns the file of the site that a link of a page leads to."""
    path = unquote(urlsplit(link).path)
    if not path:
        return name
    target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)).lstrip("/")
    return posixpath.join(target, "index.html") if path.endswith(("/", ".")) else target
