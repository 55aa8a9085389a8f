"""The items of a rater, as pages and as plain forms."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from levelfield_rating.answers import stored_answer
from levelfield_rating.model import Frozen
from levelfield_rating.store.records import Event
from levelfield_rating.web.rater.visit import (
    Visit,
    current_visit,
    form_answer_of,
    form_event,
    write_visit,
)
from levelfield_rating.web.security import Fields, Turned
from levelfield_rating.web.shown import (
    Shown,
    answer_document,
    shown_items,
)

router = APIRouter()


@router.get("/study/item/{opaque}")
def item_page(request: Request, opaque: str) -> Response:
    visit = current_visit(request)
    items = shown_items(visit.study, visit.state)
    item = item_of(items, opaque)
    if visit.state.phase != "rating":
        return visit.to("/study")
    return rating_page(visit, items, item)


def first_open(study: Frozen, items: list[Shown]) -> Shown:
    return next((item for item in items if item.open(study.criteria)), items[-1])


def item_of(items: list[Shown], opaque: str) -> Shown:
    for item in items:
        if item.id == opaque:
            return item
    raise Turned(404, "")


def rating_page(
    visit: Visit,
    items: list[Shown],
    item: Shown,
    *,
    missing: bool = False,
    saved: str = "",
) -> Response:
    return visit.page(
        "item.html",
        status=422 if missing else 200,
        item=item,
        was=answer_document(item),
        total=len(items),
        answered=sum(not shown.open(visit.study.criteria) for shown in items),
        open=item.open(visit.study.criteria) if missing else [],
        saved=saved,
    )


@router.post("/study/item/{opaque}")
def rate(request: Request, opaque: str, fields: Fields) -> Response:
    """Saves what changed, then goes where the rater wants; on only if nothing is open."""
    visit = write_visit(request, fields.get("csrf", ""))
    items = shown_items(visit.study, visit.state)
    item = item_of(items, opaque)
    placed = visit.placed[item.number - 1]
    saved = ""
    if events := _changes(visit, item, placed.order, fields):
        done = visit.web.store.record(visit.state.rater, events)
        saved = f"{done[-1].at:%H:%M}"
        visit = Visit(visit.web, visit.secret, visit.web.store.state(visit.state.rater))
        items = shown_items(visit.study, visit.state)
        item = item_of(items, opaque)
    go = fields.get("go", "next")
    if go == "back":
        return visit.to(f"/study/item/{items[max(item.number - 2, 0)].id}")
    if go == "next" and item.open(visit.study.criteria):
        return rating_page(visit, items, item, missing=True, saved=saved)
    if item.number < len(items):
        return visit.to(f"/study/item/{items[item.number].id}")
    visit.web.store.enter(visit.state.rater, "review")
    return visit.to("/study")


def _changes(
    visit: Visit, item: Shown, order: tuple[int, ...], fields: Mapping[str, str]
) -> list[Event]:
    """Returns events for what the rater changed in the form.

    What still is as the form showed it says nothing: another window may have changed it since.
    """
    events = []
    was = _was(item, fields)
    for criterion in visit.study.criteria:
        answer = form_answer_of(criterion, fields, len(item.texts), was.answers.get(criterion.id))
        before = (None, was.answers.get(criterion.id), item.answers.get(criterion.id))
        if answer not in before:
            value = stored_answer(criterion, order, answer)
            events.append(form_event(visit, "rating", item.id, criterion.id, value))
    comment = _lines(fields.get("comment", was.comment))
    if comment not in (_lines(was.comment), item.comment):
        events.append(form_event(visit, "comment", item.id, "", comment))
    problem = fields.get("problem") == "yes"
    if problem not in (was.problem, item.problem):
        events.append(form_event(visit, "problem", item.id, "", problem))
    return events


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").strip()


def _was(item: Shown, fields: Mapping[str, str]) -> Shown:
    """Returns the item as the form showed it; as it is now if the form doesn't say."""
    try:
        shown_before = json.loads(fields["was"])
        answers = {
            str(name): tuple(map(int, value)) if isinstance(value, list) else int(value)
            for name, value in shown_before["answers"].items()
        }
        comment, problem = str(shown_before["comment"]), bool(shown_before["problem"])
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return item
    return replace(item, answers=answers, comment=comment, problem=problem)
