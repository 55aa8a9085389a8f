"""The address at which browsers reach the pages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from levelfield.core.errors import UserError

HOST, PORT = "127.0.0.1", 8765

_PAGES = ("api", "organiser", "r", "static", "study")
"""First parts of paths of the app; a proxy that takes such a base path away would mix them up."""
_HOST = re.compile(r"[\w.:-]+", re.ASCII)
_PATH = re.compile(r"[\w.~/-]*", re.ASCII)
_PORTS = {"http": 80, "https": 443}
_LOCAL = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Address:
    """Where browsers reach the pages.

    Links, cookies and the check of origins follow it. What a request says of hosts and schemes,
    itself or through a proxy, counts nowhere.

    Attributes:
        origin: scheme, host and port as browsers write them: `https://example.org`.
        base_path: where a proxy puts the pages; empty or `/something`.
    """

    origin: str = f"http://{HOST}:{PORT}"
    base_path: str = ""

    @classmethod
    def of(cls, url: str) -> Address:
        """Reads an address.

        Raises:
            UserError: it is not an http address, has more than a path, or its path is one of the
                app's.
        """
        expected = f"--url {url}: expected an address such as https://example.org/ratings"
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").encode("idna").decode(), parts.port
        except ValueError as error:
            raise UserError(expected) from error
        path = parts.path.strip("/")
        if (
            parts.scheme not in _PORTS
            or not _HOST.fullmatch(host)
            or "@" in parts.netloc
            or parts.query
            or parts.fragment
            or not _PATH.fullmatch(path)
            or {".", ".."}.intersection(path.split("/"))
        ):
            raise UserError(expected)
        if path.partition("/")[0] in _PAGES:
            raise UserError(
                f"--url {url}: the pages themselves use paths of that name; put them elsewhere, "
                "such as below /ratings"
            )
        return cls(_origin(parts.scheme, host, port), f"/{path}" if path else "")

    @classmethod
    def local(cls, host: str, port: int) -> Address:
        """Returns the address of a server that browsers reach without a proxy."""
        return cls(_origin("http", host.lower(), port))

    @property
    def root(self) -> str:
        """What every link begins with."""
        return self.origin + self.base_path

    @property
    def is_https(self) -> bool:
        return self.origin.startswith("https://")

    @property
    def is_local(self) -> bool:
        """Whether only browsers on this machine can be meant."""
        host = urlsplit(self.origin).hostname or ""
        return host in _LOCAL or host.startswith("127.")

    @property
    def origins(self) -> frozenset[str]:
        """What a browser may call the origin of our pages; this machine has several names."""
        if not self.is_local:
            return frozenset({self.origin})
        parts = urlsplit(self.origin)
        names = {_origin(parts.scheme, host, parts.port) for host in _LOCAL}
        return frozenset({self.origin, *names})


def _origin(scheme: str, host: str, port: int | None) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"{scheme}://{name}" + ("" if port in (None, _PORTS[scheme]) else f":{port}")
