"""Options of ratings, in Python and in `levelfield rate`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from levelfield.core.errors import UserError
from levelfield.core.options import Options, option
from levelfield_rating.address import HOST, PORT, Address


@dataclass(frozen=True, kw_only=True)
class StoreOptions(Options):
    """Where the ratings of a study are."""

    store: str | None = option(
        None,
        "File of the ratings.",
        otherwise="STUDY.sqlite beside STUDY.toml",
        metavar="FILE",
        is_file=True,
    )

    def path(self, study: str | os.PathLike[str]) -> Path:
        """Returns the store of a study file."""
        return Path(self.store) if self.store else Path(study).with_suffix(".sqlite")


@dataclass(frozen=True, kw_only=True)
class PageOptions(Options):
    """Where browsers reach the pages.

    Raises:
        UserError: `url` is not an http address, or has a path of the app.
    """

    url: str = option(
        "",
        "Address at which browsers reach the pages, such as https://example.org/ratings.",
        metavar="ADDRESS",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.url:
            Address.of(self.url)

    @property
    def address(self) -> Address | None:
        """The address; None without one."""
        return Address.of(self.url) if self.url else None

    @property
    def root(self) -> str:
        """What every link begins with; without an address, that of this machine."""
        return (self.address or Address()).root


@dataclass(frozen=True, kw_only=True)
class Serving(PageOptions):
    """How a study is served."""

    host: str = option(HOST, "Interface that the server listens on; 0.0.0.0 for all.")
    port: int = option(
        PORT, "Port that the server listens on; 0 for any free port.", least=0, most=65535
    )


@dataclass(frozen=True, kw_only=True)
class LinkOptions(PageOptions):
    """Which link of a rater is made, revoked or reassigned."""

    slot: int | None = option(
        None, "Number of the slot (the place of one rater) to change.", least=1
    )
    new: bool = option(False, "Make a new link for the rater of --slot.")
    revoke: bool = option(False, "Revoke the link of --slot.")
    reassign: bool = option(False, "Make a link for another person, who takes over --slot.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.changes) > 1:
            raise UserError("give only one of --new, --revoke, --reassign and --csv")
        if self.changes and self.slot is None:
            raise UserError(f"--{self.changes[0]}: give its --slot")

    @property
    def changes(self) -> list[str]:
        """The names of what is to be done."""
        return [name for name in ("new", "revoke", "reassign") if getattr(self, name)]

    def index(self, slots: int) -> int | None:
        """Returns the chosen slot, counted from 0; None for all.

        Raises:
            UserError: the study has fewer slots.
        """
        if self.slot is not None and self.slot > slots:
            raise UserError(f"--slot {self.slot}: the study has {slots} slots")
        return None if self.slot is None else self.slot - 1


@dataclass(frozen=True, kw_only=True)
class ExportOptions(Options):
    """Whose ratings are exported."""

    excluded: bool = option(
        False, "Include raters who were excluded or replaced.", flags=("--with-excluded",)
    )
