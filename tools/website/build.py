"""The way from pages of the repository to a site: stage, generate, check."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from tools.website import navigation
from tools.website.checks import problems_of
from tools.website.formulas import with_formulas
from tools.website.lists import with_wide_lists
from tools.website.pages import DOCS, Page, WebsiteError, written_pages
from tools.website.reference import reference_pages

_FILES = (".svg", ".png", ".css", ".js")
"""Kinds of files in `docs` that the site has beside its pages."""


def build(place: Path) -> Path:
    """Builds the site in a folder; returns its first page.

    Raises:
        WebsiteError: a page names what is not there, or the generator or a check says no.
    """
    settings = stage(place)
    generate(place / "mkdocs.yml")
    html = place / settings["site_dir"]
    for path in ("llms.txt", *navigation.paths_of(settings["nav"])):  # Markdown, for programs
        (html / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(place / settings["docs_dir"] / path, html / path)
    if problems := problems_of(html):
        raise WebsiteError("\n".join(problems))
    return html / "index.html"


def stage(place: Path) -> dict[str, str]:
    """Writes pages, files and `mkdocs.yml` for the generator; returns its settings.

    Raises:
        WebsiteError: a page names what is not there, or is not in the navigation.
    """
    pages = {page.path: page for page in [*written_pages(), *reference_pages()]}
    pages["pages.md"] = Page("pages.md", "# All pages\n")
    settings = navigation.configuration(pages.values(), docs="pages", site="html")
    pages["pages.md"] = navigation.list_of_pages(settings["nav"], pages)
    shutil.rmtree(place, ignore_errors=True)
    for page in pages.values():
        text = with_formulas(with_wide_lists(page.text), page.path)
        _write(place / "pages" / page.path, text)
        for path, file in page.files.items():
            _copy(file, place / "pages" / path)
    for file in (f for f in sorted(DOCS.rglob("*")) if f.suffix in _FILES):
        _copy(file, place / "pages" / file.relative_to(DOCS))
    description = settings["site_description"]
    plain = {path: replace(page, text=page.text) for path, page in pages.items()}
    _write(place / "pages" / "llms.txt", navigation.llms_txt(settings["nav"], plain, description))
    navigation.write(place / "mkdocs.yml", settings)
    return settings


def generate(configuration: Path) -> None:
    """Makes HTML of the staged pages.

    Raises:
        WebsiteError: Zensical warns of a link, an anchor or anything else.
    """
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    run = subprocess.run(
        [*command, "--config-file", str(configuration)], capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise WebsiteError((run.stdout + run.stderr).strip())


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
