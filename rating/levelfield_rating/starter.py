"""A study to begin with."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

from levelfield.core.errors import UserError


def write_starter(folder: str | os.PathLike[str]) -> list[Path]:
    """Writes a study file with comments, samples, and what to do next; returns their paths.

    Raises:
        UserError: one of the files is there already, or the folder can't be written.
    """
    place = Path(folder)
    starter = resources.files("levelfield_rating").joinpath("starter")
    names = sorted(entry.name for entry in starter.iterdir() if not entry.name.startswith("_"))
    for name in names:
        if (place / name).exists():
            raise UserError(f"{place / name} is there already; name another folder")
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name in names:
            (place / name).write_bytes(starter.joinpath(name).read_bytes())
    except OSError as error:
        raise UserError(f"{folder}: can't be written: {error.strerror}") from error
    return [place / name for name in names]
