"""The pipes of a command: its requests written, its lines read, its stderr kept."""

from __future__ import annotations

import io
import os
import selectors
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from levelfield.io.problems import printable

MOST_BYTES = 1 << 24
"""A longer line is no answer."""
STDERR_BYTES = 1 << 20
"""So much of what a command says on stderr is kept from its beginning, and as much of its end."""

_TICK_S = 0.05
_CHUNK = 1 << 16


class LineReader:
    """Bytes to lines; one that is too long is given as None and dropped."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._too_long = False

    def feed(self, chunk: bytes) -> Iterator[bytes | None]:
        """The lines that are complete now."""
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            self._hold(piece)
            yield self._line()
        self._hold(rest)

    def end(self) -> Iterator[bytes | None]:
        """What came after the last line end."""
        if self._held or self._too_long:
            yield self._line()

    def _hold(self, piece: bytes) -> None:
        if self._too_long or len(self._held) + len(piece) > MOST_BYTES:
            self._too_long = True
            self._held.clear()
        else:
            self._held += piece

    def _line(self) -> bytes | None:
        line = None if self._too_long else bytes(self._held)
        self._held.clear()
        self._too_long = False
        return line


class StderrLog:
    """What a command says on stderr: its beginning kept as it comes, its end when it has ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = 0
        self._tail = bytearray()
        self._dropped = 0

    def feed(self, chunk: bytes) -> None:
        if beginning := chunk[: STDERR_BYTES - self._written]:
            self._write(beginning)
            self._written += len(beginning)
        self._tail += chunk
        if (surplus := len(self._tail) - STDERR_BYTES) > 0:
            self._dropped += surplus
            del self._tail[:surplus]

    def end(self) -> None:
        """Writes what is left of the end."""
        rest = self._tail[max(self._written - self._dropped, 0) :]
        if rest:
            left_out = self._dropped + len(self._tail) - self._written - len(rest)
            gap = f"\n… {left_out:,} bytes are left out here …\n" if left_out else ""
            self._write(gap.encode() + rest)

    def last_line(self) -> str:
        """For a message; empty if nothing was said."""
        lines = self._tail[-4_000:].decode("utf-8", "replace").split("\n")
        # a progress bar goes back to the start of its line again and again
        messages = [line.rstrip().rpartition("\r")[2].strip() for line in lines]
        return printable(next((line for line in reversed(messages) if line), "")[:200])

    def _write(self, piece: bytes) -> None:
        with self._path.open("ab") as file:
            file.write(piece)


class ProcessPipes:
    """The three pipes to a process, none of which may keep the others waiting."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._unsent = memoryview(b"")
        self._closes_stdin = False
        self._selector = selectors.DefaultSelector()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                os.set_blocking(pipe.fileno(), False)
        for pipe in (process.stdout, process.stderr):
            if pipe:
                self._selector.register(pipe, selectors.EVENT_READ)

    def send(self, requests: bytes, *, last: bool) -> None:
        """Has requests sent with the next exchanges.

        Args:
            last: whether stdin is closed after them.
        """
        self._unsent, self._closes_stdin = memoryview(requests), last
        if self._process.stdin:
            self._selector.register(self._process.stdin, selectors.EVENT_WRITE)

    def close(self) -> None:
        """Closes all pipes."""
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()
        self._selector.close()

    @property
    def are_open(self) -> bool:
        """Whether anything may still be heard."""
        return any(key.events == selectors.EVENT_READ for key in self._selector.get_map().values())

    def exchange(self) -> Iterator[tuple[object, bytes]]:
        """Sends what there is room for; what has come, with its pipe. Waits a moment for either."""
        if not self.are_open:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_TICK_S)
        for key, event in self._selector.select(_TICK_S if self.are_open else 0):
            if event == selectors.EVENT_WRITE:
                self._send(key.fileobj, key.fd)
            elif chunk := os.read(key.fd, _CHUNK):
                yield key.fileobj, chunk
            else:
                self._drop(key.fileobj, closed=True)

    def unread(self) -> bytes:
        """What stands on stderr and no exchange has given yet; waits for no more."""
        if (pipe := self._process.stderr) is None or pipe.closed:
            return b""
        with suppress(BlockingIOError):
            return os.read(pipe.fileno(), STDERR_BYTES)
        return b""

    def _send(self, pipe: object, fd: int) -> None:
        try:
            self._unsent = self._unsent[os.write(fd, self._unsent[:_CHUNK]) :]
        except BrokenPipeError:  # it may well answer without having read everything
            self._unsent = self._unsent[:0]
        if not self._unsent:
            self._drop(pipe, closed=self._closes_stdin)

    def _drop(self, pipe: object, *, closed: bool) -> None:
        if isinstance(pipe, io.IOBase):
            self._selector.unregister(pipe)
            if closed:
                pipe.close()
