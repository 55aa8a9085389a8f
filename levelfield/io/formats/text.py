"""Formats of one text or one JSON value: plain text, JSONL, JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from levelfield.core import limits
from levelfield.io.json_input import DECODER, check_values, has_many_values, reason
from levelfield.io.problems import Wrong, kind, shown
from levelfield.io.streams import lines

Row = tuple[int, dict[str, Any] | Wrong]
"""Number of a line or row and its record, or what is wrong with it; number 0 is the whole file."""

_SPACE = " \t\n\r"
_NOT_SPACE = re.compile(f"[^{_SPACE}]")
_BRACKET_OR_STRING = re.compile(r'[\[{\]}]|"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)', re.DOTALL)


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
