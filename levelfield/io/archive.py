"""Members of a zip file, also those compressed with Zstandard."""

from __future__ import annotations

import codecs
import contextlib
import itertools
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from levelfield.core import limits

ZSTANDARD = 93
"""The number of this method in zip files; Python's own reader has it from 3.14 on."""

_LOCAL_HEADER = 30
_NEVER_IN_TEXT = "\x01"

_FRAME = 0xFD2FB528
"""The number that a frame of Zstandard begins with (RFC 8878)."""

_RUN, _COMPRESSED, _RESERVED = 1, 2, 3
"""Kinds of blocks: one byte repeated, compressed, and none that there is; others are raw."""

_BLOCK_BYTES = 1 << 17
"""The most that a compressed block unpacks to."""


class ArchiveError(ValueError):
    """A zip file, or a member of it, that can't be read."""


class Archive(contextlib.AbstractContextManager["Archive"]):
    """A zip file of text members, read one by one; a context manager.

    Attributes:
        names: of the members, in the order in which they were written.

    Raises:
        ArchiveError: it is not a whole zip file.
        OSError: it can't be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._zip = zipfile.ZipFile(path)
        # `zipfile` raises NotImplementedError if a file needs a later version of the format
        except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error) as error:
            raise ArchiveError(f"not a whole zip file: {error}") from None
        self._members = self._zip.infolist()
        self._last = {member.filename: member for member in self._members}
        self.names = tuple(member.filename for member in self._members)

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def __contains__(self, name: str) -> bool:
        return name in self._last

    def read(self, place: int | str) -> bytes:
        """Returns the content of a member: by its place in `names`, or the last one of a name.

        Raises:
            ArchiveError: it is damaged, too long, or packed by a method that can't be read here;
                or its length or checksum isn't the one in the zip file's directory.
            OSError: the file can't be read.
        """
        member = self._members[place] if isinstance(place, int) else self._last[place]
        if max(member.file_size, member.compress_size) > limits.LIST_BYTES:
            raise ArchiveError(f"{member.filename}: more than {limits.LIST_BYTES:,} bytes")
        try:
            if member.compress_type == ZSTANDARD:
                return _as_listed(member, without_zstandard(self._packed(member)))
            if member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                with self._zip.open(member) as file:  # `ZipFile.read` unpacks without a bound
                    return file.read(member.file_size + 1)
        except (zipfile.BadZipFile, zlib.error, struct.error, EOFError) as error:
            raise ArchiveError(f"{member.filename}: damaged: {error}") from None
        except (RuntimeError, ValueError) as error:  # encrypted, among others
            raise ArchiveError(f"{member.filename}: {error}") from None
        raise ArchiveError(
            f"{member.filename}: unsupported compression method {member.compress_type}"
        )

    def _packed(self, member: zipfile.ZipInfo) -> bytes:
        with self._path.open("rb") as file:
            file.seek(member.header_offset)
            header = file.read(_LOCAL_HEADER)
            if len(header) < _LOCAL_HEADER:
                raise ValueError("damaged: the file ends before it")
            name_and_extra = sum(struct.unpack("<HH", header[26:30]))
            file.seek(name_and_extra, 1)
            return file.read(member.compress_size)


def _as_listed(member: zipfile.ZipInfo, content: bytes) -> bytes:
    """Returns a text with what the reader of tables took away, as the directory describes it.

    Raises:
        ValueError: no such text has the length and the checksum that the directory states.
    """
    choices = itertools.product((b"", codecs.BOM_UTF8), (b"\n", b"\r\n"), (0, 1))
    for mark, line_end, last in choices:
        added = len(mark) + content.count(b"\n") * (len(line_end) - 1) + last * len(line_end)
        if len(content) + added != member.file_size:
            continue
        whole = mark + content.replace(b"\n", line_end) + last * line_end
        if zlib.crc32(whole) == member.CRC:
            return whole
    raise ValueError("damaged: its length or checksum is not the one in the directory")


def without_zstandard(packed: bytes) -> bytes:
    """Returns a text of lines without control characters, such as JSON, that Zstandard packed.

    The reader of tables unpacks it: as a table of one column, a line is a row. A byte order mark,
    carriage returns before line ends, and the last line end are lost.

    Raises:
        ValueError: it is damaged, or may be longer than `LIST_BYTES`.
    """
    import polars as pl

    if sum(_block_sizes(packed)) > limits.LIST_BYTES:
        raise ValueError(f"may unpack to more than {limits.LIST_BYTES:,} bytes")
    try:
        lines = pl.read_csv(
            packed,
            has_header=False,
            separator=_NEVER_IN_TEXT,
            quote_char=None,
            infer_schema=False,
        )
    except pl.exceptions.NoDataError:
        return b""
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        first = str(error).partition("\n")[0][:120]
        raise ValueError(f"can't be unpacked: {first}") from None
    return "\n".join(line or "" for line in lines.to_series()).encode()


def _block_sizes(packed: bytes) -> Iterator[int]:
    """Yields the most bytes that each block of Zstandard unpacks to, without unpacking any.

    Raises:
        ValueError: the frames and blocks are not whole.
    """
    offset = 0
    while offset < len(packed):
        if _number(packed, offset, 4) != _FRAME:
            raise ValueError("damaged: not a frame of Zstandard")
        descriptor = _number(packed, offset + 4, 1)
        is_single = descriptor >> 5 & 1
        size_bytes = (is_single, 2, 4, 8)[descriptor >> 6]
        offset += 5 + (not is_single) + (0, 1, 2, 4)[descriptor & 3] + size_bytes
        is_last = False
        while not is_last:
            header = _number(packed, offset, 3)
            is_last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
            if kind == _RESERVED:
                raise ValueError("damaged: a block of Zstandard of an unknown kind")
            yield _BLOCK_BYTES if kind == _COMPRESSED else size
            offset += 3 + (1 if kind == _RUN else size)
        offset += 4 * (descriptor >> 2 & 1)
    if offset > len(packed):
        raise ValueError("damaged: it ends within a block of Zstandard")


def _number(packed: bytes, offset: int, size: int) -> int:
    if offset + size > len(packed):
        raise ValueError("damaged: it ends within a frame of Zstandard")
    return int.from_bytes(packed[offset : offset + size], "little")
