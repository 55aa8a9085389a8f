"""Files that grow by lines, each written at once, so that a killed run goes on where it was.

A line without an end is one that a crash has torn: it is not read, and goes before the next one is
written.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path


def whole_lines(path: Path) -> Iterator[bytes]:
    """Yields the whole lines of a file, with their ends; none if there is no file."""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        yield from (line for line in file if line.endswith(b"\n"))


@contextlib.contextmanager
def appending(path: Path, size: int, *, sync: bool = False) -> Iterator[Callable[[bytes], None]]:
    """Yields a function that writes bytes at once, after the first `size` bytes of a file.

    Args:
        sync: whether they are on the disk when the function returns, for the machine's crash.

    Raises:
        OSError: the file can't be written.
    """
    with path.open("ab", buffering=0) as file:
        file.truncate(size)

        def write(content: bytes) -> None:
            rest = memoryview(content)
            while rest:  # on a disk that is nearly full, part of it is written first
                rest = rest[file.write(rest) or 0 :]
            if sync:
                os.fsync(file.fileno())

        yield write
