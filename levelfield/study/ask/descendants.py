"""Processes of a command wherever they have gone: found by a variable in their environment."""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from levelfield.study.ask.processes import process_folders

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
