"""Tells a caller how far a piece of work is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

Progress = Callable[[int], None]
"""Called with the number of samples just finished."""


def no_progress(_: int) -> None:
    """The default `Progress`: says nothing."""


Stages = Callable[[str, int | None], contextlib.AbstractContextManager[Progress]]
"""Opens a stage of the work: its name and how many samples it has, None where that is unknown."""


@contextlib.contextmanager
def no_stages(_: str, __: int | None) -> Iterator[Progress]:
    """The default `Stages`: says nothing."""
    yield no_progress
