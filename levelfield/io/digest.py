"""What says that the bytes of a file are those that are meant."""

from __future__ import annotations

import hashlib
from pathlib import Path


def sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal.

    Raises:
        OSError: the file can't be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_digest(content: object) -> str:
    """A short name for what plain values say, by their `repr`."""
    return hashlib.sha256(repr(content).encode("utf-8", "surrogatepass")).hexdigest()[:12]
