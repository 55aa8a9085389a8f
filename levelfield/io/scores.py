"""Scores as meta-evaluation reads them: those of `levelfield score`, and those from elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from levelfield.core.errors import UserError
from levelfield.core.signature import with_choices
from levelfield.io import fields
from levelfield.io.arguments import items_of
from levelfield.io.fields import MISSING, Record, field_of, has
from levelfield.io.formats import FORMATS, SPREADSHEETS
from levelfield.io.guesses import id_mapping, map_words, scores_mapping, several_columns
from levelfield.io.problems import Problems, Wrong, listed, printable, shown
from levelfield.io.reading import PathLike
from levelfield.io.rows import Places, Rows, TableRow, inputs, table_rows
from levelfield.io.samples import Input

_OURS = frozenset({"id", "metric", "value", "signature"})
"""What a record of `levelfield score` has."""

WIDE = "metric."
"""Begins the name of a field that has the values of one metric: `metric.bleurt`."""

_LONG = ("metric", "score")
"""What a record has, next to an id, if it is one value of a metric that it names."""


@dataclass(frozen=True)
class ScoreColumn:
    """The values of one metric.

    Attributes:
        metric: its name.
        signature: every choice that could change a value.
        values: id -> value; NaN where the metric is undefined.
        elsewhere: whether another program computed them.
    """

    metric: str
    signature: str
    values: Mapping[str, float]
    elsewhere: bool = False


def load_scores(paths: Rows, *, mapping: Mapping[str, str] = {}) -> list[ScoreColumn]:
    """Returns the values in files, by metric, in the order they come.

    A record that has `id`, `metric`, `value` (null if undefined) and `signature` is one that
    `levelfield score` wrote. Any other comes from elsewhere: `id`, `metric` and `score` (or
    `value`) are one value; `id` and columns `metric.NAME` are a value of each of these metrics. A
    missing value is NaN; "inf" and "-inf" are infinite values. The signature of such scores has the
    metric, the file, the column and the sha256 of the file.

    Args:
        paths: files in any format of samples; without a known suffix, JSONL; `-` is standard
            input. Data frames or records of them.
        mapping: our field -> their field, of scores from elsewhere: `id` (several columns are
            joined, `system+segment`), `metric`, `score`, `metric.NAME`.

    Raises:
        InputError: with all problems there are: what can't be read or is missing, two values of a
            metric for one id, two signatures of one metric.
        UserError: a field of the mapping that scores don't have.

    >>> load_scores("scores.csv", mapping={"metric.bleurt": "BLEURT"})  # doctest: +SKIP
    """
    reader = _ScoreReader(mapping, Problems())
    items = items_of(paths, "scores", ids_named="id" in mapping)
    _read([(item, reader) for item in items], mapping)
    return reader.scores()


def load_score_files(
    scores: Sequence[PathLike | Input], *, mapping: Mapping[str, str] = {}
) -> list[list[ScoreColumn]]:
    """`load_scores` of each by itself; a field of the mapping may be in only some of them."""
    problems = Problems()
    readers = [(item, _ScoreReader(mapping, problems)) for item in scores]
    _read(readers, mapping)
    return [reader.scores() for _, reader in readers]


def is_of_scores(field: str) -> bool:
    """Returns whether a field of a mapping is one that only scores have."""
    return field in _LONG or field.startswith(WIDE)


def _read(
    files: Sequence[tuple[PathLike | Input, _ScoreReader]], mapping: Mapping[str, str]
) -> None:
    """Reads each file with its reader.

    Raises:
        UserError: scores have no field of the mapping, or no file uses it; an `id` may be unused.
        InputError: with all problems of the files.
    """
    names = [name for name in mapping if name != "id"]
    for name in names:
        if not is_of_scores(name) or name == WIDE:
            raise UserError(
                f"mapping {printable(f'{name}={mapping[name]}')}: scores have no such field; there "
                "are id, metric, score and metric.NAME"
            )
    for item, reader in files:
        reader.read(item if isinstance(item, Input) else _file(item))
    for _, reader in files:
        reader.problems.raise_if_any()
    fields = next((reader.fields for _, reader in files if reader.fields), None)
    seen = set[str]().union(*(reader.seen for _, reader in files))
    for name in names:
        if name not in seen:
            alternative = (
                f"the columns are {listed(fields)}" if fields else "levelfield wrote them all"
            )
            raise UserError(
                f"mapping {printable(f'{name}={mapping[name]}')}: no scores have "
                f"{shown(mapping[name])}; {alternative}"
            )


def _file(path: PathLike) -> Input:
    suffix = PurePath(path).suffix.lower()
    has_format = suffix in SPREADSHEETS or any(suffix in f.suffixes for f in FORMATS.values())
    (source,) = inputs([path], "scores", None if has_format else "jsonl")
    return source


@dataclass
class _Column:
    """The values of one metric as they come in.

    Attributes:
        signature, place: those of the first value.
        elsewhere: as in `ScoreColumn`.
        places: (values,) the place of each, in their order.
        others: signatures that differ from the first and were reported.
    """

    signature: str
    place: str
    elsewhere: bool
    values: dict[str, float] = field(default_factory=dict)
    places: Places = field(default_factory=Places)
    others: set[str] = field(default_factory=set)


class _ScoreReader:
    """Takes in the scores of files, record by record.

    Attributes:
        fields: of the first record from elsewhere.
        seen: fields of the mapping that a record has.
    """

    def __init__(self, mapping: Mapping[str, str], problems: Problems) -> None:
        self.problems = problems
        self.fields: tuple[str, ...] = ()
        self.seen: set[str] = set()
        self._mapping = mapping
        self._columns: dict[str, _Column] = {}

    def scores(self) -> list[ScoreColumn]:
        return [
            ScoreColumn(name, c.signature, c.values, c.elsewhere)
            for name, c in self._columns.items()
        ]

    def read(self, source: Input) -> None:
        """Takes in the records of `levelfield score` or of another program."""
        for row in table_rows(source, "scores", self.problems):
            if row.record.keys() >= _OURS:
                if not self._add_next(row):
                    self._add_ours(row)
            elif lacking := self._lacking(row.record):
                row.refuse(lacking)
            else:
                self._add_other(row)

    def _lacking(self, record: Record) -> str:
        """Returns what a foreign record lacks to be scores, with words that would name it."""
        no_id = not has(record, "id", self._theirs("id")) and "id" not in record
        no_scores = not self._wide(record) and not self._long(record)
        if not no_id and not no_scores:
            return ""
        lacks = ["id"] * no_id + ["score"] * no_scores
        mapping = {
            **(id_mapping(record, self._mapping) if no_id else {}),
            **(scores_mapping(record) if no_scores else {}),
        }
        return (
            f"no {' and no '.join(lacks)}; the columns are {listed(record)}; expected what "
            "`levelfield score` writes, or name your columns, for example "
            f"{map_words({**self._mapping, **mapping})}"
        )

    def _theirs(self, field: str) -> str:
        return self._mapping.get(field, field)

    def _wide(self, record: Record) -> list[tuple[str, str]]:
        """Metrics that have a column of their own in this record, with its name."""
        named = {
            column: field.removeprefix(WIDE)
            for field, column in self._mapping.items()
            if field.startswith(WIDE) and has(record, field, column)
        }
        plain = {c: c.removeprefix(WIDE) for c in record if c.startswith(WIDE) and c != WIDE}
        return [(metric, column) for column, metric in {**plain, **named}.items()]

    def _long(self, record: Record) -> tuple[str, str] | None:
        """Returns the columns with the name of a metric and its value; None if there are none."""
        score = self._mapping.get("score", "score" if "score" in record else "value")
        columns = (self._theirs("metric"), score)
        is_complete = all(has(record, field, c) for field, c in zip(_LONG, columns, strict=True))
        return columns if is_complete else None

    def _add_next(self, row: TableRow) -> bool:
        """Takes one more value of a known metric; returns whether it is plainly that."""
        id, value = row.record["id"], row.record["value"]
        if not (id and fields.is_plain(id) and fields.is_finite_number(value)):
            return False
        metric = row.record["metric"]
        column = self._columns.get(metric) if type(metric) is str else None
        if column is None or row.record["signature"] != column.signature or id in column.values:
            return False
        column.values[sys.intern(id)] = float(value)
        column.places.add(row)
        return True

    def _add_ours(self, row: TableRow) -> None:
        id, metric, signature = (
            row.name(name, row.record[name]) for name in ("id", "metric", "signature")
        )
        value = row.value("value", row.record["value"], fields.score)
        if id and metric and signature and value is not None:
            self._keep(row, id, metric, value, signature, elsewhere=False)

    def _add_other(self, row: TableRow) -> None:
        """Takes the values of a record that another program wrote."""
        record, cells = row.record, row.source.cells
        self.fields = self.fields or tuple(record)
        self.seen |= {o for o, column in self._mapping.items() if has(record, o, column)}
        try:
            id = field_of(record, "id", self._theirs("id"), cells)
        except Wrong as wrong:
            row.report(wrong)
            return
        id = row.name("id", record["id"] if id is MISSING else id)
        items = [
            (metric, column, field_of(record, WIDE, column, cells))
            for metric, column in self._wide(record)
        ]
        if not items and (columns := self._long(record)):
            metric, value = (field_of(record, WIDE, column, cells) for column in columns)
            items = [(row.name("metric", metric), "", value)]
        for metric, column, cell in items:
            value = row.value(column or "score", cell, fields.score)
            if id and metric and value is not None:
                signature = _signature(row.source, metric, column)
                self._keep(row, id, metric, value, signature, elsewhere=True)

    def _keep(
        self, row: TableRow, id: str, metric: str, value: float, signature: str, *, elsewhere: bool
    ) -> None:
        column = self._columns.get(metric)
        if column is None:
            column = self._columns[metric] = _Column(signature, row.place, elsewhere)
        if signature != column.signature:
            if signature not in column.others:
                column.others.add(signature)
                row.report(
                    f"{printable(metric)} has the signature {shown(signature, 300)} here "
                    f"and {shown(column.signature, 300)} at {column.place}, so the numbers can't "
                    "share a column; give only one of them, or score again with the same "
                    "options"
                )
        elif id in column.values:
            mend = several_columns(row.record, self._mapping) if elsewhere else ""
            row.report(
                f"{printable(metric)} of id {shown(id)} already has a value at "
                f"{column.places.of(id, column.values)}; remove one of them{mend}"
            )
        else:
            column.values[sys.intern(id)] = value
            column.places.add(row)


def _signature(source: Input, metric: str, column: str) -> str:
    choices = {"file": PurePath(source.name).name, **({"column": column} if column else {})}
    return with_choices(f"elsewhere.{metric}", {**choices, "sha256": source.digest[:12]})
