"""The organiser's way: who is how far, links, previews, exclusions, agreement, results, export.

Behind a secret of its own: a rater's session opens none of these pages. In English whatever the
study's language is.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from levelfield.meta.agreement_report import Agreement
from levelfield.meta.summary import OVERALL
from levelfield.rating.export.documents import archive, documents
from levelfield.rating.export.tables import table
from levelfield.rating.model import Frozen, Item
from levelfield.rating.results.agreement import SystemMean, reliability, system_means
from levelfield.rating.results.negatives import ControlVerdict, negative_of, verdict
from levelfield.rating.results.raters import (
    RaterProgress,
    ScaleUse,
    counted,
    progress,
    spreads,
    time_spent,
)
from levelfield.rating.store.records import LinkState, RaterState, StoreError
from levelfield.rating.web.context import Web, web_of
from levelfield.rating.web.security import (
    Turned,
    check_csrf,
    csrf_token,
    form_of,
    is_https,
)
from levelfield.stats.estimate import Estimate
from levelfield.stats.resampling import Resampling

router = APIRouter(prefix="/organiser")

RESAMPLING = Resampling(resamples=1_000)
"""Of intervals on pages; fewer than on the command line, as somebody waits."""

_SHOWN_ICC = ("ICC(1,1)", "ICC(2,1)", "ICC(2,k)")

MEDIA = {
    ".jsonl": "application/x-ndjson; charset=utf-8",
    ".json": "application/json",
    ".csv": "text/csv; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
}


@dataclass(frozen=True)
class Desk:
    """A request of the organiser."""

    web: Web
    secret: str
    request: Request

    @property
    def study(self) -> Frozen:
        return self.web.store.frozen

    def page(self, template: str, *, status: int = 200, **context: Any) -> Response:
        return self.web.page(
            f"organiser/{template}",
            status=status,
            csrf=csrf_token(self.secret),
            closed=self.web.store.closed(),
            number=_number,
            value=_value,
            share=_share,
            **context,
        )

    def to(self, path: str) -> Response:
        return RedirectResponse(self.web.url(f"/organiser{path}"), status_code=303)

    def address(self, token: str) -> str:
        """The link that a rater opens."""
        request, web = self.request, self.web
        host = request.headers.get("host", "")
        if web.behind_proxy:
            said = request.headers.get("x-forwarded-host", "")
            host = said.split(",")[-1].strip() or host
        scheme = "https" if is_https(request, behind_proxy=web.behind_proxy) else "http"
        return f"{scheme}://{host}{web.url('/r/' + quote(token, safe=''))}"


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
    link: LinkState | None
    progress: RaterProgress | None
    spent: str
    verdict: ControlVerdict | None
    spreads: Mapping[str, ScaleUse] = field(default_factory=dict)
    excluded: str = ""


def desk(request: Request) -> Desk:
    """The organiser's visit.

    Raises:
        Turned: 401 without a session of the organiser.
    """
    web = web_of(request)
    secret = request.cookies.get(web.organiser_cookie, "")
    if not secret or not web.store.organiser_session(secret):
        raise Turned(401, "")
    return Desk(web, secret, request)


def _write_desk(request: Request, fields: Mapping[str, str]) -> Desk:
    seen = desk(request)
    check_csrf(seen.secret, fields.get("csrf", ""))
    return seen


# the link


@router.get("/enter/{token}")
def entry(request: Request, token: str) -> Response:
    """One button, so that a program that looks at links opens nothing."""
    web = web_of(request)
    action = web.url(f"/organiser/enter/{quote(token, safe='')}")
    return web.page("organiser/entry.html", action=action)


@router.post("/enter/{token}")
def exchange(request: Request, token: str) -> Response:
    web = web_of(request)
    return web.opened(
        request,
        lambda: web.store.organiser_exchange(token),
        cookie=web.organiser_cookie,
        to="/organiser",
    )


# pages


@router.get("")
def overview(request: Request) -> Response:
    """Every slot and who has it: how far, when, how they use the scales."""
    return _overview(desk(request))


def _overview(seen: Desk, *, problem: str = "") -> Response:
    rows = _rows(seen)
    surveys: dict[int, list[RaterRow]] = {}
    former = []
    for row in rows:
        if row.state is not None and row.state.replaced:
            former.append(row)
        else:
            surveys.setdefault(seen.study.slots[row.slot].survey, []).append(row)
    states = [row.state for row in rows if row.state and not row.state.replaced]
    return seen.page(
        "overview.html",
        status=422 if problem else 200,
        here="overview",
        surveys=surveys,
        former=former,
        problem=problem,
        now=seen.web.now(),
        when=_when,
        done=sum(state.phase == "done" for state in states),
        slots=len(seen.study.slots),
        answers=sum(row.progress.answers for row in rows if row.progress),
        failed=[row for row in rows if _is_failed(row) and not row.excluded],
    )


def _is_failed(row: RaterRow) -> bool:
    return row.verdict is not None and row.verdict.failed is True


def _rows(seen: Desk) -> list[RaterRow]:
    store, study = seen.web.store, seen.study
    excluded, spent = store.excluded(), time_spent(store.log())
    links = {link.slot: link for link in store.links()}
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
                link=None if state.replaced else links.get(state.slot),
                progress=progress(study, state),
                spent=_duration(spent.get(state.rater)),
                verdict=verdict(study, state),
                spreads=spreads(study, state),
                excluded=excluded.get(state.rater, ""),
            )
        )
    for n, slot in enumerate(study.slots):
        if n not in taken:
            rows.append(RaterRow(n, slot.name, None, links.get(n), None, "", None))
    return sorted(rows, key=lambda row: (row.slot, row.state is None))


@router.get("/links")
def links_page(request: Request) -> Response:
    return _links(desk(request))


def _links(
    seen: Desk, *, made: Sequence[tuple[str, str]] = (), problem: str = "", done: str = ""
) -> Response:
    """The state of every link; `made` are (slot, link) that can be read this once."""
    slots = seen.study.slots
    return seen.page(
        "links.html",
        status=422 if problem else 200,
        here="links",
        links=[(slots[link.slot], link) for link in seen.web.store.links()],
        made=made,
        problem=problem,
        done=done,
        now=seen.web.now(),
        when=_when,
    )


@router.get("/reliability")
def reliability_page(request: Request, everyone: int = 0) -> Response:
    """Agreement; `everyone=1` with the raters who are excluded."""
    seen = desk(request)
    store, study = seen.web.store, seen.study
    states = counted(store, excluded=bool(everyone))
    found = reliability(study, states, resampling=RESAMPLING)
    titles = {criterion.id: criterion.title for criterion in study.criteria}
    z: dict[tuple[str, str], Agreement] = {}
    if found.standardised is not None:
        z = {(g.aspect, g.part): g for g in found.standardised.groups}
    return seen.page(
        "reliability.html",
        here="reliability",
        everyone=bool(everyone),
        excluded=store.excluded(),
        found=found,
        groups=_by_aspect(found.raw.groups, study) if found.raw else {},
        titles=titles,
        z=z,
        overall=OVERALL,
        text_of=lambda unit: _text_of(found.texts, unit),
        given_of=lambda unit: found.texts[unit][0].given,
        notes=_notes(found.raw.groups) if found.raw else [],
    )


def _by_aspect(groups: Sequence[Agreement], study: Frozen) -> dict[str, list[Agreement]]:
    """Groups of each criterion in the study's order, of all criteria last."""
    made: dict[str, list[Agreement]] = {criterion.id: [] for criterion in study.criteria}
    for group in groups:
        made.setdefault(group.aspect, []).append(group)
    return {aspect: some for aspect, some in made.items() if some}


