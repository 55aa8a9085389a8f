"""Systems side by side by the scores that logs of other programs hold, paired by sample."""

from __future__ import annotations

import itertools
import math
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.direction import Direction
from levelfield.core.errors import InputError, UserError
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.core.signature import with_choices
from levelfield.core.strings import natural
from levelfield.io.hub import ReadOnce
from levelfield.io.logged import LogFacts, LoggedScores, is_logged, logged_scores
from levelfield.io.problems import Wrong, printable
from levelfield.io.source import Input, Source
from levelfield.scoring.summary import MetricSummary, adjusted, unadjusted
from levelfield.scoring.tally import RunTally
from levelfield.stats.resampling import Resampling

NO_SCORE = "no score in the log"
"""Why a value is undefined."""

_MOST_NAMED = 5
_EQUAL = 1e-9
"""Two means are equal if they differ by no more than this share of the larger of 1 and the mean."""


@dataclass(frozen=True)
class LoggedSummaries:
    """What logs come to side by side.

    Attributes:
        n: samples of all logs.
        summaries: one a score, or one a data set and score.
        notes: what a reader must know: which samples and scores one log has alone, and where a log
            contradicts its own samples.
        stated: score and system -> the mean that the log itself states.
    """

    n: int
    summaries: tuple[MetricSummary, ...]
    notes: tuple[str, ...]
    stated: Mapping[tuple[str, str], float]


def are_logs(source: Source) -> bool:
    """Returns whether samples come from logs that hold scores.

    Raises:
        UserError: some do and others don't.
    """
    kinds = [_is_log(file) for file in source.inputs]
    if True in kinds and False in kinds:
        name = source.inputs[kinds.index(False)].name
        raise UserError(
            f"{name}: holds no scores of its samples, unlike the logs next to it; compare only "
            "logs, or name a metric to score all texts with"
        )
    return True in kinds


def _is_log(file: Input) -> bool | None:
    """Returns whether an input is a log; None if its first record can't be read."""
    if file.facts is not None or isinstance(file.rows, ReadOnce):  # the hub has no logs
        return file.facts is not None
    record = next((record for _, record in file.rows()), Wrong(""))
    return None if isinstance(record, Wrong) else is_logged(record)


@dataclass(frozen=True)
class _Log:
    """A log that can be read.

    Attributes:
        source: its samples.
        facts: what it says of all of them.
        names: system as the log has it -> its name among all logs.
    """

    source: Source
    facts: LogFacts
    names: Mapping[str, str]

    @property
    def digests(self) -> dict[str, str]:
        """System -> what stands for the content of its log."""
        return dict.fromkeys(self.names.values(), self.source.inputs[0].digest[:12])

    def samples(self) -> Iterator[tuple[Sample, str, LoggedScores]]:
        """Yields each sample with its system and what the log says of it.

        Raises:
            InputError: a sample's field `logged` is not as it should be.
        """
        for sample in self.source:
            try:
                logged = logged_scores(sample)
            except Wrong as wrong:
                place = f"{self.source.names[0]}: id {printable(sample.id)}"
                raise InputError([f"{place}: {wrong}"]) from None
            yield sample, self.names[sample.system], logged or LoggedScores(sample.id, {})


