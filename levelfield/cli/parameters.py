"""Parameters of metrics and techniques, as the commands that explain them show them."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any


def parameter_documents(parameters: Mapping[str, inspect.Parameter]) -> dict[str, dict[str, Any]]:
    """Name -> `default` and the `values` that it may have, as JSON has them."""
    return {
        name: {"default": _default(p.default), "values": _values(p.annotation)}
        for name, p in parameters.items()
    }


def argument_lines(made: Callable[..., object]) -> dict[str, str]:
    """Name -> what the `Args` of a class and its bases say of an argument, in one line.

    What only refers to a base, `as of every technique`, gives way to what the base says.
    """
    lines: dict[str, str] = {}
    for part in inspect.getmro(made) if isinstance(made, type) else (made,):
        for names, said in _arguments(inspect.cleandoc(part.__doc__ or "")):
            if not said.startswith("as of every "):
                lines = dict.fromkeys(names, said) | lines
    return lines


_ARGS = re.compile(r"^Args:\n((?:    .*\n?|\n)+)", re.MULTILINE)
_ARGUMENT = re.compile(r"^    ([\w, ]+):((?: .*)?(?:\n {8}.*)*)", re.MULTILINE)


def _arguments(doc: str) -> list[tuple[list[str], str]]:
    section = _ARGS.search(doc)
    return [
        ([name.strip() for name in names.split(",")], " ".join(said.split()))
        for names, said in (_ARGUMENT.findall(section[1]) if section else ())
    ]


def _default(value: object) -> object:
    if value is inspect.Parameter.empty:
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _values(annotation: object) -> str:
    if typing.get_origin(annotation) is typing.Literal:
        return "|".join(map(str, typing.get_args(annotation)))
    if isinstance(annotation, type):
        return annotation.__name__
    return re.sub(r"\b[a-z_][\w.]*\.(?=[A-Z])", "", str(annotation))  # a class without its module
