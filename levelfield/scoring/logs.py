"""Systems side by side by the scores that logs of other programs hold, paired by sample."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from levelfield.core.direction import Direction
from levelfield.core.errors import InputError, UserError
from levelfield.core.partitions import partitions
from levelfield.core.signature import with_choices
from levelfield.io.hub import ReadOnce
from levelfield.io.logged import LogFacts, is_logged, scores_of_log
from levelfield.io.problems import Wrong, printable
from levelfield.io.samples import Input, Source
from levelfield.scoring.corpus_values import AGGREGATIONS, BITS, PERPLEXITY, Aggregation
from levelfield.scoring.logged_sets import LoggedScore, LoggedSet, Reduction
from levelfield.scoring.reducers import reducer_named
from levelfield.scoring.summary import MetricSummary, adjusted
from levelfield.stats.resampling import Resampling

_EQUAL = 1e-9
"""Two means are equal if they differ by no more than this share of the larger of 1 and the mean."""

_MEAN = "mean"
_NOT_SET = "not set"
_UNDIRECTED = "the logs say which end is better of another value than this one"


@dataclass(frozen=True)
class LoggedSummaries:
    """What logs come to side by side.

    Attributes:
        n: samples of all logs.
        summaries: one a score, or one a data set or group and score.
        notes: what a reader must know: which samples and scores one log has alone, where a log
            contradicts its own samples, and in what settings the logs differ.
        stated: score and system -> the value that the log itself states.
        parts: score of a data set or group -> that of the group whose samples hold its own.
    """

    n: int
    summaries: tuple[MetricSummary, ...]
    notes: tuple[str, ...]
    stated: Mapping[tuple[str, str], float]
    parts: Mapping[str, str] = field(default_factory=dict)


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
    record = file.first()
    return None if record is None else is_logged(record)


@dataclass(frozen=True)
class _Log:
    """A log that can be read.

    Attributes:
        file: where it is.
        facts: what it says of all its samples.
        names: system as the log has it -> its name among all logs.
    """

    file: Input
    facts: LogFacts
    names: Mapping[str, str]


@dataclass
class _Reading:
    """What logs hold, read once.

    Attributes:
        logs: in their order.
        n: samples.
        sets: data set -> its samples.
        wrong: the first sample whose field `logged` is not as it should be; empty if there is none.
    """

    logs: list[_Log] = field(default_factory=list)
    n: int = 0
    sets: dict[str, LoggedSet] = field(default_factory=dict)
    wrong: str = ""


def compare_logs(
    source: Source,
    *,
    scores: Collection[str] = (),
    directions: Mapping[str, Direction] = {},
    resampling: Resampling,
) -> LoggedSummaries:
    """Compares the systems of logs by the scores of their samples.

    A sample of one log and one of another are a pair if data set and item are the same; epochs are
    draws within an item, and trials that share their examples are seeds. Each data set has
    comparisons of its own, and each group of data sets those of all its samples. In means every
    item weighs the same, as in the means that logs state. p is adjusted over the comparisons of a
    score in all data sets, those within a group by themselves.

    Args:
        source: whose inputs are the logs; ids may be the same in two of them.
        scores: which to take, by their names in the logs, perhaps with the data set before them, as
            in `gsm8k.exact_match,strict-match`; all, if none is named.
        directions: score -> which end is better, where the log does not say it.

    Raises:
        InputError: with all that is wrong with the logs.
        UserError: there is nothing to compare, or no log has such a score.
    """
    reading = _read(source)
    logs, sets = reading.logs, reading.sets
    facts = {system: log.facts for log in logs for system in log.names.values()}
    digests = {system: log.file.digest[:12] for log in logs for system in log.names.values()}
    if len(facts) < 2:
        raise UserError(
            f"one system only ({', '.join(facts)}); name a second log to compare it with"
        )
    if reading.wrong:
        raise InputError([reading.wrong])
    notes = [f"{system}: {note}" for system, log in facts.items() for note in log.notes]
    groups = _Groups(facts.values(), sets)
    choice = _Choice(facts, digests, groups, _Titles({**groups.sets, **sets}, scores, directions))
    summaries: list[MetricSummary] = []
    compared: list[_Compared] = []
    for dataset, logged_set in {**groups.sets, **sets}.items():
        chosen = choice.scores(dataset, logged_set, notes)
        score_summaries = logged_set.summaries([c.score for c in chosen], resampling)
        summaries += (c.noted(s) for c, s in zip(chosen, score_summaries, strict=True))
        compared += chosen
    if not summaries:
        reason = "; ".join(notes) or "they hold none"
        raise UserError(f"no two of these logs have a score in common: {reason}")
    resampling.check_metrics([s.metric for s in summaries])
    parts = groups.parts(compared)
    return LoggedSummaries(
        reading.n,
        tuple(_adjusted(summaries, compared, parts, resampling)),
        (*notes, *_settings(logs), *_self_graded(facts, compared)),
        {(c.score.title, system): value for c in compared for system, value in c.stated.items()},
        parts,
    )


class _Compared(NamedTuple):
    """A score of a data set or group.

    Attributes:
        dataset: the data set or group.
        score: what is compared.
        stated: system -> the value that its log states.
        is_undirected: whether logs state an end that is better of another value than this one.
    """

    dataset: str
    score: LoggedScore
    stated: Mapping[str, float]
    is_undirected: bool

    def noted(self, summary: MetricSummary) -> MetricSummary:
        """Returns the summary of the score with notes on why no end is better."""
        if not self.is_undirected:
            return summary
        comparisons = (
            replace(c, note="; ".join(filter(None, [c.note, _UNDIRECTED])))
            for c in summary.comparisons
        )
        return replace(summary, comparisons=tuple(comparisons))


class _Groups:
    """The groups of data sets that logs have.

    Attributes:
        sets: group -> the samples of all data sets in it.
    """

    def __init__(self, facts: Collection[LogFacts], sets: Mapping[str, LoggedSet]) -> None:
        members = {group: names for log in facts for group, names in log.groups.items()}
        self._members = {
            group: [name for name in names if group not in _below(name, members)]
            for group, names in members.items()
        }
        self._scores = {key for log in facts for key in log.means}
        self.sets: dict[str, LoggedSet] = {}
        for group in self._members:
            within = {name: sets[name] for name in _below(group, members) if name in sets}
            if within and group not in sets:
                self.sets[group] = LoggedSet.pooled(within)

    def may_have(self, dataset: str, score: str) -> bool:
        """Returns whether a log states a score of a group; True for data sets."""
        return dataset not in self.sets or (dataset, score) in self._scores

    def parts(self, compared: Sequence[_Compared]) -> dict[str, str]:
        """Returns the title of each score of a member of a group -> that of the group's score."""
        titles = {(c.dataset, c.score.name): c.score.title for c in compared}
        return {
            titles[member, score]: title
            for (group, score), title in titles.items()
            for member in self._members.get(group, ())
            if (member, score) in titles
        }


