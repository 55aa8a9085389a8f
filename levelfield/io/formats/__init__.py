"""The formats of files that samples are read from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from levelfield.core.errors import UserError
from levelfield.core.extensions import Extensible
from levelfield.io.formats import table, text
from levelfield.io.formats.text import Row
from levelfield.io.problems import printable, shown


@dataclass(frozen=True)
class Format:
    """How one kind of file is read.

    Attributes:
        rows: the records of a file, problems among them.
        suffixes: of files that have this format.
        unit: what is counted, if not lines; stands before the number in messages.
        cells: whether values have no types, only text.
        is_table: whether all records have the same fields.
    """

    rows: Callable[[Path], Iterator[Row]]
    suffixes: tuple[str, ...] = ()
    unit: str = ""
    cells: bool = False
    is_table: bool = False


_OWN = {
    "jsonl": Format(text.jsonl, (".jsonl", ".ndjson")),
    "json": Format(text.json_list, (".json",), unit="item "),
    "csv": Format(table.comma_separated, (".csv",), cells=True, is_table=True),
    "tsv": Format(table.tab_separated, (".tsv",), cells=True, is_table=True),
    "parquet": Format(table.parquet_rows, (".parquet",), unit="row ", is_table=True),
    "text": Format(text.plain, (".txt",), is_table=True),
    "ctrleval": Format(table.ctrleval_rows, cells=True, is_table=True),
}

FORMATS: Mapping[str, Format] = Extensible("levelfield.formats", Format, _OWN)
"""Name -> format; those of other distributions come last."""


SPREADSHEETS = (".xlsx", ".xls", ".ods", ".numbers")
"""Suffixes of files that no format here reads."""


def format_named(name: str) -> Format:
    if name not in FORMATS:
        raise UserError(f"there is no format {shown(name)}; there are {', '.join(FORMATS)}")
    return FORMATS[name]


def format_of(path: str) -> Format:
    """Returns the format that a file's name says it has."""
    suffix = Path(path).suffix.lower()
    for format in FORMATS.values():
        if suffix in format.suffixes:
            return format
    if suffix in SPREADSHEETS:
        raise UserError(f"{printable(path)}: a spreadsheet; save it as CSV in UTF-8")
    unpack = "unpack it first, or " if suffix in (".gz", ".bz2", ".xz", ".zst", ".zip") else ""
    raise UserError(
        f"{printable(path)}: {shown(suffix) if suffix else 'a name without suffix'} says nothing "
        f"of the format; {unpack}name it: --format {'|'.join(FORMATS)}"
    )
