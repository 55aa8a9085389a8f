"""Published files come with the right bytes, whatever the network does."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import multiprocessing
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from levelfield.io.fetch import FetchError, Published, cache_folder, fetch, local_copy

BODY = bytes(range(256)) * 4096  # 1 MiB, several chunks
FILE = Published(
    set="ours",
    repository="someone/something",
    commit="c0ffee",
    path="deep/er/file.bin",
    sha256=hashlib.sha256(BODY).hexdigest(),
    bytes=len(BODY),
)


class Server:
    """Serves one body on 127.0.0.1, with the faults that a test asks for.

    Attributes:
        cut: send so many bytes of an answer, then close the connection.
        cuts: how many answers are cut.
        ranges: whether `Range` is understood.
        seen: `Range` of every request, None where there was none.
    """

    def __init__(self) -> None:
        self.body = BODY
        self.status = 200
        self.cut, self.cuts = 0, 0
        self.ranges = True
        self.seen: list[str | None] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, to: http.server.BaseHTTPRequestHandler) -> None:
        asked = to.headers.get("Range")
        self.seen.append(asked)
        if self.status != 200:
            to.send_error(self.status)
            return
        first = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        partial = asked is not None and self.ranges
        body = self.body[first:] if partial else self.body
        to.send_response(206 if partial else 200)
        if partial:
            to.send_header("Content-Range", f"bytes {first}-{len(self.body) - 1}/{len(self.body)}")
        to.send_header("Content-Length", str(len(body)))
        to.end_headers()
        if self.cuts > 0:
            self.cuts -= 1
            to.wfile.write(body[: self.cut])
            to.wfile.flush()
            to.connection.close()
            return
        to.wfile.write(body)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    served = Server()
    monkeypatch.setenv("LEVELFIELD_MIRROR", served.url)
    monkeypatch.delenv("LEVELFIELD_DATA", raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    yield served
    served.close()


@pytest.fixture
def refused() -> Callable[[Published], str]:
    def said(file: Published = FILE) -> str:
        with pytest.raises(FetchError) as caught:
            fetch(file)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return said


def part_of(file: Published = FILE) -> Path:
    return cache_folder() / file.set / (file.path + ".part")


def begun(content: bytes) -> None:
    part_of().parent.mkdir(parents=True)
    part_of().write_bytes(content)


def test_a_file_is_downloaded_once_and_then_found(server: Server):
    got: list[int] = []
    path = fetch(FILE, progress=got.append)
    assert path.read_bytes() == BODY
    assert sum(got) == len(BODY)
    assert len(got) > 1
    assert fetch(FILE) == path == local_copy(FILE)
    assert len(server.seen) == 1
    assert not part_of().exists()


def test_a_connection_that_breaks_is_taken_up_where_it_broke(server: Server):
    server.cut, server.cuts = 300_000, 2
    got: list[int] = []
    assert fetch(FILE, progress=got.append).read_bytes() == BODY
    assert sum(got) == len(BODY)
    assert server.seen[0] is None
    starts = [int(re.sub(r"\D", "", seen)) for seen in server.seen[1:] if seen]
    assert len(starts) == 2
    assert 0 < starts[0] < starts[1] < len(BODY)


def test_what_was_received_is_kept_for_the_next_try(server: Server, refused: Any):
    server.cut, server.cuts = 200_000, 3
    assert "the connection breaks off" in refused()
    kept = part_of().stat().st_size
    assert 0 < kept < len(BODY)
    assert fetch(FILE).read_bytes() == BODY
    assert server.seen[-1] == f"bytes={kept}-"


def test_a_download_of_an_earlier_process_goes_on(server: Server):
    begun(BODY[:777_777])
    got: list[int] = []
    assert fetch(FILE, progress=got.append).read_bytes() == BODY
    assert server.seen == ["bytes=777777-"]
    assert sum(got) == len(BODY)


def test_a_whole_part_needs_no_request(server: Server):
    begun(BODY)
    assert fetch(FILE).read_bytes() == BODY
    assert server.seen == []


def test_a_server_without_ranges_sends_it_all_again(server: Server):
    server.ranges = False
    begun(BODY[:500_000])
    got: list[int] = []
    assert fetch(FILE, progress=got.append).read_bytes() == BODY
    assert sum(got) == len(BODY)


@pytest.mark.parametrize("content", [b"x" * 1000, b"x" * len(BODY), BODY + b"more"])
@pytest.mark.usefixtures("server")
def test_a_part_with_other_bytes_is_thrown_away(content: bytes):
    begun(content)
    assert fetch(FILE).read_bytes() == BODY


@pytest.mark.parametrize("body", [b"<html>Log in</html>", BODY[:-1] + b"x", BODY + b"x" * 200_000])
def test_other_bytes_than_published_are_refused_and_not_kept(
    server: Server, refused: Any, body: bytes
):
    server.body = body
    said = refused()
    assert FILE.sha256[:12] in said
    assert re.search(r"sha256 [0-9a-f]{12}…", said)
    assert "ours/deep/er/file.bin" in said
    assert local_copy(FILE) is None
    assert not part_of().exists()


def test_a_compressed_answer_is_not_asked_for(server: Server):
    def answer(to: http.server.BaseHTTPRequestHandler) -> None:
        assert to.headers["Accept-Encoding"] == "identity"
        Server.answer(server, to)

    server.answer = answer  # type: ignore[method-assign]
    assert fetch(FILE).read_bytes() == BODY


def test_what_is_not_there_is_said_with_its_address(server: Server, refused: Any):
    server.status = 404
    said = refused()
    assert "404" in said
    assert f"{server.url}/someone/something/c0ffee/deep/er/file.bin" in said
    assert len(server.seen) == 1


@pytest.mark.usefixtures("server")
def test_without_a_network_it_is_said_where_to_put_the_file(
    refused: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LEVELFIELD_MIRROR", "http://127.0.0.1:9")
    said = refused()
    assert "no connection" in said
    assert "put it at $LEVELFIELD_DATA/ours/deep/er/file.bin" in said
    assert "http://127.0.0.1:9/someone/something/c0ffee/deep/er/file.bin" in said


def test_the_users_own_copy_comes_first(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    own = tmp_path / "ours/deep/er/file.bin"
    own.parent.mkdir(parents=True)
    own.write_bytes(BODY)
    monkeypatch.setenv("LEVELFIELD_DATA", str(tmp_path))
    assert fetch(FILE) == own
    assert server.seen == []


@pytest.mark.usefixtures("server")
def test_the_users_own_copy_must_be_the_published_one(
    refused: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    own = tmp_path / "ours/deep/er/file.bin"
    own.parent.mkdir(parents=True)
    own.write_bytes(BODY[:-1] + b"\0")
    monkeypatch.setenv("LEVELFIELD_DATA", str(tmp_path))
    said = refused()
    assert str(own) in said
    assert FILE.sha256[:12] in said
    assert own.exists()


@pytest.mark.usefixtures("server")
def test_a_damaged_copy_in_the_cache_is_replaced():
    path = fetch(FILE)
    path.write_bytes(b"damaged")
    assert fetch(FILE).read_bytes() == BODY


@pytest.mark.usefixtures("server")
def test_a_cache_that_can_not_be_written_is_one_line(
    refused: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "file"))
    assert "$LEVELFIELD_CACHE" in refused()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.usefixtures("server")
def test_a_cache_that_is_read_only_still_gives_what_it_has(
    refused: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "cache"))
    path = fetch(FILE)
    folders = [tmp_path / "cache", tmp_path / "cache/data", path.parent]
    for folder in folders:
        folder.chmod(0o500)
    try:
        assert fetch(FILE) == path
        other = replace(FILE, set="other")
        assert "Permission denied" in refused(other)
    finally:
        for folder in folders:
            folder.chmod(0o700)


def _fetch_to(queue: Any) -> None:
    queue.put(hashlib.sha256(fetch(FILE).read_bytes()).hexdigest())


@pytest.mark.slow
def test_two_processes_share_one_download(server: Server):
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    processes = [context.Process(target=_fetch_to, args=(queue,)) for _ in range(3)]
    for process in processes:
        process.start()
    got = [queue.get(timeout=30) for _ in processes]
    for process in processes:
        process.join()
    assert got == [FILE.sha256] * 3
    assert len(server.seen) == 1


def test_a_server_with_fewer_bytes_than_were_received_is_said_and_the_part_dropped(
    server: Server, refused: Any
):
    begun(BODY[:500_000])
    server.status = 416
    assert "416" in refused()
    assert not part_of().exists()


class Dripping(Server):
    """Sends a byte now and then: of the head, or of the body."""

    def __init__(self, *, head: bool) -> None:
        super().__init__()
        self._head = head

    def answer(self, to: http.server.BaseHTTPRequestHandler) -> None:
        self.seen.append(None)
        if not self._head:
            to.send_response(200)
            to.end_headers()
        with contextlib.suppress(OSError):
            while True:
                to.wfile.write(b"x")
                time.sleep(0.02)


@pytest.mark.parametrize("head", [True, False])
def test_a_server_that_drips_is_given_up(monkeypatch, head):
    dripping = Dripping(head=head)
    monkeypatch.setenv("LEVELFIELD_MIRROR", dripping.url)
    monkeypatch.setattr("levelfield.io.fetch._TIMEOUT_S", 0.1)
    started = time.monotonic()
    with pytest.raises(FetchError, match="no answer in time"):
        fetch(FILE)
    assert time.monotonic() - started < 20


class Redirecting(Server):
    """Sends whoever asks on, with a body that has no end."""

    def answer(self, to: http.server.BaseHTTPRequestHandler) -> None:
        if to.path.endswith("?there"):
            super().answer(to)
            return
        to.send_response(302)
        to.send_header("Location", to.path + ("?there" if self.arrives else ""))
        to.end_headers()
        with contextlib.suppress(OSError):
            while True:
                to.wfile.write(b"x" * 10_000)

    arrives = True


def test_the_body_of_a_redirect_is_not_read(monkeypatch):
    server = Redirecting()
    monkeypatch.setenv("LEVELFIELD_MIRROR", server.url)
    assert fetch(FILE).read_bytes() == BODY


def test_redirects_that_go_round_in_circles_are_an_error(monkeypatch):
    server = Redirecting()
    server.arrives = False
    monkeypatch.setenv("LEVELFIELD_MIRROR", server.url)
    with pytest.raises(FetchError, match="TooManyRedirects"):
        fetch(FILE)
