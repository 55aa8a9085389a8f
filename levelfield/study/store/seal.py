"""Digests of a cell's files, by which damage is told from what was written.

`cell.json` and `measured.json` carry a digest of themselves and those of the files that they are
written after. Cells of older versions carry none, and are read as they are.
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
    whole = {**record, _FILES: dict(digests)}
    return {**whole, _DIGEST: _digest(whole)}


def opened(record: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns a record without its seal, and the digests of the files that it names.

    Raises:
        ValueError: it is not the record that was sealed.
    """
    plain = {key: value for key, value in record.items() if key not in (_DIGEST, _FILES)}
    if not record.keys() & {_DIGEST, _FILES}:
        return plain, {}
    whole = {key: value for key, value in record.items() if key != _DIGEST}
    if record.get(_DIGEST) != _digest(whole):
        raise ValueError("the digest is another one")
    return plain, dict(record[_FILES])


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
