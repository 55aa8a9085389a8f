"""Members of a zip file, also those compressed with Zstandard."""

from __future__ import annotations

import contextlib
import struct
import zipfile
import zlib
from pathlib import Path

from levelfield.core.limits import LIST_BYTES

ZSTANDARD = 93
"""The number of this method in zip files; Python's own reader has it from 3.14 on."""

_LOCAL_HEADER = 30
_NEVER_IN_TEXT = "\x01"


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
            ArchiveError: it is damaged, too long, or packed by a method that can't be read here.
            OSError: the file can't be read.
        """
        member = self._members[place] if isinstance(place, int) else self._last[place]
        if max(member.file_size, member.compress_size) > LIST_BYTES:
            raise ArchiveError(f"{member.filename}: more than {LIST_BYTES:,} bytes")
        try:
            if member.compress_type == ZSTANDARD:
                return without_zstandard(self._packed(member))
            if member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                return self._zip.read(member)
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


def without_zstandard(packed: bytes) -> bytes:
    """Returns a text of lines without control characters, such as JSON, that Zstandard packed.

    The reader of tables unpacks it: as a table of one column, a line is a row.

    Raises:
        ValueError: it is damaged.
    """
    import polars as pl

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
