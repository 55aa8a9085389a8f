"""Texts as they are, and what raters wrote about them."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from levelfield_rating.model import Item
from levelfield_rating.results.negatives import negative_of
from levelfield_rating.results.raters import counted
from levelfield_rating.web.organiser.desk import open_desk

router = APIRouter()


@router.get("/texts")
def texts_page(request: Request) -> Response:
    """All items as they are, negative samples marked."""
    desk = open_desk(request)
    surveys: dict[int, list[Item]] = {}
    for item in desk.study.items.values():
        surveys.setdefault(item.survey, []).append(item)
    systems = {id: record.get("system", "") for id, record in desk.study.samples.items()}
    return desk.page(
        "texts.html",
        here="texts",
        surveys=dict(sorted(surveys.items())),
        systems=systems,
        negative_of=negative_of,
    )


@router.get("/comments")
def comments_page(request: Request) -> Response:
    """What raters wrote, and the texts that they say have a problem."""
    desk = open_desk(request)
    study = desk.study
    remarks = [
        (state, study.items[key], state.comments.get(key, ""), key in state.problems)
        for state in counted(desk.web.store, excluded=True)
        for key in sorted({*state.comments, *state.problems})
    ]
    return desk.page("comments.html", here="comments", remarks=remarks)
