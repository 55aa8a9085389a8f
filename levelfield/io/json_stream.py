"""JSON documents that are read part by part, with the largest part in memory."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from levelfield.core import limits
from levelfield.io.lines import check_values
from levelfield.io.streams import open_bytes

_CHUNK = 1 << 16
_SPACE = " \t\n\r"
_NUMBER = 40
"""Characters that a number may have at most; one with as many after it has ended."""


def json_value(path: Path) -> Any:
    """Returns the value in a JSON file of another program.

    Raises:
        OSError: it can't be read.
        ValueError: it is not one JSON value.
    """
    with open_bytes(path) as file:
        stream = JsonStream(file)
        value = stream.value()
        if stream.next:
            raise ValueError("not JSON: there is more after the end of the value")
        return value


class ReadsBytes(Protocol):
    """A file, or another source of bytes."""

    def read(self, size: int, /) -> bytes:
        """Returns the next bytes, `size` at most; none at the end."""


class JsonStream:
    """A JSON document, whose objects and lists are entered where the caller wants their parts.

    `members` and `items` move to each value of the object or list that comes next. The caller reads
    it with `value`, or enters it in turn; a value that it leaves alone is skipped.

    >>> import io
    >>> stream = JsonStream(io.BytesIO(b'{"n": 2, "rows": [{"a": 1}, {"a": 2}]}'))
    >>> for name in stream.members():
    ...     if name == "rows":
    ...         print([stream.value() for _ in stream.items()])
    [{'a': 1}, {'a': 2}]

    Args:
        file: UTF-8, perhaps with a byte order mark.
        most: characters of one part; `LIST_BYTES` by default.
        chunk: bytes that are read at a time, and more where a part is longer.
    """

    def __init__(self, file: ReadsBytes, most: int = 0, chunk: int = _CHUNK) -> None:
        self._file = file
        self._most = most or limits.LIST_BYTES
        self._chunk = chunk
        self._decoded = codecs.getincrementaldecoder("utf-8-sig")()
        self._decode = json.JSONDecoder().raw_decode
        self._text = ""
        self._at = 0
        self._dropped = 0
        self._ended = False

    @property
    def next(self) -> str:
        """The next character that isn't white space; empty at the end.

        Raises:
            ValueError: the bytes are not UTF-8.
        """
        self._pass_space()
        return self._text[self._at : self._at + 1]

    def value(self) -> Any:
        """Returns the value that comes next.

        Raises:
            ValueError: it is not JSON, longer than `most`, or has too many values.
        """
        if not self.next:
            raise self._wrong("the document ends where a value is expected")
        while True:
            if len(self._text) > limits.RECORD_VALUES:
                check_values(self._text)
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._more():
                    continue
                message = error.msg[0].lower() + error.msg[1:].removesuffix(" at")
                raise self._wrong(message, error.pos) from None
            except RecursionError:
                raise self._wrong("lists or objects nested too deeply") from None
            is_number = isinstance(value, int | float)
            if is_number and len(self._text) - end < _NUMBER and self._more():
                continue
            self._at = end
            return value

    def members(self) -> Iterator[str]:
        """Yields the names of an object, each with its value next.

        Raises:
            ValueError: it is not JSON or not an object.
        """
        yield from self._parts("{", "}", "an object")

    def beginning(self) -> dict[str, Any]:
        """Returns the members of an object up to what can't be read, whose value is None."""
        read: dict[str, Any] = {}
        with suppress(ValueError):
            for name in self.members():
                read[name] = None
                read[name] = self.value()
        return read

    def items(self) -> Iterator[int]:
        """Yields the numbers of the items of a list from 1 on, each with the item next.

        Raises:
            ValueError: it is not JSON or not a list.
        """
        for number, _ in enumerate(self._parts("[", "]", "a list"), 1):
            yield number

    def values(self) -> Iterator[Any]:
        """Yields the items of a list.

        Raises:
            ValueError: as `items` and `value` do.
        """
        for _ in self.items():
            yield self.value()

    def _parts(self, begin: str, end: str, kind: str) -> Iterator[str]:
        if self.next != begin:
            raise self._wrong(f"expected {kind}, which begins with {begin}")
        self._at += 1
        while self.next != end:
            name = self._name() if begin == "{" else ""
            self._pass_space()  # so that `next` moves nothing
            place = self._place
            yield name
            if self._place == place:
                self._skip()
            if self.next == ",":
                self._at += 1
                if self.next == end:
                    raise self._wrong("expected a value after the comma")
            elif self.next != end:
                raise self._wrong(f"expected , or {end}")
        self._at += 1

    def _name(self) -> str:
        if self.next != '"':
            raise self._wrong("expected a name in double quotes")
        name: str = self.value()
        if self.next != ":":
            raise self._wrong("expected : after a name")
        self._at += 1
        return name

    def _pass_space(self) -> None:
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._text) or not self._more():
                return

    def _skip(self) -> None:
        if self.next == "[":
            for _ in self.items():
                self.value()
        else:
            self.value()

    @property
    def _place(self) -> int:
        return self._dropped + self._at

    def _more(self) -> bool:
        """Reads as much as is held already, so that a long value is decoded few times."""
        held = len(self._text) - self._at
        if self._ended:
            return False
        if held > self._most:
            raise self._wrong(f"a part of more than {self._most:,} characters")
        raw = self._file.read(max(self._chunk, held))
        try:
            text = self._decoded.decode(raw, final=not raw)
        except UnicodeDecodeError as error:
            raise self._wrong(f"not UTF-8: byte 0x{error.object[error.start]:02x}") from None
        self._ended = not raw
        if not raw and not text:  # what is held stays where it is
            return False
        self._dropped += self._at
        self._text, self._at = self._text[self._at :] + text, 0
        return True

    def _wrong(self, problem: str, index: int | None = None) -> ValueError:
        place = self._dropped + (self._at if index is None else index) + 1
        return ValueError(f"not JSON: {problem} (at character {place:,})")
