"""What a metric is: the contract, and scoring that holds a metric to it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, Protocol, runtime_checkable

from levelfield.core.errors import LevelfieldError
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores

Level = Literal["sample", "corpus"]

PARTITION = 64
"""Samples scored together: enough for batches without padding, few enough to lose to a crash."""


def partitions(samples: Iterable[Sample], size: int = PARTITION) -> Iterator[list[Sample]]:
    """The samples in lists of `size`, the last one shorter."""
    waiting = iter(samples)
    while partition := list(itertools.islice(waiting, size)):
        yield partition


def fields_read(metric: Metric) -> frozenset[str]:
    """The fields of a sample that a value depends on: those that the metric requires, and, where it
    names some as `reads`, those that it can do without."""
    optional: frozenset[str] = getattr(metric, "reads", frozenset())
    return metric.requires | optional


class MetricError(LevelfieldError):
    """A metric broke its contract; it is named, since it may be another package's."""


class Metric(Protocol):
    """Samples in, scores out.

    A metric is made of plain arguments, so that it can be pickled and sent to where the samples
    are; it opens files and models at the first `score`. The value of a sample depends on that
    sample alone. `signature` names every choice that could change a value; asking for it may
    resolve the model (its revision is such a choice) but loads no weights.

    A metric may also have:
        reads: fields of a sample that it can do without; a value depends on them where they are.
        best: what a perfect value is, by which joint means divide; 1 without it.
        costs: what its values have cost so far, as text for a note; None if nothing.
        counting: a method `counting(texts)`, as `CountsTexts` has it.
    """

    @property
    def name(self) -> str: ...
    @property
    def level(self) -> Level: ...
    @property
    def requires(self) -> frozenset[str]: ...
    @property
    def higher_is_better(self) -> bool: ...
    @property
    def signature(self) -> str: ...
    def score(self, samples: Sequence[Sample], *, progress: Progress = no_progress) -> Scores: ...


@runtime_checkable
class CountsTexts(Protocol):
    """A metric that takes something from all texts of a run before it scores the first one."""

    def counting(self, texts: Iterable[str]) -> Metric:
        """The metric that scores these texts; itself where it needs nothing of them."""


@contextlib.contextmanager
def held_to_its_contract(metric: Metric, on: str) -> Iterator[None]:
    """No stray exception: the metric may be another package's, so it is named."""
    try:
        yield
    except (LevelfieldError, MemoryError):
        raise
    except Exception as error:
        raise MetricError(
            f"metric '{metric.name}' failed on {on}: {type(error).__name__}: {error}"
        ) from error


def score_checked(metric: Metric, samples: Sequence[Sample]) -> Scores:
    """`metric.score`, held to its contract: a value for each sample, and no stray exception.

    Raises:
        MetricError: names the metric and what it did.
    """
    with held_to_its_contract(
        metric, f"one of the samples '{samples[0].id}' to '{samples[-1].id}'"
    ):
        scores = metric.score(samples)
    if scores.ids != tuple(sample.id for sample in samples):
        raise MetricError(
            f"metric '{metric.name}' gave {len(scores.ids)} values for {len(samples)} samples, or "
            "in another order"
        )
    return scores
