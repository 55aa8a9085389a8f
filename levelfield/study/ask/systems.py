"""Getting a system's answers: from a command, a Python callable, files that exist already, or a
technique of ours.

Whatever the source, an answer belongs to a request by its id (texts of files also by prompt and
control), never by its place in the output; the first answer to a request counts; and all that is
wrong with the rest is counted and said with an example.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from levelfield.core.errors import UserError
from levelfield.study.ask.attempt import Attempt, Endpoint
from levelfield.study.ask.files import read
from levelfield.study.ask.requests import Intake, TimedAnswer, request_record
from levelfield.study.ask.running import SystemProcess
from levelfield.study.ask.techniques import TechniqueProcess
from levelfield.study.cells import CellKey, CellRequest, SystemAnswer
from levelfield.study.plan import (
    CallableSource,
    CommandSource,
    FilesSource,
    Source,
    TechniqueSource,
)


class CommandEndpoint:
    """A command, or a callable as one: started anew for every attempt."""

    stays = False

    def __init__(self, source: CommandSource | CallableSource, folder: Path) -> None:
        self._command, self._environment = _command(source)
        self.name = self._command[0]
        self._folder = folder
        self._system: SystemProcess | None = None

    def open(self, requests: Sequence[CellRequest], seed: int) -> SystemProcess:
        """Starts the command; it may read until it has all the requests."""
        ours = {**os.environ, "PYTHONUNBUFFERED": "1"}
        environment = {**ours, **self._environment, "LEVELFIELD_SEED": str(seed)}
        lines = "".join(json.dumps(request_record(request)) + "\n" for request in requests)
        self._system = SystemProcess(self._command, environment, self._folder)
        self._system.pipes.send(lines.encode(), last=True)
        return self._system

    def close(self) -> None:
        """Ends the command."""
        if self._system:
            self._system.end()
            self._system = None


def _command(source: CommandSource | CallableSource) -> tuple[Sequence[str], Mapping[str, str]]:
    """What is started, and what is added to the environment."""
    if isinstance(source, CommandSource):
        return source.command, source.environment
    # -P: a file of the study that is named as a standard module must not take its place
    worker = [sys.executable, "-P", "-m", "levelfield.study.ask.callable_worker"]
    return [*worker, source.target, json.dumps(dict(source.options))], {}


@dataclass(frozen=True)
class AskOutcome:
    """How the requests to a system ended; the answers themselves went to `keep`.

    Attributes:
        problems: what was wrong, in words.
        failure: why requests are without answer; empty if none is.
        attempts: how often the system was started or read.
        peak_bytes: most memory its processes held at once; None if unknown.
        loading_s: seconds until a technique was ready; None of other sources.
        stopped: whether it ended because it was told to stop.
    """

    problems: tuple[str, ...] = ()
    failure: str = ""
    attempts: int = 0
    peak_bytes: int | None = None
    loading_s: float | None = None
    stopped: bool = False


def answer(
    source: Source,
    key: CellKey,
    requests: Sequence[CellRequest],
    *,
    folder: Path,
    workplace: Path,
    keep: Callable[[TimedAnswer], object],
    known: Collection[SystemAnswer] = (),
    stop: threading.Event | None = None,
    process: TechniqueProcess | None = None,
) -> AskOutcome:
    """Asks a system for the answers that are not known yet.

    A command is started in a session of its own, is given all open requests, and is heard until
    it ends, its time is over, or we are told to stop; then all its processes are ended. Each valid
    answer goes to `keep` as soon as its line is complete. Requests that are still open are asked
    again, as often as the source's `retries` say. A line longer than 16 MiB is no answer.
    Answers of more than `CELL_BYTES` in one attempt end the command.

    A technique does the same in a process that goes on with the next cell; it is ended where a
    command would be.

    Args:
        source: where answers come from.
        key: the cell; its names fill the pattern of files, its seed is `$LEVELFIELD_SEED`.
        requests: all of the cell.
        folder: of the study file.
        workplace: of the cell; has `stderr.txt` afterwards, if the command said something.
        keep: called with every answer that counts; what it raises ends the command and goes on.
        known: answers of an earlier run.
        stop: when set, the command is ended and what is open stays open.
        process: of a technique; without it, one of this cell's own.
    """
    intake = Intake(requests, known)
    if isinstance(source, FilesSource):
        why = read(source, key, folder, intake, keep)
        return AskOutcome(intake.problems(), intake.failure(why), attempts=1)
    if os.name != "posix":
        raise UserError("systems that are asked need Linux, macOS or another POSIX")
    stderr = workplace / "stderr.txt"
    stderr.unlink(missing_ok=True)
    peak: int | None = None
    loading_s: float | None = None
    ends: list[str] = []
    attempts = 0
    spent_s = 0.0
    with contextlib.ExitStack() as own:
        endpoint: Endpoint
        if isinstance(source, TechniqueSource):
            endpoint = process or own.enter_context(TechniqueProcess(source))
        else:
            endpoint = CommandEndpoint(source, folder)
        while not intake.is_complete() and attempts <= source.retries:
            attempts += 1
            attempt = Attempt(attempts, intake, keep, stop or threading.Event(), spent_s)
            end = attempt.run(endpoint, key.seed, source.timeout_s, stderr)
            peak = _larger(peak, attempt.peak_bytes)
            spent_s = attempt.spent_s
            if attempt.loading_s is not None:
                loading_s = (loading_s or 0.0) + attempt.loading_s
            if end.reason:
                ends.append(f"attempt {attempts}: {end.reason}")
            if end.stopped:
                problems = (*intake.problems(), *ends)
                return AskOutcome(problems, "", attempts, peak, loading_s, stopped=True)
            if end.final:
                break
    failure = intake.failure(ends[-1] if ends else "")
    return AskOutcome((*intake.problems(), *ends), failure, attempts, peak, loading_s)


def _larger(one: int | None, other: int | None) -> int | None:
    return max(one or 0, other or 0) or None
