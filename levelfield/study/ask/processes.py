"""The processes of this machine, as Linux shows them."""

from __future__ import annotations

from pathlib import Path


def process_folders(proc: Path) -> list[Path]:
    """Returns the folder of each process in `/proc`; none where there is no such folder."""
    try:
        return [folder for folder in proc.iterdir() if folder.name.isdecimal()]
    except OSError:
        return []
