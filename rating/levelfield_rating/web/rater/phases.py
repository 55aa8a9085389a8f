"""A rater's link, the pages of their phases, and the ways from one to the next."""

from __future__ import annotations

from datetime import timedelta
from typing import cast
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from levelfield_rating.model import Frozen
from levelfield_rating.store.records import Phase, RequestRefused
from levelfield_rating.web.context import web_of
from levelfield_rating.web.rater.items import first_open
from levelfield_rating.web.rater.practice import next_practice
from levelfield_rating.web.rater.visit import Visit, current_visit, write_visit
from levelfield_rating.web.security import Fields, Turned
from levelfield_rating.web.shown import shown_items

REMIND_AFTER = timedelta(days=1)

router = APIRouter()


@router.get("/")
def root(request: Request) -> Response:
    return RedirectResponse(web_of(request).url("/study"), status_code=303)


@router.api_route("/r/{token}", methods=["GET", "HEAD"])
def entry(request: Request, token: str) -> Response:
    """Shows one button: programs that visit links in mails send no POST, so they use nothing up."""
    return web_of(request).entry(request, "entry.html", action=f"/r/{quote(token, safe='')}")


@router.post("/r/{token}")
def exchange(request: Request, token: str, fields: Fields) -> Response:
    web = web_of(request)
    return web.opened(
        request, fields, lambda: web.store.exchange(token), cookie=web.cookie, to="/study"
    )


@router.get("/study")
def study_page(request: Request) -> Response:
    """Shows the page of the rater's phase."""
    visit = current_visit(request)
    state, study = visit.state, visit.study
    phase = state.phase
    if phase == "rating":
        items = shown_items(study, state)
        target = f"/study/item/{first_open(study, items).id}"
        last = state.last_seen
        if last is not None and visit.web.now() - last > REMIND_AFTER:
            return visit.page("reminder.html", target=visit.web.url(target))
        return visit.to(target)
    if phase == "practice":
        return next_practice(visit)
    if phase == "review":
        return review_page(visit)
    if phase == "instructions":
        after = _first_of(study, "examples", "practice", "rating")
        return visit.page("instructions.html", after=after, again=False)
    if phase == "examples":
        return visit.page("examples.html", after=_first_of(study, "practice", "rating"))
    if phase == "done":
        return visit.page("thanks.html", link=_completion_link(study, state.completion_code))
    if phase == "withdrawn":
        return visit.page("withdrawn.html", erasing=visit.web.store.is_erasing())
    return visit.page("welcome.html", missing=False)


@router.get("/study/instructions")
def instructions_again(request: Request) -> Response:
    visit = current_visit(request)
    if visit.state.phase in ("welcome", "instructions", "withdrawn"):
        return visit.to("/study")
    return visit.page("instructions.html", after="", again=True)


@router.get("/study/withdraw")
def withdraw_page(request: Request) -> Response:
    visit = current_visit(request)
    return visit.to("/study") if visit.state.phase == "withdrawn" else visit.page("withdraw.html")


def _first_of(study: Frozen, *phases: Phase) -> Phase:
    """Returns the first of these phases that the study does not leave out."""
    empty = {"examples": not study.examples, "practice": not study.practice}
    return next(phase for phase in phases if not empty.get(phase))


def _completion_link(study: Frozen, code: str) -> str:
    link = study.completion_url.replace("{code}", quote(code, safe=""))
    return link if link.startswith(("https://", "http://")) else ""


def review_page(visit: Visit, *, incomplete: bool = False) -> Response:
    items = shown_items(visit.study, visit.state)
    missing = [(item, item.open(visit.study.criteria)) for item in items]
    return visit.page(
        "review.html",
        status=409 if incomplete else 200,
        missing=[(item, open_) for item, open_ in missing if open_],
        last=items[-1],
        incomplete=incomplete,
    )


@router.post("/study/welcome")
def welcome(request: Request, fields: Fields) -> Response:
    visit = write_visit(request, fields.get("csrf", ""))
    study, store = visit.study, visit.web.store
    if visit.state.phase == "welcome":
        if fields.get("agree") != study.consent_version:
            return visit.page("welcome.html", status=422, missing=True)
        store.consent(visit.state.rater, study.consent_version)
        store.enter(visit.state.rater, "instructions")
    return visit.to("/study")


@router.post("/study/enter")
def enter(request: Request, fields: Fields) -> Response:
    visit = write_visit(request, fields.get("csrf", ""))
    target, phase = fields.get("phase", ""), visit.state.phase
    if target not in ("examples", "practice", "rating", "review", "done"):
        raise Turned(422, "")
    if target == phase:  # sent twice
        return visit.to("/study")
    try:
        state = visit.web.store.enter(visit.state.rater, cast(Phase, target))
    except RequestRefused as refused:
        if target == "done" and phase == "review" and refused.status == 409:
            return review_page(visit, incomplete=True)
        raise
    item = fields.get("item", "")
    if state.phase == "rating" and any(p.opaque == item for p in visit.placed):
        return visit.to(f"/study/item/{item}")
    return visit.to("/study")


@router.post("/study/withdraw")
def withdraw(request: Request, fields: Fields) -> Response:
    visit = write_visit(request, fields.get("csrf", ""))
    if visit.state.phase != "withdrawn":
        visit.web.store.withdraw(visit.state.rater)
    return visit.to("/study")