def _below(name: str, members: Mapping[str, Sequence[str]]) -> dict[str, None]:
    """Returns a data set or group with all that is in it, in their order."""
    names, left = dict[str, None](), [name]
    while left:
        name = left.pop()
        if name not in names:
            names[name] = None
            left += reversed(members.get(name, ()))
    return names


@dataclass(frozen=True)
class _Choice:
    """How scores of logs are compared.

    Attributes:
        facts: system -> what its log says of all samples.
        digests: system -> what stands for the content of its log.
        groups: of data sets.
        titles: of the scores.
    """

    facts: Mapping[str, LogFacts]
    digests: Mapping[str, str]
    groups: _Groups
    titles: _Titles

    def scores(self, dataset: str, logged_set: LoggedSet, notes: list[str]) -> list[_Compared]:
        """Returns what is compared of a data set or group; what a reader must know is noted."""
        is_group = dataset in self.groups.sets
        if len(logged_set.systems) < 2:
            if not is_group:
                systems = ", ".join(logged_set.systems)
                notes.append(f"{self.titles.title(dataset, '')}: only in {systems}")
            return []
        chosen: list[_Compared] = []
        for score, score_systems in logged_set.scores():
            if self.titles.includes(dataset, score) and self.groups.may_have(dataset, score):
                chosen += self._compared(dataset, score, score_systems, logged_set, is_group, notes)
        if not is_group:
            prefix = f"{dataset}: " if self.titles.several else ""
            names = list(dict.fromkeys(c.score.name for c in chosen))
            reasons = _reasons(logged_set, names)
            notes += (f"{prefix}{note}" for note in (*logged_set.notes(), *reasons))
        return chosen

    def _compared(
        self,
        dataset: str,
        score: str,
        systems: Sequence[str],
        logged_set: LoggedSet,
        is_group: bool,
        notes: list[str],
    ) -> Iterator[_Compared]:
        """Yields what is compared of a score: none, or one for each way to reduce its draws.

        Args:
            systems: that have the score.
            is_group: whether the data set is a group of others.
            notes: what a reader must know is added here.
        """
        title = self.titles.title(dataset, score)
        if len(systems) < 2:
            if not is_group:
                notes.append(f"{title}: {f'only in {systems[0]}' if systems else 'no values'}")
            return
        if logged_set.are_lists(score):
            aggregation = self._aggregation(dataset, score, systems, logged_set)
            if aggregation is not None:
                yield self._chosen(dataset, score, systems, logged_set, aggregation, notes)
            elif not is_group:
                notes.append(
                    f"{title}: left out: a list for each sample, of which no value of the corpus "
                    "is known that is the one stated"
                )
            return
        for key, kind in self._reductions(dataset, score, systems, notes):
            yield self._chosen(dataset, score, systems, logged_set, kind, notes, key=key)

    def _reductions(
        self, dataset: str, score: str, systems: Sequence[str], notes: list[str]
    ) -> Iterator[tuple[str, Reduction | None]]:
        """Yields the ways in which the logs reduce draws: what they state it of, and how."""
        reducers = {
            system: self.facts[system].reducers.get((dataset, score), (_MEAN,))
            for system in systems
        }
        title = self.titles.title(dataset, score)
        shared = [
            name
            for name in reducers[systems[0]]
            if all(name in names for names in reducers.values())
        ]
        if not shared:
            differing = ", ".join(f"{s} by {' and '.join(names)}" for s, names in reducers.items())
            notes.append(
                f"{title}: the logs reduce the draws of a sample otherwise, {differing}; compared "
                "are means over draws"
            )
            yield score, None
        for name in shared:
            is_first = all(names[0] == name for names in reducers.values())
            key = score if is_first else f"{score},{name}"
            title = self.titles.title(dataset, key)
            reduce = reducer_named(name)
            if reduce is None:
                notes.append(
                    f"{title}: the logs reduce the draws of a sample by {name}, which is not known "
                    "here; compared are means over draws"
                )
            elif name != _MEAN:
                notes.append(
                    f"{title}: one value for the draws of a sample, by {name} as in the logs"
                )
            is_mean = name == _MEAN or reduce is None
            yield key, None if is_mean or reduce is None else Reduction(name, reduce)

    def _aggregation(
        self, dataset: str, score: str, systems: Sequence[str], logged_set: LoggedSet
    ) -> Aggregation | None:
        """Returns how lists of a score make the value that logs state, by its name or by trial."""
        if not logged_set.are_pairs(score):
            return None
        names = [self.facts[s].aggregations.get((dataset, score), "") for s in systems]
        if (name := next(filter(None, names), "")) in AGGREGATIONS:
            return AGGREGATIONS[name]
        stated = self._stated(dataset, score, systems)
        for aggregation in (PERPLEXITY, BITS):
            values = {s: logged_set.corpus_value(score, s, aggregation) for s in stated}
            if stated and _all_equal(values, stated):
                return aggregation
        return None

    def _stated(self, dataset: str, key: str, systems: Sequence[str]) -> dict[str, float]:
        values = {s: self.facts[s].means.get((dataset, key)) for s in systems}
        return {s: value for s, value in values.items() if value is not None}

    def _chosen(
        self,
        dataset: str,
        score: str,
        systems: Sequence[str],
        logged_set: LoggedSet,
        kind: Reduction | Aggregation | None,
        notes: list[str],
        *,
        key: str = "",
    ) -> _Compared:
        """Returns what is compared, with a direction if the logs state one of the same value.

        Args:
            key: of what the logs state, if it is not the name of the score.
        """
        key = key or score
        title = self.titles.title(dataset, key)
        stated = self._stated(dataset, key, systems)
        chosen = LoggedScore(score, title, "", "none", kind)
        values = _values(logged_set, chosen, systems)
        if kind is None and stated and not _all_equal(values, stated):
            corpus_values = {s: logged_set.corpus_value(score, s, PERPLEXITY) for s in stated}
            if _all_equal(corpus_values, stated):
                kind, values = PERPLEXITY, corpus_values
        counted = {s: logged_set.mean(score, s, counted=True) for s in systems}
        agrees = all(
            _is_rounded(values[s], claim) or (kind is None and _is_rounded(counted[s], claim))
            for s, claim in stated.items()
        )
        directions = [self.facts[s].directions.get((dataset, key)) for s in systems]
        direction = self.titles.direction(dataset, key, directions if agrees else [None])
        if isinstance(kind, Aggregation):
            notes.append(f"{title}: values of all documents together, {kind.formula}")
        for system, claim in stated.items():
            if is_equal(values[system], claim):
                continue
            if kind is None and is_equal(counted[system], claim):
                notes.append(
                    f"{system}: its log states {claim:.6g} for {title}, which counts scores that "
                    f"are undefined here; without them it is {values[system]:.6g}"
                )
                continue
            noun = "value" if kind is not None else "mean"
            notes.append(
                f"{system}: its log states {claim:.6g} for {title}, and the {noun} of its samples "
                f"is {values[system]:.6g}; what it states may not be a mean"
            )
        choices = {system: self.digests[system] for system in systems}
        if kind is not None:
            how = kind.formula if isinstance(kind, Aggregation) else kind.name
            choices = {"value": how, **choices}
        signature = with_choices(f"logged.{title}", choices)
        chosen = LoggedScore(score, title, signature, direction, kind)
        return _Compared(dataset, chosen, stated, any(directions) and direction == "none")


