"""Data frames of polars and pandas: rows as records, and results as frames."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from levelfield.io.tables import Table

if TYPE_CHECKING:
    import polars as pl


def records_of(frame: Any) -> list[dict[str, Any]] | None:
    """Returns the rows of a data frame of polars or pandas as records; None for anything else.

    Missing values are None. The index of a frame of pandas is left out.
    """
    library = type(frame).__module__.partition(".")[0]
    if library == "polars" and hasattr(frame, "to_dicts"):
        rows: list[dict[str, Any]] = frame.to_dicts()
        return rows
    if library == "pandas" and hasattr(frame, "columns"):
        whole = frame.astype(object).where(frame.notna(), None)
        return [
            {str(name): value for name, value in row.items()} for row in whole.to_dict("records")
        ]
    return None


class Framed(abc.ABC):
    """A result that displays its tables and converts to a data frame.

    A result without tables displays its data frame.
    """

    @abc.abstractmethod
    def to_polars(self) -> pl.DataFrame:
        """Returns the result as a frame of polars."""

    def to_pandas(self) -> Any:
        """Returns the frame of `to_polars` as one of pandas, which has to be installed."""
        import pandas

        return pandas.DataFrame(self.to_polars().to_dict(as_series=False))

    def _drawn(self) -> Sequence[Table]:
        """Returns the tables that show the result."""
        return ()

    def __repr__(self) -> str:
        tables = [table.to_text() for table in self._drawn()]
        return "\n\n".join(tables) or str(self.to_polars())

    def _repr_html_(self) -> str:
        tables = [table.to_html() for table in self._drawn()]
        return "\n".join(tables) or str(self.to_polars()._repr_html_())
