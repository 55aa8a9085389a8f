"""What callers in Python pass for files: paths, data frames, records, objects, told apart by type.

Every public function that reads texts, scores, ratings or choices converts its argument here, so
that all of them take the same things and refuse the others in the same words.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from levelfield.core.errors import InputError
from levelfield.core.sample import Sample
from levelfield.io.fields import Record, as_record
from levelfield.io.frames import Framed
from levelfield.io.lines import Row
from levelfield.io.problems import kind, listed
from levelfield.io.samples import Input
from levelfield.io.streams import content_digest

Convert = Callable[[object], object]
"""Returns what an object stands for: itself, or a list of others."""


def items_of(
    value: object,
    noun: str,
    objects: tuple[type, ...] = (),
    *,
    convert: Convert = lambda item: item,
    ids_named: bool = False,
) -> list[Any]:
    """Returns the files, inputs in memory and objects that an argument stands for, in its order.

    A path is a string. A data frame is an `Input`, and so are all records of a list together.

    Args:
        value: a path, a data frame, an object, or a list of paths, records, data frames or objects.
        noun: what the argument holds, for messages and the names of inputs.
        objects: the types that are passed on as they are.
        convert: called with each value first.
        ids_named: as for `records_of`.

    Raises:
        InputError: it is of another type.
    """
    value = convert(value)
    if isinstance(value, (str, os.PathLike, Input, *objects)):
        several: Iterable[object] = [value]
    elif (rows := records_of(value, ids_named=ids_named)) is not None:
        several = [in_memory(rows, noun, is_table=True)]
    else:
        several = _iterated(value, noun)
    items: list[Any] = []
    records: list[Record] = []
    for number, element in enumerate(several, 1):
        item = convert(element)
        if isinstance(item, list) and item is not element:
            items += item
        elif isinstance(item, (Input, *objects)):
            items.append(item)
        elif isinstance(item, str | os.PathLike):
            items.append(os.fspath(item))
        elif isinstance(item, Mapping):
            if not records:
                items.append(in_memory(records, noun))
            records.append(item)
        elif (rows := records_of(item, ids_named=ids_named)) is not None:
            items.append(in_memory(rows, f"{noun} {number}", is_table=True))
        else:
            raise InputError(
                [f"{noun}: item {number} is {_description(item)}; expected {_EXPECTED}"]
            )
    return items


def texts_of(
    value: object, convert: Convert = lambda item: item, *, ids_named: bool = False
) -> list[str] | Input:
    """Returns the files that an argument of texts stands for, or its records as an input.

    A path is a file; strings in a list are texts.

    Raises:
        InputError: it is of another type, a list has items of several kinds, or it holds nothing.
    """
    if isinstance(value, str | os.PathLike):
        return [os.fspath(value)]
    records = records_of(value, ids_named=ids_named)
    is_table = records is not None
    if records is None:
        samples = getattr(value, "samples", None) if isinstance(value, Framed) else None
        several = samples if isinstance(samples, Sequence) else _iterated(value, "texts")
        items = [as_record(i) if isinstance(i, Sample) else convert(i) for i in several]
        paths = [os.fspath(item) for item in items if isinstance(item, os.PathLike)]
        if items and len(paths) == len(items):
            return paths
        if all(isinstance(item, str) for item in items):
            items = [{"text": item} for item in items]
        for number, item in enumerate(items, 1):
            if not isinstance(item, Mapping):
                raise InputError(
                    [
                        f"texts: item {number} is {_description(item)}; expected texts only, or "
                        "records only, or paths only"
                    ]
                )
        records = [dict(item) for item in items if isinstance(item, Mapping)]
    if not records:
        raise InputError(["no samples are given; expected a path or a list of texts or records"])
    return in_memory(records, "samples", is_table=is_table)


def in_memory(records: Sequence[Record], name: str, *, is_table: bool = False) -> Input:
    """Returns records as an input."""

    def rows() -> Iterator[Row]:
        return ((n, {str(k): v for k, v in r.items()}) for n, r in enumerate(records, 1))

    unit = "row " if is_table else "item "
    return Input(name, "", rows, unit, is_table=is_table, content=partial(_digest, records))


def _digest(records: Sequence[Record]) -> str:
    return content_digest([dict(record) for record in records])


def records_of(frame: Any, *, ids_named: bool = False) -> list[dict[str, Any]] | None:
    """Returns the rows of a data frame of polars or pandas as records; None for anything else.

    A series is a frame with the column `text`. Missing values are None. Levels of the index of
    pandas that have names are columns. An index without a name is left out if it only numbers the
    rows, or if something else says which row is which.

    Args:
        ids_named: whether the caller knows the columns that hold ids.

    Raises:
        InputError: two columns have the same name, or an index without a name may hold ids.
    """
    library = type(frame).__module__.partition(".")[0]
    if library == "polars":
        return _polars_records(frame)
    if library == "pandas" and hasattr(frame, "index") and hasattr(frame, "notna"):
        return _pandas_records(frame, ids_named)
    return None


def _polars_records(frame: Any) -> list[dict[str, Any]] | None:
    if hasattr(frame, "to_dicts"):
        rows: list[dict[str, Any]] = frame.to_dicts()
        return rows
    if hasattr(frame, "collect"):
        raise InputError(["a lazy frame has no rows yet; pass frame.collect()"])
    if hasattr(frame, "to_list"):
        return [{"text": value} for value in frame.to_list()]
    return None


def _pandas_records(frame: Any, ids_named: bool) -> list[dict[str, Any]] | None:
    frame = frame if hasattr(frame, "columns") else frame.to_frame("text")
    if frame.columns.nlevels > 1:
        raise InputError(["the columns of the data frame have several levels; join their names"])
    index = frame.index
    columns = [(str(name), _values(frame.iloc[:, n])) for n, name in enumerate(frame.columns)]
    for n, level in enumerate(index.names):
        column = (str(level), _values(index.get_level_values(n).to_series()))
        if level is not None and column not in columns:  # as of `set_index(…, drop=False)`
            columns.append(column)
    names = [name for name, _ in columns]
    if twice := [name for name, n in Counter(names).items() if n > 1]:
        raise InputError(
            [
                f"the data frame has two columns, or levels of its index, named {listed(twice)}; "
                "rename one of them"
            ]
        )
    is_named = None not in index.names or ids_named or "id" in names
    if not is_named and [*index] != [*range(len(index))]:
        raise InputError(
            [
                "the index of the data frame has no name, and no column is an id; name the index, "
                'frame.rename_axis("id"), or number the rows anew, frame.reset_index(drop=True)'
            ]
        )
    rows = zip(*(values for _, values in columns), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]


def _values(series: Any) -> list[Any]:
    """Returns the values of a series of pandas, None where one is missing."""
    objects: list[Any] = series.astype(object).where(series.notna(), None).tolist()
    return objects


def is_given(value: object) -> bool:
    """Returns whether an argument holds anything: neither None nor an empty list."""
    return value is not None and not (isinstance(value, list | tuple | str) and not value)


_EXPECTED = "a path, a data frame of polars or pandas, or a list"


def _iterated(value: object, noun: str) -> Iterable[object]:
    """Returns the items of a collection that has an order.

    Raises:
        InputError: the value is not such a collection.
    """
    if isinstance(value, Mapping):
        raise InputError(
            [
                f"{noun}: a mapping with the keys {listed(value)}, expected {_EXPECTED}; for one "
                "record pass [record], and for columns polars.DataFrame(columns)"
            ]
        )
    if isinstance(value, set | frozenset):
        raise InputError([f"{noun}: a set, which has no order; pass a list"])
    is_text = isinstance(value, bytes | bytearray) or hasattr(value, "read")
    if is_text or hasattr(value, "columns") or not isinstance(value, Iterable):
        raise InputError([f"{noun}: {_description(value)}, expected {_EXPECTED}"])
    return value


def _description(value: object) -> str:
    return "None" if value is None else kind(value)