def _values(logged_set: LoggedSet, score: LoggedScore, systems: Sequence[str]) -> dict[str, float]:
    """Returns the value of each system by the samples of its log."""
    kind = score.kind
    if isinstance(kind, Aggregation):
        return {s: logged_set.corpus_value(score.name, s, kind) for s in systems}
    reduce = kind.reduce if isinstance(kind, Reduction) else None
    return {s: logged_set.mean(score.name, s, reduce=reduce) for s in systems}


def _all_equal(values: Mapping[str, float], stated: Mapping[str, float]) -> bool:
    return all(is_equal(values[system], claim) for system, claim in stated.items())


def _adjusted(
    summaries: Sequence[MetricSummary],
    compared: Sequence[_Compared],
    parts: Mapping[str, str],
    resampling: Resampling,
) -> list[MetricSummary]:
    """Returns the summaries with p adjusted over their families.

    A family of a metric is a score in all data sets that are not part of a group, or in those that
    are part of the same group.
    """
    if resampling.family != "metric":
        return adjusted(summaries, resampling)
    families: dict[tuple[str, str], list[MetricSummary]] = {}
    for summary, c in zip(summaries, compared, strict=True):
        title = c.score.title
        score_name = title.removeprefix(f"{c.dataset}.")
        families.setdefault((score_name, parts.get(title, "")), []).append(summary)
    together = replace(resampling, family="run")
    adjusted_summaries = {
        s.metric: s for family in families.values() for s in adjusted(family, together)
    }
    return [adjusted_summaries[summary.metric] for summary in summaries]


