"""Damage of a model's files, as an error that names the model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from levelfield.core.errors import LevelfieldError, ModelError, first_line


@contextlib.contextmanager
def reading(name: str) -> Iterator[None]:
    """The one place where a model's files are read: whatever is raised there is their damage, since
    libraries raise anything on files that are not what they should be.

    Raises:
        ModelError: names the model and what was said of it.
    """
    try:
        yield
    except (LevelfieldError, MemoryError):
        raise
    except Exception as error:
        first = first_line(error)
        if isinstance(error, KeyError):
            first = f"{first} is missing"
        raise ModelError(f"model '{name}' can't be loaded: {first}") from error
