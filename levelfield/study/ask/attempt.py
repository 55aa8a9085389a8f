"""A system as a command: requests as JSONL on its stdin, answers as JSONL on its stdout."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from levelfield.core.errors import UserError
from levelfield.core.limits import CELL_BYTES
from levelfield.io.json_input import DECODER, reason
from levelfield.io.problems import Wrong, shown
from levelfield.study.ask.descendants import Descendants
from levelfield.study.ask.intake import Intake, TimedAnswer
from levelfield.study.ask.memory import PeakMemory
from levelfield.study.ask.pipes import MOST_BYTES, LineReader, ProcessPipes, StderrLog
from levelfield.study.ask.requests import parse_answer, request_record
from levelfield.study.cells import SystemAnswer

_GRACE_S = 2.0
_FAREWELL_S = 10.0
"""How long a command may go on after its last answer before it is ended."""
_SILENCE_S = 0.5
"""How long a pipe stays open for a command that has ended but left children behind."""


@dataclass(frozen=True)
class AttemptEnd:
    """How an attempt ended: in words if badly, by our being stopped, with no use in another."""

    reason: str = ""
    stopped: bool = False
    final: bool = False


class Attempt:
    """One start of a command, with all requests that are open."""

    def __init__(
        self,
        number: int,
        intake: Intake,
        keep: Callable[[TimedAnswer], object],
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
        self._held = 0

    def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        timeout_s: float,
        stderr_file: Path,
    ) -> AttemptEnd:
        """Starts the command, hears it to its end, and leaves none of its processes behind."""
        descendants = Descendants()
        requests = "".join(json.dumps(request_record(r)) + "\n" for r in self._intake.open)
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=folder,
                env={**environment, **descendants.environment},
                bufsize=0,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            return AttemptEnd(f"{shown(command[0])} can't be started: {why}; check it", final=True)
        stderr = StderrLog(stderr_file)
        try:
            forced = self._hear(process, requests.encode(), stderr, timeout_s)
        finally:
            _end(process)
            descendants.kill()
        stderr.end()
        return forced or AttemptEnd(self._farewell(process.returncode, stderr.last_line()))

    def _farewell(self, code: int, last: str) -> str:
        """What there is to say of a command that ended by itself; empty if all is well."""
        if code == 0:
            return "" if self._intake.is_complete() else "ended without an error"
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        return f"{how}: {last}" if last else f"{how}, and nothing on stderr"

    def _hear(
        self, process: subprocess.Popen[bytes], requests: bytes, stderr: StderrLog, timeout_s: float
    ) -> AttemptEnd | None:
        """Writes requests and takes answers; None if the process ended by itself."""
        memory = PeakMemory(process.pid)
        lines = LineReader()
        forced = None
        goodbye = self._started + timeout_s
        was_complete = has_ended = False
        with ProcessPipes(process, requests) as pipes:
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
                if self._held > CELL_BYTES:
                    return AttemptEnd(
                        f"answered with more than {CELL_BYTES:,} bytes, so it was ended", final=True
                    )
                if self._stop.is_set():
                    return AttemptEnd(stopped=True)
                if self._intake.is_complete() and not was_complete:
                    was_complete = True
                    goodbye = min(goodbye, time.monotonic() + _FAREWELL_S)
                if time.monotonic() > goodbye:
                    if not has_ended:
                        forced = AttemptEnd(
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
                answer = _parse(line)
            except Wrong as wrong:
                self._intake.refuse(str(wrong), place)
                continue
            if answer and self._intake.take(answer, place):
                self._held += len(line or b"")
                self.spent_s = self._before_s + time.monotonic() - self._started
                self._keep(TimedAnswer(answer, self.spent_s, self.peak_bytes))


def _parse(line: bytes | None) -> SystemAnswer | None:
    """The answer in a line; None if the line is blank."""
    if line is None:
        raise Wrong(f"longer than {MOST_BYTES:,} bytes")
    if not line.strip():
        return None
    try:
        return parse_answer(DECODER.decode(line.decode()))
    except UnicodeDecodeError as error:
        raise Wrong(f"not UTF-8: byte 0x{line[error.start]:02x}") from None
    except UserError as error:
        raise Wrong(str(error)) from None
    except (ValueError, RecursionError) as error:
        raise Wrong(f"{reason(error)}, in {shown(line.decode(), 40)}") from None


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
