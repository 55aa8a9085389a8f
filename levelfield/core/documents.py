"""Results as JSON documents, derived from what their classes declare."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import math
import os
import re
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from levelfield.core.strings import number_document

_WORD = re.compile(r"(\*?)(?:(\w+)=)?([\w.]+)(\?|\|null|\|inf)?")


class Document:
    """Base of results that convert to a JSON document.

    A subclass that is not a document of all its fields lists the entries in `_entries`, one word
    each:

    - `name`: the value of the attribute;
    - `name=path`: the value of another attribute, or of an attribute's attribute (`mean.low`),
      which is None if the first is;
    - `name|null`: null if the value is empty or 0;
    - `name|inf`: "inf" or "-inf" for an infinite number, which is otherwise null;
    - `name?`: left out if the value is None or empty;
    - `*path`: the entries of another document.

    >>> @dataclasses.dataclass
    ... class Mean(Document):
    ...     group: str
    ...     value: float
    ...     note: str = ""
    ...     _entries = "group|null value note?"
    >>> Mean("", math.nan).to_dict()
    {'group': None, 'value': None}
    """

    __slots__ = ()

    _entries: ClassVar[str] = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON document; a number that is not finite is None."""
        document: dict[str, Any] = {}
        for entry in _entries(self):
            value = entry.value(self)
            if entry.is_inline:
                document |= plain(value)
            elif entry.mark == "|inf":
                document[entry.name] = number_document(value)
            elif entry.mark == "|null":
                document[entry.name] = plain(value) or None
            elif entry.mark != "?" or not _is_empty(value):
                document[entry.name] = plain(value)
        return document


class _Entry(NamedTuple):
    is_inline: bool
    name: str
    path: str
    mark: str

    def value(self, document: Any) -> Any:
        """Returns the value of the entry in the document of an object."""
        value = document
        for name in self.path.split("."):
            value = None if value is None else getattr(value, name)
        return value


def _entries(document: Any) -> tuple[_Entry, ...]:
    """Returns the entries of a document, or of another object of a dataclass."""
    words = getattr(document, "_entries", "")
    return _parsed(words or " ".join(field.name for field in dataclasses.fields(document)))


@functools.cache
def _parsed(words: str) -> tuple[_Entry, ...]:
    entries = []
    for word in words.split():
        match = _WORD.fullmatch(word)
        if match is None:
            raise ValueError(f"{word} is not an entry of a document")
        inline, name, path, mark = match.groups()
        entries.append(_Entry(bool(inline), name or path, path, mark or ""))
    return tuple(entries)


def plain(value: Any) -> Any:
    """Returns a value as JSON has it: objects for documents, dataclasses and named tuples."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case str() | int() | None:
            return value
        case Document():
            return value.to_dict()
        case Mapping():
            return {key: plain(item) for key, item in value.items()}
        case tuple() if hasattr(value, "_asdict"):
            return plain(value._asdict())
        case list() | tuple():
            return [plain(item) for item in value]
        case os.PathLike():
            return str(value)
        case datetime.datetime():
            return value.isoformat()
        case _ if dataclasses.is_dataclass(value):
            return {entry.name: plain(entry.value(value)) for entry in _entries(value)}
        case _:
            return value


def _is_empty(value: Any) -> bool:
    return value is None or (hasattr(value, "__len__") and not len(value))
