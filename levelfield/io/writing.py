"""Writing results so that a file is either complete or not there.

Each is locked while it is used, and removed at its end. Where a process is killed and can't remove
it, the lock goes with the process, and the next one that is made beside it removes it. What is
locked, was made on another machine or is another user's stays, and so does everything where there
are no locks.
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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
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


STDOUT = "-"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says where there is no room."""


@contextmanager
def file_replacement(target: Path) -> Iterator[Path]:
    """An empty file beside `target`, which takes its place, with its permissions, when all is
    written; on any error, Ctrl-C included, it is removed and what was at `target` stays.

    Raises:
        OSError: it can't be written.
    """
    # not by tempfile, whose files nobody but their owner may read
    with temporary_file(target.parent) as path:
        yield path
        with path.open("r+b") as file:
            os.fsync(file.fileno())
        if target.exists():
            path.chmod(stat.S_IMODE(target.stat().st_mode))
        path.replace(target)


@contextmanager
def folder_replacement(target: Path) -> Iterator[Path]:
    """A new folder of the same name, which takes the place of `target`, where there is nothing or
    an empty folder, when all is written; on any error, Ctrl-C included, it is removed.

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
def atomic_writer(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """A file to write UTF-8 text to, which takes the place of `path` only when all went well.

    Until then it stands beside it under a temporary name; on any error, Ctrl-C included, it is
    removed and what was at `path` stays. `-` is standard output. A device or pipe is written as
    it is.

    >>> with atomic_writer("-") as file:
    ...     _ = file.write("done\\n")
    done

    Raises:
        UserError: if nothing can be written there.
    """
    destination = os.fspath(path)
    if destination == STDOUT:
        with _stdout() as file:
            yield file
        return
    name = printable(destination)
    try:
        with ExitStack() as stack:
            try:
                target = _target(destination)
                mode = target.stat().st_mode if target.exists() else None
                _check(name, target, mode)
                is_file = mode is None or stat.S_ISREG(mode)
                path = stack.enter_context(file_replacement(target)) if is_file else target
                file = stack.enter_context(open_text(path))
            except (OSError, ValueError) as error:
                raise UserError(f"{name}: can't be written: {_reason(error)}") from error
            yield file
    except OSError as error:
        if error.errno in FULL:
            raise UserError(f"{name}: can't be written: {_reason(error)}") from error
        raise


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raises before hours of work the error that `atomic_writer` would raise after them.

    Raises:
        UserError: if nothing can be written there.
    """
    destination = os.fspath(path)
    if destination != STDOUT:
        target = _target(destination)
        _check(printable(destination), target, target.stat().st_mode if target.exists() else None)


def _target(destination: str) -> Path:
    """Where a name leads to; a link to an open pipe, as `/dev/stdout` may be, leads to no name."""
    path, real = Path(destination), Path(os.path.realpath(destination))
    return path if path.exists() and not real.exists() else real


def _check(name: str, target: Path, mode: int | None) -> None:
    if not target.name or (mode is not None and stat.S_ISDIR(mode)):
        raise UserError(f"{name}: is a folder; name a file in it")
    if not target.parent.is_dir():
        raise UserError(
            f"{name}: there is no folder {printable(str(target.parent))}; make it first"
        )
    if mode is not None and not os.access(target, os.W_OK):
        raise UserError(f"{name}: may not be written; change its permissions or name another file")


def _reason(error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) else None
    return printable(reason or str(error))


class _Terminal(io.TextIOWrapper):
    """A terminal that gets control characters as their escapes."""

    def write(self, text: str) -> int:
        return super().write(visible(text))


@contextmanager
def _stdout() -> Iterator[TextIO]:
    """Standard output as UTF-8, whatever the locale says."""
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
    """`$LEVELFIELD_CACHE`, else the user's cache folder; it need not exist."""
    folder = os.environ.get("LEVELFIELD_CACHE")
    return Path(folder or platformdirs.user_cache_path("levelfield"))
