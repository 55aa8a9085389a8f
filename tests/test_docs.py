"""What README, docs and examples show is true: snippets run, names are there, commands parse."""

from __future__ import annotations

import ast
import pkgutil
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest

from levelfield.cli import levelfield

pytest.importorskip("torch")

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "examples/README.md"]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
SCRIPTS = sorted([*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "examples").rglob("*.py")])
RUN = ("README.md", "own-metric.md")
"""Pages whose snippets need no file of the reader's."""

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def snippets(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def imported(code: str) -> Iterator[str]:
    """Everything of the package that Python code imports, as dotted names."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("levelfield"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.startswith("levelfield"))


def commands(page: Path) -> Iterator[list[str]]:
    """The indented lines that begin with `levelfield`, as words; up to a pipe or a redirection."""
    text = page.read_text("utf-8").replace("\\\n", " ")
    for line in re.findall(r"^    levelfield (.*)$", text, re.MULTILINE):
        words = shlex.split(line, comments=True)
        ends = [i for i, word in enumerate(words) if word in ("|", ">", "&&", "&", "<")]
        yield words[: min(ends, default=len(words))]


@pytest.mark.parametrize("name", RUN)
def test_the_snippets_of_a_page_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    page = next(page for page in PAGES if page.name == name)
    module = ModuleType("snippet")
    monkeypatch.setitem(sys.modules, "snippet", module)  # a dataclass looks its module up
    for code in snippets(page):
        exec(compile(code, name, "exec"), vars(module))


@pytest.mark.parametrize("page", [*PAGES, CONTRIBUTING, *SCRIPTS], ids=lambda page: page.name)
def test_what_snippets_and_scripts_import_is_there(page: Path):
    for code in snippets(page) if page.suffix == ".md" else [page.read_text("utf-8")]:
        for name in imported(code):
            pkgutil.resolve_name(name)


@pytest.mark.parametrize("page", [*PAGES, CONTRIBUTING], ids=lambda page: page.name)
def test_modules_and_files_that_a_page_names_are_there(page: Path):
    text = page.read_text("utf-8")
    for name in re.findall(r"`(levelfield\.[a-z_]+\.[A-Za-z_.]+)[`(]", text):
        pkgutil.resolve_name(name)
    for name in re.findall(r"`((?:levelfield|tests|docs|examples|benchmarks)/[\w/.-]+)`", text):
        assert (ROOT / name).exists(), name
    for link in re.findall(r"\]\(([\w/.-]+\.(?:md|toml|jsonl|cff))\)", text):
        assert (page.parent / link).exists(), link


@every_page
def test_commands_that_a_page_shows_have_these_options(page: Path):
    for words in commands(page):
        command: click.Command = levelfield
        context = click.Context(command, info_name="levelfield")
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            name, *words = words
            inner = command.get_command(context, name)
            assert inner is not None, f"{page.name}: levelfield {name}"
            command, context = inner, click.Context(inner, context, info_name=name)
        command.make_parser(context).parse_args(list(words))
