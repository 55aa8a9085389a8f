"""Lines of files, and the formats of one text or one JSON value: plain text, JSONL, JSON."""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

from levelfield.core import limits
from levelfield.io.problems import Wrong, kind, shown
from levelfield.io.streams import open_bytes

Row = tuple[int, dict[str, Any] | Wrong]
"""Number of a line or row and its record, or what is wrong with it; number 0 is the whole file."""

_SPACE = " \t\n\r"
_NOT_SPACE = re.compile(f"[^{_SPACE}]")
_BRACKET_OR_STRING = re.compile(r'[\[{\]}]|"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)', re.DOTALL)

# UTF-32 first: its little-endian mark begins with that of UTF-16
_WIDE = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


def lines(path: Path, most: int = 0) -> Iterator[tuple[int, str | Wrong]]:
    """Yields `lines_of` a file that is not packed."""
    with open_bytes(path) as file:
        yield from lines_of(file, most)


def lines_of(file: IO[bytes], most: int = 0) -> Iterator[tuple[int, str | Wrong]]:
    r"""Yields the number and the text of every line, or what is wrong with it.

    Lines end with `\n` and keep it. No other character ends one: U+2028 and its like are part of
    a text. A line that can't be decoded is a problem of that line only.

    Args:
        most: bytes of a line; `LINE_BYTES` by default. Nothing is read after a longer one.
    """
    most = most or limits.LINE_BYTES
    for number, raw in enumerate(iter(partial(file.readline, most + 1), b""), 1):
        if number == 1:
            for mark, encoding in _WIDE.items():
                if raw.startswith(mark):
                    yield 0, Wrong(f"the file is {encoding}, expected UTF-8; {_mend(encoding)}")
                    return
            raw = raw.removeprefix(codecs.BOM_UTF8)
        if len(raw) > most:
            yield number, Wrong(f"a line of more than {most:,} bytes; is this text?")
            return
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            column = len(raw[: error.start].decode()) + 1
            problem = (
                f"not UTF-8: byte 0x{raw[error.start]:02x} at column {column}; "
                f"{_mend('WINDOWS-1252')} (or from its actual encoding)"
            )
            yield number, Wrong(problem)
            continue
        if "\0" in text:
            problem = (
                f"NUL character at column {text.index(chr(0)) + 1}, which no text file has; "
                f"if it is UTF-16: {_mend('UTF-16LE')}"
            )
            yield number, Wrong(problem)
            continue
        yield number, text


def _mend(encoding: str) -> str:
    return f"convert it: iconv -f {encoding} -t UTF-8 FILE > NEW"


class NameTwiceError(ValueError):
    """An object has a name twice, so that one of two values would be lost."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{shown(name)} appears twice in an object; remove one of the two")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise NameTwiceError(counts.most_common(1)[0][0])
    return read


DECODER = json.JSONDecoder(object_pairs_hook=_object)
"""Reads what users write.

Raises:
    ValueError: it is not JSON, or an object has a name twice.
    RecursionError: it is nested too deeply.
"""


class TooManyValuesError(ValueError):
    """A record that takes too much memory as objects."""


def check_values(text: str | bytes) -> None:
    """Checks that JSON has no more than `RECORD_VALUES` values, before it is parsed.

    Raises:
        TooManyValuesError: it may have more.
    """
    if has_many_values(text):
        raise TooManyValuesError(f"more than {limits.RECORD_VALUES:,} values in one record")


def has_many_values(text: str | bytes) -> bool:
    """Returns whether JSON may have more than `RECORD_VALUES` values.

    Commas and brackets within strings count as well.
    """
    if len(text) <= limits.RECORD_VALUES:
        return False
    signs = (b",", b"[", b"{") if isinstance(text, bytes) else (",", "[", "{")
    return sum(map(text.count, signs)) > limits.RECORD_VALUES  # type: ignore[arg-type]


def reason(error: Exception) -> str:
    """Returns why JSON can't be read, in a few words."""
    if isinstance(error, NameTwiceError | TooManyValuesError):
        return str(error)
    if isinstance(error, json.JSONDecodeError):
        line = f"line {error.lineno} " if "\n" in error.doc.rstrip("\n") else ""
        message = error.msg[0].lower() + error.msg[1:].removesuffix(" at")
        return f"not JSON: {message} at {line}column {error.colno}"
    if isinstance(error, RecursionError):
        return "not JSON: lists or objects nested too deeply"
    return "not JSON: a number with too many digits"


