"""The rater's way: link, welcome, instructions, examples, practice, rating, review, thanks.

Every page works as a plain form. The script of the rating page takes over where it runs, with the
same answers through `/api/`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, cast
from urllib.parse import quote

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from levelfield.rating.answers import TRIES, Answer
from levelfield.rating.model import Frozen, Practice, RatingCriterion
from levelfield.rating.store.records import Event, Phase, RaterState, RequestRefused
from levelfield.rating.web.context import Web, web_of
from levelfield.rating.web.security import (
    Turned,
    check_csrf,
    csrf_token,
    form_of,
    json_of,
)
from levelfield.rating.web.shown import (
    Shown,
    answer_document,
    form_answer,
    item_document,
    placed_of,
    shown_items,
    step_of,
    stored_answer,
)

router = APIRouter()

REMIND_AFTER = timedelta(days=1)
EVENTS_AT_ONCE = 200
_KINDS = ("rating", "comment", "problem")


@dataclass(frozen=True)
class Visit:
    """A request of a rater whom we know.

    Attributes:
        storage: where the browser keeps what is not sent yet. It belongs to a rater of a study:
            another person at the same browser has another one.
    """

    web: Web
    secret: str
    state: RaterState

    @property
    def study(self) -> Frozen:
        return self.web.store.frozen

    @property
    def csrf(self) -> str:
        return csrf_token(self.secret)

    @property
    def storage(self) -> str:
        ids = "".join(placed.opaque for placed in placed_of(self.study, self.state))
        named = f"{self.study.digest} {self.state.rater}"
        return hmac.new(ids.encode(), named.encode(), hashlib.sha256).hexdigest()[:24]

    def page(self, template: str, *, status: int = 200, **context: Any) -> Response:
        return self.web.page(
            template,
            status=status,
            csrf=self.csrf,
            state=self.state,
            storage=self.storage,
            step_of=step_of,
            **context,
        )

    def to(self, path: str) -> Response:
        return RedirectResponse(self.web.url(path), status_code=303)


def visit(request: Request) -> Visit:
    """The visit that a request belongs to.

    Raises:
        Turned: 401 if the browser has no session, or one that is over.
    """
    web = web_of(request)
    secret = request.cookies.get(web.cookie, "")
    rater = web.store.session(secret) if secret else None
    if rater is None:
        raise Turned(401, "")
    return Visit(web, secret, web.store.state(rater))


def _write_visit(request: Request, token: str) -> Visit:
    """The visit of a write: session, its token, its limit."""
    seen = visit(request)
    check_csrf(seen.secret, token)
    if not seen.web.requests.take(seen.secret):
        raise Turned(429, "")
    return seen


# the link


@router.get("/")
def root(request: Request) -> Response:
    return RedirectResponse(web_of(request).url("/study"), status_code=303)


@router.api_route("/r/{token}", methods=["GET", "HEAD"])
def entry(request: Request, token: str) -> Response:
    """One button: programs that look at links in mails send no POST, so they use nothing up."""
    web = web_of(request)
    return web.page("entry.html", action=web.url(f"/r/{quote(token, safe='')}"))


@router.post("/r/{token}")
def exchange(request: Request, token: str) -> Response:
    web = web_of(request)
    return web.opened(request, lambda: web.store.exchange(token), cookie=web.cookie, to="/study")


# pages


@router.get("/study")
def study_page(request: Request) -> Response:
    """The page of the rater's phase."""
    seen = visit(request)
    state, study = seen.state, seen.study
    phase = state.phase
    if phase == "rating":
        items = shown_items(study, state)
        target = f"/study/item/{_first_open(study, items).id}"
        last = state.last_seen
        if last is not None and seen.web.now() - last > REMIND_AFTER:
            return seen.page("reminder.html", target=seen.web.url(target))
        return seen.to(target)
    if phase == "practice":
        return _practice_now(seen)
    if phase == "review":
        return _review(seen)
    if phase == "instructions":
        return seen.page("instructions.html", after=_after(study, "instructions"), again=False)
    if phase == "examples":
        return seen.page("examples.html", after=_after(study, "examples"))
    if phase == "done":
        return seen.page("thanks.html", link=_completion_link(study, state.completion_code))
    if phase == "withdrawn":
        return seen.page("withdrawn.html")
    return seen.page("welcome.html", missing=False)


@router.get("/study/instructions")
def instructions_again(request: Request) -> Response:
    seen = visit(request)
    if seen.state.phase in ("welcome", "instructions", "withdrawn"):
        return seen.to("/study")
    return seen.page("instructions.html", after="", again=True)


