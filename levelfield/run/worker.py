"""A process that scores what it is sent: `python -m levelfield.run.worker`.

Partitions come over stdin and scores go over stdout, until stdin ends; what libraries print goes to
stderr.
"""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from typing import IO

from levelfield.core.errors import LevelfieldError, first_line
from levelfield.core.metric import Metric, MetricError, score_checked
from levelfield.core.patience import time_limit
from levelfield.run.frames import receive, send


def serve(tasks: IO[bytes], answers: IO[bytes]) -> None:
    """Answers every task with scores, or with the error that there is instead."""
    metrics: dict[bytes, Metric] = {}
    while (message := receive(tasks)) is not None:
        answer = _answer(message, metrics)
        try:
            send(answers, answer)
        except OSError:  # nobody waits for it
            return


def _answer(message: bytes, metrics: dict[bytes, Metric]) -> bytes:
    try:
        digest, packed, samples, limit = pickle.loads(message)
        if packed is not None:
            metrics[digest] = pickle.loads(packed)
        with time_limit(limit):
            return pickle.dumps(score_checked(metrics[digest], samples))
    except LevelfieldError as error:
        return _packed(error)
    except Exception as error:  # a metric that can't be read here, say
        return _packed(MetricError(f"a worker failed: {type(error).__name__}: {first_line(error)}"))


def _packed(error: LevelfieldError) -> bytes:
    """An error as bytes, with where it comes from as a note."""
    error.add_note("in a worker:\n" + "".join(traceback.format_exception(error)))
    try:
        packed = pickle.dumps(error)
        pickle.loads(packed)
    except Exception:  # its class takes other arguments
        packed = pickle.dumps(MetricError(str(error)))
    return packed


def main() -> None:
    """Takes stdin and stdout for messages, before anything else can write there."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    tasks = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    path = receive(tasks)
    if path is not None:
        sys.path[:] = pickle.loads(path)
        serve(tasks, answers)


if __name__ == "__main__":
    main()
