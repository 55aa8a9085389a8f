"""Navigation: the file for the generator, the list of all pages, and `llms.txt`."""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from tools.website.pages import ROOT, Page, WebsiteError

CONFIGURATION = ROOT / "mkdocs.yml"

Entry = str | Mapping[str, "str | Sequence[Entry]"]
"""A page, or a title with a page or with the entries below it."""


def configuration(pages: Iterable[Page], *, docs: str, site: str) -> dict[str, Any]:
    """Returns what the generator reads: `mkdocs.yml` with the pages that are not in `docs`.

    Args:
        pages: of the whole site.
        docs, site: folders of the pages and of the built site, beside the file.

    Raises:
        WebsiteError: a page is missing in `mkdocs.yml`, or one there does not exist.
    """
    settings: dict[str, Any] = yaml.safe_load(CONFIGURATION.read_text("utf-8"))
    paths = [page.path for page in pages]
    unlisted = {*paths} - {*paths_of(settings["nav"])}
    nav = [*_expanded(settings["nav"], unlisted), *_further(paths)]
    listed = list(paths_of(nav))
    problems = [
        *(f"mkdocs.yml: {path} is not in nav; add it" for path in paths if path not in listed),
        *(
            f"mkdocs.yml: nav has {path}, which is not there"
            for path in listed
            if path not in paths
        ),
        *(
            f"mkdocs.yml: nav has {path} twice"
            for path in {p for p in listed if listed.count(p) > 1}
        ),
    ]
    if problems:
        raise WebsiteError("\n".join(problems))
    return {**settings, "docs_dir": docs, "site_dir": site, "nav": nav}


def _expanded(nav: Iterable[Entry], unlisted: Collection[str]) -> Iterator[Entry]:
    """Yields the entries of a navigation with pages in place of patterns: all that match and are
    not listed themselves."""
    for entry in nav:
        if not isinstance(entry, str):
            yield {
                title: below if isinstance(below, str) else list(_expanded(below, unlisted))
                for title, below in entry.items()
            }
        elif "*" in entry:
            yield from sorted(fnmatch.filter(unlisted, entry), key=lambda path: Path(path).stem)
        else:
            yield entry


def paths_of(nav: Iterable[Entry]) -> Iterator[str]:
    """Yields the pages of a navigation in their order."""
    for entry in nav:
        if isinstance(entry, str):
            yield entry
            continue
        for below in entry.values():
            yield from [below] if isinstance(below, str) else paths_of(below)


def _further(paths: Sequence[str]) -> list[Entry]:
    """Returns the entries of pages that lie elsewhere or are written at build."""
    return [
        {"Examples": [path for path in paths if path.startswith("examples/")]},
        {
            "Reference": [
                "reference/index.md",
                *({title: _below(paths, f"reference/{room}/")} for room, title in _ROOMS.items()),
            ]
        },
        {"Project": ["contributing.md", "changelog.md", "counts.md", "pages.md"]},
    ]


_ROOMS = {
    "commands": "Commands",
    "python": "Python",
    "metrics": "Metrics",
    "techniques": "Techniques and their options",
}


def _below(paths: Iterable[str], folder: str) -> list[Entry]:
    inside = sorted(path for path in paths if path.startswith(folder))
    return [{path.removeprefix(folder).removesuffix(".md"): path} for path in inside]


def list_of_pages(nav: Sequence[Entry], pages: Mapping[str, Page]) -> Page:
    """Returns the page that lists all pages with a sentence each."""
    lines = ["# All pages", ""]
    for title, paths in _groups(nav):
        lines += [f"## {title}", ""]
        for path in paths:
            page = pages[path]
            lines.append(f"- [{page.title}]({path}){_said(page)}")
        lines.append("")
    return Page("pages.md", "\n".join(lines))


def llms_txt(nav: Sequence[Entry], pages: Mapping[str, Page], description: str) -> str:
    """Returns `llms.txt`: what the site has, for programs that read Markdown."""
    lines = ["# levelfield", "", f"> {description}", ""]
    for title, paths in _groups(nav):
        lines += [f"## {title}", ""]
        lines += [f"- [{pages[path].title}]({path}){_said(pages[path])}" for path in paths]
        lines.append("")
    return "\n".join(lines)


def _said(page: Page) -> str:
    return f": {page.summary}" if page.summary else ""


def _groups(nav: Sequence[Entry]) -> Iterator[tuple[str, list[str]]]:
    """Yields the titles of the first level with all pages below each; `Start` for those without."""
    for has_title, entries in itertools.groupby(nav, lambda entry: not isinstance(entry, str)):
        if not has_title:
            yield "Start", [str(entry) for entry in entries]
            continue
        for entry in entries:
            assert not isinstance(entry, str)
            for title, below in entry.items():
                yield title, [below] if isinstance(below, str) else list(paths_of(below))


def write(path: Path, settings: Mapping[str, Any]) -> None:
    """Writes the generator's file."""
    path.write_text(yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True), "utf-8")
