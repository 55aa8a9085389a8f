"""A script that runs in an environment of its own and answers on a pipe.

One JSON document a line in either direction: requests on its stdin, answers on its stdout,
in order. What it or its libraries say otherwise goes to its stderr, of which the last line is shown
if it dies. An answer `{"error": "…"}` is an error; any other answer is an object.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from levelfield.core.errors import ModelError
from levelfield.core.limits import ANSWER_BYTES
from levelfield.metrics.environments import Environment

_LAST_BYTES = 1 << 16
"""Of stderr, in which its last line is looked for."""


class Worker:
    """A running script; it ends when it is closed or when this process ends."""

    def __init__(self, environment: Environment, script: Path) -> None:
        self._name = environment.name
        self._said = tempfile.TemporaryFile()  # noqa: SIM115, closed in `close`
        try:
            self._process = subprocess.Popen(
                # isolated: neither our packages nor the user's reach it
                [str(environment.python), "-I", str(script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                text=True,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            raise ModelError(
                f"{environment.python} can't be started: {error.strerror or error}; "
                f"`levelfield environment remove {environment.name}`, then create it again"
            ) from error

    def ask(self, message: Mapping[str, object]) -> dict[str, Any]:
        """The answer to a message. After an error of the pipe the worker is closed.

        Raises:
            ModelError: the script says why, or has died, or answers with something else.
        """
        try:
            answer = self._exchange(json.dumps(message))
        except BaseException:  # an answer still to come would be taken for the next one's
            self.close()
            raise
        if "error" in answer:
            raise ModelError(f"{self._name}: {answer['error']}")
        return answer

    def _exchange(self, message: str) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        line = ""
        try:
            if stdin is not None and stdout is not None:
                stdin.write(message + "\n")
                stdin.flush()
                line = stdout.readline(ANSWER_BYTES)
        except (OSError, ValueError):  # it has gone, or was closed: no line
            pass
        if len(line) >= ANSWER_BYTES:
            raise ModelError(
                f"{self._name} answered with more than {ANSWER_BYTES:,} characters; it is ended"
            )
        if not line.endswith("\n"):
            raise ModelError(f"{self._name} ended without an answer: {self._last_words()}")
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise ModelError(f"{self._name} answered with something else: {line.strip()[:200]!r}")
        return answer

    def _last_words(self) -> str:
        try:
            code = self._process.wait(timeout=10)
            size = self._said.seek(0, os.SEEK_END)
            self._said.seek(max(0, size - _LAST_BYTES))
            lines = self._said.read().decode("utf-8", "replace").split("\n")
        except (subprocess.TimeoutExpired, ValueError):
            return "it hangs"
        return next((line.strip() for line in reversed(lines) if line.strip()), f"exit code {code}")

    @property
    def is_running(self) -> bool:
        """Whether it can be asked."""
        return not self._said.closed and self._process.poll() is None

    def close(self) -> None:
        """Ends it."""
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:  # it has gone already
                pass
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._said.close()
