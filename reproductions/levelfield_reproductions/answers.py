"""Questions of a paper that its released data answer anew, without a published table to equal."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from levelfield_reproductions.recipes.released import NO_MODEL, Scoring

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
    """What the released data say.

    Attributes:
        signatures: metric -> its signature, of those that were computed here.
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
