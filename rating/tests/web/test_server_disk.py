"""A server whose disk says no tells raters so, and saves again when it can."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from forked import ROOT, environment, fork
from levelfield_rating.store import RatingStore
from levelfield_rating.web.app import create_app
from plain_browser import enter
from rating_server import served
from served_process import LEVELFIELD, ServedStudy
from served_study import assert_not_saved, assert_refused, assert_sound, study_file, visitor_of


def no_more_than(size: int) -> None:
    """Sets a limit on files that may be raised again, as on a disk that is full for a while."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def assert_can_t_be_used(status: int, out: str, errors: str) -> None:
    assert status == 2, errors
    assert "/organiser/" not in out
    *warnings, last = errors.splitlines()
    assert all(line.startswith("warning: ") for line in warnings), errors
    assert last.startswith("error: the store can't be used: ")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="no limit of a running process here")
def test_on_a_full_disk_raters_see_a_message_and_sending_again_later_saves(
    server: ServedStudy,
) -> None:
    visitor = visitor_of(server.links[0])
    assert server.process is not None
    log = server.store.with_name(server.store.name + "-wal")
    room = log.stat().st_size + 100_000
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    acknowledged, refused, clock = {}, [], 0
    for item in range(len(visitor.items)):
        clock += 2
        events = [visitor.event(item, 1 + item, clock - 1), visitor.comment(item, clock)]
        status, body = visitor.send(*events)
        if status == 200:
            acknowledged[item] = 1 + item
        else:
            assert (status, set(body)) == (503, {"error"})
            refused.append(events)
    assert acknowledged, "the disk was full from the beginning"
    assert refused, "the disk was never full"
    assert visitor.answers() == acknowledged
    assert_not_saved(visitor, len(visitor.items) - 1, clock + 1)

    server.kill()
    stuck = subprocess.run(
        [*LEVELFIELD, *server.words],
        capture_output=True,
        text=True,
        env=environment(),
        preexec_fn=lambda: no_more_than(0),
    )
    assert_can_t_be_used(stuck.returncode, stuck.stdout, stuck.stderr)
    server.start()
    server.wait_until_ready()
    assert visitor.answers() == acknowledged
    for events in refused:
        status, body = visitor.send(*events)
        assert status == 200
        assert not any(saved["duplicate"] for saved in body["saved"])
    assert visitor.answers() == {item: 1 + item for item in range(len(visitor.items))}
    server.stop()
    assert_sound(server.store)


def test_a_store_that_is_taken_away_is_not_saved_to_until_it_is_back(server: ServedStudy) -> None:
    visitor = visitor_of(server.links[0])
    assert visitor.send(visitor.event(0, 40, 1))[0] == 200
    elsewhere = server.store.with_name("elsewhere.sqlite")
    server.store.rename(elsewhere)
    assert_refused(visitor, 1, 2)
    waiting = visitor.event(1, 50, 2)
    assert visitor.send(waiting)[0] == 503
    elsewhere.rename(server.store)
    status, body = visitor.send(waiting)
    assert (status, body["saved"][0]["duplicate"]) == (200, False)
    assert visitor.answers() == {0: 40, 1: 50}


def anybody_may_enter(folder: Path) -> bool:
    return all(above.stat().st_mode & 0o001 for above in (folder, *folder.parents))


@pytest.mark.skipif(
    os.geteuid() == 0 and not all(map(anybody_may_enter, (ROOT, Path(sys.prefix)))),
    reason="root may write anywhere, and no other user may enter this checkout",
)
def test_a_server_does_not_begin_on_a_store_that_this_user_can_t_write(
    memory: Path,
) -> None:
    with tempfile.TemporaryDirectory() as name:  # all of whose parents anybody may enter
        folder = Path(name)
        server = ServedStudy(study_file(folder, sources=4, surveys=1, raters=1))
        try:
            visitor = visitor_of(server.links[0])
            assert visitor.send(visitor.event(0, 40, 1))[0] == 200
            server.kill()
            for file in folder.iterdir():
                file.chmod(0o444)
            folder.chmod(0o555)
            out, errors = memory / "output", memory / "errors"
            refused = fork("served_process:serve_as_nobody", *server.words, out=out, errors=errors)
            status = refused.wait()
            folder.chmod(0o755)
            for file in folder.iterdir():
                file.chmod(0o644)
            assert_can_t_be_used(status, out.read_text(), errors.read_text())
            server.start()
            server.wait_until_ready()
            assert visitor.send(visitor.event(1, 50, 2))[0] == 200
            assert visitor.answers() == {0: 40, 1: 50}
        finally:
            server.stop()


def test_a_store_that_can_only_be_read_is_shown_and_not_saved_to(server: ServedStudy) -> None:
    visitor = visitor_of(server.links[0])
    assert visitor.send(visitor.event(0, 40, 1))[0] == 200
    server.kill()
    with (
        contextlib.closing(RatingStore.open(server.store, read_only=True)) as store,
        served(lambda address: create_app(store, address=address)) as base,
    ):
        http = httpx.Client(base_url=base, cookies=visitor.http.cookies)
        reader = replace(visitor, http=http)
        assert reader.answers() == {0: 40}
        assert_not_saved(reader, 1, 2)
        waiting = reader.event(1, 50, 2)
        assert reader.send(waiting)[0] == 503
        link = server.links[0].partition("/r/")[2]
        assert enter(reader.http, f"/r/{link}").status_code == 503
    server.start()
    server.wait_until_ready()
    status, body = visitor.send(waiting)
    assert (status, body["saved"][0]["duplicate"]) == (200, False)
    assert visitor.answers() == {0: 40, 1: 50}
