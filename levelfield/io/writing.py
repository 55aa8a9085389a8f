"""Writing results so that a file is either complete or not there."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from levelfield.core.errors import UserError
from levelfield.core.visible import visible
from levelfield.io.problems import printable
from levelfield.io.streams import open_text
from levelfield.io.temporary import temporary_file, temporary_folder

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
