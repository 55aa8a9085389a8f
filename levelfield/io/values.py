"""Values of a record to values of a sample: one function for each kind of field.

Each takes the value and whether its strings are cells of a table without types, such as CSV:
cells that are numbers or JSON are read as such. Each raises `Wrong` if it can't be what it should.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, TypeGuard, TypeVar

import numpy as np

from levelfield.core import limits
from levelfield.core.strings import whole_number
from levelfield.io.json_input import parse_json
from levelfield.io.lines import NameTwiceError
from levelfield.io.problems import Wrong, kind, shown

T = TypeVar("T")

_WITH_COMMAS = re.compile(r"[-+]?[0-9.]*(,[0-9.]+)+")


def absent(value: object) -> bool:
    """Returns whether a value is missing: null, an empty string, or NaN as in tables."""
    if isinstance(value, str):
        return not value
    return value is None or (isinstance(value, float) and math.isnan(value))


def is_plain(value: object) -> TypeGuard[str]:
    """Returns whether `string` returns a value as it is, without a further look."""
    return type(value) is str and len(value) <= limits.TEXT_CHARACTERS and value.isascii()


def is_finite_number(value: object) -> bool:
    """Returns whether `rating` and `score` return a number as it is, without a further look."""
    return type(value) in (float, int) and abs(value) <= limits.LARGEST_NUMBER  # type: ignore[arg-type]


def string(value: Any, _cells: bool = False) -> str:
    if is_plain(value):
        return value
    if isinstance(value, str) and len(value) > limits.TEXT_CHARACTERS:
        raise Wrong(
            f"a text of {len(value):,} characters; at most {limits.TEXT_CHARACTERS:,} are read; split it"
        )
    if not isinstance(value, str):
        raise Wrong(f"expected a string, found {kind(value)}; write it in quotes or leave it out")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise Wrong(
                f"a lone surrogate ({shown(value[error.start])[1:-1]}) at character "
                f"{error.start + 1}: half of a character, which models can't read; write the "
                "character whole or remove the half"
            ) from None
    return value


def name(value: Any, cells: bool) -> str:
    """Returns a string; people number their samples and systems, so numbers too."""
    if is_plain(value):
        return value
    if isinstance(value, str | bool) or not isinstance(value, numbers.Real):
        return string(value, cells)
    return str(value)


def whole(value: Any, cells: bool) -> int:
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    real = number(value, cells, "a whole number")
    if not real.is_integer():
        raise Wrong(f"expected a whole number, found {shown(value, 20)}; remove the fraction")
    try:
        return whole_number(value) if isinstance(value, str) else int(value)
    except ValueError:  # a cell such as 42.0, as pandas writes a column with gaps
        return int(real)


def number(value: Any, cells: bool, expected: str = "a number") -> float:
    """Returns a finite number or NaN; a string is a number only as a cell."""
    is_number = isinstance(value, numbers.Real | Decimal) and not isinstance(value, bool)
    try:
        if not (is_number or (cells and isinstance(value, str) and "_" not in value)):
            raise ValueError
        real = float(value)
    except (ValueError, OverflowError):
        mend = "leave out what is missing"
        if isinstance(value, str) and _WITH_COMMAS.fullmatch(value.strip()):
            mend = "write decimals with a point, as in 3.5, and thousands without a separator"
        raise Wrong(f"expected {expected}, found {kind(value)}; {mend}") from None
    if math.isinf(real):
        raise Wrong(f"expected {expected}, found {shown(value, 20)}, which is not finite")
    if abs(real) > limits.LARGEST_NUMBER:
        raise Wrong(
            f"expected {expected}, found {real:g}; the largest accepted is {limits.LARGEST_NUMBER:g}"
        )
    return real


def array(value: Any, cells: bool) -> Any:
    """Returns a list from a cell's JSON or a NumPy array; anything else unchanged."""
    if cells and isinstance(value, str) and value.startswith("[") and value.endswith("]"):
        return _json_cell(
            value,
            'a JSON array, which is written ["one", "two"]; '
            "a single text in brackets is written as an array of one",
        )
    return value.tolist() if isinstance(value, np.ndarray) else value