def _reasons(logged_set: LoggedSet, scores: Sequence[str]) -> Iterator[str]:
    """Yields why values are undefined, and what is to be said of samples, each with how many."""
    for system, n, names, reason in logged_set.undefined(scores):
        yield (
            f"{system}: {n:,} of {logged_set.size(system):,} samples have no value of "
            f"{', '.join(names)}: {reason}"
        )
    for (system, remark), n in logged_set.remarks.items():
        yield f"{system}: {n:,} of {logged_set.size(system):,} samples {remark}"


def _settings(logs: Sequence[_Log]) -> Iterator[str]:
    """Yields in what settings logs differ; those that have none are not looked at."""
    settings = {" and ".join(log.names.values()): log.facts.settings for log in logs}
    settings = {name: log_values for name, log_values in settings.items() if log_values}
    names = dict.fromkeys(name for log_values in settings.values() for name in log_values)
    differing = []
    for name in names:
        by_log = {log: log_values.get(name, _NOT_SET) for log, log_values in settings.items()}
        if len(set(by_log.values())) > 1:
            values = (f"{_cut(value)} in {log}" for log, value in by_log.items())
            differing.append(f"{name} {', '.join(values)}")
    if differing:
        yield f"the logs differ in their settings: {'; '.join(differing)}"


_SHOWN = 60
"""Characters of a setting that a note shows."""