def _text_of(texts: Mapping[str, tuple[Item, int]], unit: str) -> list[str]:
    item, n = texts[unit]
    chosen = item.candidates if n < 0 else item.candidates[n : n + 1]
    return [candidate.part.text for candidate in chosen]


def _notes(groups: Sequence[Agreement]) -> list[str]:
    """Why numbers are missing, each reason once with where it holds."""
    where: dict[str, dict[str, None]] = {}
    for group in groups:
        shown = {"α": group.alpha, **{name: group.icc[name] for name in _SHOWN_ICC}}
        for name, e in shown.items():
            why = e.why_undefined or (e.why_no_interval and f"no interval: {e.why_no_interval}")
            for reason in filter(None, (why, e.note)):
                where.setdefault(f"{name}: {reason}", {})[_place(group)] = None
    return [f"{what} ({', '.join(at)})" for what, at in where.items()]


def _place(group: Agreement) -> str:
    return "all surveys" if group.part == OVERALL else f"survey {group.part}"


@router.get("/results")
def results_page(request: Request) -> Response:
    """Means of the systems, without and with those who are excluded."""
    seen = desk(request)
    store, study = seen.web.store, seen.study
    kept, everyone = counted(store), counted(store, excluded=True)
    without = system_means(study, kept, resampling=RESAMPLING)
    same = len(kept) == len(everyone)
    full = without if same else system_means(study, everyone, resampling=RESAMPLING)
    rows: dict[str, list[tuple[SystemMean | None, SystemMean]]] = {}
    known = {(m.system, m.criterion): m for m in without}
    for mean in full:
        pair = (known.get((mean.system, mean.criterion)), mean)
        rows.setdefault(mean.criterion, []).append(pair)
    return seen.page(
        "results.html",
        here="results",
        rows=rows,
        same=same,
        raters=(len(kept), len(everyone)),
        excluded=store.excluded(),
        titles={criterion.id: criterion.title for criterion in study.criteria},
    )


