"""Where a partition is scored: the contract that one process, several, and a cluster share.

A partition under a metric goes in, its scores come out; they depend on nothing else, so it may be
scored anywhere. Only the process of the run reads input, cache and output.

Every worker has a thread of this process that hands it one partition after the other. A worker that
dies is replaced; one that can't be is left out, and the others go on.
"""

from __future__ import annotations

import contextlib
import hashlib
import pickle
import queue
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

from levelfield.core.errors import LevelfieldError, UserError, first_line
from levelfield.core.metric import Metric, score_checked
from levelfield.core.progress import current_limit
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores

_HEARS_S = 0.2


def wait_for_one(futures: Collection[Future[Scores]]) -> None:
    """Waits until one of them is done; hears Ctrl-C meanwhile.

    Polars has the system resume a wait that a signal interrupts, so a single long one would not.
    """
    while not wait(futures, timeout=_HEARS_S, return_when=FIRST_COMPLETED).done:
        pass


class Pending(Protocol):
    """Scores that are under way."""

    def result(self) -> Scores:
        """Waits for them; raises what went wrong."""
        ...

    def done(self) -> bool:
        """Whether `result` has nothing to wait for."""
        ...


@dataclass(frozen=True)
class Later:
    """Scores that are made when they are asked for."""

    result: Callable[[], Scores]

    def done(self) -> bool:
        """They are not."""
        return False


class Executor(Protocol):
    """Scores partitions somewhere."""

    @property
    def ahead(self) -> int:
        """How many partitions are begun before the first of them has to be there."""
        ...

    def begin(self, metric: Metric, samples: Sequence[Sample]) -> Pending:
        """Has samples scored, held to the metric's contract."""
        ...

    def together(self) -> AbstractContextManager[object]:
        """What is begun inside is scored at one place, one after the other: metrics of a family
        share what their models make of a text."""
        ...


class InThisProcess:
    """Scores a partition when its scores are asked for."""

    ahead = 0

    def begin(self, metric: Metric, samples: Sequence[Sample]) -> Pending:
        """The scores, once they are asked for."""
        return Later(lambda: score_checked(metric, samples))

    def together(self) -> AbstractContextManager[object]:
        """Nothing: there is one place."""
        return nullcontext()


LIVES = 2
"""How often a partition is tried whose worker dies."""


class WorkerError(LevelfieldError):
    """A worker has ended without an answer, or can't be started."""


class PoolWorker(Protocol):
    """Something that answers messages as `levelfield.scoring.worker` does."""

    @property
    def place(self) -> str:
        """Where it is, to begin a message with; empty on this machine."""
        ...

    def start(self) -> None:
        """Starts it, anew if it has ended.

        Raises:
            WorkerError: it can't be started now.
            UserError: no worker can be.
        """
        ...

    def answer(self, message: bytes) -> bytes:
        """Its answer.

        Raises:
            WorkerError: it has ended; the message continues "the last one".
        """
        ...

    def end(self) -> None:
        """Ends it at once; what waits for it raises."""
        ...


