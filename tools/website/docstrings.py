"""Docstrings as Markdown: prose, formulas, examples, and sections such as `Args`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

from tools.website.pages import outside_code

_SECTIONS = ("Args", "Attributes", "Raises", "Returns", "Yields", "Options")
_TITLES = {"Args": "Arguments"}
_LEFT_OUT = ("Options",)
"""Sections that a table of the declarations takes the place of."""


def markdown(subject: Any) -> str:
    """Returns the docstring of an object as Markdown; empty where it has none of its own."""
    text = inspect.getdoc(subject) or ""
    if isinstance(subject, type) and subject.__doc__ is None:
        return ""
    return "\n".join(_blocks(text.split("\n"))).strip() + "\n"


def _blocks(lines: list[str]) -> Iterator[str]:
    """Yields the lines of Markdown for the lines of a docstring."""
    section, body = "", []
    for line in [*lines, "."]:
        if section and (line.startswith(" ") or not line):
            body.append(line)
            continue
        if section:
            if section not in _LEFT_OUT:
                yield from _section(section, body)
            section, body = "", []
        if line.removesuffix(":") in _SECTIONS and line.endswith(":"):
            section = line.removesuffix(":")
        else:
            body.append(line)
        if section or line == ".":
            prose = body[:-1] if line == "." else body
            yield from _prose(prose)
            body = []


def _prose(lines: list[str]) -> Iterator[str]:
    """Yields prose; examples become blocks of Python."""
    text = "\n".join(lines)
    for piece in re.split(r"(^>>> .*?(?=\n\n|\Z))", text, flags=re.MULTILINE | re.DOTALL):
        if piece.startswith(">>> "):
            yield "\n```pycon"
            yield re.sub(r" *# doctest:.*", "", piece)
            yield "```\n"
        else:
            yield shown(piece)


def _section(section: str, lines: list[str]) -> Iterator[str]:
    """Yields a section: a list of names with their descriptions, or a paragraph."""
    text = inspect.cleandoc("\n".join(["", *lines]))
    entries = re.split(r"\n(?=\S)", text)
    yield f"\n**{_TITLES.get(section, section)}**\n"
    if section in ("Returns", "Yields"):
        yield shown(text)
    for entry in entries if section not in ("Returns", "Yields") else ():
        name, _, description = entry.partition(": ")
        names = ", ".join(f"`{each}`" for each in name.split(", "))
        words = shown(" ".join(description.split()))
        yield f"- {names}: {words}" if description else f"- {shown(name)}"
    yield ""


def shown(text: str) -> str:
    """Returns prose in which nothing is taken for HTML or for emphasis."""
    lines = [
        line if line.startswith("    ") else outside_code(line, _escaped)
        for line in text.split("\n")
    ]
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return re.sub(r"[*<_|](?=\S)|(?<=\S)[*_|]|(?<=\])\(", lambda sign: f"\\{sign[0]}", text)