@router.get("/texts")
def texts_page(request: Request) -> Response:
    """All items as they are, negative samples marked."""
    seen = desk(request)
    surveys: dict[int, list[Item]] = {}
    for item in seen.study.items.values():
        surveys.setdefault(item.survey, []).append(item)
    systems = {id: record.get("system", "") for id, record in seen.study.samples.items()}
    return seen.page(
        "texts.html",
        here="texts",
        surveys=dict(sorted(surveys.items())),
        systems=systems,
        negative_of=negative_of,
    )


@router.get("/comments")
def comments_page(request: Request) -> Response:
    """What raters wrote, and the texts that they say have a problem."""
    seen = desk(request)
    study = seen.study
    said = [
        (state, study.items[key], state.comments.get(key, ""), key in state.problems)
        for state in counted(seen.web.store, excluded=True)
        for key in sorted({*state.comments, *state.problems})
    ]
    return seen.page("comments.html", here="comments", said=said)


# downloads


@router.get("/export")
def export_page(request: Request) -> Response:
    seen = desk(request)
    return seen.page(
        "export.html",
        here="export",
        names=list(documents(seen.web.store)),
        excluded=seen.web.store.excluded(),
        digest=seen.study.digest,
    )


@router.get("/export/{name}")
def download(request: Request, name: str, everyone: int = 0) -> Response:
    """One file of the export, all of them as a ZIP, or the store itself."""
    seen = desk(request)
    store, study = seen.web.store, seen.study
    if name == "all.zip":
        content, media = archive(store, excluded=bool(everyone)), "application/zip"
        return _attachment(content, f"{study.id}-v{study.version}.zip", media)
    if name == "backup.sqlite":
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "backup.sqlite"
            store.backup(copy)
            content = copy.read_bytes()
        stamp = f"{seen.web.now():%Y%m%d-%H%M%S}"
        return _attachment(content, f"{study.id}-{stamp}.sqlite", "application/vnd.sqlite3")
    made = documents(store, excluded=bool(everyone))
    if name not in made:
        raise Turned(404, "")
    media = MEDIA.get(Path(name).suffix, "text/plain; charset=utf-8")
    return _attachment(made[name].encode("utf-8", "backslashreplace"), name, media)


def _attachment(content: bytes, name: str, media: str) -> Response:
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)
    headers = {"Content-Disposition": f'attachment; filename="{plain}"'}
    return Response(content, media_type=media, headers=headers)


# what the organiser does


@router.post("/do/{what}")
async def do(request: Request, what: str) -> Response:
    fields = await form_of(request)
    return await run_in_threadpool(_do, request, what, fields)


def _do(request: Request, what: str, fields: Mapping[str, str]) -> Response:
    action = _ACTIONS.get(what)
    seen = _write_desk(request, fields)
    if action is None:
        raise Turned(404, "")
    try:
        return action(seen, fields)
    except StoreError as error:
        if what in ("link", "links", "revoke", "reassign"):
            return _links(seen, problem=str(error))
        return _overview(seen, problem=str(error))


def _slot(fields: Mapping[str, str]) -> int:
    given = fields.get("slot", "")
    if not (given.isascii() and given.isdecimal() and len(given) < 9):
        raise StoreError("no slot is named")
    return int(given)


def _reason(fields: Mapping[str, str], why: str) -> str:
    reason = fields.get("reason", "").strip()
    if not reason:
        raise StoreError(f"Say why {why}: the reason is kept in the log.")
    return reason[:1_000]


def _make_link(seen: Desk, fields: Mapping[str, str]) -> Response:
    slot = _slot(fields)
    token = seen.web.store.new_link(slot)
    return _links(seen, made=[(seen.study.slots[slot].name, seen.address(token))])


