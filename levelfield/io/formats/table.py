"""Tables: CSV and TSV, Parquet, and the human-rated sets of CTRLEval."""

from __future__ import annotations

import csv
import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from levelfield.core import limits
from levelfield.io.lines import Row, lines, without_end
from levelfield.io.problems import Wrong, listed, printable, shown

_TOO_LONG = "too long"
_NAMES = {",": "a comma", ";": "a semicolon", "\t": "a tab"}


def comma_separated(path: Path) -> Iterator[Row]:
    """Yields the rows under a header, quoted as spreadsheets and pandas quote.

    Semicolons separate the cells where spreadsheets write decimal commas.
    """
    return _table(path, ",", or_else=";")


def tab_separated(path: Path) -> Iterator[Row]:
    return _table(path, "\t")


def _table(path: Path, separator: str, or_else: str = "") -> Iterator[Row]:
    # the limit belongs to the module, so it is only ever raised
    csv.field_size_limit(max(csv.field_size_limit(), limits.TEXT_CHARACTERS))
    held = 0
    undecodable: list[tuple[int, Wrong]] = []

    def decoded() -> Iterator[str]:
        nonlocal held
        for number, line in lines(path):
            if isinstance(line, Wrong):
                undecodable.append((number, line))
                line = "\n"
            held += len(line)
            if held > limits.LINE_BYTES:  # a quote left open swallows what follows
                raise csv.Error(_TOO_LONG)
            yield line

    text_lines = decoded()
    first = next(text_lines, "")
    if or_else and or_else in first and separator not in first:
        separator = or_else
    # strict, because a text with a misplaced quote is better reported than quietly changed
    reader = csv.reader(itertools.chain([first], text_lines), delimiter=separator, strict=True)
    header: list[str] | None = None
    while True:
        number, held = reader.line_num + 1, 0
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield number, _malformed(error, separator)
            cells = []
            if header is None:
                return
        yield from undecodable
        was_decoded = not undecodable
        undecodable.clear()
        if cells is None or (header is None and not was_decoded):
            return
        if not cells or not was_decoded:
            continue
        if header is None:
            header = cells
            if wrong := _bad_header(header, separator):
                yield number, wrong
                return
        elif len(cells) != len(header):
            problem = (
                f"{_count(cells)}, expected {len(header)} as in the header ({listed(header)}); "
                f"a cell that holds {_NAMES[separator]} needs quotes around it"
            )
            yield number, Wrong(problem)
        else:
            yield number, dict(zip(header, cells, strict=True))


def _bad_header(header: list[str], separator: str) -> Wrong | None:
    for other in {",", ";", "\t"} - {separator}:
        if len(header) == 1 and other in header[0]:
            format = "tsv" if other == "\t" else "csv"
            mend = f"rename the file to .{format}, or use --format {format} if there is that option"
            if (separator, other) == (",", ";"):
                mend = "make it the first line of the file"
            return Wrong(
                f"the header has no {_NAMES[separator][2:]} but {_NAMES[other]}, "
                f"which seems to separate the cells; {mend}"
            )
    twice = [name for name, n in Counter(header).items() if n > 1 and name]
    if twice:
        return Wrong(f"the header names {listed(twice)} more than once; rename one of them")
    return None


def _malformed(error: csv.Error, separator: str) -> Wrong:
    message = str(error)
    if "unexpected end" in message:
        return Wrong('the quote " that opens a cell here is never closed; close it, or write it ""')
    if "expected after" in message:
        return Wrong(
            'text after the closing quote of a cell; write a quote inside a cell as "" and put '
            "the cell in quotes"
        )
    if "new-line" in message:
        return Wrong("a carriage return outside quotes; end lines with \\n or \\r\\n")
    if message == _TOO_LONG:
        return Wrong(f"a row of more than {limits.LINE_BYTES:,} characters; is a quote left open?")
    if "field limit" in message:
        return Wrong(
            f"a cell of more than {limits.TEXT_CHARACTERS:,} characters; is a quote left open?"
        )
    return Wrong(f"not separated by {_NAMES[separator][2:]}s as expected: {message}")


def _count(cells: list[str]) -> str:
    return "1 cell" if len(cells) == 1 else f"{len(cells)} cells"


SLICE = 500
"""Most rows held at a time."""

SLICE_BYTES = 1 << 25
"""Bytes of the rows held at a time, as long as rows are about as long as those before them."""

_FIRST = 16


def parquet_rows(path: Path) -> Iterator[Row]:
    """Yields rows with their values: lists as lists, structs as dicts."""
    if not path.is_file():  # polars waits for ever for a pipe that nobody writes to
        yield 0, Wrong("can't be read as Parquet: is not a file; write it to one")
        return
    import polars as pl

    start, most = 0, min(_FIRST, SLICE)
    while True:
        try:
            # as a file object would be read whole; a path with * must not be a pattern
            scan = pl.scan_parquet(path, glob=False, hive_partitioning=False)
            rows = scan.slice(start, most).collect()
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            reason = printable(str(error).partition("\n")[0])[:120]
            yield start, Wrong(f"can't be read as Parquet: {reason}; write it again, or --format")
            return
        yield from enumerate(rows.iter_rows(named=True), start + 1)
        if len(rows) < most:
            return
        start += most
        fitting = SLICE_BYTES * len(rows) // max(1, int(rows.estimated_size()))
        most = max(1, min(SLICE, 4 * most, fitting))


ATTRIBUTES = {
    "positive": "sentiment",
    "negative": "sentiment",
    "computers": "topic",
    "politics": "topic",
    "religion": "topic",
    "science": "topic",
}
"""Label -> the attribute that it is a value of."""

ASPECTS = ("coherence", "consistency", "attribute relevance")
_FIELDS = 3 + len(ASPECTS)


def ctrleval_rows(path: Path) -> Iterator[Row]:
    """Yields the rows of a human-rated set of CTRLEval: six fields, not quoted, between tabs.

    Label, prompt, text, then the means of its raters for coherence, consistency and attribute
    relevance (Ke et al., 2022, "CTRLEval: An Unsupervised Reference-Free Metric for Evaluating
    Controlled Text Generation", section 4).
    """
    for number, line in lines(path):
        if isinstance(line, Wrong):
            yield number, line
            continue
        if line.isspace():
            continue
        fields = without_end(line).split("\t")
        if len(fields) != _FIELDS:
            yield (
                number,
                Wrong(
                    f"{len(fields)} fields separated by tabs, expected {_FIELDS}: label, prompt, "
                    f"text, {', '.join(ASPECTS)}"
                ),
            )
            continue
        label, prompt, text, *ratings = fields
        if label not in ATTRIBUTES:
            yield (
                number,
                Wrong(f"unknown {shown(label)}, expected one of {', '.join(ATTRIBUTES)}", "label"),
            )
            continue
        yield (
            number,
            {
                "text": text,
                "prompt": prompt,
                "control": {ATTRIBUTES[label]: label},
                "ratings": {a: {"mean": r} for a, r in zip(ASPECTS, ratings, strict=True)},
            },
        )
