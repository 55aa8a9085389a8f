"""Digests of a cell's files, by which damage is told from what was written.

`cell.json` and `measured.json` carry a digest of themselves and those of the files that they are
written after, and so does each line of the journal of itself. Cells of older versions carry none,
and are read as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_DIGEST, _FILES = "digest", "files"
_BYTES = 16


def seal(record: Mapping[str, Any], digests: Mapping[str, str]) -> dict[str, Any]:
    """Returns a record with the digests of files, and its own."""
    return with_digest({**record, _FILES: dict(digests)})


def opened(record: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns a record without its seal, and the digests of the files that it names.

    Raises:
        ValueError: it is not the record that was sealed.
    """
    plain = without_digest(record)
    if (_DIGEST in record) != (_FILES in record):
        raise ValueError("half of the seal is missing")
    return plain, plain.pop(_FILES, {})


def with_digest(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a record with its digest."""
    return {**record, _DIGEST: _digest(record)}


def without_digest(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a record without its digest.

    Raises:
        ValueError: it is not the record that the digest is of.
    """
    plain = {key: value for key, value in record.items() if key != _DIGEST}
    if _DIGEST in record and record[_DIGEST] != _digest(plain):
        raise ValueError("the digest is another one")
    return plain


def file_digest(path: Path) -> str:
    """Returns the digest of a file; empty if there is none."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(
                file, lambda: hashlib.blake2b(digest_size=_BYTES)
            ).hexdigest()
    except OSError:
        return ""


def _digest(record: Mapping[str, Any]) -> str:
    content = json.dumps(record, sort_keys=True)
    return hashlib.blake2b(content.encode(), digest_size=_BYTES).hexdigest()
