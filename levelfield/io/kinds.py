"""What a file is, by its first bytes."""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path

from levelfield.core.limits import TOML_BYTES
from levelfield.io.problems import listed

_BYTES = 1 << 16
_LONGEST_LINE = 1 << 24
_SQLITE = b"SQLite format 3\0"


class FileHead:
    """The beginning of a file.

    Raises:
        OSError: it can't be read.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._line = file.readline(_LONGEST_LINE)
            self._bytes = (self._line + file.read(max(0, _BYTES - len(self._line))))[:_BYTES]
        self._path = path

    @property
    def is_empty(self) -> bool:
        return not self._bytes.strip() or (self.is_parquet and not self.fields)

    @property
    def is_sqlite(self) -> bool:
        return self._bytes.startswith(_SQLITE)

    @property
    def is_parquet(self) -> bool:
        return self._bytes.startswith(b"PAR1")

    @cached_property
    def is_toml(self) -> bool:
        """Whether it is a TOML file with a value in it."""
        if not self.text or self._path.stat().st_size > TOML_BYTES:
            return False
        try:
            return bool(tomllib.loads(self._path.read_text("utf-8-sig")))
        except (ValueError, RecursionError):
            return False

    @cached_property
    def text(self) -> str:
        """The first characters; empty if this is no text."""
        try:
            # a character may be cut at the end
            text = self._bytes.decode(
                "utf-8-sig", "strict" if len(self._bytes) < _BYTES else "ignore"
            )
        except UnicodeDecodeError:
            return ""
        return "" if "\0" in text else text

    @cached_property
    def fields(self) -> frozenset[str]:
        """Keys of the JSON object in the first line, or columns of a Parquet or CSV file."""
        if self.is_parquet:
            import polars as pl

            try:
                return frozenset(pl.read_parquet_schema(self._path))
            except (OSError, pl.exceptions.PolarsError):
                return frozenset()
        if self.text.startswith("{"):
            try:
                record = json.loads(self._line)
            except (ValueError, RecursionError):
                return frozenset()
            return frozenset(record) if isinstance(record, dict) else frozenset()
        first = self.text.partition("\n")[0]
        return frozenset(next(csv.reader([first]), ())) if "," in first else frozenset()

    @property
    def description(self) -> str:
        """What it is, in words."""
        known = [name for name, matches in KINDS.items() if matches(self)]
        text = self.text.lstrip()
        match self:
            case FileHead(is_empty=True):
                return "nothing"
            case FileHead(is_sqlite=True):
                return "a database (SQLite), such as a store of ratings"
            case FileHead(is_toml=True):
                return "settings (TOML), such as a study file"
            case _ if known:
                return known[0]
            case FileHead(is_parquet=True):
                return "a Parquet file"
            case _ if text[:9].lower() == "<!doctype":
                return "an HTML page"
            case _ if self.fields:
                what = "JSON lines" if text.startswith("{") else "a table"
                return f"{what} with the fields {listed(sorted(self.fields), 4)}"
            case _:
                return "text" if text else "binary data"


def _fields(*names: str) -> Callable[[FileHead], bool]:
    return lambda head: head.fields.issuperset(names)


def _is_page(head: FileHead) -> bool:
    return '<meta name="generator" content="levelfield' in head.text


def _is_latex(head: FileHead) -> bool:
    return "\\begin{tabular}" in head.text and "\\documentclass" not in head.text


def _is_markdown(head: FileHead) -> bool:
    return "\n| :-- |" in head.text


def _is_generated(head: FileHead) -> bool:
    fields = ("id", "text", "continuation", "seed", "signature")
    # a first line that a crash has torn loses nothing
    torn = head.text.startswith('{"id": ') and not (head.fields or "\n" in head.text)
    return head.fields.issuperset(fields) or torn


def _is_samples(head: FileHead) -> bool:
    is_other = "metric" in head.fields or _is_generated(head)
    return head.fields.issuperset(("id", "text")) and not is_other


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


KINDS: Mapping[str, Callable[[FileHead], bool]] = {
    "scores": _fields("id", "metric", "value", "signature"),
    "parts of scores": _fields("id", "metric", "part", "score"),
    "a page of levelfield": _is_page,
    "LaTeX tables": _is_latex,
    "Markdown tables": _is_markdown,
    "z-scores": _fields("id", "aspect", "rater", "z"),
    "numbers of a study": _fields("control", "system", "measure", "dataset", "mean"),
    "links of raters": _fields("slot", "name", "link"),
    "negatives": _fields("id", "positive", "negative"),
    "word frequencies": lambda head: _is_number(head.text.partition("\n")[0]),
    "unigram counts": lambda head: head.text.startswith("# unigram counts"),
    "scales": lambda head: head.text.startswith("# Scales of composite scores"),
    "a pooler": lambda head: '"format": "levelfield pooler' in head.text[:100],
    "an export of ratings": lambda head: (
        "study_digest" in head.fields
        or _fields("rater", "survey", "slot", "state")(head)
        or _fields("criteria", "design", "items", "slots")(head)
        or head.text.partition("\n")[0].endswith(": codebook")
    ),
    "ratings": _fields("id", "aspect", "rater", "value"),
    "texts of `levelfield generate`": _is_generated,
    "samples": _is_samples,
}
"""The kinds of files that commands write -> whether a file is one."""
