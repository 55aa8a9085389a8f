"""Work by other processes of this machine: both ends of their pipes.

Workers are started by name, as `python -m levelfield.workers.processes`, and talk over pipes:
nothing is forked, so threads of libraries are safe, and a script needs no guard around its main
part. A worker ends with the process that started it, however that ends. What libraries print in a
worker goes to stderr.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping
from typing import IO, Any

from levelfield.core.errors import LevelfieldError, UserError, first_line
from levelfield.core.metric import MetricError
from levelfield.core.progress import time_limit
from levelfield.workers.executor import LIVES, WorkerDeath, WorkerError


class Processes:
    """Processes of this machine, each started when there is something for it.

    Args:
        count: how many.
        threads: that the libraries of each may use.
    """

    def __init__(self, count: int, threads: int) -> None:
        self._threads = threads
        self._lock = threading.Lock()  # of the next two
        self._closed = False
        self._alive: set[_Process] = set()
        self._idle: queue.SimpleQueue[_Process | None] = queue.SimpleQueue()
        for _ in range(count):
            self._idle.put(None)

    def answer(self, message: bytes, subjects: Mapping[bytes, bytes]) -> bytes:
        """Returns the answer of a process that is free; another one tries where it dies.

        Raises:
            WorkerDeath: both have died.
            WorkerError: the machine starts no more.
        """
        process = self._idle.get()
        ending = ""
        try:
            for _ in range(LIVES):
                process = process or self._start()
                try:
                    return process.answer(message, subjects)
                except (OSError, ValueError, EOFError, pickle.UnpicklingError):
                    ending = process.ending()
                    process = None
        finally:
            self._idle.put(process)
        raise WorkerDeath(ending)

    def close(self) -> None:
        """Ends all of them."""
        with self._lock:
            self._closed = True
        for process in self._alive:
            process.end()

    def _start(self) -> _Process:
        with self._lock:
            if self._closed:
                raise WorkerError("the workers were stopped")
            process = _Process(self._threads)
            self._alive.add(process)
        return process


class _Process:
    """A process that answers one message after the other.

    Raises:
        WorkerError: the machine starts no more.
    """

    def __init__(self, threads: int) -> None:
        self._known: set[bytes] = set()
        settings = {"OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "levelfield.workers.processes"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**settings, **os.environ},
                start_new_session=True,  # Ctrl-C is for this process, which then ends the workers
            )
        except OSError as error:
            raise WorkerError(f"a worker can't be started: {error.strerror or error}") from None
        with contextlib.suppress(OSError):  # whoever asks will notice
            self._send(sys.path)

    def answer(self, message: bytes, subjects: Mapping[bytes, bytes]) -> bytes:
        """Returns its answer; sends a subject the first time only.

        Raises:
            OSError, ValueError, EOFError, UnpicklingError: the process has ended.
        """
        self._send((message, {d: s for d, s in subjects.items() if d not in self._known}))
        answer: bytes = pickle.load(self._process.stdout)  # type: ignore[arg-type]
        self._known |= subjects.keys()
        return answer

    def ending(self) -> str:
        """Ends it if need be; returns how it has ended, as it continues "the last one"."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        self.end()
        status = self._process.returncode
        if status < 0:
            name = signal.Signals(-status).name
            return f"killed by {name}" + (", perhaps out of memory" if status == -9 else "")
        return f"with exit status {status}"

    def end(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]

    def _send(self, content: object) -> None:
        pipe: Any = self._process.stdin
        pickle.dump(content, pipe)
        pipe.flush()


class Answers:
    """Answers every message with results, or the errors that there are instead; keeps subjects."""

    def __init__(self) -> None:
        self._subjects: dict[bytes, Any] = {}

    def __call__(self, message: bytes, new: Mapping[bytes, bytes], place: str = "") -> bytes:
        """Returns the answer.

        Args:
            message: a list of jobs: function, digest of its subject, the subject's signature where
                the message comes from, items, and the seconds that it may take.
            new: digest -> subject, of those that may not have come before.
            place: of this process, to begin an error with; empty on the machine of the run.
        """
        return pickle.dumps([self._outcome(job, new, place) for job in pickle.loads(message)])

    def _outcome(self, job: tuple[Any, ...], new: Mapping[bytes, bytes], place: str) -> bytes:
        function, digest, signature, items, limit = job
        try:
            if digest not in self._subjects:
                self._subjects[digest] = pickle.loads(new[digest])
            subject = self._subjects[digest]
            with time_limit(limit):
                if subject.signature != signature:
                    raise UserError(
                        f"{place or 'a worker'}: {subject.name} differs there: its signature is "
                        f"{subject.signature}; here it is {signature}; use the same files in both "
                        "places"
                    )
                return pickle.dumps(function(subject, items))
        except LevelfieldError as error:
            failure = error
        except Exception as error:  # a metric that can't be read here, say
            failure = MetricError(f"a worker failed: {type(error).__name__}: {first_line(error)}")
            failure.__cause__ = error
        if place and not str(failure).startswith(place):
            failure.args = (f"{place}: {failure}",)
        failure.add_note("in a worker:\n" + "".join(traceback.format_exception(failure)))
        return _portable(failure)


@functools.lru_cache(maxsize=1)
def answers_of(run: str) -> Answers:  # noqa: ARG001
    """Returns what answers messages of a run; a new run drops the subjects of the last one."""
    return Answers()


def _portable(error: LevelfieldError) -> bytes:
    """Returns an error as bytes: itself, or its message alone."""
    try:
        packed = pickle.dumps(error)
        pickle.loads(packed)
    except Exception:  # its class takes other arguments
        packed = pickle.dumps(MetricError(str(error)))
    return packed


def _own_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Takes stdin and stdout for messages, before anything else can write there."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    messages = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return messages, answers


def main() -> None:
    """Answers the parent's messages until there are no more, or nobody waits for an answer."""
    messages, answers = _own_pipes()
    answer = Answers()
    with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
        sys.path[:] = pickle.load(messages)
        while True:
            pickle.dump(answer(*pickle.load(messages)), answers)
            answers.flush()


if __name__ == "__main__":
    main()
