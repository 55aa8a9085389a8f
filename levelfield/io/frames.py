"""Data frames of polars and pandas: rows as records, and results as frames."""

from __future__ import annotations

import abc
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from levelfield.core.documents import Document
from levelfield.core.errors import InputError
from levelfield.io.problems import listed
from levelfield.io.tables import Table
from levelfield.io.text_table import table_text

if TYPE_CHECKING:
    import polars as pl


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
        return _of_polars(frame)
    if library == "pandas" and hasattr(frame, "index") and hasattr(frame, "notna"):
        return _of_pandas(frame, ids_named)
    return None


def _of_polars(frame: Any) -> list[dict[str, Any]] | None:
    if hasattr(frame, "to_dicts"):
        rows: list[dict[str, Any]] = frame.to_dicts()
        return rows
    if hasattr(frame, "collect"):
        raise InputError(["a lazy frame has no rows yet; pass frame.collect()"])
    if hasattr(frame, "to_list"):
        return [{"text": value} for value in frame.to_list()]
    return None


def _of_pandas(frame: Any, ids_named: bool) -> list[dict[str, Any]] | None:
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


FrameRows = tuple[Mapping[str, Any] | None, Iterable[Mapping[str, Any]]]
"""Columns of a data frame with their types, those of the rows if None; and its rows."""


_TYPES = {"": str, "int": int, "float": float, "bool": bool}


def columns_of(words: str) -> dict[str, type]:
    """Returns the columns of a data frame with their types: a word each, of strings without one.

    >>> columns_of("metric value:float")
    {'metric': <class 'str'>, 'value': <class 'float'>}
    """
    columns = (word.partition(":") for word in words.split())
    return {name: _TYPES[kind] for name, _, kind in columns}


class Framed(Document, abc.ABC):
    """A result that displays its tables, and converts to them, to a data frame and a document.

    A result without tables displays its data frame.
    """

    @abc.abstractmethod
    def _frame(self) -> FrameRows:
        """Returns the columns of the data frame and its rows; what a row lacks is null."""

    def to_polars(self) -> pl.DataFrame:
        """Returns the result as a frame of polars."""
        import polars as pl

        columns, rows = self._frame()
        if columns is None:
            return pl.DataFrame([*rows], strict=False, infer_schema_length=None)
        return pl.DataFrame([{n: row.get(n) for n in columns} for row in rows], schema=columns)

    def to_pandas(self) -> Any:
        """Returns the frame of `to_polars` as one of pandas, which has to be installed."""
        import pandas

        return pandas.DataFrame(self.to_polars().to_dict(as_series=False))

    def to_latex(self) -> str:
        """Returns the tables for LaTeX documents that load booktabs."""
        return "\n\n".join(table.to_latex() for table in self._drawn()) + "\n"

    def to_markdown(self) -> str:
        """Returns the tables with their legends, notes and signatures."""
        return "\n\n".join(table.to_markdown() for table in self._drawn()) + "\n"

    def _drawn(self) -> Sequence[Table]:
        """Returns the tables that show the result."""
        return ()

    def __repr__(self) -> str:
        tables = [*map(table_text, self._drawn())]
        return "\n\n".join(tables) or str(self.to_polars())

    def _repr_html_(self) -> str:
        tables = [table.to_html() for table in self._drawn()]
        return "\n".join(tables) or str(self.to_polars()._repr_html_())
