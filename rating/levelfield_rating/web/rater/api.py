"""What the script of the rating page asks for and sends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from levelfield_rating.answers import stored_answer
from levelfield_rating.model import Frozen
from levelfield_rating.store.records import Event
from levelfield_rating.web.rater.visit import current_visit, limit_writes, write_visit
from levelfield_rating.web.security import Json, Turned
from levelfield_rating.web.shown import (
    answer_document,
    item_document,
    shown_items,
)

EVENTS_AT_ONCE = 200
_KINDS = ("rating", "comment", "problem")

router = APIRouter()


@router.get("/api/state")
def api_state(request: Request, items: int = 1) -> Response:
    """Returns everything that the rating page needs to go on; `items=0` leaves out the texts.

    Texts are there while they are rated, not before.
    """
    visit = current_visit(request)
    shown = shown_items(visit.study, visit.state)
    document: dict[str, Any] = {
        "phase": visit.state.phase,
        "clock": visit.state.clock,
        "csrf": visit.csrf,
        "storage": visit.storage,
        "current": {item.id: answer_document(item) for item in shown},
    }
    if items and visit.state.phase in ("rating", "review"):
        document["items"] = [item_document(item) for item in shown]
    return JSONResponse(document)


@router.post("/api/events")
def api_events(request: Request, raw: Json) -> Response:
    visit = write_visit(request, request.headers.get("x-csrf-token", ""))
    raw_events = raw.get("events") if isinstance(raw, dict) else raw
    if not isinstance(raw_events, list) or not 0 < len(raw_events) <= EVENTS_AT_ONCE:
        raise Turned(422, "")
    limit_writes(visit, len(raw_events) - 1)
    orders = {p.opaque: p.order for p in visit.placed}
    events = [_read_event(visit.study, orders, event) for event in raw_events]
    saved = visit.web.store.record(visit.state.rater, events)
    return JSONResponse(
        {
            "saved": [
                {"uuid": event.uuid, "at": event.at.isoformat(), "duplicate": event.duplicate}
                for event in saved
            ],
            "clock": max(event.clock for event in saved),
        }
    )


def _read_event(study: Frozen, orders: Mapping[str, tuple[int, ...]], raw: Any) -> Event:
    """Returns an event in the form of the store, which decides whether it is valid.

    Raises:
        Turned: 422, it does not have the form of an event.
    """
    if not isinstance(raw, dict):
        raise Turned(422, "")
    texts = [raw.get(name) for name in ("uuid", "kind", "item")]
    criterion = raw.get("criterion", "")
    clock, client_ms, value = raw.get("clock"), raw.get("client_ms"), raw.get("value")
    if not all(isinstance(text, str) for text in (*texts, criterion)) or raw["kind"] not in _KINDS:
        raise Turned(422, "")
    if type(clock) is not int or not (client_ms is None or type(client_ms) is int):
        raise Turned(422, "")
    criteria = {c.id: c for c in study.criteria}
    if raw["kind"] == "rating" and criterion in criteria and raw["item"] in orders:
        value = stored_answer(criteria[criterion], orders[raw["item"]], value)
    return Event(
        raw["uuid"], raw["kind"], raw["item"], criterion, cast(Any, value), clock, client_ms
    )