class _SetOfLogs:
    """The samples of one data set in all logs.

    Attributes:
        tally: of the samples, each an input of its own.
        items: system -> item -> what stands for the content of what was asked.
    """

    def __init__(self) -> None:
        self.tally = RunTally()
        self.items: dict[str, dict[str, str]] = {}
        self._ids: list[str] = []
        self._systems: list[str] = []
        self._values: dict[str, array[float]] = {}

    def add(self, id: str, sample: Sample, system: str, logged: LoggedScores) -> None:
        """Takes in a sample; scores that it does not have are undefined."""
        self.tally.add(
            replace(
                sample, id=id, dataset="", source=logged.item, prompt="", context=(), control={}
            ),
            system,
        )
        self.items.setdefault(system, {})[logged.item] = logged.content
        for score, value in logged.scores.items():
            column = self._values.setdefault(score, array("d"))
            column.extend([math.nan] * (len(self._ids) - len(column)))
            column.append(value)
        self._ids.append(id)
        self._systems.append(system)

    def scores(self) -> Iterator[tuple[str, list[str]]]:
        """Yields each score with the systems that have values of it, in the order of the logs."""
        for score in self._values:
            values = self._column(score)
            defined = itertools.compress(self._systems, ~np.isnan(values))
            yield score, list(dict.fromkeys(defined))

    def compare(self, score: str, title: str, signature: str, direction: Direction) -> None:
        """Has a score compared, under a title."""
        values = self._column(score)
        undefined = itertools.compress(self._ids, np.isnan(values))
        self.tally.add_scores(
            Scores(
                metric=title,
                ids=tuple(self._ids),
                values=values,
                undefined=dict.fromkeys(undefined, NO_SCORE),
                signature=signature,
                direction=direction,
            )
        )

    def _column(self, score: str) -> Floats:
        values = np.full(len(self._ids), np.nan)
        column = np.array(self._values[score], dtype=np.float64)
        values[: column.size] = column
        return values

    def notes(self) -> Iterator[str]:
        """Yields which samples one of two systems has alone, and which were asked otherwise."""
        for a, b in itertools.combinations(self.items, 2):
            of_a, of_b = self.items[a], self.items[b]
            for system, rival in ((a, b), (b, a)):
                items = self.items[system]
                if alone := [item for item in items if item not in self.items[rival]]:
                    yield (
                        f"{len(alone):,} of {len(items):,} samples of {system} are not in {rival}: "
                        f"{_list(alone)}"
                    )
            shared = [item for item in of_a if of_a[item] and of_b.get(item)]
            if otherwise := [item for item in shared if of_a[item] != of_b[item]]:
                yield (
                    f"{len(otherwise):,} of {len(shared):,} samples were asked otherwise in {a} "
                    f"than in {b}: {_list(otherwise)}; they are paired by their ids"
                )


def compare_logs(
    source: Source,
    *,
    scores: Collection[str] = (),
    directions: Mapping[str, Direction] = {},
    resampling: Resampling,
) -> LoggedSummaries:
    """Compares the systems of logs by the scores of their samples.

    A sample of one log and one of another are a pair if data set and item are the same; epochs and
    trials are seeds. Each data set has comparisons of its own. In means every item weighs the same,
    as in the means that logs state.

    Args:
        source: whose inputs are the logs; ids may be the same in two of them.
        scores: which to take, by their names in the logs, perhaps with the data set before them, as
            in `gsm8k.exact_match,strict-match`; all, if none is named.
        directions: score -> which end is better, where the log does not say it.

    Raises:
        InputError: with all that is wrong with the logs.
        UserError: there is nothing to compare, or no log has such a score.
    """
    logs = _opened(source)
    facts = {system: log.facts for log in logs for system in log.names.values()}
    digests = {system: digest for log in logs for system, digest in log.digests.items()}
    if len(facts) < 2:
        raise UserError(
            f"one system only ({', '.join(facts)}); name a second log to compare it with"
        )
    sets: dict[str, _SetOfLogs] = {}
    n = 0
    for place, log in enumerate(logs):
        for sample, system, logged in log.samples():
            n += 1
            of_set = sets.setdefault(sample.dataset, _SetOfLogs())
            of_set.add(f"{place}/{sample.id}", sample, system, logged)
    notes = [f"{system}: {note}" for system, of_log in facts.items() for note in of_log.notes]
    table = _Titles(sets, scores, directions)
    summaries: list[MetricSummary] = []
    stated: dict[tuple[str, str], float] = {}
    for dataset, of_set in sets.items():
        if len(of_set.items) < 2:
            notes.append(f"{table.title(dataset, '')}: only in {', '.join(of_set.items)}")
            continue
        of_dataset = f"{dataset}: " if table.several else ""
        notes += [f"{of_dataset}{note}" for note in of_set.notes()]
        for score, systems in of_set.scores():
            title = table.title(dataset, score)
            if not table.wanted(dataset, score):
                continue
            if len(systems) < 2:
                notes.append(f"{title}: {f'only in {systems[0]}' if systems else 'no values'}")
                continue
            key = dataset, score
            direction = table.direction(
                dataset, score, [facts[s].directions.get(key) for s in systems]
            )
            files = {system: digests[system] for system in systems}
            of_set.compare(score, title, with_choices(f"logged.{title}", files), direction)
            means = {system: facts[system].means.get(key) for system in systems}
            stated |= {(title, system): m for system, m in means.items() if m is not None}
        summaries += unadjusted(of_set.tally, by_input=True, resampling=resampling)
    if not summaries:
        why = "; ".join(notes) or "they hold none"
        raise UserError(f"no two of these logs have a score in common: {why}")
    resampling.check_metrics([s.metric for s in summaries])
    notes += _contradictions(summaries, stated)
    return LoggedSummaries(n, tuple(adjusted(summaries, resampling)), tuple(notes), stated)


