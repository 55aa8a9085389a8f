"""What the commands of `levelfield rate` share: arguments, options, and an open store."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from levelfield.cli.options import takes
from levelfield.cli.outputs import INPUT
from levelfield.core.errors import UserError
from levelfield_rating.settings import StoreOptions

if TYPE_CHECKING:
    from levelfield_rating.store import RatingStore


def _in_folder(_context: click.Context, _argument: click.Parameter, file: str) -> str:
    """A folder stands for the study file in it."""
    return str(Path(file) / "STUDY.toml") if Path(file).is_dir() else file


STUDY = click.argument("file", metavar="STUDY.toml", type=INPUT, callback=_in_folder)
STORE = takes(StoreOptions, "where")


@contextlib.contextmanager
def open_store(file: str, where: StoreOptions, *, read_only: bool = False) -> Iterator[RatingStore]:
    from levelfield_rating.store import RatingStore

    with (
        usable_store(),
        contextlib.closing(RatingStore.open(where.path(file), read_only=read_only)) as opened,
    ):
        yield opened


@contextlib.contextmanager
def usable_store() -> Iterator[None]:
    """A disk that says no is the user's to mend."""
    from levelfield_rating.store import StoreUnavailable

    try:
        yield
    except StoreUnavailable as error:
        raise UserError(f"the store can't be used: {error}") from error
