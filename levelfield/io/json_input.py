"""JSON as users write it: no name may stand twice in an object."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from levelfield.core import limits
from levelfield.io.problems import shown
from levelfield.io.streams import read_text


class NameTwiceError(ValueError):
    """An object has a name twice, so that one of two values would be lost."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{shown(name)} appears twice in an object; remove one of the two")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise NameTwiceError(counts.most_common(1)[0][0])
    return read


DECODER = json.JSONDecoder(object_pairs_hook=_object)
"""Reads what users write.

Raises:
    ValueError: it is not JSON, or an object has a name twice.
    RecursionError: it is nested too deeply.
"""


def read_json(path: Path) -> Any:
    """Returns the value in a UTF-8 JSON file.

    Raises:
        OSError: it can't be read.
        ValueError: as for `parse_json`.
    """
    return parse_json(read_text(path))


def parse_json(text: str) -> Any:
    """Returns the value in a JSON text.

    Raises:
        ValueError: it is not JSON, an object has a name twice, it is nested too deeply, or has too
            many values.
    """
    check_values(text)
    try:
        return DECODER.decode(text)
    except RecursionError as error:
        raise ValueError(reason(error)) from None


class TooManyValuesError(ValueError):
    """A record that takes too much memory as objects."""


def check_values(text: str | bytes) -> None:
    """Checks that JSON has no more than `RECORD_VALUES` values, before it is parsed.

    Raises:
        TooManyValuesError: it may have more.
    """
    if has_many_values(text):
        raise TooManyValuesError(f"more than {limits.RECORD_VALUES:,} values in one record")


def has_many_values(text: str | bytes) -> bool:
    """Returns whether JSON may have more than `RECORD_VALUES` values.

    Commas and brackets within strings count as well.
    """
    if len(text) <= limits.RECORD_VALUES:
        return False
    signs = (b",", b"[", b"{") if isinstance(text, bytes) else (",", "[", "{")
    return sum(map(text.count, signs)) > limits.RECORD_VALUES  # type: ignore[arg-type]


def reason(error: Exception) -> str:
    """Returns why JSON can't be read, in a few words."""
    if isinstance(error, NameTwiceError | TooManyValuesError):
        return str(error)
    if isinstance(error, json.JSONDecodeError):
        line = f"line {error.lineno} " if "\n" in error.doc.rstrip("\n") else ""
        message = error.msg[0].lower() + error.msg[1:].removesuffix(" at")
        return f"not JSON: {message} at {line}column {error.colno}"
    if isinstance(error, RecursionError):
        return "not JSON: lists or objects nested too deeply"
    return "not JSON: a number with too many digits"


def object_of(value: object) -> Mapping[str, Any]:
    """Returns an object of another program's document; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def list_of(value: object) -> list[Any]:
    """Returns a list of another program's document; an empty one for anything else."""
    return value if isinstance(value, list) else []


def number_of(value: object) -> float | None:
    """Returns a number of another program's document, true and false among them; None for NaN and
    anything else.

    >>> number_of(True), number_of(0.5), number_of("0.5"), number_of(float("nan"))
    (1.0, 0.5, None, None)
    """
    if not isinstance(value, int | float) or value != value:
        return None
    try:
        return float(value)
    except OverflowError:  # a whole number of hundreds of digits
        return None
