"""A system as a command: requests as JSONL on its stdin, answers as JSONL on its stdout."""

from __future__ import annotations

import io
import json
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from levelfield.core.errors import UserError
from levelfield.io.formats.text import reason
from levelfield.io.problems import Wrong, printable, shown
from levelfield.study.cells import Answer
from levelfield.study.intake import Intake, Kept
from levelfield.study.requests import parse_answer, request_record
from levelfield.study.resources import PeakMemory

MOST_BYTES = 1 << 24
"""A longer line is no answer."""
STDERR_BYTES = 1 << 20
"""So much of what a command says on stderr is kept from its beginning, and as much of its end."""

_TICK_S = 0.05
_CHUNK = 1 << 16
_GRACE_S = 2.0
_FAREWELL_S = 10.0
"""How long a command may go on after its last answer before it is ended."""
_SILENCE_S = 0.5
"""How long a pipe stays open for a command that has ended but left children behind."""


@dataclass(frozen=True)
class End:
    """How an attempt ended: in words if badly, by our being stopped, with no use in another."""

    said: str = ""
    stopped: bool = False
    final: bool = False


class _Lines:
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


class _Stderr:
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
        said = [line.rstrip().rpartition("\r")[2].strip() for line in lines]
        return printable(next((line for line in reversed(said) if line), "")[:200])

    def _write(self, piece: bytes) -> None:
        with self._path.open("ab") as file:
            file.write(piece)


class Attempt:
    """One start of a command, with all requests that are open."""

    def __init__(
        self,
        number: int,
        intake: Intake,
        keep: Callable[[Kept], object],
        stop: threading.Event,
        spent_s: float,
    ) -> None:
        self.peak_bytes: int | None = None
        self.spent_s = spent_s
        self._before_s = spent_s
        self._number = number
        self._intake = intake
        self._keep = keep
        self._stop = stop
        self._started = time.monotonic()
        self._lines = 0

    def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        timeout_s: float,
        stderr_file: Path,
    ) -> End:
        """Starts the command, hears it to its end, and leaves none of its processes behind."""
        requests = "".join(json.dumps(request_record(r)) + "\n" for r in self._intake.open)
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=folder,
                env=environment,
                bufsize=0,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            said = error.strerror if isinstance(error, OSError) else str(error)
            return End(f"{shown(command[0])} can't be started: {said}; check it", final=True)
        stderr = _Stderr(stderr_file)
        try:
            forced = self._hear(process, requests.encode(), stderr, timeout_s)
        finally:
            _end(process)
        stderr.end()
        return forced or End(self._farewell(process.returncode, stderr.last_line()))

    def _farewell(self, code: int, last: str) -> str:
        """What there is to say of a command that ended by itself; empty if all is well."""
        if code == 0:
            return "" if self._intake.is_complete() else "ended without an error"
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        return f"{how}: {last}" if last else f"{how}, and nothing on stderr"

    def _hear(
        self, process: subprocess.Popen[bytes], requests: bytes, stderr: _Stderr, timeout_s: float
    ) -> End | None:
        """Writes requests and takes answers; None if the process ended by itself."""
        memory = PeakMemory(process.pid)
        lines = _Lines()
        forced = None
        goodbye = self._started + timeout_s
        was_complete = has_ended = False
        with _Pipes(process, requests) as pipes:
            while True:
                memory.look()
                self.peak_bytes = memory.bytes
                if not has_ended and process.poll() is not None:
                    has_ended = True
                    heard = time.monotonic()
                # children that it left behind may hold its pipes open for ever
                if has_ended and (not pipes.are_open or time.monotonic() > heard + _SILENCE_S):
                    break
                for pipe, chunk in pipes.exchange():
                    heard = time.monotonic()
                    if pipe is process.stderr:
                        stderr.feed(chunk)
                    else:
                        self._take(lines.feed(chunk))
                if self._stop.is_set():
                    return End(stopped=True)
                if self._intake.is_complete() and not was_complete:
                    was_complete = True
                    goodbye = min(goodbye, time.monotonic() + _FAREWELL_S)
                if time.monotonic() > goodbye:
                    if not has_ended:
                        forced = End(
                            "did not end after its last answer, so it was ended"
                            if was_complete
                            else f"ran into its time limit of {timeout_s:g} s, so it was ended"
                        )
                    break
        self._take(lines.end())
        return forced

    def _take(self, lines: Iterable[bytes | None]) -> None:
        for line in lines:
            self._lines += 1
            place = f"attempt {self._number}, line {self._lines}"
            try:
                found = _parse(line)
            except Wrong as wrong:
                self._intake.refuse(str(wrong), place)
                continue
            if found and self._intake.take(found, place):
                self.spent_s = self._before_s + time.monotonic() - self._started
                self._keep(Kept(found, self.spent_s, self.peak_bytes))


def _parse(line: bytes | None) -> Answer | None:
    """The answer in a line; None if the line is blank."""
    if line is None:
        raise Wrong(f"longer than {MOST_BYTES:,} bytes")
    if not line.strip():
        return None
    try:
        return parse_answer(json.loads(line.decode()))
    except UnicodeDecodeError as error:
        raise Wrong(f"not UTF-8: byte 0x{line[error.start]:02x}") from None
    except UserError as error:
        raise Wrong(str(error)) from None
    except (ValueError, RecursionError) as error:
        raise Wrong(f"not JSON: {reason(error)}, in {shown(line.decode(), 40)}") from None


class _Pipes:
    """The three pipes to a process, none of which may keep the others waiting."""

    def __init__(self, process: subprocess.Popen[bytes], requests: bytes) -> None:
        self._process = process
        self._unsent = memoryview(requests)
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> _Pipes:
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                os.set_blocking(pipe.fileno(), False)
                event = selectors.EVENT_WRITE if pipe.writable() else selectors.EVENT_READ
                self._selector.register(pipe, event)
        return self

    def __exit__(self, *_: object) -> None:
        for key in list(self._selector.get_map().values()):
            self._close(key.fileobj)
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
                self._close(key.fileobj)

    def _send(self, pipe: object, fd: int) -> None:
        try:
            self._unsent = self._unsent[os.write(fd, self._unsent[:_CHUNK]) :]
        except BrokenPipeError:  # it may well answer without having read everything
            self._unsent = self._unsent[:0]
        if not self._unsent:
            self._close(pipe)

    def _close(self, pipe: object) -> None:
        if isinstance(pipe, io.IOBase):
            self._selector.unregister(pipe)
            pipe.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the process politely, then by force; and by force what it left behind in its group."""
    if process.poll() is None:
        _signal(process, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):  # nobody is left in the group
        os.killpg(process.pid, number)