@router.get("/study/withdraw")
def withdraw_page(request: Request) -> Response:
    seen = visit(request)
    return seen.to("/study") if seen.state.phase == "withdrawn" else seen.page("withdraw.html")


@router.get("/study/practice/{opaque}")
def practice_page(request: Request, opaque: str) -> Response:
    seen = visit(request)
    task = _practice_of(seen.study, opaque)
    if seen.state.phase != "practice":
        return seen.to("/study")
    return _practice(seen, task)


@router.get("/study/item/{opaque}")
def item_page(request: Request, opaque: str) -> Response:
    seen = visit(request)
    items = shown_items(seen.study, seen.state)
    item = _item_of(items, opaque)
    if seen.state.phase != "rating":
        return seen.to("/study")
    return _rating(seen, items, item)


def _first_open(study: Frozen, items: list[Shown]) -> Shown:
    return next((item for item in items if item.open(study.criteria)), items[-1])


def _item_of(items: list[Shown], opaque: str) -> Shown:
    for item in items:
        if item.id == opaque:
            return item
    raise Turned(404, "")


def _practice_of(study: Frozen, opaque: str) -> Practice:
    for task in study.practice:
        if task.opaque == opaque:
            return task
    raise Turned(404, "")


def _after(study: Frozen, phase: str) -> Phase:
    """The phase that follows, past those that this study leaves out."""
    there: dict[str, bool] = {
        "welcome": True,
        "instructions": True,
        "examples": bool(study.examples),
        "practice": bool(study.practice),
        "rating": True,
    }
    names = list(there)
    later = names[names.index(phase) + 1 :]
    return cast(Phase, next(name for name in later if there[name]))


def _completion_link(study: Frozen, code: str) -> str:
    link = study.completion_url.replace("{code}", quote(code, safe=""))
    return link if link.startswith(("https://", "http://")) else ""


def _rating(
    seen: Visit,
    items: list[Shown],
    item: Shown,
    *,
    missing: bool = False,
    saved: str = "",
) -> Response:
    return seen.page(
        "item.html",
        status=422 if missing else 200,
        item=item,
        was=answer_document(item),
        total=len(items),
        answered=sum(not one.open(seen.study.criteria) for one in items),
        open=item.open(seen.study.criteria) if missing else [],
        saved=saved,
        words=_script_words(seen.web),
    )


def _script_words(web: Web) -> Mapping[str, str]:
    return web.strings.some("js_")


def _settled(seen: Visit, task: Practice) -> bool:
    tries, passed = seen.state.practice.get(task.opaque, (0, False))
    return passed or tries >= TRIES


def _asked(study: Frozen, task: Practice) -> list[RatingCriterion]:
    """What a practice item asks: what is checked, or everything if nothing can be."""
    return [c for c in study.criteria if c.id in task.accept or not task.accept]


def _practice_now(seen: Visit) -> Response:
    for task in seen.study.practice:
        if not _settled(seen, task):
            return seen.to(f"/study/practice/{task.opaque}")
    return seen.page("practised.html")


def _practice(
    seen: Visit, task: Practice, *, given: Mapping[str, Answer] | None = None
) -> Response:
    """A practice item; `given` if what was sent had something open."""
    tries, passed = seen.state.practice.get(task.opaque, (0, False))
    number = next(n for n, one in enumerate(seen.study.practice, 1) if one is task)
    asked = _asked(seen.study, task)
    item = Shown(
        task.opaque, number, task.task, task.given, task.candidates, given or {}, "", False
    )
    return seen.page(
        "practice.html",
        status=200 if given is None else 422,
        item=item,
        asked=asked,
        total=len(seen.study.practice),
        tries=tries,
        passed=passed,
        settled=_settled(seen, task),
        last=all(_settled(seen, one) for one in seen.study.practice),
        checked=bool(task.accept),
        hint=task.hint if tries else "",
        open=[] if given is None else item.open(asked),
        words=_script_words(seen.web),
    )


def _review(seen: Visit, *, incomplete: bool = False) -> Response:
    items = shown_items(seen.study, seen.state)
    missing = [(item, item.open(seen.study.criteria)) for item in items]
    return seen.page(
        "review.html",
        status=409 if incomplete else 200,
        missing=[(item, open_) for item, open_ in missing if open_],
        last=items[-1],
        incomplete=incomplete,
    )


# forms


