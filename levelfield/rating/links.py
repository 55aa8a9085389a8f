"""Links of the raters: where they lead, and new ones for those who have not come yet."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from levelfield.core.errors import UserError
from levelfield.io import atomic_writer, check_writable
from levelfield.rating.export.tables import table
from levelfield.rating.store import LinkState, RatingStore

HOST, PORT = "127.0.0.1", 8765

_PAGES = ("api", "organiser", "r", "static", "study")
"""First parts of paths of the app; a proxy that takes such a base path away would mix them up."""


@dataclass(frozen=True)
class Address:
    """Where raters reach the pages.

    Attributes:
        url: of the whole app, as browsers see it; empty if only host and port are known.
        base_path: where a proxy puts the pages; empty or `/something`.
    """

    url: str = ""
    base_path: str = ""

    @classmethod
    def of(cls, url: str, base_path: str) -> Address:
        """Reads an address; its path is the base path unless there is one.

        Raises:
            UserError: the address has no scheme, or the path is one of the app's own.
        """
        if url and not url.startswith(("http://", "https://")):
            raise UserError(f"--url {url}: expected an address that begins with https://")
        path = base_path.strip("/") or urlsplit(url).path.strip("/")
        if path.partition("/")[0] in _PAGES:
            raise UserError(
                f"/{path}: the pages have paths of that name themselves; put them elsewhere, such "
                "as /ratings"
            )
        return cls(url.rstrip("/"), f"/{path}" if path else "")

    def root(self, host: str = HOST, port: int = PORT) -> str:
        """Returns what every link begins with, on a host and port where no address is known."""
        name = f"[{host}]" if ":" in host else host
        return self.url or f"http://{name}:{port}{self.base_path}"


def unopened(links: list[LinkState]) -> list[int]:
    """Returns the slots whose link nobody has opened."""
    return [link.slot for link in links if link.state in ("none", "made")]


def new_links(store: RatingStore, slots: list[int], root: str) -> list[tuple[int, str, str]]:
    """Makes a link for each slot; returns index, name and link of each."""
    names = [slot.name for slot in store.frozen.slots]
    return [(slot, names[slot], f"{root}/r/{store.new_link(slot)}") for slot in slots]


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
        out.write(table([("slot", "name", "link"), *((n + 1, *more) for n, *more in links)]))
    if file != "-":
        with contextlib.suppress(OSError):
            Path(file).chmod(0o600)
    return len(links)
