"""The contract that one process, several, and a cluster share: a partition goes in, its result
comes out.

A result depends on nothing but a function, its subject (a metric, a technique) and the items of a
partition, so it may be computed anywhere. Only the process of the run reads input, cache and
output.
"""

from __future__ import annotations

import contextlib
import hashlib
import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from levelfield.core.errors import LevelfieldError, first_line
from levelfield.core.progress import LIMIT

LIVES = 2
"""How often a partition is tried whose worker dies."""
_HEARS_S = 0.2

R = TypeVar("R")


class WorkerError(LevelfieldError):
    """A worker ended without an answer, or can't be started."""


class WorkerDeath(WorkerError):  # noqa: N818
    """As many workers as a partition has lives have ended; says how the last one did."""


class Subject(Protocol):
    """What a function is applied with: a metric, a technique."""

    @property
    def name(self) -> str:
        """How messages name it."""
        ...

    @property
    def signature(self) -> str:
        """All that its results depend on, apart from the items."""
        ...


class Outcome(Future[R]):
    """A result, or what went wrong: of work elsewhere, or computed here when it is asked for.

    Args:
        compute: computes it here; None if it comes from elsewhere.
    """

    def __init__(self, compute: Callable[[], R] | None = None) -> None:
        super().__init__()
        self._compute = compute

    @property
    def is_elsewhere(self) -> bool:
        """Whether it comes from elsewhere."""
        return self._compute is None

    def result(self, timeout: float | None = None) -> R:
        """Returns the result; Ctrl-C is heard while it is waited for."""
        if self._compute and not self.done():
            try:
                self.set_result(self._compute())
            except Exception as error:
                self.set_exception(error)
        elif timeout is None:
            wait_for_one([self])
        return super().result(timeout)


class Executor(Protocol):
    """Works on partitions somewhere."""

    @property
    def ahead(self) -> int:
        """How many partitions are begun before the first result has to be there."""
        ...

    def begin(
        self, function: Callable[[Any, Sequence[Any]], R], subject: Subject, items: Sequence[Any]
    ) -> Outcome[R]:
        """Begins `function(subject, items)`; the function has a name in its module."""
        ...

    def together(self) -> AbstractContextManager[object]:
        """What is begun inside is done at one place, one after the other: metrics of a family
        share what their models make of a text."""
        ...


class InThisProcess:
    """Works on a partition when its result is asked for."""

    ahead = 0

    def begin(
        self, function: Callable[[Any, Sequence[Any]], R], subject: Subject, items: Sequence[Any]
    ) -> Outcome[R]:
        """The result, once it is asked for."""
        return Outcome(lambda: function(subject, items))

    def together(self) -> AbstractContextManager[object]:
        """Nothing: there is one place."""
        return nullcontext()


def results(
    executor: Executor,
    function: Callable[[Any, Sequence[Any]], R],
    subject: Subject,
    partitions: Iterable[Sequence[Any]],
) -> Iterator[R]:
    """Yields `function(subject, partition)` of every partition, as they come; a few are begun
    ahead."""
    waiting: list[Outcome[R]] = []
    for partition in partitions:
        waiting.append(executor.begin(function, subject, partition))
        while len(waiting) > executor.ahead:
            yield _next(waiting)
    while waiting:
        yield _next(waiting)


def _next(waiting: list[Outcome[R]]) -> R:
    if all(outcome.is_elsewhere for outcome in waiting):
        wait_for_one(waiting)
    outcome = next((outcome for outcome in waiting if outcome.done()), waiting[0])
    waiting.remove(outcome)
    return outcome.result()


class Workers(Protocol):
    """Has messages answered by `levelfield.workers.processes.Answers`, several at a time."""

    def answer(self, message: bytes, subjects: Mapping[bytes, bytes]) -> bytes:
        """Returns the answer to a message.

        Args:
            subjects: digest -> subject, of those that the message names.

        Raises:
            WorkerDeath: the workers that were at it have ended.
            LevelfieldError: none can be started.
        """
        ...

    def close(self) -> None:
        """Ends all workers at once; what waits for an answer raises."""
        ...


