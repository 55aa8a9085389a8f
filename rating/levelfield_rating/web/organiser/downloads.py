"""The export and the backup as downloads."""

from __future__ import annotations

import re
from pathlib import Path

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from levelfield.io.writing import temporary_folder
from levelfield_rating.export.documents import archive, documents
from levelfield_rating.web.organiser.desk import open_desk
from levelfield_rating.web.security import Turned

MEDIA = {
    ".jsonl": "application/x-ndjson; charset=utf-8",
    ".json": "application/json",
    ".csv": "text/csv; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
}

router = APIRouter()


@router.get("/export")
def export_page(request: Request) -> Response:
    desk = open_desk(request)
    return desk.page(
        "export.html",
        here="export",
        names=list(documents(desk.web.store)),
        excluded=desk.web.store.excluded(),
        digest=desk.study.digest,
    )


@router.get("/export/{name}")
def download(request: Request, name: str, everyone: int = 0) -> Response:
    """One file of the export, all of them as a ZIP, or the store itself."""
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
