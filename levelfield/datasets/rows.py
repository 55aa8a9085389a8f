"""Rows of published text files, and the one error for a row that is not as expected."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from levelfield.core.errors import InputError
from levelfield.core.strings import finite_number

TURN = "</UTT>"


def lines(path: Path) -> list[str]:
    r"""Lines without their ends; only `\n` and `\r\n` end one. An empty last one is none."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError([f"{path}: not UTF-8 at byte {error.start}"]) from error
    rows = [line.removesuffix("\r") for line in text.split("\n")]
    return rows[:-1] if rows[-1] == "" else rows


def numbered(path: Path) -> Iterator[tuple[int, str]]:
    """Number and text of the lines that are not blank."""
    return ((n, line) for n, line in enumerate(lines(path), 1) if line.strip())


def records(path: Path, *fields: str) -> list[dict[str, str]]:
    """Rows of a CSV file with a header that has at least these fields."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        try:
            missing = set(fields) - set(reader.fieldnames or ())
            if missing:
                raise wrong(path, 1, f"no column {', '.join(sorted(missing))}")
            return list(reader)
        except (csv.Error, UnicodeDecodeError) as error:
            raise wrong(path, reader.line_num, f"not CSV: {error}") from error


def number(text: str, path: Path, line: int) -> float:
    """A finite number.

    Raises:
        InputError: it is none.
    """
    try:
        return finite_number(text)
    except ValueError:
        raise wrong(path, line, f"expected a number, found '{text[:30]}'") from None


def turns(joined: str) -> tuple[str, ...]:
    """The turns of a dialogue; a mark after the last one is allowed."""
    return tuple(turn.strip() for turn in joined.removesuffix(TURN).split(TURN))


def wrong(path: Path, line: int, what: str) -> InputError:
    """The error for a row that is not as expected."""
    return InputError([f"{path}:{line}: {what}; is it the published file?"])
