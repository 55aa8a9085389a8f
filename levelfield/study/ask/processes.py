"""The process of a running system: its pipes, the processes that it starts, and its memory."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from levelfield.io.problems import printable

MOST_BYTES = 1 << 24
"""A longer line is not an answer."""
STDERR_BYTES = 1 << 20
"""Bytes of a command's stderr that are kept from its beginning, and as many from its end."""

_MARK = "LEVELFIELD_ATTEMPT"
"""The variable that tells a system's processes from all others, unless they change it."""
_CHUNK = 1 << 16
_TICK_S, _GRACE_S, _ROUNDS = 0.05, 2.0, 100
_FIRST_S, _LONGEST_S = 0.05, 0.5


class LineReader:
    """Splits bytes into lines; None is a line of more than `MOST_BYTES`."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes | None]:
        """Yields the lines that are complete now."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._held += end
            yield self._line()
        self._held += rest
        del self._held[MOST_BYTES + 1 :]  # what is left is too long all the same

    def end(self) -> Iterator[bytes | None]:
        """Yields what follows the last line end."""
        if self._held:
            yield self._line()

    def _line(self) -> bytes | None:
        line, self._held = bytes(self._held), bytearray()
        return line if len(line) <= MOST_BYTES else None


class StderrLog:
    """The stderr of a command in a file: its beginning at once, its end when it has ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = 0
        self._tail = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Adds what the command has written."""
        self._write(chunk[: max(STDERR_BYTES - self._size, 0)])
        self._size += len(chunk)
        self._tail = (self._tail + chunk)[-STDERR_BYTES:]

    def end(self) -> None:
        """Writes the end, and how much is left out before it."""
        if (unwritten := self._size - STDERR_BYTES) > 0:
            left_out = unwritten - STDERR_BYTES
            gap = f"\n… {left_out:,} bytes left out here …\n" if left_out > 0 else ""
            self._write(gap.encode() + self._tail[-unwritten:])

    def last_line(self) -> str:
        """Returns the last line that says something, for a message; empty without one."""
        lines = self._tail[-4_000:].decode("utf-8", "replace").split("\n")
        # a progress bar returns to the start of its line again and again
        messages = [line.rstrip().rpartition("\r")[2].strip() for line in lines]
        return printable(next((line for line in reversed(messages) if line), "")[:200])

    def _write(self, piece: bytes) -> None:
        if piece:
            with self._path.open("ab") as file:
                file.write(piece)


class SystemProcess:
    """A process in its own session.

    Attributes:
        process: as Python started it.
        peak_bytes: most memory that the processes of the session held at once, in bytes; None if
            no look saw a process. Looks are 0.05 s apart at first, later 0.5 s. On Linux, the peak
            of a single process counts even if it fell between two looks. Pages that processes
            share count for each; the memory of GPUs does not.

    Raises:
        OSError, ValueError: it can't be started.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], folder: Path | None
    ) -> None:
        self._token = secrets.token_hex(8)
        self._sender: threading.Thread | None = None
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={**environment, _MARK: self._token},
            bufsize=0,
            start_new_session=True,
        )
        self._pipes = selectors.DefaultSelector()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe:
                self._pipes.register(pipe, selectors.EVENT_READ)
        self.peak_bytes: int | None = None
        self._pause_s, self._next_look = _FIRST_S, 0.0

    def send(self, requests: bytes, *, last: bool) -> None:
        """Sends requests while answers are read.

        Args:
            last: whether stdin is closed after them.
        """
        self._sender = threading.Thread(target=self._send, args=(requests, last), daemon=True)
        self._sender.start()

    @property
    def is_open(self) -> bool:
        """Whether its stdout or stderr may still hold something."""
        return bool(self._pipes.get_map())

    def read(self) -> Iterator[tuple[object, bytes]]:
        """Yields each pipe that holds something, and its content; waits a moment for it."""
        if not self.is_open:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_TICK_S)
        for key, _ in self._pipes.select(_TICK_S if self.is_open else 0):
            if chunk := os.read(key.fd, _CHUNK):
                yield key.fileobj, chunk
            else:
                self._pipes.unregister(key.fileobj)

    def unread_stderr(self) -> bytes:
        """Returns what stderr holds now."""
        held = (key for key, _ in self._pipes.select(0) if key.fileobj is self.process.stderr)
        return b"".join(os.read(key.fd, STDERR_BYTES) for key in held)

    def restart_peak(self) -> None:
        """Measures the peak memory from now on."""
        for process in self._session():
            with contextlib.suppress(OSError):  # "5" makes VmHWM what is held now
                Path(f"/proc/{process.pid}/clear_refs").write_text("5")
        self.peak_bytes = None
        self._pause_s, self._next_look = _FIRST_S, 0.0

    def look(self) -> None:
        """Measures the memory if it is time to; takes a few milliseconds."""
        if time.monotonic() < self._next_look:
            return
        sizes = []
        for process in self._session():
            with contextlib.suppress(psutil.Error):
                sizes.append((process.memory_info().rss, _high_water(process.pid)))
        held, alone = sum(size for size, _ in sizes), max((peak for _, peak in sizes), default=0)
        self.peak_bytes = max(held, alone, self.peak_bytes or 0) or None
        self._next_look = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_S)

    def end(self) -> None:
        """Ends the process politely, then by force, and kills every process that it started."""
        self._pipes.close()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()
        if self.process.poll() is None:
            self._signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_GRACE_S)
        self._signal(signal.SIGKILL)
        self.process.wait()
        self._kill_descendants()
        if self._sender:
            self._sender.join(_GRACE_S)
            if self.process.stdin and not self._sender.is_alive():
                self.process.stdin.close()

    def _kill_descendants(self) -> None:
        for _ in range(_ROUNDS):  # they may start others meanwhile
            left = [process for process in psutil.process_iter() if self._has_started(process)]
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            if not left:
                return
            psutil.wait_procs(left, timeout=_TICK_S)

    def _send(self, requests: bytes, last: bool) -> None:
        if not (pipe := self.process.stdin):
            return
        rest = memoryview(requests)
        with contextlib.suppress(OSError, ValueError):  # it may answer without reading everything
            while rest:
                rest = rest[pipe.write(rest) :]
            if last:
                pipe.close()

    def _session(self) -> Iterator[psutil.Process]:
        for pid in psutil.pids():
            with contextlib.suppress(OSError, psutil.Error):
                if os.getsid(pid) == self.process.pid:
                    yield psutil.Process(pid)

    def _has_started(self, process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error):  # it has ended, or belongs to another user
            return bool(process.environ().get(_MARK) == self._token)
        return False

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # the group is empty
            os.killpg(self.process.pid, number)


def _high_water(pid: int) -> int:
    """Returns the most bytes that a process ever held; 0 where the system does not say (it is not
    Linux)."""
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
        if peak := re.search(r"^VmHWM:\s*(\d+) kB", status, re.MULTILINE):
            return int(peak[1]) * 1024
    return 0
