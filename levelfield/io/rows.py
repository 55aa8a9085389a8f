"""Records of files that hold no samples: ratings and scores."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from levelfield.io.opening import open_samples
from levelfield.io.problems import Problems, Wrong, printable
from levelfield.io.reading import PathLike
from levelfield.io.source import Input


def inputs(paths: Sequence[PathLike] | PathLike, format: str | None) -> Sequence[Input]:
    """Returns the files, each of which exists and is named once."""
    files = [paths] if not isinstance(paths, Sequence) or isinstance(paths, str) else paths
    return open_samples(files, format=format).inputs  # rows, not samples, are what is read here


def records(
    source: Input, problems: Problems, noun: str
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yields the readable records of a file and reports the others."""
    rows = 0
    try:
        for number, record in source.rows():
            rows += 1
            if isinstance(record, Wrong):
                problems.add(f"{source.place(number)}: {record}")
            else:
                yield number, record
    except OSError as error:
        problems.add(f"{source.name}: can't be read: {printable(error.strerror or str(error))}")
        return
    if not rows:
        problems.add(f"no {noun} in {source.name}; is it the file you mean?")


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
