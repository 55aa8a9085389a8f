"""Published numbers: one TOML a paper, every number as it is printed."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib import resources
from typing import Any

from levelfield.io.toml import read_toml

PAPERS = ("ctrleval", "lpf", "thesis", "cdm", "dexperts", "pplm")
EMPTY = "–"

_CELL = re.compile(
    r"(?P<value>-?\d+(?:\.\d+)?)(?: \((?P<sd>\d+(?:\.\d+)?)\))?(?: \[(?P<rank>\d+)\])?"
)


@dataclass(frozen=True, slots=True)
class Gap:
    """What a derivation lacks, and the command that fills it.

    Attributes:
        what: a phrase for what is missing: `UNION's scores of these texts`.
        command: a command line; words in capitals stand for files and models of the user's.
        files: the paths in a data set that are not on this machine.
    """

    what: str
    command: str
    files: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Returns the gap as a report shows it."""
        return f"missing: {self.what} (`{self.command}`)"


@dataclass(frozen=True, slots=True)
class Number:
    """One printed number.

    Attributes:
        column: the column's name, with ` sd` or ` rank` added for numbers beside a value.
        printed: the digits on the page.
        places: decimals that the number is rounded to; more than are printed where the paper
            drops trailing zeros.
        doubt: why the print itself is in doubt, or empty.
        gap: why no released data give it, or None where the paper's recipe derives it.
    """

    paper: str
    table: str
    row: str
    column: str
    printed: str
    places: int
    doubt: str = ""
    gap: Gap | None = None

    @property
    def value(self) -> Decimal:
        """The printed digits as a number."""
        return Decimal(self.printed)


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table of a paper, or one part of it.

    Attributes:
        id: `lpf.8a`; `lpf.8` names all parts.
        control: kind of control of the table's systems, where that chooses the runs.
        scored: its derivation needs a model.
    """

    id: str
    paper: str
    number: str
    title: str
    numbers: tuple[Number, ...]
    control: str = ""
    scored: bool = False

    def answers_to(self, id: str) -> bool:
        """Returns whether an id names this table."""
        return id in ("all", self.paper, f"{self.paper}.{self.number}", self.id)


@dataclass(frozen=True, slots=True)
class Fact:
    """A discrepancy in a paper, and how to reproduce it."""

    paper: str
    tables: tuple[str, ...]
    what: str
    evidence: str
    where: str


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper's tables and what is known to be wrong around them."""

    name: str
    title: str
    authors: str
    year: int
    tables: tuple[PublishedTable, ...]
    facts: tuple[Fact, ...]


@functools.cache
def read_paper(name: str) -> Paper:
    """Returns the published numbers of a paper, by its short name."""
    raw = read_toml(resources.files("levelfield_reproductions") / f"{name}.toml")
    doubts = {(d["table"], d["row"], d["column"]): d["why"] for d in raw.get("doubtful", ())}
    return Paper(
        name=name,
        title=raw["title"],
        authors=raw["authors"],
        year=raw["year"],
        tables=tuple(_table(name, t, doubts) for t in raw["tables"]),
        facts=tuple(
            Fact(name, tuple(f["tables"]), f["what"], f["evidence"], f["where"])
            for f in raw.get("facts", ())
        ),
    )


def facts_about(tables: Sequence[PublishedTable]) -> list[Fact]:
    """Returns the facts that bear on any of the tables."""
    numbers = {(t.paper, t.number) for t in tables}
    papers = [read_paper(name) for name in PAPERS]
    return [f for p in papers for f in p.facts if any((p.name, n) in numbers for n in f.tables)]


def _table(
    paper: str, raw: Mapping[str, Any], doubts: Mapping[tuple[str, str, str], str]
) -> PublishedTable:
    id = f"{paper}.{raw['number']}{raw.get('part', '')}"
    places = {"": raw.get("places", 0), " sd": raw.get("sd_places", 0), " rank": 0}
    numbers = []
    gaps = raw.get("gaps", ())
    for row, *cells in raw["rows"]:
        for column, cell in zip(raw["columns"], cells, strict=True):
            gap = _gap(gaps, row, column)
            for beside, printed in _split(cell):
                numbers.append(
                    Number(
                        paper=paper,
                        table=id,
                        row=row,
                        column=column + beside,
                        printed=printed,
                        places=max(places[beside], _decimals(printed)),
                        doubt=doubts.get((raw["number"], row, column), ""),
                        gap=gap,
                    )
                )
    return PublishedTable(
        id=id,
        paper=paper,
        number=raw["number"],
        title=raw["title"],
        numbers=tuple(numbers),
        control=raw.get("control", ""),
        scored=raw.get("scored", False),
    )


def _gap(gaps: Sequence[Mapping[str, Any]], row: str, column: str) -> Gap | None:
    """Returns the first whose `rows` and `columns`, where it names any, have the cell.

    Its texts may hold `{row}`, `{column}`, and `{0}` … where `rows` gives each row words.
    """
    for gap in gaps:
        rows = gap.get("rows", (row,))
        if row in rows and column in gap.get("columns", (column,)):
            words = rows[row] if isinstance(rows, Mapping) else ()
            lack, command = (
                gap[key].format(*words, row=row, column=column) for key in ("what", "command")
            )
            return Gap(lack, command)
    return None


def _split(cell: str) -> list[tuple[str, str]]:
    """Splits `95.03 (0.4) [2]` into value, standard deviation and rank; an empty cell has none."""
    if cell in (EMPTY, "-"):
        return []
    match = _CELL.fullmatch(cell)
    if match is None:
        raise ValueError(f"a cell reads {cell!r}; expected VALUE, VALUE (SD) or VALUE (SD) [RANK]")
    parts = {"": match["value"], " sd": match["sd"], " rank": match["rank"]}
    return [(beside, printed) for beside, printed in parts.items() if printed is not None]


def _decimals(printed: str) -> int:
    return len(printed.partition(".")[2])
