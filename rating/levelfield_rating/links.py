"""Links of the raters: new ones, for those who have not come yet and for others."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from levelfield.core.errors import UserError
from levelfield.core.options import keywords
from levelfield.io import atomic_writer
from levelfield.io.tables import csv_text
from levelfield.io.writing import check_writable
from levelfield_rating.settings import LinkOptions
from levelfield_rating.store import LinkState, RatingStore


def unopened(links: list[LinkState]) -> list[int]:
    """Returns the slots whose link nobody has opened."""
    return [link.slot for link in links if link.state in ("none", "made")]


def new_links(store: RatingStore, slots: list[int], root: str) -> list[tuple[int, str, str]]:
    """Makes a link for each slot; returns index, name and link of each."""
    names = [slot.name for slot in store.frozen.slots]
    return [(slot, names[slot], f"{root}/r/{store.new_link(slot)}") for slot in slots]


@keywords(LinkOptions)
def change_link(store: RatingStore, chosen: LinkOptions | None = None, **words: Any) -> str | None:
    """Makes, revokes or reassigns the link of one slot; returns the new one, None for none.

    Args:
        words: options by name, as in `LinkOptions`.

    Raises:
        UserError: there is no such slot.
    """
    options = LinkOptions.of(chosen, **words)
    slot = options.index(len(store.frozen.slots))
    if slot is None or not options.changes:
        return None
    if options.revoke:
        store.revoke(slot)
        return None
    token = store.new_link(slot) if options.new else store.reassign(slot)
    return f"{options.root}/r/{token}"


def write_links(store: RatingStore, file: str, root: str) -> int:
    """Writes a new link for every slot whose link nobody has opened, as CSV; returns how many.

    Only the owner may read the file; `-` is stdout.

    Raises:
        UserError: every link has been opened, or the file can't be written.
    """
    slots = unopened(store.links())
    if not slots:
        raise UserError("every link has been opened or revoked; make new ones with --slot N --new")
    if file != "-":
        check_writable(file)
    links = new_links(store, slots, root)
    with atomic_writer(file) as out:
        out.write(csv_text([("slot", "name", "link"), *((n + 1, *more) for n, *more in links)]))
    if file != "-":
        with contextlib.suppress(OSError):
            Path(file).chmod(0o600)
    return len(links)
