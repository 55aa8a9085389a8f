"""Every slot and who has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from levelfield_rating.results.negatives import ControlVerdict, verdict
from levelfield_rating.results.raters import (
    RaterProgress,
    ScaleUse,
    progress,
    spreads,
    time_spent,
)
from levelfield_rating.store.records import RaterState
from levelfield_rating.web.organiser.desk import Desk, open_desk
from levelfield_rating.web.organiser.wording import duration, when

router = APIRouter()


@dataclass(frozen=True)
class RaterRow:
    """A rater in the grid.

    Attributes:
        slot: index; `name` is the slot's.
        state: None for a slot that nobody was asked for.
        excluded: the reason; empty if not excluded.
    """

    slot: int
    name: str
    state: RaterState | None
    progress: RaterProgress | None
    spent: str
    verdict: ControlVerdict | None
    spreads: Mapping[str, ScaleUse] = field(default_factory=dict)
    excluded: str = ""


@router.get("")
def overview(request: Request) -> Response:
    """Every slot and who has it: how far, when, how they use the scales."""
    return overview_page(open_desk(request))


def overview_page(desk: Desk, *, problem: str = "") -> Response:
    rows = rater_rows(desk)
    surveys: dict[int, list[RaterRow]] = {}
    former = []
    for row in rows:
        if row.state is not None and row.state.replaced:
            former.append(row)
        else:
            surveys.setdefault(desk.study.slots[row.slot].survey, []).append(row)
    states = [row.state for row in rows if row.state and not row.state.replaced]
    return desk.page(
        "overview.html",
        status=422 if problem else 200,
        here="overview",
        surveys=surveys,
        former=former,
        problem=problem,
        erasing=desk.web.store.is_erasing(),
        now=desk.web.now(),
        when=when,
        done=sum(state.phase == "done" for state in states),
        slots=len(desk.study.slots),
        answers=sum(row.progress.answers for row in rows if row.progress),
        failed=[row for row in rows if is_failed(row) and not row.excluded],
    )


def is_failed(row: RaterRow) -> bool:
    return row.verdict is not None and row.verdict.failed is True


def rater_rows(desk: Desk) -> list[RaterRow]:
    store, study = desk.web.store, desk.study
    excluded, spent = store.excluded(), time_spent(store.log())
    rows = []
    taken = set()
    for state in store.raters():
        there = state.slot < len(study.slots)
        if not state.replaced:
            taken.add(state.slot)
        if not there and not state.replaced:
            continue
        rows.append(
            RaterRow(
                slot=state.slot,
                name=study.slots[state.slot].name if there else f"slot {state.slot + 1}",
                state=state,
                progress=progress(study, state),
                spent=duration(spent.get(state.rater)),
                verdict=verdict(study, state),
                spreads=spreads(study, state),
                excluded=excluded.get(state.rater, ""),
            )
        )
    for n, slot in enumerate(study.slots):
        if n not in taken:
            rows.append(RaterRow(n, slot.name, None, None, "", None))
    return sorted(rows, key=lambda row: (row.slot, row.state is None))
