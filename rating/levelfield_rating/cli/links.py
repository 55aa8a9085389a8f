"""`levelfield rate links`: the raters' links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from levelfield.cli.options import takes
from levelfield.cli.outputs import OutputType, Writing
from levelfield.cli.terminal import console, say, tell
from levelfield.core.errors import UserError
from levelfield_rating.cli.options import STORE, STUDY, open_store
from levelfield_rating.settings import LinkOptions, StoreOptions

if TYPE_CHECKING:
    from levelfield_rating.model import Frozen
    from levelfield_rating.store import LinkState


@click.command(cls=Writing)
@STUDY
@STORE
@takes(LinkOptions)
@click.option(
    "--csv",
    "csv_file",
    type=OutputType("links of raters"),
    help="Write new links for all slots that nobody has opened yet, as CSV.",
)
def links(file: str, where: StoreOptions, options: LinkOptions, csv_file: str | None) -> None:
    """Show the state of the raters' links; make, revoke and reassign them.

    A link can be read only when it is made: the store keeps no link. May be used while the study
    is served.
    """
    from levelfield_rating.links import change_link, write_links

    if csv_file and options.changes:
        raise UserError("only one of --new, --revoke, --reassign and --csv at a time")
    if csv_file and options.slot is not None:
        raise UserError("--csv is for all slots; leave --slot out, or say --new")
    writes = bool(options.changes or csv_file)
    with open_store(file, where, read_only=not writes) as store:
        slot = options.index(len(store.frozen.slots))
        if csv_file:
            number = write_links(store, csv_file, options.root)
            if csv_file != "-":
                say(f"wrote {csv_file}: {number} links; earlier ones that nobody opened have ended")
        elif slot is None or not options.changes:
            _print(store.frozen, store.links(), slot)
        elif link := change_link(store, options):
            tell(link)
        else:
            say(f"the link of {store.frozen.slots[slot].name} is revoked")


def _print(frozen: Frozen, states: Sequence[LinkState], slot: int | None) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("slot", "name", "rater", "link", "since"):
        table.add_column(heading, justify="right" if heading == "slot" else "left")
    for link in states:
        if slot in (None, link.slot):
            table.add_row(
                str(link.slot + 1),
                frozen.slots[link.slot].name,
                link.rater or "–",
                link.state,
                f"{link.when:%Y-%m-%d %H:%M} UTC" if link.when else "–",
            )
    console().print(table)
