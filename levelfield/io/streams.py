"""Streams of bytes and lines, of which none keeps a reader waiting for ever or takes all memory."""

from __future__ import annotations

import codecs
import errno
import hashlib
import io
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, TextIO, TypeVar

from levelfield.core import limits
from levelfield.core.progress import in_background
from levelfield.io.problems import Wrong

T = TypeVar("T")

STDIN = "-"

_CHUNK = 1 << 20


def open_bytes(path: Path) -> io.BufferedReader:
    """Opens a file for reading; a named pipe as soon as a program writes to it.

    Raises:
        OSError: it can't be opened, or no program has opened the pipe within `PIPE_WAIT_S`.
    """
    mend = "start the program first, or pipe its output to -"
    return _opened(path, lambda: path.open("rb"), "writes to", mend)


def open_text(path: Path) -> TextIO:
    """Opens a file for writing UTF-8; a named pipe as soon as a program reads from it.

    Raises:
        OSError: as for `open_bytes`.
    """

    def opened() -> TextIO:
        # a lone surrogate that still gets here becomes its escape, which JSON reads back
        return path.open("w", encoding="utf-8", newline="\n", errors="backslashreplace")

    return _opened(path, opened, "reads from", "start the program first, or name -")


def _opened(path: Path, call: Callable[[], T], use: str, mend: str) -> T:
    """Returns what a call opens; a pipe as soon as it has another end."""
    if not path.is_fifo():
        return call()
    from concurrent import futures

    outcome = in_background(call)
    if not futures.wait([outcome], limits.PIPE_WAIT_S).done:
        end = os.open(path, os.O_RDWR | os.O_NONBLOCK)  # the other end, so that the thread ends
        futures.wait([outcome])
        os.close(end)
        raise TimeoutError(
            errno.ETIMEDOUT,
            f"a named pipe that no program {use} (waited {limits.PIPE_WAIT_S:g} s); {mend}",
        )
    return outcome.result()


def read_bytes(path: Path, most: int = 0) -> bytes:
    """Returns what a file holds.

    Args:
        most: bytes of a file; `LIST_BYTES` by default.

    Raises:
        OSError: it can't be opened or read, or holds more than `most` bytes.
    """
    most = most or limits.LIST_BYTES
    with open_bytes(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"more than {most:,} bytes, the most that is read at once")
    return content


def copy_limited(stream: IO[bytes] | io.BufferedIOBase, copy: IO[bytes]) -> None:
    """Copies what a pipe or a packed file yields.

    Raises:
        OSError: it yields more than `STREAM_BYTES`.
    """
    for chunk in iter(partial(stream.read, _CHUNK), b""):
        copy.write(chunk)
        if copy.tell() > limits.STREAM_BYTES:
            raise OSError(
                errno.EFBIG,
                f"a stream of more than {limits.STREAM_BYTES:,} bytes; write it to a file first",
            )


def read_text(path: Path, most: int = 0, errors: str = "strict") -> str:
    """Returns the UTF-8 text that a file holds.

    Raises:
        OSError: as for `read_bytes`.
        UnicodeDecodeError: it is not UTF-8.
    """
    return read_bytes(path, most).decode("utf-8", errors)


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
    most = most or limits.LINE_BYTES
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
                f"{_mend('WINDOWS-1252')} (or from its actual encoding)"
            )
            yield number, Wrong(problem)
            continue
        if "\0" in text:
            problem = (
                f"NUL character at column {text.index(chr(0)) + 1}, which no text file has; "
                f"if it is UTF-16: {_mend('UTF-16LE')}"
            )
            yield number, Wrong(problem)
            continue
        yield number, text


def _mend(encoding: str) -> str:
    return f"convert it: iconv -f {encoding} -t UTF-8 FILE > NEW"


def sha256(path: Path) -> str:
    """Returns the SHA-256 of a file's bytes, in hexadecimal.

    Raises:
        OSError: the file can't be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_digest(content: object) -> str:
    """Returns a short digest of the `repr` of plain values."""
    return hashlib.sha256(repr(content).encode("utf-8", "surrogatepass")).hexdigest()[:12]
