"""From the name of a data set to its files and samples."""

from __future__ import annotations

import csv
import importlib
import io
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levelfield.core.errors import InputError, UserError
from levelfield.core.options import Options, keywords, option
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Sample
from levelfield.core.strings import finite_number
from levelfield.datasets.registry import DataSet, dataset, names
from levelfield.io.comparisons import PairChoice
from levelfield.io.fetch import FetchError, Published, fetch, local_copy

Parts = Mapping[str, Mapping[str, Path]]
"""Part -> path as published -> the local copy: what loaders read."""


@dataclass(frozen=True, kw_only=True)
class DataOptions(Options):
    """Which parts of a data set are read, and whether they are downloaded."""

    part: str | tuple[str, ...] | None = option(
        None,
        "Part to fetch; may be given again.",
        metavar="PART",
        otherwise="all",
    )
    here: bool = option(False, "Download nothing; leave out what is not on this machine.")

    def __post_init__(self) -> None:
        super().__post_init__()
        parts = (self.part,) if isinstance(self.part, str) else self.part
        object.__setattr__(self, "part", parts or None)


@keywords(DataOptions)
def load(
    name: str,
    chosen: DataOptions | None = None,
    *,
    progress: Progress = no_progress,
    **words: Any,
) -> list[Sample]:
    """Returns the samples of a data set, with their ratings or labels.

    Files are looked for under `$LEVELFIELD_DATA/<set>/<path>` and in the cache, else downloaded.

    Args:
        name: as `names()` has it.
        chosen: which parts, of `dataset(name).parts`; and whether they are downloaded.
        progress: called with bytes obtained, `sum(f.bytes for f in …files)` in all.
        words: choices of `DataOptions` by name, such as `part="sentiment"`.

    Raises:
        UserError: no such set or part; the set has no samples; a file is not as published.
        FetchError: a file can't be obtained.
    """
    data_set = dataset(name)
    if not data_set.loader:
        raise UserError(
            f"data set {name} has no samples: {data_set.row}; "
            f"`levelfield data fetch {name}` downloads its files"
        )
    read: Callable[[Parts], list[Sample]] = _function(data_set.loader)
    return read(_parts(data_set, DataOptions.of(chosen, **words), progress))


@keywords(DataOptions)
def choices(
    name: str,
    chosen: DataOptions | None = None,
    *,
    progress: Progress = no_progress,
    **words: Any,
) -> list[PairChoice]:
    """Returns people's choices between the samples of a data set; see `load`.

    `sample_a` and `sample_b` of a choice are ids of `load(name, …)` with the same parts.

    Raises:
        UserError: no such set or part; the set has no choices; a file is not as published.
        FetchError: a file can't be obtained.
    """
    data_set = dataset(name)
    if not data_set.choices:
        having = [other for other in names() if dataset(other).choices]
        raise UserError(
            f"data set {name} has no choices between texts; these have: {', '.join(having)}"
        )
    read: Callable[[Parts], list[PairChoice]] = _function(data_set.choices)
    return read(_parts(data_set, DataOptions.of(chosen, **words), progress))


def _function(path: str) -> Callable[[Parts], list[Any]]:
    module, _, function = path.partition(":")
    read: Callable[[Parts], list[Any]] = getattr(importlib.import_module(module), function)
    return read


@keywords(DataOptions)
def paths(
    name: str,
    chosen: DataOptions | None = None,
    *,
    progress: Progress = no_progress,
    **words: Any,
) -> dict[str, Path]:
    """Returns path as published -> local copy, of all files or those of some parts; see `load`."""
    data_set = dataset(name)
    chosen = DataOptions.of(chosen, **words)
    if chosen.part is None:
        files = [f for f in data_set.files if not chosen.here or local_copy(f)]
        return {file.path: _fetch(file, progress) for file in files}
    parts = _parts(data_set, chosen, progress)
    return {path: local for files in parts.values() for path, local in files.items()}


def path_of(name: str, path: str, *, progress: Progress = no_progress) -> Path:
    """Returns the local copy of one file of a data set, fetched and verified.

    Args:
        path: as published.
    """
    (file,) = (file for file in dataset(name).files if file.path == path)
    return _fetch(file, progress)