class _Titles:
    """Names of the scores of several data sets, and what the user chooses for them.

    Raises:
        UserError: no log has a score that the user names.
    """

    def __init__(
        self,
        sets: Mapping[str, _SetOfLogs],
        scores: Collection[str],
        directions: Mapping[str, Direction],
    ) -> None:
        self.several = len(sets) > 1
        self._scores, self._directions = scores, directions
        names = {
            name: None
            for dataset, of_set in sets.items()
            for score, _ in of_set.scores()
            for name in (score, self.title(dataset, score))
        }
        for name in (*scores, *directions):
            if name not in names:
                known = ", ".join(names) or "no scores"
                raise UserError(f"no log has the score {printable(name)}; there are {known}")

    def title(self, dataset: str, score: str) -> str:
        """Returns the name of a score, with its data set if there are several."""
        return ".".join(filter(None, (dataset if self.several or not score else "", score)))

    def wanted(self, dataset: str, score: str) -> bool:
        """Returns whether a score is compared."""
        names = {score, self.title(dataset, score)}
        return not self._scores or not names.isdisjoint(self._scores)

    def direction(self, dataset: str, score: str, of_logs: Sequence[Direction | None]) -> Direction:
        """Returns which end is better: as the user says, else as all logs say."""
        for name in (self.title(dataset, score), score):
            if name in self._directions:
                return self._directions[name]
        ends = set(of_logs)
        return (ends.pop() if len(ends) == 1 else None) or "none"


def _opened(source: Source) -> list[_Log]:
    """Returns the logs, with names by which systems are told apart.

    Raises:
        InputError: with all that is wrong with any of them.
    """
    problems: list[str] = []
    read: list[tuple[Source, list[str]]] = []
    for log in source.apart():
        try:
            census = log.check()
        except InputError as error:
            problems += error.problems
            continue
        nameless = [""] * (census.n > census.filled["system"])
        read.append((log, [*census.systems, *nameless]))
    if problems:
        raise InputError(problems)
    counts = Counter(system for _, systems in read for system in systems)
    logs = []
    for log, systems in read:
        (file,) = log.inputs
        label = file.label or file.name
        names = {}
        for system in systems:
            unclear = not system or counts[system] > 1
            whole = label if len(systems) == 1 or not system else f"{label}: {system}"
            names[system] = whole if unclear else system
        logs.append(_Log(log, LogFacts() if file.facts is None else file.facts(), names))
    return logs


def _contradictions(
    summaries: Sequence[MetricSummary], stated: Mapping[tuple[str, str], float]
) -> Iterator[str]:
    """Yields which means that logs state are not those of their samples."""
    for summary in summaries:
        for group in summary.groups:
            mean, claim = group.mean.value, stated.get((summary.metric, group.group))
            if claim is None or math.isnan(mean) or is_equal(mean, claim):
                continue
            yield (
                f"{group.group}: its log states {claim:.6g} for {summary.metric}, and the mean of "
                f"its samples is {mean:.6g}; what it states may not be a mean"
            )


def is_equal(mean: float, stated: float) -> bool:
    """Returns whether a mean of samples is the one that a log states."""
    return abs(mean - stated) <= _EQUAL * max(1.0, abs(stated))


def _list(items: Sequence[str]) -> str:
    names = sorted(items, key=natural)
    return ", ".join([*names[:_MOST_NAMED], *(["…"] if len(names) > _MOST_NAMED else [])])
