"""HTTP within a number of bytes and a time, however a server answers.

The time limits of `requests` are of silence: a server that sends a byte now and then never meets
them. Here they are of the whole.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from levelfield.core.progress import in_background

if TYPE_CHECKING:
    import requests


T = TypeVar("T")

CONNECT_S = 10.0
_CHUNK = 1 << 12
_LISTEN_S = 0.2
_MOST_REDIRECTS = 5


class TooLongError(Exception):
    """A body of more bytes than are read."""


@dataclass(frozen=True)
class HttpAnswer:
    """A server's complete answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Returns the value in the body.

        Raises:
            ValueError: it is not JSON.
        """
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


def within(seconds: float, work: Callable[[], T]) -> T:
    """Returns what `work` returns; after the time it goes on alone, in a thread that ends with us.

    Raises:
        requests.Timeout: it took longer.
    """
    from concurrent import futures

    import requests

    outcome = in_background(work)
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        # a longer wait may not hear Ctrl-C
        if futures.wait([outcome], min(left, _LISTEN_S)).done:
            return outcome.result()
    raise requests.Timeout(f"no answer within {seconds:g} s")


def new_session() -> requests.Session:
    """Returns a session that follows no redirect; `requests` would read its body, however long."""
    import requests

    class Unredirected(requests.Session):
        def get_redirect_target(self, resp: requests.Response) -> str | None:  # noqa: ARG002
            return None

    return Unredirected()


def post(
    session: requests.Session,
    address: str,
    content: bytes,
    *,
    auth: Callable[[requests.PreparedRequest], requests.PreparedRequest],
    seconds: float,
    most: int,
) -> HttpAnswer:
    """Sends JSON and returns the answer.

    Args:
        session: a `new_session`, of no more use after an error.
        seconds: that all of it may take.
        most: bytes of the answer.

    Raises:
        requests.RequestException: there is no answer in time.
        TooLongError: it has more bytes.
    """
    deadline = time.monotonic() + seconds

    def exchange() -> HttpAnswer:
        with session.post(
            address,
            data=content,
            headers={"Content-Type": "application/json"},
            auth=auth,
            timeout=(CONNECT_S, seconds),
            stream=True,
        ) as response:
            body = _body(response, most, deadline)
            return HttpAnswer(response.status_code, response.headers, body)

    return within(seconds, exchange)


def _body(response: requests.Response, most: int, deadline: float) -> bytes:
    body = bytearray()
    for chunk in response.iter_content(_CHUNK):
        body += chunk
        if len(body) > most:
            raise TooLongError(f"an answer of more than {most:,} bytes")
        if time.monotonic() > deadline:  # nobody waits for the rest
            break
    return bytes(body)


def get(url: str, headers: Mapping[str, str], seconds: float) -> requests.Response:
    """Returns an answer of which only the head is read.

    Args:
        seconds: that each head may take, those of redirects as well; what redirects have as bodies
            is not read.

    Raises:
        requests.RequestException: there is none in time, or too many redirects.
    """
    import requests

    for _ in range(_MOST_REDIRECTS + 1):
        head = partial(
            new_session().get,
            url,
            headers=dict(headers),
            stream=True,
            timeout=(CONNECT_S, seconds),
        )
        response = within(seconds, head)
        if not response.is_redirect:
            return response
        response.close()
        url = urllib.parse.urljoin(url, response.headers["Location"])
    raise requests.TooManyRedirects(f"more than {_MOST_REDIRECTS} redirects")


_PATIENCE_S = 5.0
_REMEMBERED_S = 60.0


def hub_answers() -> bool:
    """Returns whether the hub answered within the last minute; never with `HF_HUB_OFFLINE`."""
    from huggingface_hub import constants

    return not constants.HF_HUB_OFFLINE and _answers(int(time.monotonic() // _REMEMBERED_S))


@functools.lru_cache(maxsize=1)
def _answers(_minute: int) -> bool:
    from huggingface_hub import constants, get_session

    try:
        head = partial(get_session().head, constants.ENDPOINT, timeout=_PATIENCE_S)
        within(2 * _PATIENCE_S, head)
    except Exception:  # of whatever library `huggingface_hub` asks with
        return False
    return True


@contextlib.contextmanager
def asking_the_hub() -> Iterator[None]:
    """Lets `huggingface_hub` and `datasets` ask the hub if it answers, without warnings of their
    own; else they take what is on this machine, without trying for half a minute."""
    loggers = [logging.getLogger(name) for name in ("huggingface_hub", "datasets")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with contextlib.nullcontext() if hub_answers() else without_the_hub():
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextlib.contextmanager
def without_the_hub() -> Iterator[None]:
    """Has `huggingface_hub` and `datasets` take what is on this machine, where they are
    installed."""
    modules = (_hub_constants(), sys.modules.get("datasets.config"))
    switches = [vars(module) for module in modules if module is not None]
    were = [switch["HF_HUB_OFFLINE"] for switch in switches]
    try:
        for switch in switches:
            switch["HF_HUB_OFFLINE"] = True
        yield
    finally:
        for switch, was in zip(switches, were, strict=True):
            switch["HF_HUB_OFFLINE"] = was


def _hub_constants() -> ModuleType | None:
    """Returns the switches of `huggingface_hub`; None if it is not installed."""
    try:
        from huggingface_hub import constants
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "huggingface_hub":
            raise
        return None
    return constants
