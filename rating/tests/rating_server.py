"""The app on a port of this machine, in a thread: what a browser needs."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from levelfield_rating.address import Address


@contextmanager
def served(app_at: Callable[[Address], Any], **options: Any) -> Iterator[str]:
    """Yields the address of the running app, which is made for it."""
    import uvicorn

    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", 0))
    address = Address.local(*listening.getsockname())
    options = {"log_level": "warning", "lifespan": "off", **options}
    server = uvicorn.Server(uvicorn.Config(app_at(address), **options))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    until = time.monotonic() + 30
    while not server.started and time.monotonic() < until:
        time.sleep(0.02)
    try:
        yield address.root
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()