class WorkerPool:
    """An executor: workers that score partitions.

    A metric that can't be sent, or that counts what its values cost, is scored in this process.

    Args:
        workers: none of them started.
        note: told of metrics that are scored here, and of workers that are left out.
    """

    def __init__(
        self, workers: Sequence[PoolWorker], note: Callable[[str], object] = lambda _: None
    ) -> None:
        self._note = note
        self._here = InThisProcess()
        self._sent: dict[int, tuple[Metric, bytes | None]] = {}
        self._workers = workers
        self._bundle: list[_Task] | None = None
        self._bundles: queue.SimpleQueue[Sequence[_Task]] = queue.SimpleQueue()
        self._closed = False
        self._lock = threading.Lock()  # of the two below
        self._active = len(workers)
        self._failure: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._serve, args=(worker,), daemon=True) for worker in workers
        ]
        for thread in self._threads:
            thread.start()

    @property
    def ahead(self) -> int:
        """Two partitions a worker: one at work, one waiting."""
        return 2 * len(self._workers)

    def begin(self, metric: Metric, samples: Sequence[Sample]) -> Pending:
        """Sends samples to the next worker that is free.

        Raises:
            MetricError: as for `score_checked`.
            WorkerError: more than one worker has died on these samples, or there is none any more.
        """
        packed = self._packed(metric)
        if packed is None or not samples:
            return self._here.begin(metric, samples)
        task = _Task(packed, list(samples), current_limit(), metric.signature)
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

    def close(self) -> None:
        """Ends all workers at once."""
        self._closed = True
        for _ in self._threads:
            self._bundles.put([])
        for worker in self._workers:
            worker.end()
        for thread in self._threads:
            thread.join()
        for worker in self._workers:  # one may have been about to start
            worker.end()

    def _packed(self, metric: Metric) -> bytes | None:
        """A metric as bytes; None if it has to stay here."""
        if id(metric) not in self._sent:
            packed, reason = None, ""
            try:
                if type(metric).__module__ == "__main__":
                    reason = "it belongs to a script"
                elif not hasattr(metric, "costs"):
                    packed = pickle.dumps(metric)
            except Exception as error:  # whatever a third party's class raises
                reason = first_line(error)
            if reason:
                self._note(f"{metric.name} can't be sent to workers ({reason}); it is scored here")
            self._sent[id(metric)] = (metric, packed)  # kept, so that the id stays its own
        return self._sent[id(metric)][1]

    def _submit(self, bundle: Sequence[_Task]) -> None:
        with self._lock:
            if self._failure is None:
                self._bundles.put(bundle)
                return
        _fail(bundle, self._failure)

    def _serve(self, worker: PoolWorker) -> None:
        """Has a worker do bundles, until the pool closes or the worker can't be started."""
        try:
            seat = _Seat(worker)
            while not self._closed and (bundle := self._bundles.get()):
                try:
                    for task in bundle:
                        self._do(task, seat)
                except WorkerError:
                    # to whichever worker is free first: starting this one anew may take a while
                    if left := [task for task in bundle if not task.outcome.done()]:
                        self._submit(left)
                    if not self._closed:
                        seat.start()
        except BaseException as error:
            if not self._closed:
                self._leave_out(error)

    def _do(self, task: _Task, seat: _Seat) -> None:
        if self._closed or task.outcome.done():
            return
        try:
            task.outcome.set_result(seat.scores(task))
        except WorkerError as ending:
            task.deaths += 1
            if task.deaths == LIVES:
                task.outcome.set_exception(WorkerError(task.fatal(ending)))
            raise
        except BaseException as error:
            task.outcome.set_exception(error)

    def _leave_out(self, error: BaseException) -> None:
        """Goes on without a worker, if there are others and nothing is wrong with all of them."""
        with self._lock:
            self._active -= 1
            if self._active and isinstance(error, WorkerError):
                self._note(f"went on with {self._active} of {len(self._workers)} workers: {error}")
                return
            self._failure = self._failure or error
            with contextlib.suppress(queue.Empty):
                while True:
                    _fail(self._bundles.get_nowait(), error)


class _Outcome(Future[Scores]):
    """Scores, or what went wrong."""

    def result(self, timeout: float | None = None) -> Scores:
        """The scores; Ctrl-C is heard while they are waited for."""
        if timeout is None:
            wait_for_one([self])
        return super().result(timeout)


@dataclass
class _Task:
    """A metric on some samples.

    Attributes:
        packed: the metric.
        limit: seconds that it may take.
        signature: of the metric here.
        deaths: how many workers have died of it.
        outcome: its scores, or what went wrong.
    """

    packed: bytes
    samples: list[Sample]
    limit: float | None
    signature: str
    deaths: int = 0
    outcome: _Outcome = field(default_factory=_Outcome)

    def fatal(self, ending: WorkerError) -> str:
        """That it kills workers, and how the last one ended."""
        return (
            f"{self.deaths} workers died on the samples '{self.samples[0].id}' to "
            f"'{self.samples[-1].id}', the last one {ending}; fewer --workers take less memory"
        )


class _Seat:
    """A worker, with what it has been sent."""

    def __init__(self, worker: PoolWorker) -> None:
        self._worker = worker
        self.start()

    def start(self) -> None:
        """Starts the worker, anew if it has ended."""
        self._known: set[bytes] = set()
        self._worker.start()

    def scores(self, task: _Task) -> Scores:
        """The scores of a metric.

        Raises:
            WorkerError: the worker has ended.
            LevelfieldError: what the metric raises, or that it has another signature there.
        """
        digest = hashlib.blake2b(task.packed, digest_size=16).digest()
        packed = None if digest in self._known else task.packed
        message = pickle.dumps((digest, packed, task.samples, task.limit))
        outcome: Any = pickle.loads(self._worker.answer(message))
        self._known.add(digest)
        place = self._worker.place
        if isinstance(outcome, BaseException):
            if place:
                outcome.args = (f"{place}: {outcome}",)
            raise outcome
        scores: Scores = outcome
        if scores.signature != task.signature:
            raise UserError(
                f"{place or 'a worker'}: {scores.metric} is another metric there, with the "
                f"signature {scores.signature}; here it is {task.signature}; have the same files "
                "at both places"
            )
        return scores


def _fail(bundle: Sequence[_Task], error: BaseException) -> None:
    for task in bundle:
        if not task.outcome.done():
            task.outcome.set_exception(error)
