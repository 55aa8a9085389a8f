"""The one loop that scores samples: partitions in, scores out.

`levelfield score` and a study both run it. What a partition costs is in `Metric.score` and
`GroupStates.states`, which depend on that partition alone and may run anywhere; the cache and the
merged states belong to the process that runs the loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from levelfield.core.corpus import GroupStates
from levelfield.core.metric import Metric
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.run.keeper import Keeper


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
    """Scores one partition after the other; only the current one is in memory, and those that other
    processes are scoring.

    Args:
        metrics: metrics of samples; their values go through `keeper`.
        corpora: the states of corpus metrics; each takes in every partition. The scores of samples
            that they read go through `keeper` too.
        progress: called with the size of the partition once for each metric and corpus metric.

    Raises:
        MetricError: a metric broke its contract.
    """
    waiting: deque[_Begun] = deque()
    for samples in partitions:
        waiting.append(_Begun(samples, metrics, corpora, keeper))
        while len(waiting) > keeper.ahead:
            yield waiting.popleft().finish(progress)
    while waiting:
        yield waiting.popleft().finish(progress)


class _Begun:
    """A partition that is being scored."""

    def __init__(
        self,
        samples: Sequence[Sample],
        metrics: Sequence[Metric],
        corpora: Sequence[GroupStates],
        keeper: Keeper,
    ) -> None:
        self._samples, self._corpora, self._keeper = samples, corpora, keeper
        with keeper.together():
            self._scores = [keeper.begin(metric, samples) for metric in metrics]
            self._wanted = {
                (metric.signature, members[0].id): keeper.begin(metric, members)
                for groups in corpora
                for metric, members in groups.wanted_scores(samples)
            }

    def finish(self, progress: Progress) -> ScoredPartition:
        """The scores, once they are there."""
        scores = []
        for pending in self._scores:
            scores.append(pending.result())
            progress(len(self._samples))
        for groups in self._corpora:
            groups.merge(groups.states(self._samples, self._score))
            progress(len(self._samples))
        return ScoredPartition(self._samples, tuple(scores))

    def _score(self, metric: Metric, members: Sequence[Sample]) -> Scores:
        """The scores of a group's members, which are under way."""
        return self._wanted[metric.signature, members[0].id].result()
