"""The one loop that scores samples: partitions in, scores out.

`levelfield score` and a study both run it. What a partition costs is in `Metric.score` and
`GroupStates.states`, which depend on that partition alone and may run anywhere; the cache and the
merged states belong to the process that runs the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from levelfield.core.corpus import GroupStates
from levelfield.core.metric import Metric
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.run.cache import Keeper


@dataclass(frozen=True)
class ScoredPartition:
    """A partition with the scores of every sample metric, in the order of the metrics."""

    samples: Sequence[Sample]
    scores: tuple[Scores, ...]


def stream(
    partitions: Iterable[Sequence[Sample]],
    metrics: Sequence[Metric],
    corpora: Sequence[GroupStates],
    keeper: Keeper,
    *,
    progress: Progress = no_progress,
) -> Iterator[ScoredPartition]:
    """Scores one partition after the other; only the current one is in memory.

    Args:
        metrics: metrics of samples; their values go through `keeper`.
        corpora: the states of corpus metrics; each takes in every partition. The scores of samples
            that they read go through `keeper` too.
        progress: called with the size of the partition once for each metric and corpus metric.

    Raises:
        MetricError: a metric broke its contract.
    """
    for samples in partitions:
        scores = []
        for metric in metrics:
            scores.append(keeper.score(metric, samples))
            progress(len(samples))
        for groups in corpora:
            groups.merge(groups.states(samples, keeper.score))
            progress(len(samples))
        yield ScoredPartition(samples, tuple(scores))
