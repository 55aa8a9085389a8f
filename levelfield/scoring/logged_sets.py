"""The samples of one data set in all logs, with the scores that these hold of them."""

from __future__ import annotations

import itertools
import math
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from levelfield.core.arrays import Bools, Floats
from levelfield.core.direction import Direction
from levelfield.core.partitions import partitions
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores, mean_of_defined
from levelfield.core.strings import natural
from levelfield.io.logged import LoggedScores
from levelfield.scoring.corpus_values import Aggregation, rate, rates, shares_of_value
from levelfield.scoring.reducers import Reducer
from levelfield.scoring.run_table import RunTable
from levelfield.scoring.summary import GroupSummary, MetricSummary, unadjusted
from levelfield.stats.resampling import Resampling

NO_SCORE = "no score in the log"
"""Why a value is undefined."""

_MOST_NAMED = 5


@dataclass(frozen=True)
class Reduction:
    """How the draws of an item make one value of it, where that is not their mean."""

    name: str
    reduce: Reducer


@dataclass(frozen=True)
class LoggedScore:
    """A score that is compared.

    Attributes:
        name: in the logs.
        title: name in results.
        signature: of its values.
        direction: which end is better.
        kind: how a value is made of those in the logs; None if every item has the mean of its draws
            and the systems have means over items.
    """

    name: str
    title: str
    signature: str
    direction: Direction
    kind: Reduction | Aggregation | None = None


@dataclass
class _Column:
    """A score as it comes in; rows that have none are not there or NaN.

    Attributes:
        values, counted: (rows,) its numbers, and those that the log counts.
        reasons: row -> why there is no number.
        lists: row -> a score that is a list.
    """

    values: array[float] = field(default_factory=lambda: array("d"))
    counted: array[float] = field(default_factory=lambda: array("d"))
    reasons: dict[int, str] = field(default_factory=dict)
    lists: dict[int, tuple[float, ...]] = field(default_factory=dict)


