"""The state of the raters' links."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from levelfield_rating.web.organiser.desk import Desk, open_desk
from levelfield_rating.web.organiser.wording import when

router = APIRouter()


@router.get("/links")
def show_links(request: Request) -> Response:
    return links_page(open_desk(request))


def links_page(
    desk: Desk, *, fresh: Sequence[tuple[str, str]] = (), problem: str = "", done: str = ""
) -> Response:
    """The state of every link; `fresh` are (slot, link) that can be read this once."""
    slots = desk.study.slots
    return desk.page(
        "links.html",
        status=422 if problem else 200,
        here="links",
        links=[(slots[link.slot], link) for link in desk.web.store.links()],
        fresh=fresh,
        problem=problem,
        done=done,
        now=desk.web.now(),
        when=when,
    )
