"""Records of files that hold no samples: ratings and scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from levelfield.io.opening import open_samples
from levelfield.io.problems import Problems, Wrong, printable
from levelfield.io.reading import PathLike
from levelfield.io.source import Input


def inputs(paths: Sequence[PathLike] | PathLike, format: str | None) -> Sequence[Input]:
    """The files, checked to be there and to be named once."""
    files = [paths] if not isinstance(paths, Sequence) or isinstance(paths, str) else paths
    return open_samples(files, format=format).inputs  # rows, not samples, are what is read here


def records(
    source: Input, problems: Problems, what: str
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The records of a file that can be read; the others are reported."""
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
        problems.add(f"no {what} in {source.name}; is it the file you mean?")
