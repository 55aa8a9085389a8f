"""A server that others keep waiting answers those who ask."""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from levelfield_rating.web.limits import ConnectionLimits, LimitedProtocol, LogLimit
from rating_server import served
from served_process import ServedStudy
from served_study import study_file

HALF_A_HEAD = b"POST /r/x HTTP/1.1\r\nHost: x\r\nX-Slow: "
HALF_A_BODY = b"POST /r/x HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\ncsrf="
LONG = 40_000_000


class Quick(LimitedProtocol):
    limits = ConnectionLimits(connections=8, head_s=0.3, body_s=0.3, unread_s=0.3)


class Crowded(LimitedProtocol):
    limits = ConnectionLimits(connections=8, head_s=60, body_s=60, unread_s=60)


async def application(scope, receive, send):
    """Reads the body, then answers; `/long` with more than any buffer holds."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    long = scope["path"] == "/long"
    await send({"type": "http.response.body", "body": b"x" * (LONG if long else 2)})


@contextmanager
def address_of(http: type[LimitedProtocol]) -> Iterator[tuple[str, int]]:
    with served(lambda _: application, http=http) as url:
        parts = urlsplit(url)
        yield str(parts.hostname), int(parts.port or 0)


@contextmanager
def connections(
    address: tuple[str, int], number: int, sent: bytes = b""
) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        opened = []
        for _ in range(number):
            connection = stack.enter_context(socket.create_connection(address, 10))
            time.sleep(
                0.001 if number > 100 else 0
            )  # else the queue of the kernel is full at times
            connection.sendall(sent)
            opened.append(connection)
        yield opened


def is_ended(connection: socket.socket, dribble: bytes = b"", *, within_s: float = 10.0) -> bool:
    """Returns whether the server ends the connection, while this sends a little now and then."""
    connection.settimeout(0.05)
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            connection.sendall(dribble)
            if connection.recv(1) == b"":
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


def received(connection: socket.socket, pause_s: float = 0.0) -> int:
    """Returns the number of bytes that come until the connection ends, in whichever way."""
    number = 0
    with contextlib.suppress(ConnectionResetError):
        while more := connection.recv(1_000_000):
            number += len(more)
            time.sleep(pause_s)
    return number


def answer(address: tuple[str, int]) -> int:
    return httpx.get(f"http://{address[0]}:{address[1]}/", timeout=20).status_code


@pytest.mark.parametrize("sent", [b"", HALF_A_HEAD, HALF_A_BODY], ids=["nothing", "head", "body"])
def test_who_does_not_finish_a_request_is_cut_off_even_if_bytes_dribble(sent: bytes) -> None:
    with address_of(Quick) as address, connections(address, 1, sent) as (connection,):
        assert is_ended(connection, b"a" if sent else b"")


def test_who_takes_nothing_of_an_answer_is_cut_off_and_who_takes_it_slowly_is_not() -> None:
    ask = b"GET /long HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    with address_of(Quick) as address, connections(address, 2, ask) as (lazy, slow):
        assert received(slow, 0.02) > LONG
        assert received(lazy) < LONG


@pytest.mark.parametrize("sent", [b"", HALF_A_HEAD, HALF_A_BODY], ids=["nothing", "head", "body"])
def test_over_the_cap_who_keeps_the_server_waiting_longest_goes_first(sent: bytes) -> None:
    with address_of(Crowded) as address, connections(address, 8, sent) as crowd:
        assert answer(address) == 200
        assert is_ended(crowd[0])
        assert not is_ended(crowd[1], within_s=0.1)


TWO_LENGTHS = (
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
)
HIDDEN = b"0\r\n\r\nGET /static/hidden HTTP/1.1\r\nHost: x\r\n\r\n"


def test_a_request_with_two_lengths_ends_its_connection(memory: Path) -> None:
    file = study_file(memory, sources=2, surveys=1, raters=1)
    server = ServedStudy(file)
    try:
        with connections(("127.0.0.1", server.port), 1, TWO_LENGTHS + HIDDEN) as (client,):
            answers = b""
            with contextlib.suppress(ConnectionResetError):
                while more := client.recv(65_536):
                    answers += more
        assert answers.startswith(b"HTTP/1.1 400")
        assert answers.count(b"HTTP/1.1") == 1
    finally:
        server.stop()


def test_who_hangs_up_in_the_middle_of_a_request_leaves_no_line_in_the_log(memory: Path) -> None:
    file = study_file(memory, sources=2, surveys=1, raters=1)
    server = ServedStudy(file)
    try:
        path = urlsplit(server.links[0]).path.encode()
        half = HALF_A_BODY.replace(b"/r/x", path)
        for _ in range(3):
            with connections(("127.0.0.1", server.port), 1, half):
                time.sleep(0.2)
        assert httpx.get(server.links[0], timeout=20).status_code == 200
        assert "Traceback" not in server.complaints.read_text()
    finally:
        server.stop()


def test_connections_are_kept_between_requests() -> None:
    with (
        address_of(Quick) as address,
        httpx.Client(base_url=f"http://{address[0]}:{address[1]}") as client,
    ):
        for _ in range(3):
            assert client.post("/", content=b"x" * 200_000).status_code == 200
            time.sleep(0.1)


def test_a_log_takes_each_message_a_few_times_in_a_while() -> None:
    clock = [0.0]
    lines: list[str] = []
    logger = logging.Logger("some")
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    logger.addFilter(LogLimit(2, 10.0, now=lambda: clock[0]))
    for second in (0, 1, 2, 3, 11):
        clock[0] = second
        logger.warning("request %d", second)
        if second == 2:
            logger.warning("something else")
    more = " (similar messages are not logged for a while)"
    assert lines == ["request 0", f"request 1{more}", "something else", "request 11"]


@pytest.mark.kill
def test_more_half_open_requests_than_descriptors_keep_nobody_out(memory: Path) -> None:
    file = study_file(memory, sources=8, surveys=1, raters=1)
    server = ServedStudy(file, command="served_process:serve_with_few_files")
    try:
        address = ("127.0.0.1", server.port)
        with connections(address, 330, HALF_A_HEAD):
            for _ in range(2):
                began = time.monotonic()
                assert httpx.get(server.links[0], timeout=20).status_code == 200
                assert time.monotonic() - began < 10
        for _ in range(40):
            with connections(address, 1, b"\0\r\n\r\n") as (connection,):
                is_ended(connection)
        assert len(server.complaints.read_text()) < 5_000
    finally:
        server.stop()
