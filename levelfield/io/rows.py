"""Records of files that hold no samples: ratings and scores."""

from __future__ import annotations

import abc
from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, ClassVar

from levelfield.core.errors import UserError
from levelfield.io import fields
from levelfield.io.arguments import items_of
from levelfield.io.fields import Record
from levelfield.io.opening import open_samples
from levelfield.io.problems import Problems, Wrong, printable
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


class Book(abc.ABC):
    """Base of what collects the records of files, and the problems among them.

    Attributes:
        noun: what the records are, for messages.
        fields: of the first record, as far as the subclass reads them from it.
        notes: what a reader must know of the records.
    """

    noun: ClassVar[str]

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.fields: tuple[str, ...] = ()
        self.notes: list[str] = []

    @abc.abstractmethod
    def add(self, source: Input, number: int, record: Record, *, first: bool) -> str:
        """Takes a record.

        Args:
            first: whether it is the first readable record of its file.

        Returns:
            What the record lacks to be one of the noun, in words; of a first record, the file is
            then of another kind.
        """

    def read(self, source: Input) -> None:
        """Takes the readable records of a file and reports the others."""
        first, is_empty, blank = True, True, 0
        state = source.state()
        try:
            for number, record in source.rows():
                if not isinstance(record, Wrong) and source.is_blank(record):
                    blank += 1
                    continue
                is_empty = False
                if isinstance(record, Wrong):
                    self.problems.add(f"{source.place(number)}: {record}")
                    continue
                if lacking := self.add(source, number, record, first=first):
                    self.problems.add(f"{source.place(0 if first else number)}: {lacking}")
                    if first:
                        return
                first = False
        except OSError as error:
            reason = printable(error.strerror or str(error))
            self.problems.add(f"{source.name}: can't be read: {reason}")
            return
        if change := source.change(state):
            self.problems.add(change)
        if blank:
            self.notes.append(blank_note(source.name, blank))
        if is_empty:
            self.problems.add(f"no {self.noun} in {source.name}; is it the file you mean?")

    def name(self, place: str, column: str, value: object, cells: bool) -> str:
        """Returns a name; empty, and a problem, where there is none."""
        try:
            if not fields.absent(value):
                return fields.name(value, cells)
            raise Wrong("is empty; name it")
        except Wrong as wrong:
            self.problems.add(f"{place}: {wrong.inside(column)}")
            return ""

    def number(
        self,
        place: str,
        column: str,
        value: object,
        cells: bool,
        read: Callable[[Any, bool], float] = fields.rating,
    ) -> float | None:
        """Returns a value, NaN where it is missing; None, and a problem, where it is no number."""
        try:
            return read(value, cells)
        except Wrong as wrong:
            self.problems.add(f"{place}: {wrong.inside(column)}")
            return None


class Places:
    """Where the items of a dict stand, in the order in which they came into it: 12 bytes an item.

    >>> places = Places()
    >>> for number in (3, 4):
    ...     places.add(Input("a.jsonl", "a", lambda: iter(())), number)
    >>> places.of("second", {"first": 1.0, "second": 2.0})
    'a.jsonl:4'
    """

    def __init__(self) -> None:
        self._sources: list[Input] = []
        self._source = array("i")
        self._number = array("q")
        self._order: dict[Hashable, int] = {}

    def add(self, source: Input, number: int) -> None:
        """Remembers the place of the next item."""
        if not self._sources or self._sources[-1] is not source:
            self._sources.append(source)
        self._source.append(len(self._sources) - 1)
        self._number.append(number)

    def of(self, key: Hashable, items: Iterable[Hashable]) -> str:
        """Returns the place of an item of the dict."""
        if len(self._order) < len(self._number):
            self._order = {item: i for i, item in enumerate(items)}
        i = self._order[key]
        return self._sources[self._source[i]].place(self._number[i])
