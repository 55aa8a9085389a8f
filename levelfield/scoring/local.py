"""Scoring by several processes of this machine.

Workers are started by name and talk over pipes: nothing is forked, so threads of libraries are
safe, and a script needs no guard around its main part. A worker ends with this process, however
that ends.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from levelfield.core.errors import LevelfieldError
from levelfield.core.machine import usable_memory, usable_processors
from levelfield.core.metric import PARTITION, Metric
from levelfield.models.loading import AS_USUAL, REFERENCE
from levelfield.models.resolve import files_of
from levelfield.scoring.executor import Executor, InThisProcess, WorkerError, WorkerPool
from levelfield.scoring.worker import receive, send

WORKER_BYTES = 700 << 20
"""What a worker takes beside the weights of its models: Python, PyTorch, a batch."""
_MODELS = ("model", "encoder", "expert", "amateur")
"""Options of metrics that name models."""


class WorkerProcess:
    """A process of this machine that answers one message after the other.

    Args:
        threads: that its libraries may use.
    """

    place = ""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the process, anew if it has ended.

        Raises:
            WorkerError: the machine starts no more.
        """
        threads = {"OMP_NUM_THREADS": str(self._threads), "TOKENIZERS_PARALLELISM": "false"}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "levelfield.scoring.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**threads, **os.environ},
                start_new_session=True,  # Ctrl-C is for this process, which then ends the workers
            )
        except OSError as error:
            raise WorkerError(f"a worker can't be started: {error.strerror or error}") from None
        with contextlib.suppress(OSError):  # whoever asks will notice
            send(self._process.stdin, pickle.dumps(sys.path))

    def answer(self, message: bytes) -> bytes:
        """Its answer.

        Raises:
            WorkerError: the process has ended.
        """
        assert self._process is not None
        try:
            send(self._process.stdin, message)
            answer = receive(self._process.stdout)
        except (OSError, ValueError):
            answer = None
        if answer is None:
            raise WorkerError(_ending(self._process))
        return answer

    def end(self) -> None:
        """Ends the process."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]


def _ending(process: subprocess.Popen[bytes]) -> str:
    try:
        status = process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        status = process.wait()
    if status < 0:
        name = signal.Signals(-status).name
        return f"killed by {name}" + (", perhaps for want of memory" if status == -9 else "")
    return f"with exit status {status}"


def worker_count(
    workers: int | Literal["auto"], metrics: Sequence[Metric], samples: int, device: str = "auto"
) -> int:
    """How many processes score: `auto` is as many as processors, memory and samples allow; one
    where models are on a GPU.

    Args:
        metrics: each worker holds the weights of their models, as far as they name them.
        samples: of the run; a worker takes at least four partitions of them.
    """
    if workers != "auto":
        return workers
    if device != "cpu" and _has_gpu():
        return 1
    left = usable_memory()
    of_memory = math.inf if left is None else left // (WORKER_BYTES + weights(metrics))
    return int(max(1, min(usable_processors(), of_memory, samples // (4 * PARTITION))))


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available() or torch.backends.mps.is_available()


def weights(metrics: Sequence[Metric]) -> int:
    """Bytes of the models that metrics name, each once; what can't be resolved has none."""
    names = {getattr(metric, option, None) for metric in metrics for option in _MODELS}
    files: dict[Path, int] = {}
    for name in names:
        with contextlib.suppress(LevelfieldError):
            if isinstance(name, str) and name:
                resolved = files_of(name, allow_pickle=True)
                if resolved.gguf:  # four or five bits a weight there, 32 in memory
                    files[resolved.gguf] = 6 * resolved.gguf.stat().st_size
                else:
                    files |= {f: f.stat().st_size for f in resolved.path.glob("*.safetensors")}
    # the first numbers of another engine are compared with PyTorch's, whose weights come on top
    loadings = [getattr(metric, "loading", AS_USUAL) for metric in metrics]
    others = any(loading.engine not in ("auto", REFERENCE) for loading in loadings)
    return sum(files.values()) * (2 if others else 1)


@contextlib.contextmanager
def worker_processes(
    count: int, note: Callable[[str], object] = lambda _: None
) -> Iterator[Executor]:
    """Where partitions are scored: in this process, or by several others.

    Args:
        count: of processes; 1 is this one.
        note: told of metrics that are scored here all the same.
    """
    if count == 1:
        yield InThisProcess()
        return
    threads = max(1, usable_processors() // count)
    pool = WorkerPool([WorkerProcess(threads) for _ in range(count)], note)
    try:
        yield pool
    finally:
        pool.close()
