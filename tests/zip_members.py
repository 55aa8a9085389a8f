"""Zip files with members that Zstandard packed, which Python before 3.14 can't write."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

_RAW_BLOCK = 0
_MOST = 1 << 17


def zstandard(content: bytes) -> bytes:
    """A frame of Zstandard whose blocks are not compressed (RFC 8878, section 3.1.1)."""
    frame = b"\x28\xb5\x2f\xfd" + b"\xe0" + struct.pack("<Q", len(content))
    blocks = [content[i : i + _MOST] for i in range(0, len(content), _MOST)] or [b""]
    for i, block in enumerate(blocks):
        is_last = i == len(blocks) - 1
        frame += (is_last | _RAW_BLOCK << 1 | len(block) << 3).to_bytes(3, "little") + block
    return frame


def write_zip(
    path: Path, members: Mapping[str, bytes] | Sequence[tuple[str, bytes]], *, method: int = 93
) -> Path:
    """Writes a zip file whose members have a method of compression that `zipfile` may not know."""
    pairs = list(members.items()) if isinstance(members, Mapping) else members
    with path.open("wb") as file:
        entries = b""
        for name, content in pairs:
            packed = zstandard(content) if method == 93 else content
            encoded, offset = name.encode(), file.tell()
            sizes = (zlib.crc32(content), len(packed), len(content), len(encoded), 0)
            common = struct.pack("<HHHHH", 20, 0, method, 0, 0x21) + struct.pack("<IIIHH", *sizes)
            file.write(b"PK\x03\x04" + common + encoded + packed)
            entries += b"PK\x01\x02" + struct.pack("<H", 20) + common
            entries += struct.pack("<HHHII", 0, 0, 0, 0, offset) + encoded
        start, n = file.tell(), len(pairs)
        file.write(entries)
        file.write(b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, n, n, len(entries), start, 0))
    assert zipfile.is_zipfile(path)
    return path
