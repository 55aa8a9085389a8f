"""Checks that all sections of a study file share."""

from __future__ import annotations

import itertools
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, TypeVar

from levelfield.core import limits, registry
from levelfield.core.errors import UserError
from levelfield.core.options import underscored
from levelfield.core.registry import MetricFile
from levelfield.io import FORMATS
from levelfield.io.formats import Format
from levelfield.io.problems import shown
from levelfield.io.toml import TomlTable, toml_kind
from levelfield.study.cells import CellKey, value_name
from levelfield.study.plan import (
    ControlKind,
    MetricPlan,
    PromptSet,
    Word,
    check_fields,
    fields_of,
)

T = TypeVar("T")

MISPLACED = dict.fromkeys(
    ("seeds", "metrics", "out"),
    "belongs to the whole study; write it above the first [table] of the file",
)
"""Keys that TOML takes for part of the table above them."""


def repeated(items: Iterable[T]) -> list[tuple[T, int]]:
    """Returns the items that occur more than once, and how often."""
    return [(item, n) for item, n in Counter(items).items() if n > 1]


def once(table: TomlTable, key: str, items: Sequence[object]) -> None:
    """Notes items of any type that occur more than once."""
    for item, n in repeated(map(repr, items)):
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


def option_words(
    table: TomlTable, options: Mapping[str, Word | Mapping[str, Any]], folder: Path
) -> dict[str, Any]:
    """Returns options as a user would write them on the command line, and tables as they are.

    Notes an option that is given both with dashes and with underscores.

    Args:
        table: the table that has them.
        folder: of the study file; paths that begin with `./` or `../` are relative to it.
    """
    words: dict[str, Any] = {}
    for name, value in (attempt(table, "options", underscored, options) or {}).items():
        if isinstance(value, str | Mapping):
            words[name] = _with_paths(value, folder)
        else:
            words[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return words


def _with_paths(value: Any, folder: Path) -> Any:
    """Returns a value with the strings in it, however deep, as `path_from` has them."""
    if isinstance(value, Mapping):
        return {key: _with_paths(inner, folder) for key, inner in value.items()}
    return path_from(value, folder) if isinstance(value, str) else value


def path_from(text: str, folder: Path) -> str:
    """Returns a string, or several separated by commas, with paths from the folder in place of
    those that begin with `./` or `../`.

    >>> path_from("./mine,offline/sentiment-lm", Path("/study"))
    '/study/mine,offline/sentiment-lm'
    """
    return ",".join(
        os.path.normpath(folder / item.lstrip())
        if item.lstrip().startswith(("./", "../"))
        else item
        for item in text.split(",")
    )


def read_controls(tables: Iterable[TomlTable]) -> Iterator[ControlKind]:
    """Yields the kinds of control with all combinations of their values."""
    for table in tables:
        check_name(table, table.name)
        values = {a: _values(table, a) for a in table if a not in MISPLACED}
        table.finish(elsewhere=MISPLACED)
        if not values:
            table.wrong('expected an attribute, such as sentiment = ["positive", "negative"]')
        counts = [len(choices) for choices in values.values()]
        if math.prod(counts) > limits.CELL_REQUESTS:
            table.wrong(
                f"{product(counts)} combinations of its values; at most "
                f"{limits.CELL_REQUESTS:,} are allowed; leave out values, or split it into several "
                "kinds of control"
            )
            # each value by itself, so that other problems of the file are reported, too
            singles = tuple({a: v} for a, choices in values.items() for v in choices)
            yield ControlKind(table.name, singles)
            continue
        combinations = tuple(
            dict(zip(values, combination, strict=True))
            for combination in itertools.product(*values.values())
        )
        for alike, n in repeated(map(value_name, combinations)):
            table.wrong(f"{n} of its values read {shown(alike)}; all must differ")
        yield ControlKind(table.name, combinations)


def _values(table: TomlTable, attribute: str) -> list[str | tuple[str, ...]]:
    values = table.take(attribute)
    expected = 'a list of values, such as ["positive", "negative"] or [["court", "culture"]]'
    if not attribute.strip():
        table.wrong("the name of an attribute is empty")
    if not isinstance(values, list) or not values:
        table.wrong_field(attribute, f"expected {expected}; found {toml_kind(values)}")
        return []
    choices: list[str | tuple[str, ...]] = []
    for n, value in enumerate(values, 1):
        words = value if isinstance(value, list) else [value]
        if words and all(isinstance(word, str) and word.strip() for word in words):
            choices.append(tuple(words) if isinstance(value, list) else value)
        else:
            form = "a string, or a list of strings, none of them empty"
            table.wrong_field(f"{attribute}[{n}]", f"expected {form}; found {toml_kind(value)}")
    return choices


def read_metrics(
    top: TomlTable, tables: Iterable[TomlTable], folder: Path, datasets: Sequence[PromptSet]
) -> Iterator[MetricPlan]:
    """Yields the metrics with their options. One in a file is not looked at: that would run it."""
    readable = fields_of(datasets)
    members: list[str] = []
    for table in tables:
        fields = table.values(MetricPlan, complete=True)
        name = fields["name"] or ""
        if file := MetricFile.parse(name):
            name = str(MetricFile(folder / file.path, file.cls))
            members.append(name)
        options = option_words(table, fields["options"], folder)
        table.finish()
        if name and not file:
            members += attempt(table, "", installed_metrics, name, options, readable) or ()
        if name:
            yield MetricPlan(name, options)
    for name, n in repeated(members):
        top.wrong_field("metrics", f"{shown(name)} is there {n} times; values go by its name")


def installed_metrics(name: str, options: Mapping[str, str], fields: Set[str]) -> tuple[str, ...]:
    """Returns the metrics that a name stands for, once they are checked against options and fields.

    Raises:
        UserError: there is none, it lacks an option, or a study lacks a field that it reads.
    """
    names = registry.matching(name)
    check_fields(registry.create(names, {}, options), fields)
    return names
