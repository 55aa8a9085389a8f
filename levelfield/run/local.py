"""Scoring by several processes of this machine.

Workers are started by name and talk over pipes: nothing is forked, so threads of libraries are
safe, and a script needs no guard around its main part. A worker ends with this process, however
that ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import pickle
import queue
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from levelfield.core.errors import LevelfieldError, UserError, first_line
from levelfield.core.memory import usable_memory
from levelfield.core.metric import PARTITION, Metric
from levelfield.core.patience import current_limit
from levelfield.core.processors import usable_processors
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.models.resolve import resolve
from levelfield.run.executor import Executor, InThisProcess, Pending
from levelfield.run.frames import receive, send

LIVES = 2
"""How often a partition is tried whose worker dies."""
WORKER_BYTES = 700 << 20
"""What a worker takes beside the weights of its models: Python, PyTorch, a batch."""
_MODELS = ("model", "encoder", "expert", "amateur")
"""Options of metrics that name models."""


class WorkerError(LevelfieldError):
    """A worker has ended without an answer."""


class LocalWorkers:
    """Processes of this machine that score partitions.

    A metric that can't be sent, or that counts what its values cost, is scored in this process.

    Args:
        count: how many.
        note: told of metrics that are scored here.
    """

    def __init__(self, count: int, note: Callable[[str], object] = lambda _: None) -> None:
        self._note = note
        self._here = InThisProcess()
        self._sent: dict[int, tuple[Metric, bytes | None]] = {}
        self._threads = max(1, usable_processors() // count)
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._workers = [_Worker(self._threads) for _ in range(count)]
        for worker in self._workers:
            self._idle.put(worker)
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="levelfield-worker")
        self._closed = False
        self._bundle: list[_Task] | None = None

    @property
    def ahead(self) -> int:
        """Two partitions a worker: one at work, one waiting."""
        return 2 * len(self._workers)

    def begin(self, metric: Metric, samples: Sequence[Sample]) -> Pending:
        """Sends samples to the next worker that is free.

        Raises:
            MetricError: as for `score_checked`.
            WorkerError: more than one worker has died on these samples.
        """
        packed = self._packed(metric)
        if packed is None or not samples:
            return self._here.begin(metric, samples)
        task = _Task(packed, list(samples), current_limit())
        if self._bundle is None:
            self._submit([task])
        else:
            self._bundle.append(task)
        return task.outcome

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What is begun inside goes to one worker."""
        bundle: list[_Task] = []
        self._bundle = bundle
        try:
            yield
        finally:
            self._bundle = None
            if bundle:
                self._submit(bundle)

    def _submit(self, tasks: Sequence[_Task]) -> None:
        self._pool.submit(self._work, tasks)

    def close(self) -> None:
        """Ends all workers at once."""
        self._closed = True
        for worker in self._workers:
            worker.end()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _packed(self, metric: Metric) -> bytes | None:
        """A metric as bytes; None if it has to stay here."""
        if id(metric) not in self._sent:
            packed, why = None, ""
            try:
                if type(metric).__module__ == "__main__":
                    why = "it belongs to a script"
                elif not hasattr(metric, "costs"):
                    packed = pickle.dumps(metric)
            except Exception as error:  # whatever a third party's class raises
                why = first_line(error)
            if why:
                self._note(f"{metric.name} can't be sent to workers ({why}); it is scored here")
            self._sent[id(metric)] = (metric, packed)  # kept, so that the id stays its own
        return self._sent[id(metric)][1]

    def _work(self, tasks: Sequence[_Task]) -> None:
        """Has the next worker that is free do tasks, one after the other."""
        worker = self._idle.get()
        for task in tasks:
            try:
                task.outcome.set_result(self._scores(worker, task))
            except BaseException as error:
                task.outcome.set_exception(error)
        self._idle.put(worker)

    def _scores(self, worker: _Worker, task: _Task) -> Scores:
        for _ in range(LIVES):
            try:
                return worker.score(task)
            except WorkerError as error:
                if self._closed:
                    raise
                ending = error
                worker.start()
        first, last = task.samples[0].id, task.samples[-1].id
        raise WorkerError(
            f"{LIVES} workers died on the samples '{first}' to '{last}', the last one {ending}; "
            "fewer --workers take less memory"
        )


@dataclass
class _Task:
    """A metric on some samples.

    Attributes:
        packed: the metric.
        limit: seconds that it may take.
        outcome: its scores, or what went wrong.
    """

    packed: bytes
    samples: list[Sample]
    limit: float | None
    outcome: Future[Scores] = field(default_factory=Future)


class _Worker:
    """A process that scores one partition after the other."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self.start()

    def start(self) -> None:
        """Starts the process, anew if it has ended."""
        self._known: set[bytes] = set()
        threads = {"OMP_NUM_THREADS": str(self._threads), "TOKENIZERS_PARALLELISM": "false"}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "levelfield.run.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**threads, **os.environ},
            start_new_session=True,  # Ctrl-C is for this process, which then ends the workers
        )
        with contextlib.suppress(OSError):  # whoever asks will notice
            send(self._process.stdin, pickle.dumps(sys.path))

    def score(self, task: _Task) -> Scores:
        """The scores of a metric.

        Raises:
            WorkerError: the process has ended.
            LevelfieldError: what the metric raises.
        """
        digest = hashlib.blake2b(task.packed, digest_size=16).digest()
        packed = None if digest in self._known else task.packed
        try:
            send(self._process.stdin, pickle.dumps((digest, packed, task.samples, task.limit)))
            answer = receive(self._process.stdout)
        except (OSError, ValueError):
            answer = None
        if answer is None:
            raise WorkerError(_ending(self._process))
        self._known.add(digest)
        outcome: Any = pickle.loads(answer)
        if isinstance(outcome, BaseException):
            raise outcome
        scores: Scores = outcome
        return scores

    def end(self) -> None:
        """Ends the process."""
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
    wanted: int | Literal["auto"], metrics: Sequence[Metric], samples: int, device: str = "auto"
) -> int:
    """How many processes score: `auto` is as many as processors, memory and samples allow; one
    where models are on a GPU.

    Args:
        metrics: each worker holds the weights of their models, as far as they name them.
        samples: of the run; a worker takes at least four partitions of them.

    Raises:
        UserError: there are fewer than 1.
    """
    if wanted != "auto":
        if wanted < 1:
            raise UserError(f"workers is {wanted}; expected a whole number of at least 1, or auto")
        return wanted
    if device != "cpu" and _has_gpu():
        return 1
    left = usable_memory()
    of_memory = math.inf if left is None else left // (WORKER_BYTES + _weights(metrics))
    return int(max(1, min(usable_processors(), of_memory, samples // (4 * PARTITION))))


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available() or torch.backends.mps.is_available()


def _weights(metrics: Sequence[Metric]) -> int:
    """Bytes of the models that metrics name, each once; what can't be resolved has none."""
    names = {getattr(metric, option, None) for metric in metrics for option in _MODELS}
    files: dict[Path, int] = {}
    for name in names:
        with contextlib.suppress(LevelfieldError):
            if isinstance(name, str) and name:
                resolved = resolve(name, allow_pickle=True)
                if resolved.gguf:  # four or five bits a weight there, 32 in memory
                    files[resolved.gguf] = 6 * resolved.gguf.stat().st_size
                else:
                    files |= {f: f.stat().st_size for f in resolved.path.glob("*.safetensors")}
    return sum(files.values())


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
    local = LocalWorkers(count, note)
    try:
        yield local
    finally:
        local.close()
