"""A running system: its process, the processes that it starts, its pipes, and its memory."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from levelfield.study.ask.pipes import ProcessPipes


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
