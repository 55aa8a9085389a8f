"""Writing results so that a file is either complete or absent.

A temporary file or folder is locked while it is used and removed at its end. If its process is
killed, the lock goes with the process, and the next temporary file made beside it removes it. What
is locked, was made on another machine or is another user's stays, and so does everything where
there are no locks.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import io
import os
import platform
import secrets
import shutil
import stat
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TextIO

import platformdirs

from levelfield.core.errors import UserError
from levelfield.core.strings import visible
from levelfield.io.problems import printable
from levelfield.io.streams import open_text

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_PREFIX, _SUFFIX = ".levelfield-", ".tmp"


def temporary_file(folder: Path, mode: int = 0o666) -> AbstractContextManager[Path]:
    """Makes an empty file in a folder, for what takes another's place when it is whole.

    Args:
        mode: permissions, less those that the umask takes.

    Raises:
        OSError: it can't be made.
    """

    def make(path: Path) -> None:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))

    return _temporary(folder, make)


def temporary_folder(folder: Path | None = None) -> AbstractContextManager[Path]:
    """Makes a folder that only its owner may enter, in the system's temporary folder or in another.

    Raises:
        OSError: it can't be made.
    """
    return _temporary(folder or Path(tempfile.gettempdir()), lambda path: path.mkdir(0o700))


def lasting_folder(owner: object) -> Path:
    """Makes a temporary folder that goes away with its owner, at the latest with the process."""
    stack = ExitStack()
    weakref.finalize(owner, stack.close)
    return stack.enter_context(temporary_folder())


@contextmanager
def _temporary(folder: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    while True:
        clear(folder)
        path = folder / f"{_prefix()}{secrets.token_hex(6)}{_SUFFIX}"
        make(path)
        # another process may clear it before it is locked
        with suppress(BlockingIOError, FileNotFoundError):
            lock = _lock(path)
            if lock is None or path.exists():
                break
            os.close(lock)
    try:
        yield path
    finally:
        _remove(path)
        if lock is not None:
            os.close(lock)


def clear(folder: Path) -> None:
    """Removes from a folder what dead processes of this machine and user left there."""
    if fcntl is None:
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(_prefix()) and is_temporary(entry.name):
                with suppress(OSError):
                    _remove_if_dead(entry)


def _remove_if_dead(entry: os.DirEntry[str]) -> None:
    status = entry.stat(follow_symlinks=False)
    is_plain = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    if not is_plain or status.st_uid != os.geteuid():
        return
    path = Path(entry.path)
    lock = _lock(path)
    if lock is not None:
        _remove(path)
        os.close(lock)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        path.unlink()


def is_temporary(name: str) -> bool:
    """Returns whether a temporary file or folder of this or another machine has this name."""
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


@functools.cache
def _prefix() -> str:
    # the name of a target may be as long as names can be, so this one does not hold it
    machine = hashlib.sha256(platform.node().encode()).hexdigest()[:8]
    return f"{_PREFIX}{machine}-"


def _lock(path: Path) -> int | None:
    """Returns a descriptor with the lock; None where the file system has none.

    Raises:
        BlockingIOError: another process has it.
        FileNotFoundError: another process has removed the file.
    """
    if fcntl is None:
        return None
    descriptor = None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if descriptor is not None:
            os.close(descriptor)
        if isinstance(error, BlockingIOError | FileNotFoundError):
            raise
        return None
    return descriptor


STDOUT = "-"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of a full disk."""


@contextmanager
def file_replacement(target: Path, *, private: bool = False) -> Iterator[Path]:
    """Makes an empty file beside `target` that takes its place, with its permissions, at the end.

    On any error, Ctrl-C included, it is removed and what was at `target` stays.

    Args:
        private: whether only the owner may read it, from the first byte and whatever was there.

    Raises:
        OSError: it can't be written.
    """
    # not by tempfile, whose files only their owner may read
    with temporary_file(target.parent, 0o600 if private else 0o666) as path:
        yield path
        with path.open("r+b") as file:
            os.fsync(file.fileno())
        if target.exists() and not private:
            path.chmod(stat.S_IMODE(target.stat().st_mode))
        path.replace(target)


