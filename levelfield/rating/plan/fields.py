"""Fields that several parts of a study file have: choices, counts, names, languages."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import TypeVar

from levelfield.io.problems import listed, shown
from levelfield.io.toml import TomlTable, suggestion, toml_kind
from levelfield.rating.units import is_language

T = TypeVar("T")

_ID_CHARACTERS = frozenset(string.ascii_letters + string.digits + "-_.")
_LONGEST_ID = 60

MISPLACED = dict.fromkeys(
    (
        *("id", "version", "title", "language", "contact", "duration", "consent_version"),
        *("samples", "map", "ids", "show", "direction", "task"),
    ),
    "belongs to the whole study; write it above the first [table] of the file",
)
"""Keys that TOML takes for part of the table above them."""


def choice(table: TomlTable, key: str, known: Sequence[T], default: T) -> T:
    value = table.take(key)
    if value is None:
        return default
    for name in known:
        if value == name:
            return name
    hint = (
        suggestion(value, map(str, known))
        if isinstance(value, str)
        else f"there are {listed(known)}"
    )
    table.wrong_field(key, f"found {toml_kind(value)}; {hint}")
    return default


def from_one(table: TomlTable, key: str, default: int, most: int | None = None) -> int:
    n = table.whole(key, default, most)
    if n < 1:
        table.wrong_field(key, "expected a whole number from 1 on; found 0")
    return max(n, 1)


def identifier(table: TomlTable, key: str, example: str) -> str:
    """Returns a word that is fit for files and columns."""
    word = table.text(key, example)
    if word and (set(word) - _ID_CHARACTERS or len(word) > _LONGEST_ID or word[0] in "-."):
        table.wrong_field(
            key,
            f"{shown(word)}: expected up to {_LONGEST_ID} letters a to z, digits, - _ and ., "
            f"such as {example}",
        )
    return word


def language_tag(table: TomlTable, key: str, default: str) -> str:
    tag = table.text(key, '"en"', default=default)
    if not is_language(tag):
        table.wrong_field(
            key, f"expected the tag of a language, such as en or pt-BR; found {toml_kind(tag)}"
        )
        return default
    return tag
