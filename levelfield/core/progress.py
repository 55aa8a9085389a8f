"""How far a piece of work is, told to whoever asks."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int], None]
"""Called with the number of samples just finished."""


def no_progress(_: int) -> None:
    """The default `Progress`: says nothing."""
