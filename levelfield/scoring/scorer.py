"""Scores from the cache, and into it: what a run asks, wherever partitions are scored.

`levelfield score` and a study both run it. What a partition costs is in `Metric.score` and
`GroupStates.states`, which depend on that partition alone and may run anywhere; the cache and the
merged states belong to the process that runs the loop.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from levelfield.core.corpus import GroupStates
from levelfield.core.direction import direction_of
from levelfield.core.metric import Metric, fields_read, reading_order, score_checked
from levelfield.core.partitions import partitions
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores, concatenate
from levelfield.scoring.cache import (
    CacheError,
    Segment,
    SegmentCache,
    cache_path,
    sample_key,
)
from levelfield.workers.executor import Executor, InThisProcess, Outcome, wait_for_one


class CachedScorer:
    """Scores samples and keeps what comes out, as long as there is a cache that takes it.

    Attributes:
        notes: what a user must know of the cache, in words.
    """

    def __init__(
        self,
        cache: SegmentCache | None,
        notes: list[str],
        executor: Executor = InThisProcess(),  # noqa: B008
    ) -> None:
        self._cache = cache
        self._executor = executor
        self._under_way: list[_Part] = []
        self.notes = notes

    @property
    def keeps(self) -> bool:
        """Whether the cache keeps what is scored now."""
        return self._cache is not None and not self._cache.failure

    @property
    def ahead(self) -> int:
        """How many partitions are begun before the first of them has to be there."""
        return self._executor.ahead

    def together(self) -> contextlib.AbstractContextManager[object]:
        """What is begun inside is scored at one place."""
        return self._executor.together()

    def score(
        self, metric: Metric, samples: Sequence[Sample], *, progress: Progress = no_progress
    ) -> Scores:
        """As `metric.score`, but values that are in the cache are taken from there.

        New values are kept after every partition, so a crash loses what is being scored at most.
        Where they can't be kept (a full disk), scoring goes on, and `notes` say why: values are
        what is asked for. A corpus metric is not cached: its value belongs to a group, not to a
        sample. The scores that one `OfScores` reads are.
        """
        if metric.level != "sample":
            return metric.score(samples, progress=progress)
        scored: list[Scores] = []
        waiting: deque[tuple[int, Outcome[Scores]]] = deque()
        for partition in partitions(samples) if samples else [[]]:
            waiting.append((len(partition), self.begin(metric, partition)))
            while len(waiting) > self.ahead:
                self._take(waiting, scored, progress)
        while waiting:
            self._take(waiting, scored, progress)
        return concatenate(scored)

    def _take(
        self, waiting: deque[tuple[int, Outcome[Scores]]], scored: list[Scores], progress: Progress
    ) -> None:
        n, pending = waiting.popleft()
        scored.append(pending.result())
        progress(n)

    def begin(self, metric: Metric, samples: Sequence[Sample]) -> Outcome[Scores]:
        """Begins to score a partition under a metric of samples."""
        cache = self._cache
        if cache is None or cache.failure or not getattr(metric, "cacheable", True):
            return self._executor.begin(score_checked, metric, samples)
        signature, fields = metric.signature, fields_read(metric)
        keys = [sample_key(signature, sample, fields) for sample in samples]
        try:
            hits = cache.get(keys)
        except CacheError as error:
            self._fails(cache, error)
            return self._executor.begin(score_checked, metric, samples)
        fresh = {key: s for key, s in zip(keys, samples, strict=True) if key not in hits}
        if samples and not fresh:
            segments = [hits[key] for key in keys]
            return Outcome(lambda: _scores(metric, signature, samples, segments))
        part = _Part(
            metric,
            samples,
            keys,
            hits,
            self._executor.begin(score_checked, metric, [*fresh.values()]),
        )
        self._under_way.append(part)
        return Outcome(lambda: self._result(part, cache))

    def _result(self, part: _Part, cache: SegmentCache) -> Scores:
        """The scores of a part; on the way, whatever else is there is kept, so that a crash loses
        only what is being scored."""
        while part in self._under_way:
            ready = [part]
            if part.pending.is_elsewhere:
                parts = [p for p in self._under_way if p is part or not _failed(p.pending)]
                wait_for_one([p.pending for p in parts if p.pending.is_elsewhere])
                ready = [p for p in parts if p.pending.done()]
            for candidate in ready:
                if candidate is part or not _failed(candidate.pending):
                    self._under_way.remove(candidate)
                    self._keep(cache, candidate)
        return part.scores()

    def _keep(self, cache: SegmentCache, part: _Part) -> None:
        new = part.new_segments()
        if cache.failure:
            return
        try:
            cache.put(part.metric.name, new)
        except CacheError as error:
            self._fails(cache, error)

    def _fails(self, cache: SegmentCache, error: CacheError) -> None:
        cache.failure = str(error)
        self.notes.append(f"{error}; continuing without it")


@dataclass(eq=False)
class _Part:
    """A partition of which some samples are being scored.

    Attributes:
        keys: of the samples.
        segments: what is there of them so far.
        pending: the scores of the others.
    """

    metric: Metric
    samples: Sequence[Sample]
    keys: Sequence[bytes]
    segments: dict[bytes, Segment]
    pending: Outcome[Scores]

    def new_segments(self) -> dict[bytes, Segment]:
        """Takes in the scores that were pending; raises what went wrong."""
        scores = self.pending.result()
        fresh = dict.fromkeys(key for key in self.keys if key not in self.segments)
        new = dict(zip(fresh, _segments(scores), strict=True))
        self.segments |= new
        return new

    def scores(self) -> Scores:
        """Of all samples."""
        segments = [self.segments[key] for key in self.keys]
        return _scores(self.metric, self.metric.signature, self.samples, segments)


def _failed(pending: Outcome[Scores]) -> bool:
    return pending.is_elsewhere and pending.done() and pending.exception() is not None


@contextlib.contextmanager
def cached_scorer(
    notes: list[str],
    *,
    enabled: bool = True,
    executor: Executor = InThisProcess(),  # noqa: B008
) -> Iterator[CachedScorer]:
    """The user's cache for the time of a run; a note where there can't be one.

    Args:
        executor: where partitions are scored.

    Raises:
        KeyboardInterrupt: as it comes, with a word on what is not lost.
    """
    try:
        cache = SegmentCache(cache_path()) if enabled else None
    except CacheError as error:
        notes.append(f"{error}; no value of this run is stored")
        cache = None
    scorer = CachedScorer(cache, notes, executor)
    try:
        yield scorer
    except KeyboardInterrupt:
        if scorer.keeps:
            kept = "scored values are in the cache; run the same command to resume"
            raise KeyboardInterrupt(kept) from None
        raise
    finally:
        if cache is not None:
            notes += _notes(cache)
            cache.close()


def _notes(cache: SegmentCache) -> Iterator[str]:
    """What a run has seen of a cache that a user must know."""
    if cache.damaged:
        yield f"cache {cache.path}: damaged values scored anew: {cache.damaged:,}"
    if cache.adopted:
        yield (
            f"cache {cache.path}: values of an older version, without checksums and used as they "
            f"are: {cache.adopted:,}; `levelfield cache clear` removes them"
        )


def _segments(scores: Scores) -> list[Segment]:
    parts: dict[str, list[tuple[str, float, float]]] = {}
    rows = scores.part_rows
    has_parts = rows is not None
    for id, part, score, weight in rows or ():
        parts.setdefault(id, []).append((part, score, weight))
    return [
        Segment(
            None if id in scores.undefined else value,
            scores.undefined.get(id),
            id in scores.truncated,
            parts.get(id, []) if has_parts else None,
        )
        for id, value in zip(scores.ids, scores.values.tolist(), strict=True)
    ]


def _scores(
    metric: Metric, signature: str, samples: Sequence[Sample], segments: Sequence[Segment]
) -> Scores:
    pairs = list(zip(samples, segments, strict=True))
    rows = [(s.id, *part) for s, segment in pairs for part in segment.parts or ()]
    has_parts = any(segment.parts is not None for segment in segments)
    values = [np.nan if segment.value is None else segment.value for segment in segments]
    return Scores(
        metric=metric.name,
        ids=tuple(sample.id for sample in samples),
        values=np.array(values, np.float64),
        undefined={s.id: segment.undefined for s, segment in pairs if segment.undefined},
        signature=signature,
        direction=direction_of(metric),
        parts=rows if has_parts else None,
        truncated=frozenset(s.id for s, segment in pairs if segment.cut),
    )


@dataclass(frozen=True)
class ScoredPartition:
    """A partition with the scores of every sample metric, in the order of the metrics."""

    samples: Sequence[Sample]
    scores: tuple[Scores, ...]


def stream(
    partitions: Iterable[Sequence[Sample]],
    metrics: Sequence[Metric],
    corpora: Sequence[GroupStates],
    scorer: CachedScorer,
    *,
    progress: Progress = no_progress,
) -> Iterator[ScoredPartition]:
    """Scores one partition after the other; only the current one is in memory, and those that other
    processes are scoring.

    Args:
        metrics: metrics of samples; their values go through `scorer`.
        corpora: the states of corpus metrics; each takes in every partition. The scores of samples
            that they read go through `scorer` too.
        progress: called with the size of the partition once for each metric and corpus metric.

    Raises:
        MetricError: a metric broke its contract.
    """
    waiting: deque[_Begun] = deque()
    for samples in partitions:
        waiting.append(_Begun(samples, metrics, corpora, scorer))
        while len(waiting) > scorer.ahead:
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
        scorer: CachedScorer,
    ) -> None:
        self._samples, self._corpora, self._scorer = samples, corpora, scorer
        with scorer.together():
            self._scores = {i: scorer.begin(metrics[i], samples) for i in reading_order(metrics)}
            self._wanted = {
                (metric.signature, members[0].id): scorer.begin(metric, members)
                for groups in corpora
                for metric, members in groups.wanted_scores(samples)
            }

    def finish(self, progress: Progress) -> ScoredPartition:
        """The scores, once they are there."""
        scores: dict[int, Scores] = {}
        for i, pending in self._scores.items():
            scores[i] = pending.result()
            progress(len(self._samples))
        for groups in self._corpora:
            groups.merge(groups.states(self._samples, self._score))
            progress(len(self._samples))
        return ScoredPartition(self._samples, tuple(scores[i] for i in sorted(scores)))

    def _score(self, metric: Metric, members: Sequence[Sample]) -> Scores:
        """The scores of a group's members, which are under way."""
        return self._wanted[metric.signature, members[0].id].result()
