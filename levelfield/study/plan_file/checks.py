"""Checks that all sections of a study file share."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from levelfield.core.errors import UserError
from levelfield.io import FORMATS
from levelfield.io.formats import Format
from levelfield.io.toml import TomlTable
from levelfield.study.cells import CellKey
from levelfield.study.plan import Word

T = TypeVar("T")

MISPLACED = dict.fromkeys(
    ("seeds", "metrics", "out"),
    "belongs to the whole study; write it above the first [table] of the file",
)
"""Keys that TOML takes for part of the table above them."""


def once(table: TomlTable, key: str, items: Sequence[object]) -> None:
    """Notes items of any type that occur more than once."""
    for item, n in Counter(map(repr, items)).items():
        if n > 1:
            table.wrong_field(key, f"{item} is there {n} times; name it once")


def check_name(table: TomlTable, name: str) -> None:
    """Notes what makes a name unfit for tables and folders."""
    if not name.strip():
        table.wrong("the name is empty")
    elif name != name.strip() or not name.isprintable():
        table.wrong("the name begins or ends with a blank, or has what can't be printed")
    elif len(CellKey(name, "", "", 0).folder.parts[1]) > _LONGEST_NAME:
        table.wrong("the name is too long for a folder; shorten it")


_LONGEST_NAME = 200
"""Of a folder, in bytes; file systems allow 255."""


def format_of_path(path: Path) -> Format | None:
    """Returns the format that the suffix says; None if it says none."""
    return next((f for f in FORMATS.values() if path.suffix.lower() in f.suffixes), None)


def product(counts: Sequence[int]) -> str:
    """Returns a product of numbers with its factors.

    >>> product([40, 40])
    '40 × 40 = 1,600'
    """
    factors = " × ".join(f"{count:,}" for count in counts)
    return f"{factors} = {math.prod(counts):,}" if len(counts) > 1 else factors


def attempt(
    table: TomlTable, key: str, call: Callable[..., T], *args: object, **options: object
) -> T | None:
    """Returns what the call returns; None, and a note in the table, after a `UserError`."""
    try:
        return call(*args, **options)
    except UserError as error:
        reason = str(error).replace("\n", "; ")
        table.wrong(f"{key}: {reason}" if key else reason)
        return None


def option_words(options: Mapping[str, Word], folder: Path) -> dict[str, str]:
    """Returns options as a user would write them on the command line.

    Args:
        folder: of the study file; a string that begins with `./` or `../` is a path from there.
    """
    words = {}
    for name, value in options.items():
        word = str(value).lower() if isinstance(value, bool) else str(value)
        words[name] = path_from(word, folder) if isinstance(value, str) else word
    return words


def path_from(text: str, folder: Path) -> str:
    """Returns what a string stands for, which is another thing in another folder if it begins with
    `./` or `../`."""
    return os.path.normpath(folder / text) if text.startswith(("./", "../")) else text
