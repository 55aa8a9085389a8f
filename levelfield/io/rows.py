"""Records of files that hold no samples: ratings and scores."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from levelfield.core.errors import UserError
from levelfield.io import fields
from levelfield.io.arguments import items_of
from levelfield.io.fields import Record
from levelfield.io.opening import open_samples
from levelfield.io.problems import Problems, Wrong
from levelfield.io.reading import PathLike
from levelfield.io.samples import Input, blank_note

Rows = PathLike | Iterable[PathLike | Mapping[str, Any]]
"""Files, data frames or records that hold no samples, or a list of them."""


def inputs(
    rows: Rows, noun: str, format: str | None = None, *, ids_named: bool = False
) -> list[Input]:
    """Returns the files, each of which exists and is named once, and what is in memory.

    Args:
        noun: what the rows are, for messages.
        format: of the files.
        ids_named: as for `records_of`.

    Raises:
        UserError: there are none, or no files for the format.
    """
    items = items_of(rows, noun, ids_named=ids_named)
    files = [item for item in items if not isinstance(item, Input)]
    if format is not None and items and not files:
        raise UserError(f"format: is for files; {noun} in memory do not accept this option")
    # rows, not samples, are what is read here
    opened = iter(open_samples(files, format=format).inputs if files or not items else ())
    return [item if isinstance(item, Input) else next(opened) for item in items]


@dataclass(slots=True)
class TableRow:
    """A record of a file, whose problems are reported with its place.

    Attributes:
        source, number: where it is.
        record: what it holds.
        is_first: whether it is the first readable record of its file.
        problems: those of all records.
        is_refused: whether it is none of what the file should hold.
    """

    source: Input
    number: int
    record: Record
    is_first: bool
    problems: Problems
    is_refused: bool = False

    @property
    def place(self) -> str:
        """The file and the number of the record, for messages."""
        return self.source.place(self.number)

    def report(self, problem: object) -> None:
        """Reports what is wrong with the record."""
        self.problems.add(f"{self.place}: {problem}")

    def refuse(self, lacking: str) -> None:
        """Reports what the record lacks; if it is the first, its file is of another kind."""
        self.is_refused = True
        self.problems.add(f"{self.source.place(0 if self.is_first else self.number)}: {lacking}")

    def name(self, column: str, value: object) -> str:
        """Returns a name; empty, and a problem, where there is none."""
        try:
            if not fields.absent(value):
                return fields.name(value, self.source.cells)
            raise Wrong("is empty; name it")
        except Wrong as wrong:
            self.report(wrong.inside(column))
            return ""

    def value(
        self, column: str, value: object, read: Callable[[Any, bool], float] = fields.rating
    ) -> float | None:
        """Returns a value, NaN if it is missing; None, and a problem, if it is not a number."""
        try:
            return read(value, self.source.cells)
        except Wrong as wrong:
            self.report(wrong.inside(column))
            return None


def table_rows(
    source: Input, noun: str, problems: Problems, notes: list[str] | None = None
) -> Iterator[TableRow]:
    """Yields the readable records of a file up to a first one that is refused.

    Args:
        noun: what the records are, for messages.
        problems: where the others, and those of the file, are reported.
        notes: where it is noted how many rows of empty cells there are.
    """
    is_first, is_empty, blank = True, True, 0
    state = source.state()
    for batch in source.batches():
        rows = [row for row in batch if not source.is_blank(row[1])]
        blank += len(batch) - len(rows)
        for number, record in rows:
            is_empty = False
            if isinstance(record, Wrong):
                problems.add(f"{source.place(number)}: {record}")
                continue
            row = TableRow(source, number, record, is_first, problems)
            yield row
            if row.is_refused and is_first:
                return
            is_first = False
    if change := source.change(state):
        problems.add(change)
    if blank and notes is not None:
        notes.append(blank_note(source.name, blank))
    if is_empty:
        problems.add(f"no {noun} in {source.name}; is it the file you mean?")


class Places:
    """The places of the items of a dict, in the order in which they were added: 12 bytes an item.

    >>> places, file = Places(), Input("a.jsonl", "a", lambda: iter(()))
    >>> for number in (3, 4):
    ...     places.add(TableRow(file, number, {}, False, Problems()))
    >>> places.of("second", {"first": 1.0, "second": 2.0})
    'a.jsonl:4'
    """

    def __init__(self) -> None:
        self._sources: list[Input] = []
        self._source = array("i")
        self._number = array("q")
        self._order: dict[Hashable, int] = {}

    def add(self, row: TableRow) -> None:
        """Remembers the place of the next item."""
        if not self._sources or self._sources[-1] is not row.source:
            self._sources.append(row.source)
        self._source.append(len(self._sources) - 1)
        self._number.append(row.number)

    def of(self, key: Hashable, items: Iterable[Hashable]) -> str:
        """Returns the place of an item of the dict."""
        if len(self._order) < len(self._number):
            self._order = {item: i for i, item in enumerate(items)}
        i = self._order[key]
        return self._sources[self._source[i]].place(self._number[i])
