"""What the organiser does: links, previews, exclusions, closing."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from levelfield.io.tables import csv_text
from levelfield_rating.results.raters import rating_status
from levelfield_rating.store.records import StoreError
from levelfield_rating.web.context import COOKIE_DAYS
from levelfield_rating.web.organiser.desk import Desk, write_desk
from levelfield_rating.web.organiser.pages import MEDIA, attachment, links_page, overview_page
from levelfield_rating.web.security import Fields, Turned

router = APIRouter()


@router.post("/do/{name}")
def do(request: Request, name: str, fields: Fields) -> Response:
    action = _ACTIONS.get(name)
    desk = write_desk(request, fields)
    if action is None:
        raise Turned(404, "")
    try:
        return action(desk, fields)
    except StoreError as error:
        if name in ("link", "links", "revoke", "reassign"):
            return links_page(desk, problem=str(error))
        return overview_page(desk, problem=str(error))


def _slot(fields: Mapping[str, str]) -> int:
    slot = fields.get("slot", "")
    if not (slot.isascii() and slot.isdecimal() and len(slot) < 9):
        raise StoreError("no slot is named")
    return int(slot)


def _reason(fields: Mapping[str, str], purpose: str) -> str:
    reason = fields.get("reason", "").strip()
    if not reason:
        raise StoreError(f"Say why {purpose}: the reason is kept in the log.")
    return reason[:1_000]


def _make_link(desk: Desk, fields: Mapping[str, str]) -> Response:
    slot = _slot(fields)
    token = desk.web.store.new_link(slot)
    return links_page(desk, fresh=[(desk.study.slots[slot].name, desk.link(token))])


def _make_links(desk: Desk, fields: Mapping[str, str]) -> Response:
    """Makes a new link for every slot whose link nobody has opened; returns a page or CSV."""
    store, slots = desk.web.store, desk.study.slots
    links = [
        (slots[link.slot].name, desk.link(store.new_link(link.slot)))
        for link in store.links()
        if link.is_unopened
    ]
    if not links:
        raise StoreError("Every link has been opened or revoked; make new ones slot by slot.")
    if fields.get("as") == "csv":
        content = csv_text([("slot", "link"), *links]).encode()
        return attachment(content, f"{desk.study.id}-links.csv", MEDIA[".csv"])
    return links_page(desk, fresh=links)


def _revoke(desk: Desk, fields: Mapping[str, str]) -> Response:
    slot = _slot(fields)
    desk.web.store.revoke(slot)
    return links_page(desk, done=f"The link of {desk.study.slots[slot].name} is revoked.")


def _reassign(desk: Desk, fields: Mapping[str, str]) -> Response:
    slot = _slot(fields)
    token = desk.web.store.reassign(slot)
    return links_page(desk, fresh=[(desk.study.slots[slot].name, desk.link(token))])


def _preview(desk: Desk, fields: Mapping[str, str]) -> Response:
    """Turns the browser into a rater whose answers never count."""
    secret = desk.web.store.preview(_slot(fields))
    response = RedirectResponse(desk.web.url("/study"), status_code=303)
    desk.web.set_cookie(response, desk.web.cookie, secret, days=COOKIE_DAYS)
    return response


def _exclude(desk: Desk, fields: Mapping[str, str]) -> Response:
    desk.web.store.exclude(fields.get("rater", ""), _reason(fields, "the rater is excluded"))
    return desk.to("")


def _include(desk: Desk, fields: Mapping[str, str]) -> Response:
    desk.web.store.include(fields.get("rater", ""), _reason(fields, "the rater counts again"))
    return desk.to("")


def _exclude_failed(desk: Desk, _fields: Mapping[str, str]) -> Response:
    """Excludes everybody who fails by the negative samples now and is not excluded yet.

    The log keeps no answer: reasons stay when a rater withdraws.
    """
    for rater in rating_status(desk.web.store).failing:
        desk.web.store.exclude(rater.state.rater, "failed the negative sample")
    return desk.to("")


def _close(desk: Desk, fields: Mapping[str, str]) -> Response:
    desk.web.store.close_study(_reason(fields, "the study is closed"))
    return desk.to("")


def _reopen(desk: Desk, fields: Mapping[str, str]) -> Response:
    desk.web.store.reopen(_reason(fields, "the study is open again"))
    return desk.to("")


def _leave(desk: Desk, _fields: Mapping[str, str]) -> Response:
    """Ends the organiser's sessions in all browsers."""
    desk.web.store.end_organiser_sessions()
    response = desk.web.page("organiser/left.html")
    response.delete_cookie(desk.web.organiser_cookie, path=desk.web.address.base_path or "/")
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
