"""A plan, as a plain object."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from levelfield.core.signature import signature
from levelfield.io.frames import Framed, FrameRows
from levelfield.io.tables import NONE, Table, TableColumn
from levelfield.stats.power import MOST


@dataclass(frozen=True)
class PlanColumn:
    """A column of a plan.

    Attributes:
        key: of the number in JSON and in data frames.
        name: its head.
        kind: of its values.
        repeated: whether every block of a wide table has it.
    """

    key: str
    name: str
    kind: type[str] | type[int] | type[float] = int
    repeated: bool = False


@dataclass(frozen=True, repr=False)
class SizePlan(Framed):
    """How large a study has to be.

    Attributes:
        question: what is planned: `systems`, `metrics` or `raters`.
        caption: what the table shows.
        columns: of the rows.
        rows: key of a column -> number or name; None where no number is enough, or none is known.
        assumptions: what the plan rests on: name -> number, or names with numbers.
        notes: what a reader must know, in sentences.
        choices: every choice that could change a number.
        files: of the pilot; empty without one.
    """

    question: str
    caption: str
    columns: tuple[PlanColumn, ...]
    rows: tuple[Mapping[str, Any], ...]
    assumptions: Mapping[str, Any]
    notes: tuple[str, ...]
    choices: Mapping[str, Any]
    files: tuple[str, ...] = ()

    _entries = "question files signature assumptions rows notes"

    @property
    def signature(self) -> str:
        """Every choice that could change a number."""
        return signature(f"plan.{self.question}", dict(self.choices))

    def _drawn(self) -> Sequence[Table]:
        return [self.table()]

    def _frame(self) -> FrameRows:
        """Returns one row per plan, in the columns of `rows`."""
        kinds = {str: pl.String, int: pl.Int64, float: pl.Float64}
        return {column.key: kinds[column.kind] for column in self.columns}, self.rows

    def table(self) -> Table:
        """Returns the rows as a terminal shows them."""
        return Table(
            [
                TableColumn(c.name, words=c.kind is str, repeated=c.repeated and i > 0)
                for i, c in enumerate(self.columns)
            ],
            [[_written(row[c.key]) for c in self.columns] for row in self.rows],
            caption=self.caption,
            notes=self.notes,
            signatures=[self.signature],
        )


def _written(value: object) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:#.3g}".removesuffix(".").replace("-", "−")
    return NONE if value is None else str(value)


def too_many(unit: str) -> str:
    """Returns the note on numbers that are not planned since they are too large.

    >>> too_many("items")
    '– : more than 10,000,000 items'
    """
    return f"{NONE} : more than {MOST:,} {unit}"


def stated(options: object, *names: str) -> dict[str, str]:
    """Returns name -> number of those options that were given one."""
    numbers = {name: getattr(options, name) for name in names}
    return {name: f"{number:g}" for name, number in numbers.items() if number is not None}


def rows_of(
    columns: Sequence[PlanColumn], values: Sequence[Sequence[Any]]
) -> tuple[dict[str, Any], ...]:
    """Returns rows by the keys of their columns; numbers that are not finite become None."""
    return tuple(
        {
            column.key: None if isinstance(v, float) and not math.isfinite(v) else v
            for column, v in zip(columns, row, strict=True)
        }
        for row in values
    )
