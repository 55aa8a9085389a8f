"""One attempt at a cell: requests as JSONL on a system's stdin, answers as JSONL on its stdout."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from levelfield.core.errors import UserError
from levelfield.core.limits import CELL_BYTES
from levelfield.io.lines import DECODER, reason
from levelfield.io.problems import Wrong, shown
from levelfield.study.ask.processes import MOST_BYTES, LineReader, StderrLog, SystemProcess
from levelfield.study.ask.requests import Intake, TimedAnswer, parse_answer
from levelfield.study.cells import CellRequest

_FAREWELL_S = 10.0
"""How long a command may go on after its last answer before it is ended."""
_SILENCE_S = 0.5
"""How long a pipe stays open for a command that has ended while its children run on."""


@dataclass(frozen=True)
class AttemptEnd:
    """How an attempt ended.

    Attributes:
        reason: in words; empty if well.
        stopped: whether by our being stopped.
        final: whether there is no use in another.
        stays: whether the system can go on with another cell.
    """

    reason: str = ""
    stopped: bool = False
    final: bool = False
    stays: bool = False


class Endpoint(ABC):
    """Where the requests of an attempt go.

    Attributes:
        name: what is started, for messages.
        stays: whether it goes on with another cell, and so says where the answers to one begin
            and end.
    """

    name: str
    stays: bool
    _system: SystemProcess | None = None

    @abstractmethod
    def open(self, requests: Sequence[CellRequest], seed: int) -> SystemProcess:
        """Starts the system, or goes on with it; the requests are on their way.

        Raises:
            OSError, ValueError: it can't be started.
        """

    def close(self) -> None:
        """Ends the system if it runs, with all processes that it has started."""
        if self._system:
            self._system.end()
            self._system = None


@dataclass
class Attempt:
    """One attempt at a cell, with all requests that are open.

    Attributes:
        number: of the attempt, from 1.
        intake: takes the answers.
        keep: called with each that counts.
        stop: when set, the system is ended.
        peak_bytes: most memory held in it; None if unknown.
        spent_s: seconds up to the last answer, those of earlier attempts included.
        loading_s: seconds until a system that stays was ready for the cell, which are not in
            `spent_s`; None of others.
    """

    number: int
    intake: Intake
    keep: Callable[[TimedAnswer], object]
    stop: threading.Event
    spent_s: float
    peak_bytes: int | None = None
    loading_s: float | None = None
    _started: float = field(default_factory=time.monotonic)
    _lines: int = 0
    _held: int = 0
    _end: AttemptEnd | None = None

    def __post_init__(self) -> None:
        self._before_s = self.spent_s

    def run(self, endpoint: Endpoint, seed: int, timeout_s: float, stderr_file: Path) -> AttemptEnd:
        """Takes the answers of the system until it ends, or until the cell does if it stays."""
        try:
            system = endpoint.open(self.intake.open, seed)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            start = f"{shown(endpoint.name)} can't be started: {reason}; check it"
            return AttemptEnd(start, final=True)
        stderr = StderrLog(stderr_file)
        try:
            self._read(system, stderr, timeout_s, notices=endpoint.stays)
        finally:
            if not (self._end and self._end.stays):
                endpoint.close()
        stderr.end()
        return self._end or self._exit(system, stderr)

    def _exit(self, system: SystemProcess, stderr: StderrLog) -> AttemptEnd:
        """Returns how a system ended that ended by itself."""
        code, last = system.process.returncode, stderr.last_line()
        if code == 0:
            return AttemptEnd("" if self.intake.is_complete() else "exited without an error")
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        return AttemptEnd(f"{how}: {last}" if last else f"{how}, and nothing on stderr")

    def _read(
        self, system: SystemProcess, stderr: StderrLog, timeout_s: float, *, notices: bool
    ) -> None:
        """Takes answers until there is an end, or the process has ended by itself.

        Args:
            notices: whether the system says where the answers begin and end.
        """
        process, lines = system.process, LineReader()
        deadline = self._started + timeout_s
        was_complete = has_exited = False
        while self._end is None:
            system.look()
            self.peak_bytes = system.peak_bytes
            if not has_exited and process.poll() is not None:
                has_exited, heard = True, time.monotonic()
            # children that run on may hold its pipes open
            if has_exited and (not system.is_open or time.monotonic() > heard + _SILENCE_S):
                break
            for pipe, chunk in system.read():
                heard = time.monotonic()
                if pipe is process.stderr:
                    stderr.feed(chunk)
                else:
                    self._take(lines.feed(chunk), notices=notices)
            if self._held > CELL_BYTES:
                sent = f"sent more than {CELL_BYTES:,} bytes, so it was stopped"
                self._end = AttemptEnd(sent, final=True)
                return
            if self.stop.is_set() and not self._end:
                self._end = AttemptEnd(stopped=True)
                return
            if self.intake.is_complete() and not was_complete:
                was_complete = True
                deadline = min(deadline, time.monotonic() + _FAREWELL_S)
            if time.monotonic() > deadline:
                if not (has_exited or self._end):
                    self._end = AttemptEnd(
                        "did not exit after its last answer, so it was stopped"
                        if was_complete
                        else f"exceeded its time limit of {timeout_s:g} s, so it was stopped"
                    )
                break
        if self._end and self._end.stays:  # of this cell, not of the next
            stderr.feed(system.unread_stderr())
        self._take(lines.end(), notices=notices)

    def _take(self, lines: Iterable[bytes | None], *, notices: bool) -> None:
        for line in lines:
            self._lines += 1
            place = f"attempt {self.number}, line {self._lines}"
            if line is not None and not line.strip():
                continue
            try:
                record = _parse(line)
                if notices and self._is_notice(record):
                    continue
                answer = parse_answer(record)
            except (Wrong, UserError) as wrong:
                self.intake.refuse(str(wrong), place)
                continue
            if self.intake.take(answer, place):
                self._held += len(line or b"")
                self.spent_s = self._before_s + time.monotonic() - self._started
                self.keep(TimedAnswer(answer, self.spent_s, self.peak_bytes))

    def _is_notice(self, record: object) -> bool:
        """Returns whether a line says that answers begin or end, and is not one of them."""
        match record:
            case {"begin": True}:
                now = time.monotonic()
                self.loading_s, self._started = now - self._started, now
            case {"end": True}:
                self._end = AttemptEnd(stays=True)
            case {"error": str(why)}:
                self._end = AttemptEnd(why, final=True, stays=True)
            case _:
                return False
        return True


def _parse(line: bytes | None) -> object:
    """The JSON value in a line."""
    if line is None:
        raise Wrong(f"longer than {MOST_BYTES:,} bytes")
    try:
        return DECODER.decode(line.decode())
    except UnicodeDecodeError as error:
        raise Wrong(f"not UTF-8: byte 0x{line[error.start]:02x}") from None
    except (ValueError, RecursionError) as error:
        raise Wrong(f"{reason(error)}, in {shown(line.decode(), 40)}") from None