def strings(value: Any, cells: bool) -> tuple[str, ...]:
    """Returns a list of strings, or a single one."""
    value = array(value, cells)
    if not isinstance(value, list | tuple):
        return (string(value),)
    if all(map(is_plain, value)):
        return tuple(value)
    return tuple(_inside(n, string, item) for n, item in enumerate(value, 1))


def wanted(value: Any, cells: bool) -> str | tuple[str, ...]:
    """Returns the wanted value or values of an attribute; "" if there is none."""
    if type(value) is str and not cells:
        return string(value)
    if absent(value):
        return ""
    if type(value) is int:  # a label such as 0 or 1
        return str(value)
    value = array(value, cells)
    return strings(value, cells) if isinstance(value, list | tuple) else string(value)


def control(value: Any, cells: bool) -> dict[str, str | tuple[str, ...]]:
    """Returns attribute -> wanted value or values."""
    value, cells = _object(value, cells, '{"sentiment": "positive"}')
    labels = {}
    for attribute, item in value.items():
        try:
            label = wanted(item, cells)
        except Wrong as wrong:
            raise wrong.inside(attribute) from None
        if label:
            labels[string(attribute)] = label
    return labels


def ratings(value: Any, cells: bool) -> dict[str, dict[str, float]]:
    """Returns aspect -> rater -> value, without the missing ones."""
    value, cells = _object(value, cells, '{"coherence": {"rater 1": 4}}')
    aspects = {string(k): _inside(k, raters, item, cells) for k, item in value.items()}
    return {aspect: of_raters for aspect, of_raters in aspects.items() if of_raters}


def raters(value: Any, cells: bool) -> dict[str, float]:
    """Returns rater -> value of one aspect; raters that have no names are "1", "2", …."""
    value = array(value, cells)
    if isinstance(value, list | tuple):
        value = {str(n): item for n, item in enumerate(value, 1)}
    if not isinstance(value, Mapping):
        value = {"1": rating(value, cells)}
    named = {string(rater): _inside(rater, rating, item, cells) for rater, item in value.items()}
    return {rater: number for rater, number in named.items() if not math.isnan(number)}


def rating(value: Any, cells: bool) -> float:
    """Returns one rater's number; NaN if there is none."""
    if type(value) is float and abs(value) <= limits.LARGEST_NUMBER:
        return value
    if absent(value) or (cells and isinstance(value, str) and value.isspace()):
        return math.nan
    return number(value, cells)


def score(value: Any, cells: bool) -> float:
    """Returns a value of a metric; NaN if there is none. It may be infinite, as a number or as the
    string "inf" or "-inf"."""
    infinite = isinstance(value, float | np.floating) and np.isinf(value)
    if infinite or (isinstance(value, str) and value.strip() in ("inf", "-inf")):
        return float(value)
    return rating(value, cells)


def _json_cell(cell: str, expected: str) -> Any:
    try:
        return parse_json(cell)
    except NameTwiceError as error:
        raise Wrong(str(error)) from None
    except ValueError:
        raise Wrong(f"{shown(cell)} is not {expected}") from None


def _object(value: Any, cells: bool, example: str) -> tuple[Mapping[Any, Any], bool]:
    """Returns an object, and whether the strings in it are cells: those inside JSON are not."""
    if type(value) is dict:
        return value, cells
    if cells and isinstance(value, str):
        value, cells = _json_cell(value, f"a JSON object such as {example}"), False
    if absent(value):
        return {}, cells
    if not isinstance(value, Mapping):
        raise Wrong(f"expected an object such as {example}, found {kind(value)}")
    return value, cells


def _inside(step: object, convert: Callable[..., T], *args: Any) -> T:
    try:
        return convert(*args)
    except Wrong as wrong:
        raise wrong.inside(step) from None
