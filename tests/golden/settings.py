"""What the cases of a group need beside their folder."""

from __future__ import annotations

import os
from pathlib import Path

Changes = dict[str, str | None]


def lacking(group: str) -> str:
    """Why the cases of a group can't run here; empty if they can."""
    if group.startswith("data") and not Path(os.environ.get("LEVELFIELD_DATA", "?")).is_dir():
        return "LEVELFIELD_DATA does not name a folder with the rated data sets"
    return ""


def changes(group: str, folder: Path) -> Changes:
    """The environment that a group of cases runs in."""
    data = os.environ["LEVELFIELD_DATA"] if group.startswith("data") else None
    return {"LEVELFIELD_CACHE": str(folder / "cache"), "LEVELFIELD_DATA": data}