def wanted_files(data_set: DataSet, chosen: DataOptions) -> list[Published]:
    """Returns the files that `load` reads, each once."""
    parts = _chosen(data_set, chosen).values()
    return list(dict.fromkeys(file for files in parts for file in files))


def _parts(data_set: DataSet, chosen: DataOptions, progress: Progress) -> Parts:
    parts = _chosen(data_set, chosen)
    files = dict.fromkeys(file for files in parts.values() for file in files)
    local = {file: _fetch(file, progress) for file in files}
    return {
        part: {file.path: local[file] for file in published} for part, published in parts.items()
    }


def _chosen(data_set: DataSet, chosen: DataOptions) -> Mapping[str, Sequence[Published]]:
    parts = {name: data_set.part(name) for name in chosen.part or data_set.default}
    if not chosen.here:
        return parts
    if data_set.loose:
        complete = {name: tuple(filter(local_copy, files)) for name, files in parts.items()}
        complete = {name: files for name, files in complete.items() if files}
    else:
        complete = {name: files for name, files in parts.items() if all(map(local_copy, files))}
    if not complete:
        selection = f" ({', '.join(parts)})" if chosen.part else ""
        raise FetchError(
            f"nothing of data set {data_set.name}{selection} is on this machine; "
            f"`levelfield data fetch {data_set.name}` downloads it"
        )
    return complete


def _fetch(file: Published, progress: Progress) -> Path:
    try:
        return fetch(file, progress=progress)
    except FetchError as error:
        raise FetchError(
            f"{error}; if the rest is enough, `levelfield data fetch {file.set} --here` and "
            "load(…, here=True) skip it"
        ) from error


TURN = "</UTT>"


def lines(path: Path) -> list[str]:
    r"""Returns lines without their ends, `\n` or `\r\n`, and without an empty last line."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError([f"{path}: not UTF-8 at byte {error.start}"]) from error
    rows = [line.removesuffix("\r") for line in text.split("\n")]
    return rows[:-1] if rows[-1] == "" else rows


def numbered(path: Path) -> Iterator[tuple[int, str]]:
    """Yields number and text of the lines that are not blank."""
    return ((n, line) for n, line in enumerate(lines(path), 1) if line.strip())


def rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows of a CSV file, each with the line that it begins on."""
    content = path.read_bytes()
    try:
        reader = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise wrong(path, line, f"not CSV: {error}") from error
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise wrong(path, line, f"not CSV: {error}") from error
        if row is None:
            return
        yield line, row


def numbered_records(path: Path, *fields: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields the rows of a CSV file with a header that has at least these fields, each with the
    line that it begins on.

    Raises:
        InputError: the header or a row lacks a field.
    """
    lines = rows(path)
    _, header = next(lines, (1, []))
    for line, row in itertools.chain([(1, header)], lines):
        record = dict(zip(header, row, strict=False))
        missing = set(fields) - set(record)
        if missing and (row or row is header):
            raise wrong(path, line, f"no column {', '.join(sorted(missing))}")
        if row and row is not header:
            yield line, record


def records(path: Path, *fields: str) -> list[dict[str, str]]:
    """Returns rows of a CSV file with a header that has at least these fields."""
    return [row for _, row in numbered_records(path, *fields)]


def number(text: str, path: Path, line: int) -> float:
    """Returns a finite number.

    Raises:
        InputError: it is none.
    """
    try:
        return finite_number(text)
    except ValueError:
        raise wrong(path, line, f"expected a number, found '{text[:30]}'") from None


def turns(joined: str) -> tuple[str, ...]:
    """Returns the turns of a dialogue; a mark after the last one is allowed."""
    return tuple(turn.strip() for turn in joined.removesuffix(TURN).split(TURN))


def wrong(path: Path, line: int, problem: str) -> InputError:
    """Returns the error for a row that is not as expected."""
    return InputError([f"{path}:{line}: {problem}; is it the published file?"])
