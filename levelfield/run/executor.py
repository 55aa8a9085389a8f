"""Where a partition is scored: the contract that one process, several, and a cluster share.

A partition under a metric goes in, its scores come out; they depend on nothing else, so it may be
scored anywhere. Only the process of the run reads input, cache and output.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from levelfield.core.metric import Metric, score_checked
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
