"""Temporary files and folders that do not outlive their process for long.

Each is locked while it is used, and removed at its end. Where a process is killed and can't remove
it, the lock goes with the process, and the next one that is made beside it removes it. What is
locked, was made on another machine or is another user's stays, and so does everything where there
are no locks.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_PREFIX, _SUFFIX = ".levelfield-", ".tmp"


@contextmanager
def temporary_file(folder: Path, mode: int = 0o666) -> Iterator[Path]:
    """An empty file in a folder, for what takes another's place when it is whole.

    Args:
        mode: permissions, less those that the umask takes.

    Raises:
        OSError: it can't be made.
    """

    def make() -> Path:
        path = _new(folder)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        return path

    path, lock = _locked(make)
    try:
        yield path
    finally:
        with suppress(OSError):
            path.unlink()
        _release(lock)


@contextmanager
def temporary_folder(folder: Path | None = None) -> Iterator[Path]:
    """A folder that only its owner may enter, in the folder for temporary files or in another.

    Raises:
        OSError: it can't be made.
    """

    def make() -> Path:
        path = _new(folder or Path(tempfile.gettempdir()))
        path.mkdir(0o700)
        return path

    path, lock = _locked(make)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        _release(lock)


def clear(folder: Path) -> None:
    """Removes what processes of this machine that are dead have left in a folder."""
    if fcntl is None:
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(_prefix()) and is_temporary(entry.name):
                _remove_if_dead(Path(entry.path))


def is_temporary(name: str) -> bool:
    """Whether a temporary file or folder of this or another machine has this name."""
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


@functools.cache
def _prefix() -> str:
    # the name of a target may be as long as names can be, so this one does not hold it
    machine = hashlib.sha256(platform.node().encode()).hexdigest()[:8]
    return f"{_PREFIX}{machine}-"


def _new(folder: Path) -> Path:
    clear(folder)
    return folder / f"{_prefix()}{secrets.token_hex(6)}{_SUFFIX}"


def _locked(make: Callable[[], Path]) -> tuple[Path, int | None]:
    """A new file or folder and what holds its lock."""
    while True:
        path = make()
        # another process may have taken it for one that was left behind before it was locked
        with suppress(BlockingIOError, FileNotFoundError):
            lock = _lock(path)
            if lock is None or path.exists():
                return path, lock
            _release(lock)


def _lock(path: Path) -> int | None:
    """A descriptor with the lock; None where the file system has none.

    Raises:
        BlockingIOError: another process has it.
        FileNotFoundError: another process has removed the file.
    """
    if fcntl is None:
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise
        return None
    return descriptor


def _release(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)


def _remove_if_dead(path: Path) -> None:
    with suppress(OSError):
        found = path.lstat()
        is_plain = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
        if not is_plain or found.st_uid != os.geteuid():
            return
        lock = _lock(path)
        if lock is None:
            return
        try:
            if stat.S_ISDIR(found.st_mode):
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        finally:
            _release(lock)
