"""CSV and TSV: a header, then one record a row, quoted as spreadsheets and pandas quote."""

from __future__ import annotations

import csv
import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from levelfield.core.limits import LINE_BYTES, TEXT_CHARACTERS
from levelfield.io.formats.text import Row
from levelfield.io.lines import lines
from levelfield.io.problems import Wrong, listed

_TOO_LONG = "too long"
_NAMES = {",": "a comma", ";": "a semicolon", "\t": "a tab"}


def comma_separated(path: Path) -> Iterator[Row]:
    """Yields the rows; semicolons separate them where spreadsheets write decimal commas."""
    return _table(path, ",", or_else=";")


def tab_separated(path: Path) -> Iterator[Row]:
    return _table(path, "\t")


def _table(path: Path, separator: str, or_else: str = "") -> Iterator[Row]:
    # the limit belongs to the module, so it is only ever raised
    csv.field_size_limit(max(csv.field_size_limit(), TEXT_CHARACTERS))
    held = 0
    undecodable: list[tuple[int, Wrong]] = []

    def decoded() -> Iterator[str]:
        nonlocal held
        for number, line in lines(path):
            if isinstance(line, Wrong):
                undecodable.append((number, line))
                line = "\n"
            held += len(line)
            if held > LINE_BYTES:  # a quote left open swallows what follows
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
            mend = f"rename the file to .{format}, or --format {format} where there is that option"
            if (separator, other) == (",", ";"):
                mend = "make it the first line of the file"
            return Wrong(
                f"the header has no {_NAMES[separator][2:]} but {_NAMES[other]}, "
                f"so that seems to separate the cells; {mend}"
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
        return Wrong(f"a row of more than {LINE_BYTES:,} characters; is a quote left open?")
    if "field limit" in message:
        return Wrong(f"a cell of more than {TEXT_CHARACTERS:,} characters; is a quote left open?")
    return Wrong(f"not separated by {_NAMES[separator][2:]}s as expected: {message}")


def _count(cells: list[str]) -> str:
    return "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
