"""The process of a running system: its pipes, the processes that it starts, and its memory."""

from __future__ import annotations

import io
import os
import secrets
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
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
            gap = f"\n… {left_out:,} bytes left out here …\n" if left_out else ""
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


def process_folders(proc: Path) -> list[Path]:
    """Returns the folder of each process in `/proc`; none where there is no such folder."""
    try:
        return [folder for folder in proc.iterdir() if folder.name.isdecimal()]
    except OSError:
        return []


_NAME = "LEVELFIELD_ATTEMPT"
_ROUNDS, _PAUSE_S = 100, 0.01


class Descendants:
    """The processes that have been started, directly or not, with one environment.

    Known on Linux only. A process that changes its environment is lost, and so is one of another
    user.

    Attributes:
        environment: what the first of them has to be started with.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        token = secrets.token_hex(8)
        self.environment: Mapping[str, str] = {_NAME: token}
        self._mark = f"\0{_NAME}={token}\0".encode()
        self._proc = proc

    def kill(self) -> None:
        """Kills those that are left, and what they start meanwhile."""
        for _ in range(_ROUNDS):
            pids = list(self._running())
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:  # it has just ended
                    continue
            if not pids:
                return
            time.sleep(_PAUSE_S)

    def _running(self) -> Iterator[int]:
        for folder in process_folders(self._proc):
            try:
                # of one that has ended but was not waited for, it is empty
                if self._mark in b"\0" + (folder / "environ").read_bytes():
                    yield int(folder.name)
            except OSError:
                continue


_FIRST_S, _LONGEST_S = 0.05, 0.5


class PeakMemory:
    """Most memory that the processes of one session held at once, in bytes.

    It is the larger of two numbers: the largest sum of resident sets (VmRSS) seen, and the
    largest resident set that any one process ever had (VmHWM). Looks begin 0.05 s apart and end
    up 0.5 s apart, so a shorter peak of several processes together may be missed; one of a
    process alone is missed only in its last half second. Pages that processes share count once
    for each. Memory of a GPU is not in it, nor are processes that leave the session.

    Attributes:
        bytes: so far; None if no look saw a process, and always where there is no `/proc`.
    """

    def __init__(self, session: int, proc: Path = Path("/proc")) -> None:
        self.bytes: int | None = None
        self._session = session
        self._proc = proc
        self._pause = _FIRST_S
        self._next = 0.0

    def restart(self) -> None:
        """Forgets what was held before, where the system lets us (Linux)."""
        for folder, _, _ in self._processes():
            with suppress(OSError):  # "5" makes VmHWM what is held now
                (folder / "clear_refs").write_text("5")
        self.bytes = None
        self._pause, self._next = _FIRST_S, 0.0

    def look(self) -> None:
        """Takes a look if it is time for one; costs a few milliseconds."""
        if time.monotonic() < self._next:
            return
        seen = list(self._processes())
        if seen:
            at_once, alone = sum(now for _, now, _ in seen), max(most for _, _, most in seen)
            self.bytes = max(at_once, alone, self.bytes or 0)
        self._next = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, _LONGEST_S)

    def _processes(self) -> Iterator[tuple[Path, int, int]]:
        """The folder, VmRSS and VmHWM of each process of the session."""
        for folder in process_folders(self._proc):
            try:
                # the name of the program, in parentheses, may hold anything
                fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
                if int(fields[3]) != self._session:
                    continue
                lines = (folder / "status").read_text("utf-8", "replace").splitlines()
            except (OSError, IndexError, ValueError):
                continue  # it has just ended, or may not be looked at
            held = {key: rest.split() for key, _, rest in (line.partition(":") for line in lines)}
            if (
                "VmRSS" in held and "VmHWM" in held
            ):  # what has ended but was not waited for has none
                yield folder, int(held["VmRSS"][0]) * 1024, int(held["VmHWM"][0]) * 1024


_GRACE_S = 2.0


class SystemProcess:
    """A process in a session of its own.

    Attributes:
        process: as Python started it.
        pipes: to it and from it.
        memory: what it and its children hold.

    Raises:
        OSError, ValueError: it can't be started.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], folder: Path | None
    ) -> None:
        self._descendants = Descendants()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={**environment, **self._descendants.environment},
            bufsize=0,
            start_new_session=True,
        )
        self.pipes = ProcessPipes(self.process)
        self.memory = PeakMemory(self.process.pid)

    def end(self) -> None:
        """Ends the process politely, then by force; and by force what it has left behind."""
        self.pipes.close()
        if self.process.poll() is None:
            self._signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_GRACE_S)
        self._signal(signal.SIGKILL)
        self.process.wait()
        self._descendants.kill()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):  # nobody is left in the group
            os.killpg(self.process.pid, number)
