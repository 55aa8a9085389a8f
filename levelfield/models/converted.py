"""Converted models: the copy of a GGUF model that `transformers` loads in a second.

Copies are in `models` in the folder of `user_cache`, one folder for each, named by the digest of
the model. A file appears there under its name only when it is whole. Where that folder can't be
written, copies are among the temporary files until the process ends.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from levelfield.core.errors import ModelError
from levelfield.io.json_input import read_json
from levelfield.io.problems import printable
from levelfield.io.writing import (
    FULL,
    file_replacement,
    lasting_folder,
    temporary_file,
    temporary_folder,
    user_cache,
)
from levelfield.models import gguf_conversion
from levelfield.models.gguf_conversion import TEXTS, WEIGHTS, bytes_of_weights

VERSION = 1
"""Counts up when a copy would have other bytes."""

_CHECKSUMS = "checksums.json"
"""File name -> CRC-32 of the file as it was written, in a folder of a conversion."""
Convert = Callable[[Path, Path], None]
"""Writes files of a GGUF file's copy into a folder."""


def copies_folder() -> Path:
    """Returns where copies are kept; it need not exist."""
    return user_cache() / "models"


def copies_bytes() -> int:
    """Returns how many bytes the copies take."""
    size = 0
    for path in copies_folder().glob("*/*"):
        with contextlib.suppress(FileNotFoundError):  # one that was still being written
            size += path.stat().st_size
    return size


def remove_copies() -> int:
    """Removes all copies, each when no process is at work on it; returns how many bytes they took.

    Raises:
        ModelError: one can't be removed.
    """
    import filelock

    size = copies_bytes()
    for folder in copies_folder().glob("[!.]*"):
        try:
            with filelock.FileLock(_lock(folder)):
                shutil.rmtree(folder)
        except OSError as error:
            raise ModelError(
                f"{printable(str(folder))} can't be removed: {error.strerror}; end the processes "
                "that use it, or remove it yourself"
            ) from error
    return size


def converted(gguf: Path, sha256: str, *, weights: bool) -> Path:
    """Returns the folder of a GGUF file's copy, made now if there is none that is whole.

    Args:
        sha256: of the file.
        weights: whether the weights are needed; without them it takes 2 MB.

    Raises:
        ModelError: the package that reads the file is not installed, the file is damaged, there is
            no room for the copy, or no folder that can be written.
    """
    names = (*TEXTS, *([WEIGHTS] if weights else ()))

    def make(folder: Path) -> Path:
        def write() -> None:
            if not _is_whole(folder, TEXTS):
                _write_files(folder, gguf, TEXTS, gguf_conversion.write_texts)
            if weights and not _is_whole(folder, names):
                free = shutil.disk_usage(folder).free
                if free < bytes_of_weights(gguf):
                    raise _no_room(folder, gguf, f"{free / 1e6:,.0f} MB are free")
                convert = partial(gguf_conversion.write_weights, texts=folder)
                _write_files(folder, gguf, [WEIGHTS], convert)

        return _complete(folder, names, write, partial(_no_room, folder, gguf))

    return _somewhere(f"{gguf.stem}-{sha256[:12]}-{VERSION}", gguf.name, make)


def _somewhere(name: str, model: str, make: Callable[[Path], Path]) -> Path:
    """Returns what is made in the folder of conversions, or else among the temporary files.

    Raises:
        ModelError: neither folder can be written.
    """
    try:
        return make(copies_folder() / name)
    except OSError as error:
        refused = error
    try:
        return make(_passing() / name)
    except OSError as error:
        raise ModelError(
            f"{model} is converted before use, and neither {printable(str(copies_folder()))} "
            f"({refused.strerror}) nor the folder for temporary files ({error.strerror}) can be "
            "written; name a folder in $LEVELFIELD_CACHE"
        ) from error


def _complete(
    folder: Path,
    names: Sequence[str],
    write: Callable[[], object],
    no_room: Callable[[str | None], ModelError],
) -> Path:
    """Returns a folder of a conversion and writes what it lacks. One process at a time writes;
    others wait and use the result.

    Raises:
        ModelError: the model can't be read, or the disk is full.
        OSError: the folder can't be written.
    """
    if _is_whole(folder, names):
        return folder
    import filelock

    try:
        folder.mkdir(parents=True, exist_ok=True)
        # on Windows a lock waits for ever where nothing can be written; this fails, and it removes
        # what a process that was killed has left
        with temporary_file(folder):
            pass
        with filelock.FileLock(_lock(folder)):
            if not _is_whole(folder, names):
                write()
    except OSError as error:
        if error.errno in FULL:
            raise no_room(error.strerror) from error
        raise
    return folder


def _lock(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")


def _is_whole(folder: Path, names: Iterable[str]) -> bool:
    """Returns whether files are there with the bytes that were written."""
    try:
        checksums = read_json(folder / _CHECKSUMS)
        return all(_checksum(folder / name) == checksums[name] for name in names)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _checksum(path: Path) -> int:
    """Returns the CRC-32 of a file, which a damaged disk or memory changes; read once a process."""
    status = path.stat()
    return _crc32(path, status.st_size, status.st_mtime_ns, status.st_ino)


@functools.lru_cache(maxsize=64)
def _crc32(path: Path, *version: int) -> int:  # noqa: ARG001
    crc = 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            crc = zlib.crc32(chunk, crc)
    return crc


def _write_files(folder: Path, gguf: Path, names: Sequence[str], make: Convert) -> None:
    with temporary_folder(folder) as temporary:
        make(gguf, temporary)
        _place(folder, [temporary / name for name in names])


def _place(folder: Path, files: Sequence[Path]) -> None:
    """Moves files into a copy when they are on the disk, and then writes their checksums."""
    checksums: dict[str, int] = {}
    with contextlib.suppress(OSError, ValueError, AttributeError):
        kept = read_json(folder / _CHECKSUMS).items()
        checksums = {name: crc for name, crc in kept if (folder / name).is_file()}
    for file in files:
        with file.open("rb+") as opened:
            os.fsync(opened.fileno())
        checksums[file.name] = _checksum(file)
        file.replace(folder / file.name)
    with file_replacement(folder / _CHECKSUMS) as path:
        path.write_text(json.dumps(checksums, sort_keys=True), encoding="utf-8")


def _no_room(folder: Path, gguf: Path, reason: str | None) -> ModelError:
    return ModelError(
        f"the converted copy of {gguf.name} takes {bytes_of_weights(gguf) / 1e6:,.0f} MB in "
        f"{printable(str(folder))}: {reason}; make room there, or name another folder in "
        "$LEVELFIELD_CACHE"
    )


@functools.cache
def _passing() -> Path:
    """Returns a folder that is removed when the process ends."""
    return lasting_folder(_passing)