def _cut(value: str) -> str:
    text = printable(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _self_graded(facts: Mapping[str, LogFacts], compared: Sequence[_Compared]) -> Iterator[str]:
    """Yields which systems graded their own answers."""
    scores = {c.score.name for c in compared}
    for system, log in facts.items():
        graded = [s for s, models in log.graders.items() if log.model in models and s in scores]
        if graded:
            yield f"{system}: graded by the model itself: {', '.join(graded)}"


class _Titles:
    """Names of the scores of several data sets, and what the user chooses for them.

    Raises:
        UserError: no log has a score that the user names.
    """

    def __init__(
        self,
        sets: Mapping[str, LoggedSet],
        scores: Collection[str],
        directions: Mapping[str, Direction],
    ) -> None:
        self.several = len(sets) > 1
        self._scores, self._directions = scores, directions
        names = {
            name: None
            for dataset, logged_set in sets.items()
            for score, _ in logged_set.scores()
            for name in (score, self.title(dataset, score))
        }
        for name in (*scores, *directions):
            if name not in names:
                known_names = ", ".join(names) or "no scores"
                raise UserError(f"no log has the score {printable(name)}; there are {known_names}")

    def title(self, dataset: str, score: str) -> str:
        """Returns the name of a score, with its data set if there are several."""
        return ".".join(filter(None, (dataset if self.several or not score else "", score)))

    def includes(self, dataset: str, score: str) -> bool:
        """Returns whether a score is compared."""
        names = {score, self.title(dataset, score)}
        return not self._scores or not names.isdisjoint(self._scores)

    def direction(self, dataset: str, score: str, by_log: Sequence[Direction | None]) -> Direction:
        """Returns which end is better: as the user says, else as all logs say."""
        for name in (self.title(dataset, score), score):
            if name in self._directions:
                return self._directions[name]
        ends = set(by_log)
        return (ends.pop() if len(ends) == 1 else None) or "none"


def _read(source: Source) -> _Reading:
    """Reads logs, and gives their systems names by which they are told apart.

    Raises:
        InputError: with all that is wrong with any of them.
    """
    reading = _Reading()
    problems: list[str] = []
    systems: list[dict[str, str]] = []
    for place, log in enumerate(source.apart()):
        (file,) = log.inputs
        keys: dict[str, str] = {}
        systems.append(keys)
        try:
            for samples in partitions(log.checked()):
                reading.n += len(samples)
                for sample, logged in zip(samples, scores_of_log(samples), strict=True):
                    system = keys.setdefault(sample.system, f"{place}/{sample.system}")
                    if isinstance(logged, Wrong):
                        place_of_id = f"{file.name}: id {printable(sample.id)}"
                        reading.wrong = reading.wrong or f"{place_of_id}: {logged}"
                        continue
                    if sample.dataset not in reading.sets:
                        reading.sets[sample.dataset] = LoggedSet()
                    reading.sets[sample.dataset].add(f"{place}/{sample.id}", sample, system, logged)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    names = _names(source.inputs, systems)
    every: dict[str, str] = {}
    for file, log_names, keys in zip(source.inputs, names, systems, strict=True):
        facts = LogFacts() if file.facts is None else file.facts()
        reading.logs.append(_Log(file, facts, log_names))
        every |= {keys[system]: name for system, name in log_names.items()}
    for dataset in reading.sets.values():
        dataset.rename(every)
    return reading


def _names(files: Sequence[Input], systems: Sequence[Collection[str]]) -> list[dict[str, str]]:
    """Returns for each log its systems, those without a name last, with names of their own."""
    counts = Counter(itertools.chain(*systems))
    names = []
    for file, log_systems in zip(files, systems, strict=True):
        label = file.label or file.name
        log_names = {}
        for system in sorted(log_systems, key=lambda name: not name):
            whole = label if len(log_systems) == 1 or not system else f"{label}: {system}"
            log_names[system] = whole if not system or counts[system] > 1 else system
        names.append(log_names)
    return names


def is_equal(mean: float, stated: float) -> bool:
    """Returns whether a mean of samples is the one that a log states."""
    return abs(mean - stated) <= _EQUAL * max(1.0, abs(stated))


_FEWEST_DIGITS = 2
"""Decimals of a stated value that is taken for one that was rounded."""


def _is_rounded(mean: float, stated: float) -> bool:
    """Returns whether what a log states is a mean of samples, perhaps with fewer decimals."""
    digits = len(repr(stated).partition(".")[2])
    return is_equal(mean, stated) or (
        digits >= _FEWEST_DIGITS and abs(mean - stated) <= 0.5 * 10.0**-digits
    )
