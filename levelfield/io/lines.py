"""Lines of a text file, decoded one at a time, and copies of streams that can be read only once."""

from __future__ import annotations

import codecs
import sys
import weakref
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import IO

from levelfield.core.errors import UserError
from levelfield.core.limits import LINE_BYTES
from levelfield.io.problems import Wrong
from levelfield.io.streams import copy_limited, open_bytes
from levelfield.io.writing import temporary_folder

STDIN = "-"

# UTF-32 first: its little-endian mark begins with that of UTF-16
_WIDE = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


def lines(path: Path, most: int = 0) -> Iterator[tuple[int, str | Wrong]]:
    """Yields `lines_of` a file that is not packed."""
    with open_bytes(path) as file:
        yield from lines_of(file, most)


def lines_of(file: IO[bytes], most: int = 0) -> Iterator[tuple[int, str | Wrong]]:
    r"""Yields the number and the text of every line, or what is wrong with it.

    Lines end with `\n` and keep it. No other character ends one: U+2028 and its like are part of
    a text. A line that can't be decoded is a problem of that line only.

    Args:
        most: bytes of a line; `LINE_BYTES` by default. Nothing is read after a longer one.
    """
    most = most or LINE_BYTES
    for number, raw in enumerate(iter(partial(file.readline, most + 1), b""), 1):
        if number == 1:
            for mark, encoding in _WIDE.items():
                if raw.startswith(mark):
                    yield 0, Wrong(f"the file is {encoding}, expected UTF-8; {_mend(encoding)}")
                    return
            raw = raw.removeprefix(codecs.BOM_UTF8)
        if len(raw) > most:
            yield number, Wrong(f"a line of more than {most:,} bytes; is this text?")
            return
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            column = len(raw[: error.start].decode()) + 1
            problem = (
                f"not UTF-8: byte 0x{raw[error.start]:02x} at column {column}; "
                f"{_mend('WINDOWS-1252')} (or from what it is written in)"
            )
            yield number, Wrong(problem)
            continue
        if "\0" in text:
            problem = (
                f"NUL character at column {text.index(chr(0)) + 1}, as no text file has; "
                f"if it is UTF-16: {_mend('UTF-16LE')}"
            )
            yield number, Wrong(problem)
            continue
        yield number, text


def _mend(encoding: str) -> str:
    return f"convert it: iconv -f {encoding} -t UTF-8 FILE > NEW"


class Spool:
    """Standard input, or another stream that can be read only once, kept as a temporary file.

    The file is made when it is first asked for and goes away with this object.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    @cached_property
    def file(self) -> Path:
        stack = ExitStack()
        weakref.finalize(self, stack.close)
        file = stack.enter_context(temporary_folder()) / "input"
        with file.open("wb") as copy:
            if self._path != STDIN:
                with open_bytes(Path(self._path)) as stream:
                    copy_limited(stream, copy)
            elif sys.stdin is None or sys.stdin.closed:
                raise UserError("standard input is closed; name a file instead of -")
            else:
                copy_limited(sys.stdin.buffer, copy)
        return file
