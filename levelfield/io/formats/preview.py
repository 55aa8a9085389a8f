"""The beginning of a file, or the names in a folder, by which a format is recognised."""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from levelfield.io.json_stream import JsonStream

_BYTES = 1 << 12
"""Bytes of the content that are held."""

_MOST_BYTES = 1 << 20
"""Bytes of the content that are searched for the names of members."""


_DECODER = json.JSONDecoder()
_SPACE = " \t\n\r"


class Preview:
    """The part of a file or folder that is read to recognise its format.

    Attributes:
        path: of the file or folder.
        is_folder: whether it is a folder.
        names: of the files and folders in it.
        content: the first bytes of a file.

    Raises:
        OSError: it can't be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_folder = path.is_dir()
        self.names = frozenset(p.name for p in path.iterdir()) if self.is_folder else frozenset()
        self.content = b""
        if not self.is_folder:
            with path.open("rb") as file:
                self.content = file.read(_BYTES)

    @property
    def suffix(self) -> str:
        """The last suffix of the name, in lower case."""
        return self.path.suffix.lower()

    @cached_property
    def _text(self) -> str:
        """The first bytes as text, as far as they are UTF-8 without a break."""
        with suppress(UnicodeDecodeError):
            return codecs.getincrementaldecoder("utf-8-sig")().decode(self.content)
        return ""

    @cached_property
    def begins(self) -> str:
        """The first character of a text that isn't white space; empty if there is none."""
        return self._text.lstrip(_SPACE)[:1]

    @cached_property
    def first_line(self) -> str:
        """The first line; empty if it isn't text."""
        try:
            return self.content.partition(b"\n")[0].decode("utf-8-sig").rstrip("\r")
        except UnicodeDecodeError:
            return ""

    @property
    def has_tabs(self) -> bool:
        """Whether tabs separate the cells of the first line."""
        return "\t" in self.first_line

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The cells of the first line of a table with commas, or with tabs."""
        with suppress(csv.Error):
            cells = csv.reader([self.first_line], delimiter="\t" if self.has_tabs else ",")
            return tuple(next(cells, ()))
        return ()

    @cached_property
    def record(self) -> Mapping[str, Any]:
        """The members of the first object: the document, the first of a list, or the first line.

        What the beginning of the file cuts off is None.
        """
        if self.begins not in ("{", "["):
            return {}
        start = self._text.index(self.begins) + (self.begins == "[")
        with suppress(ValueError, RecursionError):  # most are shorter than the beginning
            first, _ = _DECODER.raw_decode(self._text[start:].lstrip(_SPACE))
            return first if isinstance(first, dict) else {}
        with suppress(ValueError):
            stream = self._stream()
            if self.begins == "[":
                next(stream.items(), None)
            return stream.beginning()
        return {}

    def _stream(self) -> JsonStream:
        with self.path.open("rb") as file:
            return JsonStream(io.BytesIO(file.read(_MOST_BYTES)), chunk=_BYTES)

    @cached_property
    def inner(self) -> Mapping[str, Any]:
        """The members of the first object in the list that is the first member of a document."""
        if self.begins != "{":
            return {}
        first = next(iter(self.record.values()), None)
        if first is not None:  # nor is it cut off
            first = first[0] if isinstance(first, list) and first else None
            return first if isinstance(first, dict) else {}
        with suppress(ValueError):
            stream = self._stream()
            if next(stream.members(), None) is not None:
                next(stream.items(), None)
                return stream.beginning()
        return {}
