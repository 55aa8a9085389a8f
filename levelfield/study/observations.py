"""The values of a study's cells by measure, as aggregation needs them.

A measure is a column of the study's tables: a sample metric, a corpus metric, the texts that one
judge found right, the average of the judges, their majority, all attributes at once (both).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Final, Literal

import numpy as np

from levelfield.core.arrays import Bools, Codes, Floats
from levelfield.core.direction import Direction, direction_of
from levelfield.core.errors import UserError
from levelfield.core.registry import metric_class
from levelfield.core.sample import Sample
from levelfield.core.scores import EMPTY
from levelfield.study.cells import Cell, value_name

Kind = Literal["metric", "corpus", "judge", "average", "majority", "both"]
ALL = "all"
"""All datasets, or all values of a control, together."""

MOST_VALUES = 12
"""A control with more values than these (keywords: one list a prompt) is not split by value."""

AVERAGE: Final = "average"
MAJORITY: Final = "majority"
BOTH: Final = "both"
_OF_JUDGES: Mapping[str, Kind] = {
    "control.average": AVERAGE,
    "control.majority": MAJORITY,
    "control.both": BOTH,
}


def measure_of(metric: str) -> str:
    """Returns the name of the measure that a metric of samples is in tables."""
    return _OF_JUDGES.get(metric, metric)


_RATED: Mapping[str, Kind] = {MAJORITY: MAJORITY, BOTH: BOTH}
_COVERAGES = ("keywords.any", "keywords.all", "keywords.cov", "keywords.ext-cov")
"""Control effectiveness of keywords is the average of these (section 3.2)."""

_CORPUS_SHARES = ("control.balanced-accuracy",)
_SHARES = ("control.", "diversity.", "keywords.")
_ORDER: tuple[Kind, ...] = ("corpus", "metric", "judge", "average", "majority", "both")


@dataclass(frozen=True)
class Measure:
    """A column of a study's tables.

    Attributes:
        name: of the metric; a judge's name; `average`, `majority`, `both`.
        kind: what it is.
        direction: which end of its values is better.
        percent: its values are shares, given in percent.
    """

    name: str
    kind: Kind
    direction: Direction = "higher"
    percent: bool = False

    @property
    def of_control(self) -> bool:
        """Whether its values are shares of texts that judges find to follow the control."""
        return self.kind in ("judge", AVERAGE, MAJORITY, BOTH)


@dataclass
class Observed:
    """The values of one measure: those of cells, and of single texts where they are known.

    Attributes:
        measure: which.
        cells: (cell, value asked or `ALL`) -> its values; several where judges count alike.
        n, undefined: (cell, value asked or `ALL`) -> how many values these rest on, and how many
            have none.
        texts: (texts,) a value per text, NaN if undefined or not measured; None if only values of
            whole cells are known.
    """

    measure: Measure
    cells: dict[tuple[int, str], list[float]] = field(default_factory=dict)
    n: dict[tuple[int, str], int] = field(default_factory=dict)
    undefined: dict[tuple[int, str], int] = field(default_factory=dict)
    texts: Floats | None = None

    @property
    def has_values(self) -> bool:
        """Whether there is a value that is not NaN."""
        return any(v == v for values in self.cells.values() for v in values)

    @cached_property
    def is_never_negative(self) -> bool:
        """Whether values of texts are known and none is below 0."""
        return self.texts is not None and bool(np.fmin.reduce(self.texts, initial=np.inf) >= 0)


@dataclass(frozen=True)
class Observations:
    """The cells of one kind of control with all their measures.

    Attributes:
        cells: in the order given.
        values: the requested values; empty if they are too many to distinguish.
        many_values: their number in that case, else 0.
        prompts: cluster -> (dataset, what its texts share).
        cell, value, prompt, input: (texts,) codes: the cell; position in `values`; position in
            `prompts`; the request, equal for all systems and seeds.
        empty: (texts,) whether no judge read the text, as the output is empty.
        observed: one per measure.
        attributes: attribute -> its judges, as `observed` names them.
    """

    cells: tuple[Cell, ...]
    values: tuple[str, ...]
    many_values: int
    prompts: tuple[tuple[str, tuple[str, ...]], ...]
    cell: Codes
    value: Codes
    prompt: Codes
    input: Codes
    empty: Bools
    observed: tuple[Observed, ...]
    attributes: Mapping[str, tuple[str, ...]]


def observe(cells: Sequence[Cell]) -> Observations:
    """Returns everything measured in the cells of one kind of control."""
    control = cells[0].key.control
    distinct = dict.fromkeys(_values(cells))
    split = len(distinct) <= MOST_VALUES
    values = tuple(distinct) if split else ()
    value_codes = {value: i if split else 0 for i, value in enumerate(distinct)}
    rows = [(i, sample) for i, cell in enumerate(cells) for sample in cell.samples]
    # a text made from the control alone shares its request with those of other systems
    shared = [
        (cells[i].key.dataset, s.shared or (str(s.extra.get("request", s.id)),)) for i, s in rows
    ]
    # sorted, so that what is drawn does not depend on the order of the cells
    prompts = {prompt: i for i, prompt in enumerate(sorted(set(shared)))}
    inputs: dict[tuple[object, ...], int] = {}
    codes = np.zeros((4, len(rows)), dtype=np.intp)
    for row, ((i, sample), prompt) in enumerate(zip(rows, shared, strict=True)):
        value = value_name(sample.control)
        asked_for = inputs.setdefault((prompt, value), len(inputs))
        codes[:, row] = i, value_codes[value], prompts[prompt], asked_for
    table = _Columns(cells, rows, values, codes[0], codes[1], control)
    return Observations(
        cells=tuple(cells),
        values=values,
        many_values=0 if split else len(distinct),
        prompts=tuple(prompts),
        cell=codes[0],
        value=codes[1],
        prompt=codes[2],
        input=codes[3],
        empty=np.array([_is_empty(cells[i], sample) for i, sample in rows], dtype=np.bool_),
        observed=tuple(sorted(table.observed(), key=lambda o: _ORDER.index(o.measure.kind))),
        attributes=table.attributes,
    )


def _is_empty(cell: Cell, sample: Sample) -> bool:
    judges = (labels for judges in cell.votes.values() for labels in judges.values())
    return any(labels.get(sample.id) == EMPTY for labels in judges)


def _values(cells: Sequence[Cell]) -> Iterator[str]:
    """Yields all requested values, those of texts first."""
    for cell in cells:
        yield from (value_name(sample.control) for sample in cell.samples)
    for cell in cells:
        yield from (group.value_asked for group in cell.groups if group.value_asked)
        yield from (rate.value for rate in cell.rates if rate.value)


class _Columns:
    """Turns scores, votes, values of groups and rates into columns of equal form."""

    def __init__(
        self,
        cells: Sequence[Cell],
        rows: Sequence[tuple[int, Sample]],
        values: tuple[str, ...],
        cell: Codes,
        value: Codes,
        control: str,
    ) -> None:
        self._cells, self._rows, self._values = cells, rows, values
        self._cell, self._value = cell, value
        voted = {
            attribute: tuple(dict.fromkeys(j for c in cells for j in c.votes.get(attribute, ())))
            for attribute in dict.fromkeys(a for c in cells for a in c.votes)
        }
        self._voted = voted
        rated = tuple(dict.fromkeys(r.judge for c in cells for r in c.rates))
        self._one_attribute = len(voted) <= 1 and BOTH not in rated
        self.attributes = {
            attribute: tuple(self._judge(attribute, judge) for judge in judges)
            for attribute, judges in voted.items()
        }
        single_judges = tuple(judge for judge in rated if judge not in (MAJORITY, BOTH))
        if not voted and single_judges and self._one_attribute:
            self.attributes = {control: single_judges}

    def _judge(self, attribute: str, judge: str) -> str:
        return judge if self._one_attribute else f"{attribute}/{judge}"

    def observed(self) -> Iterator[Observed]:
        """Yields the measures, each kind in the order of first appearance."""
        columns = {column.measure.name: column for column in self._text_measures()}
        self._add_results(columns)
        self._average(columns)
        yield from (column for column in columns.values() if column.cells)

    def _direction(self, metric: str) -> Direction:
        """Returns the direction in the results, or else that of the installed metric."""
        directions = (cell.directions[metric] for cell in self._cells if metric in cell.directions)
        return next(directions, None) or direction_by_name(metric)

    def _text_measures(self) -> Iterator[Observed]:
        for metric in dict.fromkeys(m for cell in self._cells for m in cell.scores):
            kind: Kind = _OF_JUDGES.get(metric, "metric")
            name = kind if metric in _OF_JUDGES else metric
            measure = Measure(name, kind, self._direction(metric), metric.startswith(_SHARES))
            scores = [cell.scores.get(metric) for cell in self._cells]
            values = [(scores[i] or {}).get(sample.id, math.nan) for i, sample in self._rows]
            texts = np.array(values, dtype=np.float64) * (100 if measure.percent else 1)
            texts[np.isinf(texts)] = np.nan  # `infinite_notes` counts them
            yield self._observed(measure, texts, [score is not None for score in scores])
        for attribute, judges in self._voted.items():
            for judge in judges:
                votes = [cell.votes.get(attribute, {}).get(judge) for cell in self._cells]
                values = [self._right(votes[i], attribute, sample) for i, sample in self._rows]
                measure = Measure(self._judge(attribute, judge), "judge", percent=True)
                texts = np.array(values, dtype=np.float64)
                yield self._observed(measure, texts, [vote is not None for vote in votes])

    @staticmethod
    def _right(votes: Mapping[str, str] | None, attribute: str, sample: Sample) -> float:
        """Returns 100 for the wanted label, 0 for any other, an undecided judge or an empty output.

        Without a verdict on the text it is NaN.
        """
        if not votes or sample.id not in votes or attribute not in sample.control:
            return float("nan")
        return 100.0 * (votes[sample.id] == sample.control[attribute])

    def _observed(self, measure: Measure, texts: Floats, measured: Sequence[bool]) -> Observed:
        """Means of single texts, by cell and by value within it."""
        column = Observed(measure, texts=texts)
        V = max(1, len(self._values))
        code = self._cell * V + self._value
        defined = ~np.isnan(texts)
        cells = len(self._cells)
        sums = np.bincount(code[defined], texts[defined], cells * V).reshape(cells, V)
        n = np.bincount(code[defined], minlength=cells * V).reshape(cells, V)
        texts_asked = np.bincount(code, minlength=cells * V).reshape(cells, V)
        for i in np.flatnonzero(measured).tolist():
            for k, value in enumerate((ALL, *self._values)):
                places = slice(None) if value == ALL else slice(k - 1, k)
                if total := int(texts_asked[i, places].sum()):
                    count = column.n[i, value] = int(n[i, places].sum())
                    column.undefined[i, value] = total - count
                    column.cells[i, value] = [float(sums[i, places].sum() / count)] if count else []
        return column

    def _add_results(self, columns: dict[str, Observed]) -> None:
        """Adds corpus metrics, and what judges found in cells whose votes are not known."""
        names = set(columns)
        metrics = dict.fromkeys(group.metric for cell in self._cells for group in cell.groups)
        measures = {
            metric: _corpus_measure(metric, self._direction(metric))
            for metric in metrics
            if metric not in names
        }
        for i, cell in enumerate(self._cells):
            results: dict[Measure, dict[str, list[float]]] = {}
            for group in (group for group in cell.groups if group.metric in measures):
                measure = measures[group.metric]
                by_value = results.setdefault(measure, {}).setdefault(group.value_asked, [])
                by_value.append(group.value * (100 if measure.percent else 1))
            for rate in cell.rates:
                measure = Measure(rate.judge, _RATED.get(rate.judge, "judge"), percent=True)
                results.setdefault(measure, {}).setdefault(rate.value, []).append(rate.percent)
            for measure, values in results.items():
                column = columns.setdefault(measure.name, Observed(measure))
                if (i, ALL) not in column.cells:
                    self._add(column, i, values)

    def _add(self, column: Observed, cell: int, by_value: Mapping[str, Sequence[float]]) -> None:
        """Adds the mean of a cell, over the requested values (section 3.2), and those of values.

        A result for no value in particular stands for the cell.
        """
        whole = by_value.get("") or [v for values in by_value.values() for v in values]
        for value, numbers in ((ALL, whole), *by_value.items()):
            if value == ALL or value in self._values:
                defined = [v for v in numbers if math.isfinite(v)]
                column.cells[cell, value] = [fmean(defined)] if defined else []
                column.n[cell, value] = len(defined)
                column.undefined[cell, value] = len(numbers) - len(defined)

    def _average(self, columns: dict[str, Observed]) -> None:
        """Adds the average of the judges, or of the study's four keyword coverages.

        Of one attribute, each judge's value counts as a run of its own, so that the deviation
        holds that of the judges; of several, the average within a run counts, as in the study.
        """
        judges = [o for o in columns.values() if o.measure.kind == "judge"]
        if not judges and all(name in columns for name in _COVERAGES):
            judges = [columns[name] for name in _COVERAGES]
        if not judges:
            return
        if AVERAGE not in columns:
            columns[AVERAGE] = self._average_of_texts(judges)
        column = columns[AVERAGE]
        for place in dict.fromkeys(p for o in judges for p in o.cells):
            each = [v for o in judges for v in o.cells.get(place, ())]
            if each:
                column.cells[place] = each if self._one_attribute else [fmean(each)]
            judged = [o for o in judges if place in o.cells]
            column.n.setdefault(place, max(o.n[place] for o in judged))
            column.undefined.setdefault(place, min(o.undefined[place] for o in judged))

    def _average_of_texts(self, judges: Sequence[Observed]) -> Observed:
        """Returns each text's mean over the judges of its cell; undefined if one of them is."""
        measure = Measure(AVERAGE, AVERAGE, percent=True)
        columns = [(o, o.texts) for o in judges if o.texts is not None]
        if not columns:
            return Observed(measure)
        measured = np.array(
            [[(i, ALL) in o.cells for i in range(len(self._cells))] for o, _ in columns]
        )  # (judges, cells)
        judged = measured[:, self._cell]
        total = np.where(judged, np.array([texts for _, texts in columns]), 0.0).sum(axis=0)
        n = judged.sum(axis=0)
        texts = np.where(n > 0, total / np.maximum(n, 1), np.nan)
        return self._observed(measure, texts, [bool(column.any()) for column in measured.T])


def _corpus_measure(metric: str, direction: Direction) -> Measure:
    # published rates of a single judge come as `control.<judge>`, in percent already
    percent = metric.startswith(_SHARES) and (
        not metric.startswith("control.") or metric in _CORPUS_SHARES
    )
    return Measure(metric, "corpus", direction, percent)


def direction_by_name(metric: str) -> Direction:
    """Returns the direction of a metric, by its name if it is not installed."""
    with contextlib.suppress(UserError, AttributeError, ValueError):
        return direction_of(metric_class(metric))
    return "lower" if "perplexity" in metric else "higher"