class LoggedSet:
    """The samples of one data set, or of those that a log groups, in all logs.

    Attributes:
        items: system -> item -> what stands for the content of what was asked.
        remarks: system and what is to be said of samples -> of how many.
    """

    def __init__(self) -> None:
        self.items: dict[str, dict[str, str]] = {}
        self.remarks: Counter[tuple[str, str]] = Counter()
        self._ids: list[str] = []
        self._items: list[str] = []
        self._systems: list[str] = []
        self._seeds: list[int | None] = []
        self._draws = array("q")
        self._cells = array("q")
        self._codes: dict[tuple[str, str], int] = {}
        self._columns: dict[str, _Column] = {}
        self._reasons: dict[int, str] = {}

    @classmethod
    def pooled(cls, sets: Mapping[str, LoggedSet]) -> LoggedSet:
        """Returns the samples of several data sets together."""
        pool = cls()
        for name, part in sets.items():
            start = len(pool._ids)
            pool._ids += (f"{name}/{id}" for id in part._ids)
            pool._items += (f"{name}/{item}" for item in part._items)
            pool._systems += part._systems
            pool._seeds += part._seeds
            pool._draws += part._draws
            pool._cells.extend(cell + len(pool._codes) for cell in part._cells)
            pool._codes |= {
                (s, f"{name}/{item}"): len(pool._codes) + cell
                for (s, item), cell in part._codes.items()
            }
            pool._reasons |= {start + row: reason for row, reason in part._reasons.items()}
            for system, items in part.items.items():
                contents = {f"{name}/{item}": content for item, content in items.items()}
                pool.items.setdefault(system, {}).update(contents)
            for score, column in part._columns.items():
                whole = pool._columns.setdefault(score, _Column())
                _extend(whole.values, start, column.values)
                _extend(whole.counted, start, column.counted)
                whole.reasons |= {start + row: reason for row, reason in column.reasons.items()}
                whole.lists |= {start + row: value for row, value in column.lists.items()}
        return pool

    def add(self, id: str, sample: Sample, system: str, logged: LoggedScores) -> None:
        """Takes in a sample; scores that it does not have are undefined."""
        row = len(self._ids)
        self._ids.append(id)
        self._items.append(logged.item)
        self._systems.append(system)
        self._seeds.append(sample.seed)
        self._draws.append(logged.draw)
        self._cells.append(self._codes.setdefault((system, logged.item), len(self._codes)))
        self.items.setdefault(system, {})[logged.item] = logged.content
        self.remarks.update((system, remark) for remark in logged.remarks)
        for name, value in logged.scores.items():
            column = self._columns.setdefault(name, _Column())
            _extend(column.values, row, [value])
            _extend(column.counted, row, [logged.counted.get(name, value)])
        for name, numbers in logged.lists.items():
            self._columns.setdefault(name, _Column()).lists[row] = numbers
        for name, reason in logged.reasons.items():
            if name:
                self._columns.setdefault(name, _Column()).reasons[row] = reason
            else:
                self._reasons[row] = reason

    def rename(self, names: Mapping[str, str]) -> None:
        """Gives every system another name; `names` has all of them."""
        self._systems = [names[system] for system in self._systems]
        self._codes = {(names[s], item): code for (s, item), code in self._codes.items()}
        self.items = {names[s]: items for s, items in self.items.items()}
        self.remarks = Counter({(names[s], reason): n for (s, reason), n in self.remarks.items()})

    @property
    def systems(self) -> list[str]:
        """The systems, in the order of the logs."""
        return list(self.items)

    def scores(self) -> Iterator[tuple[str, list[str]]]:
        """Yields each score with the systems that have values or lists of it, in their order."""
        for score, column in self._columns.items():
            has = ~np.isnan(self._values(score))
            has[list(column.lists)] = True
            yield score, list(dict.fromkeys(itertools.compress(self._systems, has)))

    def are_lists(self, score: str) -> bool:
        """Returns whether a score is a list instead of a number."""
        return bool(self._columns[score].lists) and bool(np.isnan(self._values(score)).all())

    def are_pairs(self, score: str) -> bool:
        """Returns whether every list of a score is a number and one above 0 to divide it by."""
        lists = self._columns[score].lists.values()
        return all(len(numbers) == 2 and numbers[1] > 0 for numbers in lists)

    def mean(
        self, score: str, system: str, *, reduce: Reducer | None = None, counted: bool = False
    ) -> float:
        """Returns the mean over the items of a system of one value for the draws of each.

        Args:
            reduce: makes that value; their mean by default.
            counted: whether what the log counts is taken where a value is undefined.
        """
        values = self._values(score, counted=counted)
        rows = self._rows_of(system) & ~np.isnan(values)
        cells = np.array(self._cells, dtype=np.intp)[rows]
        if reduce is None:
            sums, draws = np.bincount(cells, weights=values[rows]), np.bincount(cells)
            means = sums[draws > 0] / draws[draws > 0]
        else:
            draws_by_item: dict[int, list[float]] = {}
            for row in self._in_order(rows):
                draws_by_item.setdefault(self._cells[row], []).append(float(values[row]))
            means = np.array([reduce(draws) for draws in draws_by_item.values()], dtype=np.float64)
        return mean_of_defined(means[~np.isnan(means)])

    def corpus_value(self, score: str, system: str, aggregation: Aggregation) -> float:
        """Returns the value that the documents of a system make together."""
        l, w = self._pairs(score)  # noqa: E741
        rows = self._rows_of(system) & ~np.isnan(l)
        return aggregation.value(rate(l[rows], w[rows])) if rows.any() else math.nan

    def summaries(
        self, scores: Sequence[LoggedScore], resampling: Resampling
    ) -> list[MetricSummary]:
        """Returns the summaries of scores, in their order, with p that are not adjusted."""
        summaries: dict[str, MetricSummary] = {}
        if plain := [score for score in scores if score.kind is None]:
            run = self._run()
            for score in plain:
                self._add(run, score, self._values(score.name))
            summaries |= {
                s.metric: s for s in unadjusted(run, by_input=True, resampling=resampling)
            }
        for score in scores:
            if isinstance(score.kind, Reduction):
                summaries[score.title] = self._reduced(score, score.kind, resampling)
            elif score.kind is not None:
                summaries[score.title] = self._corpus_summary(score, score.kind, resampling)
        return [summaries[score.title] for score in scores]

    def undefined(self, scores: Sequence[str]) -> Iterator[tuple[str, int, list[str], str]]:
        """Yields a system, how many of its samples have no value, of which scores, and why not.

        Values for which the log gives no reason are not among them.
        """
        counts: Counter[tuple[str, str, str]] = Counter()
        for score in scores:
            for row in range(len(self._ids)):
                reason = self._reason(row, score)
                if reason != NO_SCORE:
                    counts[self._systems[row], reason, score] += 1
        together: dict[tuple[str, str, int], list[str]] = {}
        for (system, reason, score), n in counts.items():
            together.setdefault((system, reason, n), []).append(score)
        for (system, reason, n), names in together.items():
            yield system, n, names, reason

    def notes(self) -> Iterator[str]:
        """Yields which samples one of two systems has alone, and which were asked otherwise."""
        for a, b in itertools.combinations(self.items, 2):
            items_a, items_b = self.items[a], self.items[b]
            for system, rival in ((a, b), (b, a)):
                items = self.items[system]
                if alone := [item for item in items if item not in self.items[rival]]:
                    yield (
                        f"{len(alone):,} of {len(items):,} samples of {system} are not in {rival}: "
                        f"{list_of_items(alone)}"
                    )
            shared = [item for item in items_a if items_a[item] and items_b.get(item)]
            if otherwise := [item for item in shared if items_a[item] != items_b[item]]:
                yield (
                    f"{len(otherwise):,} of {len(shared):,} samples were asked otherwise in {a} "
                    f"than in {b}: {list_of_items(otherwise)}; they are paired by their ids"
                )

    def size(self, system: str) -> int:
        """Returns the number of samples of a system."""
        return self._systems.count(system)

    def _in_order(self, rows: Bools) -> list[int]:
        """Returns rows in the order of their draws."""
        draws = np.array(self._draws, dtype=np.intp)
        order = np.argsort(draws, kind="stable")
        return [int(row) for row in order[rows[order]]]

    def _rows_of(self, system: str) -> Bools:
        return np.array([name == system for name in self._systems], dtype=np.bool_)

    def _values(self, score: str, *, counted: bool = False) -> Floats:
        column = self._columns[score]
        numbers = column.counted if counted else column.values
        values = np.full(len(self._ids), np.nan)
        values[: len(numbers)] = np.array(numbers, dtype=np.float64)
        return values

    def _pairs(self, score: str) -> tuple[Floats, Floats]:
        """Returns log-likelihoods and what they are divided by, (rows,); NaN without any."""
        if not self.are_lists(score):
            values = self._values(score)
            return values, np.where(np.isnan(values), np.nan, 1.0)
        l, w = np.full((2, len(self._ids)), np.nan)  # noqa: E741
        for row, (numerator, denominator) in self._columns[score].lists.items():
            l[row], w[row] = numerator, denominator
        return l, w

    def _reason(self, row: int, score: str) -> str:
        return self._columns[score].reasons.get(row) or self._reasons.get(row) or NO_SCORE

    def _run(self) -> RunTable:
        run = RunTable()
        for rows in partitions(
            zip(self._ids, self._items, self._seeds, self._systems, strict=True)
        ):
            samples = [Sample(id, "", source=item, seed=seed) for id, item, seed, _ in rows]
            run.add(samples, [system for *_, system in rows])
        return run

    def _add(self, run: RunTable, score: LoggedScore, values: Floats) -> None:
        undefined = np.flatnonzero(np.isnan(values))
        run.add_scores(
            Scores(
                metric=score.title,
                ids=tuple(self._ids),
                values=values,
                undefined={
                    self._ids[row]: self._reason(row, score.name) for row in undefined.tolist()
                },
                signature=score.signature,
                direction=score.direction,
            )
        )

    def _reduced(
        self, score: LoggedScore, reduction: Reduction, resampling: Resampling
    ) -> MetricSummary:
        """Returns the summary of one value an item, made of its draws."""
        values = self._values(score.name)
        draws_by_item: dict[int, list[int]] = {}
        for row in self._in_order(np.ones(values.size, np.bool_)):
            draws_by_item.setdefault(self._cells[row], []).append(row)
        items = LoggedSet()
        for draws in draws_by_item.values():
            system, item = self._systems[draws[0]], self._items[draws[0]]
            defined = [float(values[row]) for row in draws if not math.isnan(values[row])]
            value = reduction.reduce(defined) if defined else math.nan
            reason = {} if value == value else {score.name: self._reason(draws[0], score.name)}
            sample = Sample(id=self._ids[draws[0]], text="")
            logged = LoggedScores(item, {score.name: value}, reasons=reason)
            items.add(sample.id, sample, system, logged)
        (summary,) = items.summaries([replace(score, kind=None)], resampling)
        return summary

    def _corpus_summary(
        self, score: LoggedScore, aggregation: Aggregation, resampling: Resampling
    ) -> MetricSummary:
        """Returns the summary of a value of the corpus.

        The interval of a system's value has the ends f(R) of the interval of R; differences are
        those of what documents add to the values to first order (`shares_of_value`). There is no
        effect size: what a document adds depends on the others.
        """
        l, w = self._pairs(score.name)  # noqa: E741
        rate_shares, value_shares = np.full((2, l.size), np.nan)
        for system in self.items:
            rows = self._rows_of(system) & ~np.isnan(l)
            if rows.any():
                rate_shares[rows] = rates(l[rows], w[rows])
                value_shares[rows] = shares_of_value(aggregation, rate_shares[rows])
        value_table, rate_table = self._run(), self._run()
        self._add(value_table, score, value_shares)
        self._add(rate_table, score, rate_shares)
        (summary,) = unadjusted(value_table, by_input=True, resampling=resampling)
        (ends,) = unadjusted(rate_table, compare=False, resampling=resampling)

        def group(rate_summary: GroupSummary) -> GroupSummary:
            mean = rate_summary.mean
            low, high = sorted(map(aggregation.value, (mean.low, mean.high)))
            mean = replace(mean, value=aggregation.value(mean.value), low=low, high=high)
            return replace(rate_summary, mean=mean, points=())

        return replace(
            summary,
            overall=replace(summary.overall, points=()),
            groups=tuple(map(group, ends.groups)),
            comparisons=tuple(replace(c, effect=math.nan) for c in summary.comparisons),
        )


def list_of_items(items: Sequence[str]) -> str:
    """Returns the first of items in their natural order, for a line."""
    names = sorted(items, key=natural)
    return ", ".join([*names[:_MOST_NAMED], *(["…"] if len(names) > _MOST_NAMED else [])])


def _extend(numbers: array[float], row: int, values: Sequence[float] | array[float]) -> None:
    """Puts values from a row on; rows before it that have none are NaN."""
    numbers.extend([math.nan] * (row - len(numbers)))
    numbers.extend(values)
