"""A study opened to raters: frozen into its store, the raters' links, and a server."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levelfield.core.errors import UserError
from levelfield.core.options import keywords
from levelfield.io import atomic_writer
from levelfield.io.tables import csv_text
from levelfield.io.writing import check_writable
from levelfield_rating.address import Address
from levelfield_rating.plan.check import check_study
from levelfield_rating.plan.freezing import freeze
from levelfield_rating.settings import LinkOptions, Serving
from levelfield_rating.store import RatingStore


@dataclass(frozen=True)
class ServedStudy:
    """A study that is ready to be served, and the links that can be read this once.

    Attributes:
        organiser: the organiser's link, a fresh one every time.
        raters: name of a slot and link, of the slots that nobody has been given yet; each link is
            made as it is read, so that none is made without being shown.
        warnings: what deserves a look before anybody rates.
        address: where browsers reach the pages.
    """

    store: RatingStore
    organiser: str
    raters: Iterator[tuple[str, str]]
    warnings: tuple[str, ...]
    address: Address
    _socket: socket.socket

    def run(self) -> None:
        """Answers requests until the process is interrupted."""
        import uvicorn

        from levelfield_rating.web.app import create_app
        from levelfield_rating.web.limits import LimitedProtocol, limit_logs

        config = uvicorn.Config(
            create_app(self.store, address=self.address),
            http=LimitedProtocol,
            ws="none",
            backlog=128,  # that many are accepted at once, before one over the limit is closed
            log_level="warning",
            access_log=False,  # it has the addresses of raters
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            timeout_graceful_shutdown=10,
        )
        limit_logs()
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[self._socket])


@contextlib.contextmanager
def served_study(
    file: str | os.PathLike[str],
    store: str | os.PathLike[str],
    chosen: Serving | None = None,
    **words: Any,
) -> Iterator[ServedStudy]:
    """Freezes a study into its store unless it is there, listens, and makes the links.

    Args:
        words: options by name, as in `Serving`.

    Raises:
        UserError: packages of the app are missing, the study has problems, the store has ratings of
            another study, nothing can listen there, or it listens on every interface and has no
            address.
        StoreUnavailable: the disk says no.
    """
    serving = Serving.of(chosen, **words)
    _check_installed()
    with (
        contextlib.closing(served_store(file, store)) as opened,
        contextlib.closing(_listening(serving.host, serving.port)) as listening,
    ):
        warnings = check_study(file).warnings
        address = serving.address or _own_address(serving.host, listening)
        organiser = f"{address.root}/organiser/enter/{opened.organiser_secret()}"
        fresh = [link.slot for link in opened.links() if link.state == "none"]
        raters = (
            (opened.frozen.slots[slot].name, f"{address.root}/r/{opened.new_link(slot)}")
            for slot in fresh
        )
        yield ServedStudy(opened, organiser, raters, warnings, address, listening)


def served_store(file: str | os.PathLike[str], store: str | os.PathLike[str]) -> RatingStore:
    """Opens the store of a study file; makes it, or takes over a changed study, if that is due."""
    path = Path(store)
    earlier = None
    if path.exists() and path.stat().st_size:
        with contextlib.closing(RatingStore.open(path)) as before:
            earlier = before.frozen
    return RatingStore.create(path, freeze(file, earlier=earlier))


def _check_installed() -> None:
    try:
        import uvicorn  # noqa: F401

        from levelfield_rating.web.app import create_app  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"the rating app needs {error.name}, which levelfield-rating installs"
        ) from error


def _own_address(host: str, listening: socket.socket) -> Address:
    host_address, port = listening.getsockname()[:2]
    if host_address in ("0.0.0.0", "::"):
        raise UserError(
            f"--host {host}: give the address at which browsers reach the pages, such as --url "
            "https://example.org/ratings"
        )
    return Address.local(host, port)


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server((address[0], port), family=family)
    except (OSError, UnicodeError) as error:  # UnicodeError: not a valid host name
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"--host {host} --port {port}: can't listen there: {reason}") from error


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
    slots = [link.slot for link in store.links() if link.is_unopened]
    if not slots:
        raise UserError("every link has been opened or revoked; make new ones with --slot N --new")
    if file != "-":
        check_writable(file)
    names = [slot.name for slot in store.frozen.slots]
    rows = [(slot + 1, names[slot], f"{root}/r/{store.new_link(slot)}") for slot in slots]
    with atomic_writer(file, private=True) as out:
        out.write(csv_text([("slot", "name", "link"), *rows]))
    return len(rows)
