"""The beginning of a file, or the names in a folder: what a format is told by."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from levelfield.io.json_stream import JsonStream

_BYTES = 1 << 20


class Head:
    """What is read of a file or folder to tell its format.

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
    def begins(self) -> str:
        """The first character of a text that is no white space; empty if there is none."""
        with suppress(ValueError):
            return self._stream().next
        return ""

    @cached_property
    def first_line(self) -> str:
        """The first line; empty if it is no text."""
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

        What the beginning cuts off is None.
        """
        stream = self._stream()
        with suppress(ValueError):
            if stream.next == "[":
                next(stream.items(), None)
            return dict(_members(stream))
        return {}

    @cached_property
    def inner(self) -> Mapping[str, Any]:
        """The members of the first object in the list that is the first member of a document."""
        stream = self._stream()
        with suppress(ValueError):
            if stream.next == "{" and next(stream.members(), None) is not None:
                next(stream.items(), None)
                return dict(_members(stream))
        return {}

    def _stream(self) -> JsonStream:
        return JsonStream(io.BytesIO(self.content))


def _members(stream: JsonStream) -> Iterator[tuple[str, Any]]:
    """Yields the members of an object, of which the last may be cut off."""
    with suppress(ValueError):
        for name in stream.members():
            try:
                value = stream.value()
            except ValueError:
                yield name, None
                return
            yield name, value
