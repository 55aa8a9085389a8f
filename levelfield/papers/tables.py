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

PAPERS = ("ctrleval", "lpf", "thesis", "cdm")
EMPTY = "–"

_CELL = re.compile(
    r"(?P<value>-?\d+(?:\.\d+)?)(?: \((?P<sd>\d+(?:\.\d+)?)\))?(?: \[(?P<rank>\d+)\])?"
)


@dataclass(frozen=True, slots=True)
class Number:
    """One printed number.

    Attributes:
        column: the column's name; ` sd` and ` rank` are added for what stands beside a value.
        printed: the digits on the page.
        places: decimals that the number is rounded to; more than are printed where the paper
            drops trailing zeros.
        doubt: why the print itself is in doubt, or empty.
    """

    paper: str
    table: str
    row: str
    column: str
    printed: str
    places: int
    doubt: str = ""

    @property
    def value(self) -> Decimal:
        """The printed digits as a number."""
        return Decimal(self.printed)


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table of a paper, or one part of it.

    Attributes:
        id: `lpf.8a`; `lpf.8` names all parts.
        control: what the systems of the table had to control, where that chooses the runs.
        scored: its derivation needs a model.
        cannot: why no number of it can be derived, or empty.
    """

    id: str
    paper: str
    number: str
    title: str
    numbers: tuple[Number, ...]
    control: str = ""
    scored: bool = False
    cannot: str = ""

    def answers_to(self, id: str) -> bool:
        """Whether an id names this table."""
        return id in ("all", self.paper, f"{self.paper}.{self.number}", self.id)


@dataclass(frozen=True, slots=True)
class Fact:
    """A discrepancy that was found, and how it can be seen again."""

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
    """The published numbers of a paper, by its short name."""
    raw = read_toml(resources.files("levelfield.papers") / f"{name}.toml")
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
    """The facts that bear on any of the tables."""
    asked = {(t.paper, t.number) for t in tables}
    papers = [read_paper(name) for name in PAPERS]
    return [f for p in papers for f in p.facts if any((p.name, n) in asked for n in f.tables)]


def _table(
    paper: str, raw: Mapping[str, Any], doubts: Mapping[tuple[str, str, str], str]
) -> PublishedTable:
    id = f"{paper}.{raw['number']}{raw.get('part', '')}"
    places = {"": raw.get("places", 0), " sd": raw.get("sd_places", 0), " rank": 0}
    numbers = []
    for row, *cells in raw["rows"]:
        for column, cell in zip(raw["columns"], cells, strict=True):
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
        cannot=raw.get("cannot", ""),
    )


def _split(cell: str) -> list[tuple[str, str]]:
    """`95.03 (0.4) [2]` as value, standard deviation and rank; an empty cell as nothing."""
    if cell in (EMPTY, "-"):
        return []
    match = _CELL.fullmatch(cell)
    if match is None:
        raise ValueError(f"a cell reads {cell!r}; expected VALUE, VALUE (SD) or VALUE (SD) [RANK]")
    parts = {"": match["value"], " sd": match["sd"], " rank": match["rank"]}
    return [(beside, printed) for beside, printed in parts.items() if printed is not None]


def _decimals(printed: str) -> int:
    return len(printed.partition(".")[2])