@router.post("/study/welcome")
async def welcome(request: Request) -> Response:
    fields = await form_of(request)
    return await run_in_threadpool(_welcome, request, fields)


def _welcome(request: Request, fields: Mapping[str, str]) -> Response:
    seen = _write_visit(request, fields.get("csrf", ""))
    study, store = seen.study, seen.web.store
    if seen.state.phase == "welcome":
        if fields.get("agree") != study.consent_version:
            return seen.page("welcome.html", status=422, missing=True)
        store.consent(seen.state.rater, study.consent_version)
        store.enter(seen.state.rater, "instructions")
    return seen.to("/study")


@router.post("/study/enter")
async def enter(request: Request) -> Response:
    fields = await form_of(request)
    return await run_in_threadpool(_enter, request, fields)


def _enter(request: Request, fields: Mapping[str, str]) -> Response:
    seen = _write_visit(request, fields.get("csrf", ""))
    wanted, phase = fields.get("phase", ""), seen.state.phase
    if wanted not in ("examples", "practice", "rating", "review", "done"):
        raise Turned(422, "")
    if wanted == phase:  # sent twice
        return seen.to("/study")
    try:
        state = seen.web.store.enter(seen.state.rater, cast(Phase, wanted))
    except RequestRefused as refused:
        if wanted == "done" and phase == "review" and refused.status == 409:
            return _review(seen, incomplete=True)
        raise
    item = fields.get("item", "")
    if state.phase == "rating" and any(p.opaque == item for p in placed_of(seen.study, state)):
        return seen.to(f"/study/item/{item}")
    return seen.to("/study")


@router.post("/study/withdraw")
async def withdraw(request: Request) -> Response:
    fields = await form_of(request)
    return await run_in_threadpool(_withdraw, request, fields)


def _withdraw(request: Request, fields: Mapping[str, str]) -> Response:
    seen = _write_visit(request, fields.get("csrf", ""))
    if seen.state.phase != "withdrawn":
        seen.web.store.withdraw(seen.state.rater)
    return seen.to("/study")


@router.post("/study/practice/{opaque}")
async def practise(request: Request, opaque: str) -> Response:
    fields = await form_of(request)
    return await run_in_threadpool(_practise, request, opaque, fields)


def _practise(request: Request, opaque: str, fields: Mapping[str, str]) -> Response:
    seen = _write_visit(request, fields.get("csrf", ""))
    task = _practice_of(seen.study, opaque)
    if seen.state.phase != "practice" or _settled(seen, task):
        return seen.to("/study")
    tries, _ = seen.state.practice.get(opaque, (0, False))
    if fields.get("try") != str(tries):  # the same try sent twice
        return seen.to(f"/study/practice/{opaque}")
    events = []
    asked = _asked(seen.study, task)
    for criterion in asked:
        answer = _from_form(criterion, fields, len(task.candidates))
        if answer is not None:
            events.append(_event(seen, "practice", opaque, criterion.id, answer))
    if len(events) < len(asked):
        return _practice(seen, task, given={e.criterion: cast(Answer, e.value) for e in events})
    seen.web.store.record(seen.state.rater, events)
    return seen.to(f"/study/practice/{opaque}")


def _from_form(
    criterion: RatingCriterion, fields: Mapping[str, str], texts: int, now: Answer | None = None
) -> Answer | None:
    try:
        return form_answer(criterion, fields, texts, now)
    except ValueError as error:
        raise Turned(422, "") from error


def _event(seen: Visit, kind: Any, item: str, criterion: str, value: Any) -> Event:
    """What a form says; sent twice at the same moment, it is the same event."""
    clock = seen.state.clock + 1
    body = json.dumps([kind, item, criterion, value, clock])
    name = hmac.new(seen.secret.encode(), body.encode(), hashlib.sha256).hexdigest()
    return Event(name, kind, item, criterion, value, clock)


@router.post("/study/item/{opaque}")
async def rate(request: Request, opaque: str) -> Response:
    fields = await form_of(request)
    return await run_in_threadpool(_rate, request, opaque, fields)


