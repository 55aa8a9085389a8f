"""Choices of metrics and techniques, as the commands that explain them show them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from levelfield.core.options import Declaration


def choice_documents(known: Mapping[str, Declaration]) -> dict[str, dict[str, Any]]:
    """Returns name -> default, accepted values and help, as JSON has them.

    `otherwise` says what happens without a value, where the default alone does not tell.
    """
    return {
        name: {
            "default": _default(choice),
            "otherwise": choice.rule.otherwise,
            "values": _values(choice),
            "range": choice.bounds,
            "needed": choice.required,
            "help": choice.rule.help,
        }
        for name, choice in known.items()
    }


def choice_lines(documents: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yields the lines that explain choices on a terminal."""
    for name, document in documents.items():
        default = "…" if document["needed"] else document["default"]
        values = f"{document['values']} {document['range']}".strip()
        otherwise = f"; default: {document['otherwise']}" if document["otherwise"] else ""
        yield f"  {name}={default}  ({values}{otherwise})"
        help = textwrap.wrap(document["help"], _WIDTH, break_on_hyphens=False)
        yield from (f"    {line}" for line in help)


_WIDTH = 96


def _default(choice: Declaration) -> object:
    if choice.required:
        return None
    value = choice.default
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _values(choice: Declaration) -> str:
    """Returns what a choice accepts, briefly."""
    if choice.names:
        return "|".join([*choice.names, *(["None"] if choice.optional else [])])
    annotation = choice.annotation
    if isinstance(annotation, type):
        return annotation.__name__
    # a class without its module
    return re.sub(r"\b[a-z_][\w.]*\.(?=[A-Z])", "", str(annotation)).removeprefix("typing.")
