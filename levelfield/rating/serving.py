"""A study opened to raters: frozen into its store, its first links, and a server."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from levelfield.core.errors import UserError
from levelfield.rating.links import HOST, PORT, Address, new_links
from levelfield.rating.plan.check import check_study
from levelfield.rating.plan.freezing import freeze
from levelfield.rating.store import RatingStore


@dataclass(frozen=True)
class Serving:
    """How a study is served.

    Attributes:
        behind_proxy: believe `X-Forwarded-Proto`, `-Host` and `-For`.
    """

    host: str = HOST
    port: int = PORT
    address: Address = field(default_factory=Address)
    behind_proxy: bool = False

    @property
    def is_local(self) -> bool:
        """Whether nobody elsewhere can reach the server."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


@dataclass(frozen=True)
class ServedStudy:
    """A study that is ready to be served, and the links that can be read this once.

    Attributes:
        organiser: the organiser's link, a fresh one every time.
        raters: name of a slot and link, of the slots that nobody has been given yet; each link is
            made as it is read, so that none is made without being shown.
        warnings: what deserves a look before anybody rates.
    """

    store: RatingStore
    organiser: str
    raters: Iterator[tuple[str, str]]
    warnings: tuple[str, ...]
    _socket: socket.socket
    _serving: Serving

    def run(self) -> None:
        """Answers requests until the process is interrupted."""
        import uvicorn

        from levelfield.rating.web.app import create_app

        serving = self._serving
        app = create_app(
            self.store,
            base_path=serving.address.base_path,
            behind_proxy=serving.behind_proxy,
        )
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,  # it has the addresses of raters
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            timeout_graceful_shutdown=10,
        )
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[self._socket])


@contextlib.contextmanager
def served_study(
    file: str | os.PathLike[str], store: str | os.PathLike[str], serving: Serving
) -> Iterator[ServedStudy]:
    """Freezes a study into its store unless it is there, listens, and makes the links.

    Raises:
        UserError: packages of the app are missing, the study has problems, the store has ratings of
            another study, or nothing can listen there.
        StoreUnavailable: the disk says no.
    """
    _check_installed()
    with (
        contextlib.closing(served_store(file, store)) as opened,
        contextlib.closing(_listening(serving.host, serving.port)) as listening,
    ):
        warnings = check_study(file).warnings
        root = serving.address.root(serving.host, listening.getsockname()[1])
        organiser = f"{root}/organiser/enter/{opened.organiser_secret()}"
        fresh = [link.slot for link in opened.links() if link.state == "none"]
        raters = (
            (name, link) for slot in fresh for _, name, link in new_links(opened, [slot], root)
        )
        yield ServedStudy(opened, organiser, raters, warnings, listening, serving)


def served_store(file: str | os.PathLike[str], store: str | os.PathLike[str]) -> RatingStore:
    """Opens the store of a study file; makes it, or takes over a changed study, if that is due."""
    path = Path(store)
    earlier = None
    if path.exists() and path.stat().st_size:
        with contextlib.closing(RatingStore.open(path)) as known:
            earlier = known.frozen
    return RatingStore.create(path, freeze(file, earlier=earlier))


def _check_installed() -> None:
    try:
        import uvicorn  # noqa: F401

        from levelfield.rating.web.app import create_app  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"the rating app needs {error.name}: pip install 'levelfield[rating]'"
        ) from error


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server((address[0], port), family=family)
    except OSError as error:
        said = error.strerror or str(error)
        raise UserError(f"--host {host} --port {port}: can't listen there: {said}") from error
