"""Memory of a running system, its child processes included."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from levelfield.study.ask.processes import process_folders

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
