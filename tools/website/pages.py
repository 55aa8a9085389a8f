"""Pages: their places in the repository and on the site, and the links between them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_TECHNIQUE = re.compile(r"levelfield/generation/techniques/_?(\w+)/page\.md")

_PLACES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "levelfield/metrics/counts/README.md": "counts.md",
}
"""Pages outside of `docs`, `examples` and the folders of techniques -> their places on the site."""

_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)(?P<path>[^)\s#]+)(?P<anchor>#[^)\s]*)?(?=\))")
_OPTIONS = (
    (re.compile(r"<!-- options: .*? -->\n"), '<div class="options" markdown="1">\n'),
    (re.compile(r"<!-- end of options -->"), "</div>"),
)
"""Marks around tables of options, and the element that narrow screens stack."""
_FENCE = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)


class WebsiteError(Exception):
    """A page can't be published as it is. Each line says where, what, and what to do."""


@dataclass(frozen=True)
class Page:
    """A page of the site.

    Attributes:
        path: on the site, such as `techniques/cfg.md`.
        text: Markdown.
        files: files that the page shows or links to: path on the site -> path on this machine.
    """

    path: str
    text: str
    files: dict[str, Path] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The first heading, without marks."""
        heading = re.search(r"^# +(.+?)(?: *\{.*\})?$", self.text, re.MULTILINE)
        if heading is None:
            raise WebsiteError(f"{self.path}: no title; begin the page with `# TITLE`")
        return heading[1].replace("`", "")

    @property
    def summary(self) -> str:
        """The first sentence of prose, without marks; empty where a page has none."""
        for block in re.split(r"\n\s*\n", without_fences(self.text)):
            if re.match(r"[A-Za-z`*\[]", block) and not block.startswith("#"):
                words = re.sub(r"\[([^\]]+)\]\([^)]+\)|[*`]", r"\1", " ".join(block.split()))
                return re.split(r"(?<=[.:?])\s", words)[0].rstrip(":")
        return ""

    @property
    def address(self) -> str:
        """The page's file on the built site."""
        path = PurePosixPath(self.path)
        if path.name == "README.md":
            return str(path.with_name("index.html"))
        return str(path.with_suffix(".html"))


def page_files() -> list[Path]:
    """Returns the files of the documentation: those in `docs`, and the pages of techniques."""
    return sorted([*DOCS.rglob("*.md"), *(ROOT / "levelfield").rglob("page.md")])


def written_pages() -> Iterator[Page]:
    """Yields the pages that people wrote."""
    for source in [
        *page_files(),
        *sorted((ROOT / "examples").rglob("README.md")),
        *(ROOT / name for name in _PLACES if name != "README.md"),
    ]:
        yield _page(source)


def _page(source: Path) -> Page:
    path = place_of(source)
    files: dict[str, Path] = {}
    missing: list[str] = []

    def moved(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(source.parent / link["path"]))
        if not target.exists():
            missing.append(f"{source.relative_to(ROOT)}: there is no {link['path']}")
            return link[0]
        place = place_of(target)
        if target.is_dir():
            place, target = f"{place}/README.md", target / "README.md"
        elif target.suffix != ".md":
            files[place] = target
        return f"{os.path.relpath(place, PurePosixPath(path).parent)}{link['anchor'] or ''}"

    text = outside_code(source.read_text("utf-8"), lambda prose: _LINK.sub(moved, prose))
    if missing:
        raise WebsiteError("\n".join(missing))
    for mark, element in _OPTIONS:
        text = mark.sub(element, text)
    return Page(path, text, files)


def place_of(source: Path) -> str:
    """Returns the place of a file of the repository on the site."""
    name = source.relative_to(ROOT).as_posix()
    if name in _PLACES:
        return _PLACES[name]
    if technique := _TECHNIQUE.fullmatch(name):
        return f"techniques/{technique[1].replace('_', '-')}.md"
    return (
        name.removeprefix("docs/") if name.startswith(("docs/", "examples/")) else f"files/{name}"
    )


def without_fences(text: str) -> str:
    """Returns a text without its fenced blocks."""
    return _FENCE.sub("", text)


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Returns a text with all changed that is neither in a fenced block nor in a code span."""
    return _outside(_FENCE, text, lambda prose: _outside(_SPAN, prose, change))


def _outside(code: re.Pattern[str], text: str, change: Callable[[str], str]) -> str:
    pieces = []
    end = 0
    for block in code.finditer(text):
        pieces += [change(text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*pieces, change(text[end:])])
