"""Practice items: two tries each, with a hint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from levelfield_rating.answers import TRIES, Answer
from levelfield_rating.model import Frozen, Practice, RatingCriterion
from levelfield_rating.web.rater.visit import (
    Visit,
    current_visit,
    form_answer_of,
    form_event,
    write_visit,
)
from levelfield_rating.web.security import Fields, Turned
from levelfield_rating.web.shown import Shown

router = APIRouter()


@router.get("/study/practice/{opaque}")
def practice_page(request: Request, opaque: str) -> Response:
    visit = current_visit(request)
    task = practice_of(visit.study, opaque)
    if visit.state.phase != "practice":
        return visit.to("/study")
    return practice_item_page(visit, task)


def practice_of(study: Frozen, opaque: str) -> Practice:
    for task in study.practice:
        if task.opaque == opaque:
            return task
    raise Turned(404, "")


def _settled(visit: Visit, task: Practice) -> bool:
    tries, passed = visit.state.practice.get(task.opaque, (0, False))
    return passed or tries >= TRIES


def _criteria_of(study: Frozen, task: Practice) -> list[RatingCriterion]:
    """Returns what a practice item asks: what is checked, or everything if nothing can be."""
    return [c for c in study.criteria if c.id in task.accept or not task.accept]


def next_practice(visit: Visit) -> Response:
    for task in visit.study.practice:
        if not _settled(visit, task):
            return visit.to(f"/study/practice/{task.opaque}")
    return visit.page("practised.html")


def practice_item_page(
    visit: Visit, task: Practice, *, answers: Mapping[str, Answer] | None = None
) -> Response:
    """Shows a practice item; `answers` if the form that was sent was incomplete."""
    tries, passed = visit.state.practice.get(task.opaque, (0, False))
    number = next(n for n, other in enumerate(visit.study.practice, 1) if other is task)
    criteria = _criteria_of(visit.study, task)
    item = Shown(
        task.opaque, number, task.task, task.given, task.candidates, answers or {}, "", False
    )
    return visit.page(
        "practice.html",
        status=200 if answers is None else 422,
        item=item,
        criteria=criteria,
        total=len(visit.study.practice),
        tries=tries,
        passed=passed,
        settled=_settled(visit, task),
        last=all(_settled(visit, other) for other in visit.study.practice),
        checked=bool(task.accept),
        hint=task.hint if tries else "",
        open=[] if answers is None else item.open(criteria),
    )


@router.post("/study/practice/{opaque}")
def practise(request: Request, opaque: str, fields: Fields) -> Response:
    visit = write_visit(request, fields.get("csrf", ""))
    task = practice_of(visit.study, opaque)
    if visit.state.phase != "practice" or _settled(visit, task):
        return visit.to("/study")
    tries, _ = visit.state.practice.get(opaque, (0, False))
    if fields.get("try") != str(tries):  # the same try sent twice
        return visit.to(f"/study/practice/{opaque}")
    events = []
    criteria = _criteria_of(visit.study, task)
    for criterion in criteria:
        answer = form_answer_of(criterion, fields, len(task.candidates))
        if answer is not None:
            events.append(form_event(visit, "practice", opaque, criterion.id, answer))
    if len(events) < len(criteria):
        return practice_item_page(
            visit, task, answers={e.criterion: cast(Answer, e.value) for e in events}
        )
    visit.web.store.record(visit.state.rater, events)
    return visit.to(f"/study/practice/{opaque}")
