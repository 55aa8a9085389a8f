"""A process that scores what it is sent: `python -m levelfield.scoring.worker`.

Partitions come over stdin and scores go over stdout, until stdin ends; what libraries print goes to
stderr.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
import traceback
from typing import IO

from levelfield.core.errors import LevelfieldError, first_line
from levelfield.core.metric import Metric, MetricError, score_checked
from levelfield.core.progress import time_limit

_LENGTH = struct.Struct("<Q")


def send(pipe: IO[bytes] | None, message: bytes) -> None:
    """Writes a message.

    Raises:
        OSError: nobody reads any more.
    """
    assert pipe is not None
    pipe.write(_LENGTH.pack(len(message)) + message)
    pipe.flush()


def receive(pipe: IO[bytes] | None) -> bytes | None:
    """The next message; None at the end, also if that is in the middle of one."""
    assert pipe is not None
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    message = pipe.read(length)
    return message if len(message) == length else None


class Answers:
    """Answers every message with scores, or with the error that there is instead; keeps metrics."""

    def __init__(self) -> None:
        self._metrics: dict[bytes, Metric] = {}

    def __call__(self, message: bytes) -> bytes:
        """The answer.

        Args:
            message: digest of a metric, the metric (None if it has come before), samples, and the
                seconds that it may take.
        """
        try:
            digest, packed, samples, limit = pickle.loads(message)
            if packed is not None:
                self._metrics[digest] = pickle.loads(packed)
            with time_limit(limit):
                return pickle.dumps(score_checked(self._metrics[digest], samples))
        except LevelfieldError as error:
            return _packed(error)
        except Exception as error:  # a metric that can't be read here, say
            text = f"{type(error).__name__}: {first_line(error)}"
            return _packed(MetricError(f"a worker failed: {text}"))


def serve(messages: IO[bytes], answers: IO[bytes]) -> None:
    """Answers every message until there are no more."""
    answer = Answers()
    while (message := receive(messages)) is not None:
        try:
            send(answers, answer(message))
        except OSError:  # nobody waits for it
            return


def _packed(error: LevelfieldError) -> bytes:
    """An error as bytes, with where it comes from as a note."""
    error.add_note("in a worker:\n" + "".join(traceback.format_exception(error)))
    try:
        packed = pickle.dumps(error)
        pickle.loads(packed)
    except Exception:  # its class takes other arguments
        packed = pickle.dumps(MetricError(str(error)))
    return packed


def own_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Takes stdin and stdout for messages, before anything else can write there."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    messages = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return messages, answers


def main() -> None:
    """Serves its parent."""
    messages, answers = own_pipes()
    path = receive(messages)
    if path is not None:
        sys.path[:] = pickle.loads(path)
        serve(messages, answers)


if __name__ == "__main__":
    main()
