"""Paths as users write them, with `~` for a home folder."""

from __future__ import annotations

import os
from pathlib import Path

from levelfield.core.errors import UserError


def user_path(name: str | os.PathLike[str]) -> Path:
    """Returns a path in which `~` and `~USER` are home folders.

    Raises:
        UserError: there is no such user, or no home folder.
    """
    try:
        return Path(name).expanduser()
    except RuntimeError:
        user = os.fspath(name).partition("/")[0]
        raise UserError(
            f"{os.fspath(name)!r}: there is no home folder for {user!r}; write ./{user} for a file "
            "of this name"
        ) from None


def existing_path(name: str | os.PathLike[str]) -> Path | None:
    """Returns the path if it exists; None for a name without a file or folder."""
    try:
        path = user_path(name)
        return path if name and path.exists() else None
    except (OSError, ValueError, UserError):  # too long a name, or a NUL character
        return None
