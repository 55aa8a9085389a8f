"""State of the cells of a study."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import polars as pl

from levelfield.core.documents import Document
from levelfield.io.frames import Framed, FrameRows
from levelfield.io.tables import NONE, Table, TableColumn
from levelfield.study.ask.requests import requests_of
from levelfield.study.cells import CellKey, Cost, bytes_in_words, grouped, passes_per_token
from levelfield.study.fingerprint import Fingerprint, fingerprint
from levelfield.study.plan import Plan, SystemTechnique
from levelfield.study.store import StudyStore
from levelfield.study.store.journal import State

CellState = State | Literal["held"]
"""As of the store; `held` if another process is at the cell."""

STATES: tuple[CellState, ...] = (
    "done", "texts", "partial", "failed", "stale", "held", "missing"
)  # fmt: skip
"""The states in the order in which tables show them."""


@dataclass(frozen=True)
class CellStatus(Document):
    """The status of a cell.

    Attributes:
        key: which cell.
        state: how far it is.
        asked, answered: number of texts.
        failure, cost: as in `Cell`.
        problems: as in `Cell`, and which file is damaged.
    """

    key: CellKey
    state: CellState
    asked: int
    answered: int
    problems: tuple[str, ...] = ()
    failure: str = ""
    cost: Cost | None = None

    _entries = "*key state asked answered problems failure cost"


@dataclass(frozen=True)
class StudyStatus(Framed):
    """State of a study.

    Attributes:
        study: its name.
        cells: in the order of the plan.
        techniques: system -> its technique and base, of those that are asked through one.
    """

    study: str
    cells: tuple[CellStatus, ...]
    techniques: Mapping[str, SystemTechnique] = field(default_factory=dict)

    _entries = "study cells=_cells"

    @property
    def _cells(self) -> list[dict[str, Any]]:
        return [
            {**cell.to_dict(), **(technique._asdict() if technique else {})}
            for cell in self.cells
            for technique in [self.techniques.get(cell.key.system)]
        ]

    def _drawn(self) -> Sequence[Table]:
        return [self.table()]

    @property
    def counts(self) -> Counter[str]:
        """State -> number of cells."""
        return Counter(cell.state for cell in self.cells)

    def _frame(self) -> FrameRows:
        """Returns one row per cell."""
        return _SCHEMA, [{**cell, **(cell["cost"] or {})} for cell in self._cells]

    def table(self) -> Table:
        """Returns a row per system: its cells by state, its texts, and what they cost."""
        states = [state for state in STATES if self.counts[state]]
        names = ["technique", "base"] if self.techniques else []
        costs = ["s per text", *(["passes per token"] if self.techniques else []), "peak memory"]
        columns = [
            *(TableColumn(name, words=True, repeated=True) for name in ("system", *names)),
            *(TableColumn(name) for name in (*states, "texts", *costs)),
        ]
        systems = grouped(self.cells, lambda cell: cell.key.system)
        rows = [self._row(system, cells, states) for system, cells in systems.items()]
        return Table(columns, rows, caption=f"cells of {self.study}")

    def _row(
        self, system: str, cells: Sequence[CellStatus], states: Sequence[CellState]
    ) -> list[str]:
        counts = Counter(cell.state for cell in cells)
        costs = [cell.cost for cell in cells if cell.cost]
        texts = sum(cost.texts for cost in costs)
        passes = passes_per_token(costs)
        technique = self.techniques.get(system, (NONE, NONE)) if self.techniques else ()
        return [
            system,
            *technique,
            *(f"{counts[s]:,}" if counts[s] else NONE for s in states),
            f"{sum(c.answered for c in cells):,} of {sum(c.asked for c in cells):,}",
            f"{sum(cost.wall_s for cost in costs) / texts:.3g}" if texts else NONE,
            *([NONE if passes is None else f"{passes:.3g}"] if self.techniques else []),
            bytes_in_words(max((c.peak_bytes for c in costs if c.peak_bytes), default=None)),
        ]


_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "system": pl.String,
    "dataset": pl.String,
    "control": pl.String,
    "seed": pl.Int64,
    "state": pl.Enum(STATES),
    "asked": pl.Int64,
    "answered": pl.Int64,
    "failure": pl.String,
    "wall_s": pl.Float64,
    "tokens": pl.Int64,
    "peak_bytes": pl.Int64,
    "forward_passes": pl.Int64,
    "technique": pl.String,
    "base": pl.String,
}


def study_status(plan: Plan, only: Collection[str] = ()) -> StudyStatus:
    """Returns the state of every cell of a study; writes nothing.

    Args:
        only: names of systems or of their tables; all if there are none.
    """
    store = StudyStore(plan.out)
    chosen = {system.name for system in plan.systems if not only or system.is_named(only)}
    keys = [key for key in plan.cells() if key.system in chosen]
    cells = tuple(_with_damage(store, plan, key) for key in keys)
    return StudyStatus(plan.name, cells, plan.techniques)


def _with_damage(store: StudyStore, plan: Plan, key: CellKey) -> CellStatus:
    status, damage = cell_status(store, plan, key), store.damage(key)
    return replace(status, problems=(*status.problems, damage)) if damage else status


def cell_status(store: StudyStore, plan: Plan, key: CellKey) -> CellStatus:
    """Returns the state of a cell."""
    requests = requests_of(plan, key)
    return status_of(store, key, fingerprint(plan, key, requests), len(requests))


def status_of(store: StudyStore, key: CellKey, mark: Fingerprint, requests: int) -> CellStatus:
    """Returns the state of a cell with this fingerprint."""
    state = store.state(key, mark)
    record = store.record(key)
    if record is None or state == "stale":
        return CellStatus(key, state, requests, len(store.resume(key, mark)))
    answered = record.answered
    if state == "failed":  # more may have come since, in a run that was killed
        answered = max(answered, len(store.resume(key, mark)))
    return CellStatus(key, state, requests, answered, record.problems, record.failure, record.cost)
