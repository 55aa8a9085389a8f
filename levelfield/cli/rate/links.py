"""`levelfield rate links`: the raters' links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from levelfield.cli.options import WholeNumber
from levelfield.cli.outputs import OutputType, Writing
from levelfield.cli.rate.options import STORE, STUDY, URL, open_store
from levelfield.cli.terminal import console, say, tell
from levelfield.core.errors import UserError

if TYPE_CHECKING:
    from levelfield.rating.model import Frozen
    from levelfield.rating.store import LinkState, RatingStore


@dataclass(frozen=True)
class LinkOptions:
    """The words of `levelfield rate links`."""

    file: str
    store: str | None
    slot: int | None
    new: bool
    revoke: bool
    reassign: bool
    csv_file: str | None
    url: str

    def __post_init__(self) -> None:
        chosen = [name for name in ("new", "revoke", "reassign") if getattr(self, name)]
        if len(chosen) + bool(self.csv_file) > 1:
            raise UserError("only one of --new, --revoke, --reassign and --csv at a time")
        if chosen and self.slot is None:
            raise UserError(f"--{chosen[0]}: say for which --slot")
        if self.csv_file and self.slot is not None:
            raise UserError("--csv is for all slots; leave --slot out, or say --new")

    @property
    def writes(self) -> bool:
        """Whether the command changes the store."""
        return self.new or self.revoke or self.reassign or bool(self.csv_file)


@click.command(cls=Writing)
@STUDY
@STORE
@click.option(
    "--slot", type=WholeNumber(1), help="Number of the one place of a rater that is meant."
)
@click.option("--new", is_flag=True, help="Make a new link for the rater of --slot.")
@click.option("--revoke", is_flag=True, help="End the link of --slot.")
@click.option(
    "--reassign", is_flag=True, help="Make a link for another person in the place of --slot."
)
@click.option(
    "--csv",
    "csv_file",
    type=OutputType("links of raters"),
    help="New links of all slots not opened yet.",
)
@URL
def links(**words: Any) -> None:
    """Show the state of the raters' links; make, revoke and reassign them.

    A link can be read only when it is made: the store keeps no link. May be used while the study
    is served.
    """
    from levelfield.rating.links import Address, write_links

    options = LinkOptions(**words)
    root = (Address.of(options.url) if options.url else Address()).root
    with open_store(options.file, options.store, read_only=not options.writes) as store:
        slots = store.frozen.slots
        if options.slot is not None and options.slot > len(slots):
            raise UserError(f"--slot {options.slot}: the study has {len(slots)} slots")
        if options.csv_file:
            number = write_links(store, options.csv_file, root)
            if options.csv_file != "-":
                say(
                    f"wrote {options.csv_file}: {number} links; earlier ones that nobody opened "
                    "have ended"
                )
        elif options.writes and options.slot is not None:
            _change(store, options, options.slot - 1, root)
        else:
            _print(store.frozen, store.links(), options.slot)


def _change(store: RatingStore, options: LinkOptions, slot: int, root: str) -> None:
    if options.revoke:
        store.revoke(slot)
        say(f"the link of {store.frozen.slots[slot].name} is revoked")
    else:
        token = store.new_link(slot) if options.new else store.reassign(slot)
        tell(f"{root}/r/{token}")


def _print(frozen: Frozen, states: Sequence[LinkState], slot: int | None) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("slot", "name", "rater", "link", "since"):
        table.add_column(heading, justify="right" if heading == "slot" else "left")
    for link in states:
        if slot is None or link.slot == slot - 1:
            table.add_row(
                str(link.slot + 1),
                frozen.slots[link.slot].name,
                link.rater or "–",
                link.state,
                f"{link.when:%Y-%m-%d %H:%M} UTC" if link.when else "–",
            )
    console().print(table)
