"""The organiser's pages: their link, every slot, the raters' links, texts and downloads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from levelfield.io.writing import temporary_folder
from levelfield_rating.export.documents import archive, documents
from levelfield_rating.model import Item
from levelfield_rating.results.negatives import negative_of
from levelfield_rating.results.raters import RaterStatus, counted, rating_status, time_spent
from levelfield_rating.web.context import web_of
from levelfield_rating.web.organiser.desk import Desk, duration, open_desk
from levelfield_rating.web.security import Fields, Turned

router = APIRouter()


@router.get("/enter/{token}")
def entry(request: Request, token: str) -> Response:
    """Shows one button, so that a program that looks at links opens nothing."""
    action = f"/organiser/enter/{quote(token, safe='')}"
    return web_of(request).entry(request, "organiser/entry.html", action=action)


@router.post("/enter/{token}")
def exchange(request: Request, token: str, fields: Fields) -> Response:
    web = web_of(request)
    return web.opened(
        request,
        fields,
        lambda: web.store.organiser_exchange(token),
        cookie=web.organiser_cookie,
        to="/organiser",
    )


@dataclass(frozen=True)
class SlotRow:
    """A row of the grid.

    Attributes:
        slot: index; `name` is the slot's.
        rater: None for a slot without an invited rater.
        spent: the rater's time in words.
    """

    slot: int
    name: str
    rater: RaterStatus | None = None
    spent: str = ""


@router.get("")
def overview(request: Request) -> Response:
    """Shows every slot, its rater, progress, times and use of the scales."""
    return overview_page(open_desk(request))


def overview_page(desk: Desk, *, problem: str = "") -> Response:
    study = rating_status(desk.web.store)
    surveys: dict[int, list[SlotRow]] = {}
    former = []
    for row in _slot_rows(desk, study.raters):
        if row.rater and row.rater.state.replaced:
            former.append(row)
        else:
            surveys.setdefault(desk.study.slots[row.slot].survey, []).append(row)
    return desk.page(
        "overview",
        surveys=surveys,
        former=former,
        problem=problem,
        erasing=desk.web.store.is_erasing(),
        done=study.done,
        slots=study.slots,
        answers=sum(rater.progress.answers for rater in study.raters),
        failed=study.failing,
    )


def _slot_rows(desk: Desk, raters: Sequence[RaterStatus]) -> list[SlotRow]:
    """Returns the raters and the slots that nobody has, in the order of the slots."""
    slots, spent = desk.study.slots, time_spent(desk.web.store.log())
    rows = []
    for rater in raters:
        slot = rater.state.slot
        if slot < len(slots) or rater.state.replaced:
            name = slots[slot].name if slot < len(slots) else f"slot {slot + 1}"
            rows.append(SlotRow(slot, name, rater, duration(spent.get(rater.state.rater))))
    taken = {rater.state.slot for rater in raters if not rater.state.replaced}
    rows += [SlotRow(n, slot.name) for n, slot in enumerate(slots) if n not in taken]
    return sorted(rows, key=lambda row: (row.slot, row.rater is None))


@router.get("/links")
def show_links(request: Request) -> Response:
    return links_page(open_desk(request))


def links_page(
    desk: Desk, *, fresh: Sequence[tuple[str, str]] = (), problem: str = "", done: str = ""
) -> Response:
    """Shows the state of every link; `fresh` are (slot, link) that can be read this once."""
    slots = desk.study.slots
    return desk.page(
        "links",
        links=[(slots[link.slot], link) for link in desk.web.store.links()],
        fresh=fresh,
        problem=problem,
        done=done,
    )


@router.get("/texts")
def texts_page(request: Request) -> Response:
    """Shows all items as they are, negative samples marked."""
    desk = open_desk(request)
    surveys: dict[int, list[Item]] = {}
    for item in desk.study.items.values():
        surveys.setdefault(item.survey, []).append(item)
    systems = {id: record.get("system", "") for id, record in desk.study.samples.items()}
    return desk.page(
        "texts",
        surveys=dict(sorted(surveys.items())),
        systems=systems,
        negative_of=negative_of,
    )


@router.get("/comments")
def comments_page(request: Request) -> Response:
    """Shows raters' comments, and the texts that they report as problems."""
    desk = open_desk(request)
    study = desk.study
    remarks = [
        (state, study.items[key], state.comments.get(key, ""), key in state.problems)
        for state in counted(desk.web.store, excluded=True)
        for key in sorted({*state.comments, *state.problems})
    ]
    return desk.page("comments", remarks=remarks)


MEDIA = {
    ".jsonl": "application/x-ndjson; charset=utf-8",
    ".json": "application/json",
    ".csv": "text/csv; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
}


@router.get("/export")
def export_page(request: Request) -> Response:
    desk = open_desk(request)
    return desk.page(
        "export",
        names=list(documents(desk.web.store)),
        digest=desk.study.digest,
    )


@router.get("/export/{name}")
def download(request: Request, name: str, everyone: int = 0) -> Response:
    """Sends one file of the export, all of them as a ZIP, or the store itself."""
    desk = open_desk(request)
    store, study = desk.web.store, desk.study
    if name == "all.zip":
        content, media = archive(store, excluded=bool(everyone)), "application/zip"
        return attachment(content, f"{study.id}-v{study.version}.zip", media)
    if name == "backup.sqlite":
        with temporary_folder() as folder:
            copy = folder / "backup.sqlite"
            store.backup(copy)
            content = copy.read_bytes()
        stamp = f"{desk.web.now():%Y%m%d-%H%M%S}"
        return attachment(content, f"{study.id}-{stamp}.sqlite", "application/vnd.sqlite3")
    contents = documents(store, excluded=bool(everyone))
    if name not in contents:
        raise Turned(404, "")
    media = MEDIA.get(Path(name).suffix, "text/plain; charset=utf-8")
    return attachment(contents[name].encode("utf-8", "backslashreplace"), name, media)


def attachment(content: bytes, name: str, media: str) -> Response:
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)
    headers = {"Content-Disposition": f'attachment; filename="{plain}"'}
    return Response(content, media_type=media, headers=headers)
