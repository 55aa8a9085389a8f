"""Streams of bytes, of which none keeps a reader waiting for ever or takes all memory."""

from __future__ import annotations

import errno
import hashlib
import io
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, TextIO, TypeVar

from levelfield.core import limits
from levelfield.core.progress import in_background

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
