"""What the commands of `levelfield rate` share: arguments, options, and an open store."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from levelfield.cli.outputs import INPUT
from levelfield.core.errors import UserError

if TYPE_CHECKING:
    from levelfield.rating.store import RatingStore


def _in_folder(_context: click.Context, _argument: click.Parameter, file: str) -> str:
    """A folder stands for the study file in it."""
    return str(Path(file) / "STUDY.toml") if Path(file).is_dir() else file


STUDY = click.argument("file", metavar="STUDY.toml", type=INPUT, callback=_in_folder)
STORE = click.option(
    "--store",
    metavar="FILE",
    type=INPUT,
    help="File of the ratings. [default: STUDY.sqlite beside STUDY.toml]",
)
URL = click.option(
    "--url",
    default="",
    metavar="ADDRESS",
    help="Address at which browsers reach the pages, such as https://example.org/ratings.",
)


def store_path(file: str, store: str | None) -> Path:
    """The store of a study file."""
    return Path(store) if store else Path(file).with_suffix(".sqlite")


@contextlib.contextmanager
def open_store(file: str, store: str | None, *, read_only: bool = False) -> Iterator[RatingStore]:
    from levelfield.rating.store import RatingStore

    with (
        usable_store(),
        contextlib.closing(
            RatingStore.open(store_path(file, store), read_only=read_only)
        ) as opened,
    ):
        yield opened


@contextlib.contextmanager
def usable_store() -> Iterator[None]:
    """A disk that says no is the user's to mend."""
    from levelfield.rating.store import StoreUnavailable

    try:
        yield
    except StoreUnavailable as error:
        raise UserError(f"the store can't be used: {error}") from error