def plain(path: Path) -> Iterator[Row]:
    """Yields one text a line. An empty line is an empty text: a system may write nothing."""
    for number, line in lines(path):
        yield number, line if isinstance(line, Wrong) else {"text": without_end(line)}


def jsonl(path: Path) -> Iterator[Row]:
    """Yields one JSON object a line; blank lines are skipped."""
    decode = DECODER.raw_decode
    for number, line in lines(path):
        if isinstance(line, Wrong):
            yield number, line
            continue
        line = line.rstrip(_SPACE)
        if not line:
            continue
        try:
            check_values(line)
            record, end = decode(line, _next(line, 0) if line[0] in _SPACE else 0)
            if end < len(line):
                raise json.JSONDecodeError("more after the end of the value", line, end)
        except (ValueError, RecursionError) as error:
            hint = "expected one JSON object a line"
            if number == 1 and line.lstrip().startswith("["):
                hint += "; if the file is one list: --format json"
            yield number, Wrong(f"{reason(error)}; {hint}")
        else:
            yield number, as_object(record)


def json_list(path: Path) -> Iterator[Row]:
    """Yields the objects of a list, numbered from 1, with only the file's text in memory.

    After an object that is broken no other can be found, so that is the last problem.
    """
    whole, read = [], 0
    size = path.stat().st_size  # 0 of a pipe
    for number, line in lines(path, limits.LIST_BYTES) if size <= limits.LIST_BYTES else ():
        if isinstance(line, Wrong):
            yield 0, Wrong(f"line {number}: {line}") if number else line
            return
        whole.append(line)
        read += len(line)
        if read > limits.LIST_BYTES:
            break
    if max(size, read) > limits.LIST_BYTES:
        too_long = f"a list of more than {limits.LIST_BYTES:,} bytes, too long to be read at once"
        yield 0, Wrong(f"{too_long}; write one object a line, as .jsonl")
        return
    text = "".join(whole)
    del whole
    decode = DECODER.raw_decode
    position = _next(text, 0)
    if position == len(text):
        return
    if text[position] != "[":
        problem = (
            f"expected a list of objects, which begins with [, found {shown(text[position])}; "
            "if it has one object a line: --format jsonl"
        )
        yield 0, Wrong(problem)
        return
    position = _next(text, position + 1)
    number, is_large = 0, has_many_values(text)
    while number or text[position : position + 1] != "]":
        number += 1
        try:
            if is_large:
                check_values(text[position : _end(text, position)])
            record, position = decode(text, position)
        except (ValueError, RecursionError) as error:
            yield number, Wrong(f"{reason(error)}; what follows was not read")
            return
        yield number, as_object(record)
        position = _next(text, position)
        if text[position : position + 1] == "]":
            break
        if text[position : position + 1] != ",":
            unended = json.JSONDecodeError("expected , or ] after the object", text, position)
            yield number, Wrong(f"{reason(unended)}; what follows was not read")
            return
        position = _next(text, position + 1)
    if _next(text, position + 1) != len(text):
        yield 0, Wrong("there is more after the end of the list; remove it, or join the lists")


def as_object(value: Any) -> dict[str, Any] | Wrong:
    if isinstance(value, dict):
        return value
    return Wrong(f'expected an object such as {{"text": "…"}}, found {kind(value)}')


def without_end(line: str) -> str:
    r"""Returns the line without its `\n` or `\r\n`."""
    return line.removesuffix("\n").removesuffix("\r")


def _end(text: str, start: int) -> int:
    """Returns the index after the object or list that begins at an index, without parsing it."""
    depth = 0
    for sign in _BRACKET_OR_STRING.finditer(text, start):
        depth += (sign[0] in "[{") - (sign[0] in "]}")
        if depth <= 0:
            return sign.end()
    return len(text)


def _next(text: str, start: int) -> int:
    """Returns the index of the next character that is not blank; the text's length if none is."""
    match = _NOT_SPACE.search(text, start)
    return match.start() if match else len(text)