def _rate(request: Request, opaque: str, fields: Mapping[str, str]) -> Response:
    """Saves what changed, then goes where the rater wants; on only if nothing is open."""
    seen = _write_visit(request, fields.get("csrf", ""))
    items = shown_items(seen.study, seen.state)
    item = _item_of(items, opaque)
    placed = placed_of(seen.study, seen.state)[item.number - 1]
    saved = ""
    if events := _changes(seen, item, placed.order, fields):
        done = seen.web.store.record(seen.state.rater, events)
        saved = f"{done[-1].at:%H:%M}"
        seen = Visit(seen.web, seen.secret, seen.web.store.state(seen.state.rater))
        items = shown_items(seen.study, seen.state)
        item = _item_of(items, opaque)
    go = fields.get("go", "next")
    if go == "back":
        return seen.to(f"/study/item/{items[max(item.number - 2, 0)].id}")
    if go == "next" and item.open(seen.study.criteria):
        return _rating(seen, items, item, missing=True, saved=saved)
    if item.number < len(items):
        return seen.to(f"/study/item/{items[item.number].id}")
    seen.web.store.enter(seen.state.rater, "review")
    return seen.to("/study")


def _changes(
    seen: Visit, item: Shown, order: tuple[int, ...], fields: Mapping[str, str]
) -> list[Event]:
    """Events for what the rater changed in the form.

    What still is as the form showed it says nothing: another window may have changed it since.
    """
    events = []
    was = _was(item, fields)
    for criterion in seen.study.criteria:
        answer = _from_form(criterion, fields, len(item.texts), was.answers.get(criterion.id))
        before = (None, was.answers.get(criterion.id), item.answers.get(criterion.id))
        if answer not in before:
            value = stored_answer(criterion, order, answer)
            events.append(_event(seen, "rating", item.id, criterion.id, value))
    comment = _lines(fields.get("comment", was.comment))
    if comment not in (_lines(was.comment), item.comment):
        events.append(_event(seen, "comment", item.id, "", comment))
    problem = fields.get("problem") == "yes"
    if problem not in (was.problem, item.problem):
        events.append(_event(seen, "problem", item.id, "", problem))
    return events


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").strip()


def _was(item: Shown, fields: Mapping[str, str]) -> Shown:
    """The item as the form showed it; as it is now if the form doesn't say."""
    try:
        said = json.loads(fields["was"])
        answers = {
            str(name): tuple(map(int, value)) if isinstance(value, list) else int(value)
            for name, value in said["answers"].items()
        }
        comment, problem = str(said["comment"]), bool(said["problem"])
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return item
    return replace(item, answers=answers, comment=comment, problem=problem)


# for the script of the rating page


@router.get("/api/state")
def api_state(request: Request, items: int = 1) -> Response:
    """What the rating page needs to go on without asking again; `items=0` without the texts.

    Texts are there while they are rated, not before.
    """
    seen = visit(request)
    shown = shown_items(seen.study, seen.state)
    document: dict[str, Any] = {
        "phase": seen.state.phase,
        "clock": seen.state.clock,
        "csrf": seen.csrf,
        "storage": seen.storage,
        "current": {item.id: answer_document(item) for item in shown},
    }
    if items and seen.state.phase in ("rating", "review"):
        document["items"] = [item_document(item) for item in shown]
    return JSONResponse(document)


@router.post("/api/events")
async def api_events(request: Request) -> Response:
    raw = await json_of(request)
    token = request.headers.get("x-csrf-token", "")
    return await run_in_threadpool(_api_events, request, token, raw)


def _api_events(request: Request, token: str, raw: Any) -> Response:
    seen = _write_visit(request, token)
    listed = raw.get("events") if isinstance(raw, dict) else raw
    if not isinstance(listed, list) or not 0 < len(listed) <= EVENTS_AT_ONCE:
        raise Turned(422, "")
    orders = {p.opaque: p.order for p in placed_of(seen.study, seen.state)}
    events = [_read_event(seen.study, orders, one) for one in listed]
    saved = seen.web.store.record(seen.state.rater, events)
    return JSONResponse(
        {
            "saved": [
                {"uuid": one.uuid, "at": one.at.isoformat(), "duplicate": one.duplicate}
                for one in saved
            ],
            "clock": max(one.clock for one in saved),
        }
    )


def _read_event(study: Frozen, orders: Mapping[str, tuple[int, ...]], raw: Any) -> Event:
    """An event as the store takes it; what it is worth the store decides.

    Raises:
        Turned: 422 if it has not the form of one.
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
    asked = {c.id: c for c in study.criteria}
    if raw["kind"] == "rating" and criterion in asked and raw["item"] in orders:
        value = stored_answer(asked[criterion], orders[raw["item"]], value)
    return Event(
        raw["uuid"], raw["kind"], raw["item"], criterion, cast(Any, value), clock, client_ms
    )