def _make_links(seen: Desk, fields: Mapping[str, str]) -> Response:
    """A new link for every slot whose link nobody has opened; as a page or as CSV."""
    store, slots = seen.web.store, seen.study.slots
    unused = [link.slot for link in store.links() if link.state in ("none", "made")]
    made = [(slots[n].name, seen.address(store.new_link(n))) for n in unused]
    if not made:
        raise StoreError("Every link has been opened or revoked; make new ones slot by slot.")
    if fields.get("as") == "csv":
        content = table([("slot", "link"), *made]).encode()
        return _attachment(content, f"{seen.study.id}-links.csv", MEDIA[".csv"])
    return _links(seen, made=made)


def _revoke(seen: Desk, fields: Mapping[str, str]) -> Response:
    slot = _slot(fields)
    seen.web.store.revoke(slot)
    return _links(seen, done=f"The link of {seen.study.slots[slot].name} is revoked.")


def _reassign(seen: Desk, fields: Mapping[str, str]) -> Response:
    slot = _slot(fields)
    token = seen.web.store.reassign(slot)
    return _links(seen, made=[(seen.study.slots[slot].name, seen.address(token))])


def _preview(seen: Desk, fields: Mapping[str, str]) -> Response:
    """The browser becomes a rater whose answers never count."""
    secret = seen.web.store.preview(_slot(fields))
    response = RedirectResponse(seen.web.url("/study"), status_code=303)
    seen.web.set_cookie(response, seen.request, seen.web.cookie, secret)
    return response


def _exclude(seen: Desk, fields: Mapping[str, str]) -> Response:
    seen.web.store.exclude(fields.get("rater", ""), _reason(fields, "the rater is excluded"))
    return seen.to("")


def _include(seen: Desk, fields: Mapping[str, str]) -> Response:
    seen.web.store.include(fields.get("rater", ""), _reason(fields, "the rater counts again"))
    return seen.to("")


def _exclude_failed(seen: Desk, _fields: Mapping[str, str]) -> Response:
    """Everybody who fails by the negative samples now and is not excluded yet.

    The log keeps no answer: reasons stay when a rater withdraws.
    """
    for row in _rows(seen):
        if row.state and _is_failed(row) and not row.excluded:
            seen.web.store.exclude(row.state.rater, "failed the negative sample")
    return seen.to("")


def _close(seen: Desk, fields: Mapping[str, str]) -> Response:
    seen.web.store.close_study(_reason(fields, "the study is closed"))
    return seen.to("")


def _reopen(seen: Desk, fields: Mapping[str, str]) -> Response:
    seen.web.store.reopen(_reason(fields, "the study is open again"))
    return seen.to("")


def _leave(seen: Desk, _fields: Mapping[str, str]) -> Response:
    """Ends the organiser's sessions in all browsers."""
    seen.web.store.end_organiser_sessions()
    response = seen.web.page("organiser/left.html")
    response.delete_cookie(seen.web.organiser_cookie, path=seen.web.base_path or "/")
    return response


_ACTIONS: Mapping[str, Callable[[Desk, Mapping[str, str]], Response]] = {
    "link": _make_link,
    "links": _make_links,
    "revoke": _revoke,
    "reassign": _reassign,
    "preview": _preview,
    "exclude": _exclude,
    "include": _include,
    "exclude-failed": _exclude_failed,
    "close": _close,
    "reopen": _reopen,
    "leave": _leave,
}


# words for numbers


def _number(x: float, digits: int = 2) -> str:
    return f"{x:.{digits}f}" if math.isfinite(x) else "–"


def _value(e: Estimate, digits: int = 2) -> str:
    """A value with its interval."""
    if not math.isfinite(e.value):
        return "–"
    if math.isnan(e.low + e.high):
        return _number(e.value, digits)
    return f"{e.value:.{digits}f} [{e.low:.{digits}f}, {e.high:.{digits}f}]"


def _share(x: float) -> str:
    return f"{x:.0%}" if math.isfinite(x) else "–"


def _duration(spent: timedelta | None) -> str:
    if spent is None:
        return ""
    minutes = spent.total_seconds() / 60
    return f"{minutes:.0f} min" if minutes >= 1 else f"{spent.total_seconds():.0f} s"


def _when(at: datetime | None, now: datetime) -> str:
    """How long ago, in words."""
    if at is None:
        return "never"
    seconds = max(0.0, (now - at).total_seconds())
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            n = int(seconds // length)
            return f"{n} {unit}{'s' * (n != 1)} ago"
    return "just now"
