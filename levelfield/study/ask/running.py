"""A running system: its process, the processes that it starts, its pipes, and its memory."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from levelfield.study.ask.descendants import Descendants
from levelfield.study.ask.memory import PeakMemory
from levelfield.study.ask.pipes import ProcessPipes

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
