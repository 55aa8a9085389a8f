"""Opens what the user names: files, data sets of the hub, samples in memory."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from levelfield.core.errors import UserError
from levelfield.core.options import keywords
from levelfield.core.sample import Sample
from levelfield.io import hub
from levelfield.io.arguments import Convert, items_of, texts_of
from levelfield.io.fields import FieldMapping
from levelfield.io.formats import FORMATS, Format, format_at, format_named, format_of
from levelfield.io.logged import LogFacts
from levelfield.io.problems import Problems, printable
from levelfield.io.reading import PathLike, ReadingOptions
from levelfield.io.samples import Input, Parallel, Source, Spool
from levelfield.io.streams import STDIN

Texts = PathLike | Iterable[str | Mapping[str, Any] | os.PathLike[str] | Sample]
"""A path; a data frame; or a list of texts, records, samples or paths."""


@keywords(ReadingOptions)
def open_samples(
    paths: Sequence[PathLike], reading: ReadingOptions | None = None, **words: Any
) -> Source:
    """Returns samples in files, read when they are iterated.

    Args:
        paths: files, and folders with a run of a harness; `-` is standard input;
            `hf:NAME?split=test` is a data set of the Hugging Face hub, or a folder laid out like
            one.
        reading: how they are read.
        words: options of `ReadingOptions`, instead of those there.

    Raises:
        UserError: if an option is wrong, or a file is missing or of no known format.

    >>> source = open_samples(["gedi.jsonl", "pplm.jsonl"])  # doctest: +SKIP
    >>> census = source.check()  # doctest: +SKIP
    >>> for sample in source: ...  # doctest: +SKIP
    """
    names = items_of(paths, "files")
    if in_memory := [item.name for item in names if isinstance(item, Input)]:
        raise UserError(f"{in_memory[0]}: records in memory, expected paths; see load_samples")
    if not names:
        raise UserError("no files are given; name at least one, or - for standard input")
    reading = ReadingOptions.of(reading, **words)
    chosen = None if reading.format is None else format_named(reading.format)
    parallel = _parallel(reading)
    if parallel.all:
        if chosen not in (None, FORMATS["text"]):
            raise UserError(
                f"--source-file and --reference-file can't be used with --format {reading.format}, "
                "which has no lines of text; put sources and references into the records"
            )
        chosen = FORMATS["text"]
    problems = Problems()
    inputs = []
    for path, label in zip(names, labels(names), strict=True):
        try:
            inputs.append(parallel.beside(_input(path, label, chosen)))
        except UserError as error:
            problems.add(str(error))
    problems.raise_if_any()
    files = [path if path.startswith(hub.PREFIX) else os.path.realpath(path) for path in names]
    for path, n in Counter(files).items():
        if n > 1:
            name = printable(names[files.index(path)])
            problems.add(f"{name}: given {n} times; name each file once")
    problems.raise_if_any()
    return Source(inputs, _rules(reading), reading.ids)


@keywords(ReadingOptions)
def load_samples(
    source: Texts,
    reading: ReadingOptions | None = None,
    **words: Any,
) -> list[Sample]:
    """Returns all samples at once, checked.

    Args:
        source: a path as a `str` or `Path`; a data frame of polars or pandas, with the levels of
            its index that have names; what `generate` returned; or a list: of strings, which are
            texts, of mappings, which are records, of `Sample`s, or of `Path`s. Texts and records
            without an id are "1", "2", ….
        reading, words: as for `open_samples`; `format` and `ids="file"` are for files.

    Raises:
        InputError: with all problems there are.

    >>> load_samples(["What a day."], control={"sentiment": "positive"})[0].id
    '1'
    """
    opened = open_source(source, reading, **words)
    opened.check()
    return list(opened)


def open_source(
    source: object,
    reading: ReadingOptions | None = None,
    *,
    convert: Convert = lambda item: item,
    **words: Any,
) -> Source:
    """Returns what `load_samples` takes, to be read one by one.

    Args:
        convert: returns what an item of a list stands for, such as the record of an object.

    Raises:
        UserError: as for `open_samples`.
    """
    reading = ReadingOptions.of(reading, **words)
    texts = texts_of(source, convert, ids_named="id" in reading.mapping)
    if isinstance(texts, list):
        return open_samples(texts, reading)
    if reading.source_file or reading.reference_files:
        raise UserError("source_file and reference_files require files of plain text")
    if reading.format or reading.ids == "file":
        name = "format" if reading.format else "ids=file"
        raise UserError(f"{name}: is for files; texts in memory do not accept this option")
    return Source([texts], _rules(reading), reading.ids)


def labels(paths: Sequence[str]) -> list[str]:
    """Returns short names: stems, preceded by as many folders as tell them apart."""
    parts = [_parts(path) for path in paths]
    for depth in range(1, max(map(len, parts)) + 1):
        stems = ["/".join(p[-depth:]) for p in parts]
        if len(set(stems)) == len(stems):
            return stems
    return list(paths)


def _parts(path: str) -> tuple[str, ...]:
    """Returns the folders of a path and its stem."""
    if path == STDIN:
        return ("stdin",)
    if path.startswith(hub.PREFIX):
        return PurePath(hub.HubName.parse(path).name).parts
    pure = PurePath(path)
    return (*pure.parts[:-1], pure.stem)


def _parallel(reading: ReadingOptions) -> Parallel:
    files = reading.reference_files
    references = [files] if isinstance(files, str | os.PathLike) else files
    sources = [] if reading.source_file is None else [reading.source_file]
    text = FORMATS["text"]
    return Parallel(
        tuple(_input(os.fspath(file), "", text) for file in sources),
        tuple(_input(os.fspath(file), "", text) for file in references),
    )


def _input(path: str, label: str, chosen: Format | None) -> Input:
    name = printable(path)
    if path.startswith(hub.PREFIX):
        parsed = hub.HubName.parse(path)
        rows = hub.ReadOnce(partial(hub.rows, parsed))
        return Input(name, label, rows, unit="row ", is_table=True)
    if path == STDIN:
        return _file("stdin", label, chosen or FORMATS["jsonl"], Spool(path))
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a file name"
        a_text = "; pass texts as a list" if any(c.isspace() for c in path) else ""
        raise UserError(f"{name}: {reason}; check the name{a_text}") from None
    if not os.access(path, os.R_OK):
        raise UserError(f"{name}: is not readable; change its permissions")
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # a pipe is read once only
        return _file(name, label, chosen or format_of(path), Spool(path))
    try:
        format = format_at(Path(path)) if chosen is None or stat.S_ISDIR(mode) else chosen
    except OSError as error:
        reason = printable(error.strerror or str(error))
        raise UserError(f"{name}: can't be read: {reason}") from None
    return _file(name, label, format, Path(path))


def _file(name: str, label: str, format: Format, file: Path | Spool) -> Input:
    def path() -> Path:
        return file.file if isinstance(file, Spool) else file

    return Input(
        name,
        label,
        lambda: format.rows(path()),
        format.unit,
        format.cells,
        format.is_table,
        file,
        None if format.facts is None else partial(_facts, format.facts, path),
    )


def _facts(read: Callable[[Path], LogFacts], path: Callable[[], Path]) -> LogFacts:
    return read(path())


def _rules(reading: ReadingOptions) -> FieldMapping:
    return FieldMapping(
        mapping=reading.mapping,
        label_names=reading.label_names,
        control=reading.control,
        system=reading.system,
        prompt=reading.prompt,
        thoughts=reading.thoughts,
    )
