"""Derives every number of a paper's tables from an id, or answers a question of the paper.

The released data answer a question directly; there is no published table to match.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from levelfield.core.errors import UserError
from levelfield.core.strings import did_you_mean
from levelfield_reproductions.published_tables import PAPERS, PublishedTable, read_paper
from levelfield_reproductions.recipes.released import NO_MODEL, Cells, Scoring
from levelfield_reproductions.verdict import Derived, Outcome, Verdict, judge


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The outcomes of a table, in the order of its numbers."""

    table: PublishedTable
    outcomes: tuple[Outcome, ...]

    @property
    def counts(self) -> Mapping[Verdict, int]:
        """How many numbers came to each verdict."""
        counted = Counter(o.verdict for o in self.outcomes)
        return {verdict: counted[verdict] for verdict in Verdict}


def tables(id: str = "all") -> list[PublishedTable]:
    """Returns the tables that an id names: `all`, a paper, a table, or a part of one.

    >>> [t.id for t in tables("lpf.8")]
    ['lpf.8a', 'lpf.8b']

    Raises:
        UserError: it names none.
    """
    published = [table for name in PAPERS for table in read_paper(name).tables]
    matches = [table for table in published if table.answers_to(id)]
    if not matches:
        ids = dict.fromkeys(
            name for t in published for name in (t.paper, f"{t.paper}.{t.number}", t.id)
        )
        lists = "`levelfield reproduce` lists them"
        hint = did_you_mean(id.lower(), ["all", *ids], most=3, cutoff=0.5, otherwise=lists)
        raise UserError(f"there is no table '{id}'; {hint}")
    return matches


def derive(table: PublishedTable, scoring: Scoring = NO_MODEL) -> Reproduction:
    """Derives every number of a table from what of the released data is on this machine.

    Args:
        table: see `tables`.
        scoring: with which model, where a table needs one.

    Raises:
        FetchError: a file on this machine is not as published.
        ModelError: the model can't be loaded.
    """
    recipe: Callable[[PublishedTable, Scoring], Cells] = importlib.import_module(
        f"levelfield_reproductions.recipes.{table.paper}"
    ).derive
    cells = recipe(table, scoring)
    outcomes = (judge(n, cells.get((n.row, n.column), Derived(gap=n.gap))) for n in table.numbers)
    return Reproduction(table, tuple(outcomes))


def tally(reproductions: Sequence[Reproduction]) -> Mapping[Verdict, int]:
    """Returns the counts of several tables together."""
    return {v: sum(r.counts[v] for r in reproductions) for v in Verdict}


Cell = str | float | int | None
"""None where there is no number; the notes say why."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a paper.

    Attributes:
        id: `thesis.rq1`.
        scored: part of the answer needs a model.
    """

    id: str
    paper: str
    title: str
    scored: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    """One table of an answer.

    Attributes:
        notes: what a reader must know of the numbers.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QuestionAnswer:
    """The answer of the released data.

    Attributes:
        signatures: metric -> its signature, for the metrics computed here.
        why: why there is no grid, or empty.
    """

    question: Question
    grids: tuple[Grid, ...]
    signatures: Mapping[str, str]
    why: str = ""


QUESTIONS = (
    Question("thesis.rq1", "thesis", "Which metrics agree best with which aspect?", scored=True),
    Question("thesis.rq2", "thesis", "How far do the experts agree?"),
    Question("thesis.rq3", "thesis", "Which system do the experts find best?"),
)


def questions(id: str) -> list[Question]:
    """Returns the questions that an id names: one, or with `thesis.rq` all of the thesis."""
    name = id.lower()
    return [q for q in QUESTIONS if name in (q.id, q.id.rstrip("0123456789"))]


def answer(question: Question, scoring: Scoring = NO_MODEL) -> QuestionAnswer:
    """Answers a question from what of the released data is on this machine.

    Raises:
        FetchError: a file on this machine is not as published.
        ModelError: the model can't be loaded.
    """
    recipe: Callable[[Question, Scoring], QuestionAnswer] = importlib.import_module(
        f"levelfield_reproductions.recipes.{question.paper}_questions"
    ).answer
    return recipe(question, scoring)
