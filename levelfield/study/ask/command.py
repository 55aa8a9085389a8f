"""A system as a command: requests as JSONL on its stdin, answers as JSONL on its stdout."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from levelfield.study.ask.requests import request_record
from levelfield.study.ask.running import SystemProcess
from levelfield.study.cells import CellRequest
from levelfield.study.plan import CallableSource, CommandSource


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