@contextmanager
def folder_replacement(target: Path) -> Iterator[Path]:
    """Makes a folder that takes the place of `target`, absent or an empty folder, at the end.

    It has the same name. On any error, Ctrl-C included, it is removed.

    Raises:
        OSError: it can't be made, or `target` holds something.
    """
    with temporary_folder(target.parent) as around:
        folder = around / target.name
        folder.mkdir()
        yield folder
        if target.exists():
            target.rmdir()
        folder.replace(target)


@contextmanager
def atomic_writer(path: str | os.PathLike[str], *, private: bool = False) -> Iterator[TextIO]:
    """Opens a file for UTF-8 text that takes the place of `path` only when all went well.

    Until then the text is in a temporary file next to it; on any error, Ctrl-C included, that file
    is removed and what was at `path` stays. `-` is standard output. A device or pipe is written
    directly.

    >>> with atomic_writer("-") as file:
    ...     _ = file.write("done\\n")
    done

    Raises:
        UserError: nothing can be written there.
    """
    destination = os.fspath(path)
    if destination == STDOUT:
        with _stdout() as file:
            yield file
        return
    try:
        with ExitStack() as stack:
            try:
                target = _target(destination)
                is_file = target.is_file() or not target.exists()
                if is_file:
                    target = stack.enter_context(file_replacement(target, private=private))
                file = stack.enter_context(open_text(target))
            except (OSError, ValueError) as error:
                raise _failure(destination, error) from error
            yield file
    except OSError as error:
        if error.errno in FULL:
            raise _failure(destination, error) from error
        raise


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raises before hours of work the error that `atomic_writer` would raise after them.

    Raises:
        UserError: nothing can be written there.
    """
    destination = os.fspath(path)
    if destination != STDOUT:
        _target(destination)


def _target(destination: str) -> Path:
    """Returns where a name leads to, if that can be written.

    A link to an open pipe, as `/dev/stdout` may be, leads to no name and stands for itself.
    """
    path, target = Path(destination), Path(os.path.realpath(destination))
    if path.exists() and not target.exists():
        target = path
    if not target.name or target.is_dir():
        raise UserError(f"{printable(destination)}: is a folder; name a file in it")
    if not target.parent.is_dir():
        folder = printable(str(target.parent))
        raise UserError(f"{printable(destination)}: there is no folder {folder}; make it first")
    if target.exists() and not os.access(target, os.W_OK):
        mend = "change its permissions or name another file"
        raise UserError(f"{printable(destination)}: is not writable; {mend}")
    return target


def _failure(destination: str, error: Exception) -> UserError:
    return UserError(f"{printable(destination)}: can't be written: {_reason(error)}")


def _reason(error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) else None
    return printable(reason or str(error))


class _Terminal(io.TextIOWrapper):
    """A terminal that gets control characters as their escapes."""

    def write(self, text: str) -> int:
        return super().write(visible(text))


@contextmanager
def _stdout() -> Iterator[TextIO]:
    """Opens standard output as UTF-8, whatever the locale says."""
    sys.stdout.flush()
    raw = getattr(sys.stdout, "buffer", None)
    if raw is None:
        yield sys.stdout
        return
    wrapper = _Terminal if raw.isatty() else io.TextIOWrapper
    file = wrapper(raw, encoding="utf-8", newline="\n", errors="backslashreplace")
    try:
        yield file
    finally:
        file.flush()
        file.detach()


def user_cache() -> Path:
    """Returns `$LEVELFIELD_CACHE`, else the user's cache folder; it need not exist."""
    folder = os.environ.get("LEVELFIELD_CACHE")
    return Path(folder or platformdirs.user_cache_path("levelfield"))
