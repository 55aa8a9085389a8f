"""Results as data frames of polars and pandas, and as tables on screens."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from levelfield.core.documents import Document
from levelfield.io.tables import Table
from levelfield.io.text_table import table_text

if TYPE_CHECKING:
    import polars as pl

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