def wait_for_one(futures: Collection[Future[Any]]) -> None:
    """Waits until one of them is done; hears Ctrl-C meanwhile.

    Polars has the system resume a wait that a signal interrupts, so a single long one would not.
    """
    while not wait(futures, timeout=_HEARS_S, return_when=FIRST_COMPLETED).done:
        pass


class WorkerPool:
    """An executor: a thread a worker hands on one bundle of partitions after the other.

    A subject that can't be sent, or that counts what its values cost, stays in this process.

    Args:
        workers: who answers.
        count: how many answer at a time.
        note: told of what is done here.
    """

    def __init__(
        self, workers: Workers, count: int, note: Callable[[str], object] = lambda _: None
    ) -> None:
        self._workers = workers
        self._note = note
        self._here = InThisProcess()
        self._packed: dict[int, tuple[Subject, bytes | None]] = {}
        self._bundle: list[_Job] | None = None
        self._threads = ThreadPoolExecutor(count)
        self.ahead = 2 * count  # one at work, one waiting

    def begin(
        self, function: Callable[[Any, Sequence[Any]], R], subject: Subject, items: Sequence[Any]
    ) -> Outcome[R]:
        """Sends items to the next worker that is free.

        Raises (when the result is asked for):
            WorkerError: the workers have died on these items, or none can be started.
        """
        packed = self._pack(subject)
        if packed is None or not items:
            return self._here.begin(function, subject, items)
        job = _Job(function, packed, subject.signature, items, LIMIT.get())
        if self._bundle is None:
            self._threads.submit(self._run, [job])
        else:
            self._bundle.append(job)
        return job.outcome

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What is begun inside goes to one worker."""
        bundle = self._bundle = []
        try:
            yield
        finally:
            self._bundle = None
            if bundle:
                self._threads.submit(self._run, bundle)

    def close(self) -> None:
        """Ends all workers at once."""
        self._workers.close()
        self._threads.shutdown(cancel_futures=True)

    def _pack(self, subject: Subject) -> bytes | None:
        """Returns a subject as bytes; None if it stays here."""
        if id(subject) not in self._packed:
            packed, reason = None, ""
            try:
                if type(subject).__module__ == "__main__":
                    reason = "it belongs to a script"
                elif not hasattr(subject, "costs"):
                    packed = pickle.dumps(subject)
            except Exception as error:  # whatever a third party's class raises
                reason = first_line(error)
            if reason:
                self._note(
                    f"{subject.name} can't be sent to workers ({reason}); it runs in this process"
                )
            self._packed[id(subject)] = (subject, packed)  # kept, so that the id stays its own
        return self._packed[id(subject)][1]

    def _run(self, bundle: Sequence[_Job]) -> None:
        """Has a worker do a bundle, and sets its outcomes."""
        outcomes: list[Any]
        try:
            message = pickle.dumps([job.message for job in bundle])
            subjects = {job.digest: job.packed for job in bundle}
            answer = self._workers.answer(message, subjects)
            outcomes = [pickle.loads(outcome) for outcome in pickle.loads(answer)]
        except WorkerDeath as death:
            outcomes = [WorkerError(bundle[0].fatal(death))] * len(bundle)
        except BaseException as error:
            outcomes = [error] * len(bundle)
        for job, outcome in zip(bundle, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                job.outcome.set_exception(outcome)
            else:
                job.outcome.set_result(outcome)


@dataclass(frozen=True)
class _Job:
    """A function of a subject on some items.

    Attributes:
        packed: the subject.
        signature: of the subject here.
        limit: seconds that it may take.
    """

    function: Callable[..., Any]
    packed: bytes
    signature: str
    items: Sequence[Any]
    limit: float | None
    outcome: Outcome[Any] = field(default_factory=Outcome)

    @property
    def digest(self) -> bytes:
        """Tells subjects apart."""
        return hashlib.blake2b(self.packed, digest_size=16).digest()

    @property
    def message(self) -> tuple[Any, ...]:
        """What a worker is told."""
        return self.function, self.digest, self.signature, list(self.items), self.limit

    def fatal(self, death: WorkerDeath) -> str:
        """That it kills workers, and how the last one ended."""
        first, last = self.items[0], self.items[-1]
        return (
            f"{LIVES} workers died on the {type(first).__name__.lower()}s '{first.id}' to "
            f"'{last.id}', the last one {death}; use fewer --workers to save memory"
        )
