"""JSON as users write it: no object may have a name twice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from levelfield.io.lines import DECODER, check_values, reason
from levelfield.io.streams import read_text


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


def object_of(value: object, *path: object) -> Mapping[str, Any]:
    """Returns an object of another program's document, or one in it; an empty one for anything
    else.

    >>> object_of({"eval": {"config": {"epochs": 2}}}, "eval", "config")
    {'epochs': 2}
    """
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
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
