"""What a withdrawn rater said leaves every byte of the files, at once or as soon as it can."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from levelfield_rating.store import RatingStore, erasure
from levelfield_rating.web.app import create_app
from raters_of_store import STUDY, begin, rating

SAID = "I would rather not have said this"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasure, "_AGAIN_S", 0.02)
    monkeypatch.setattr(erasure, "_PATIENCE_S", 0.02)


@contextlib.contextmanager
def reader(path: Path) -> Iterator[None]:
    """Holds the store open as another program does that reads its present state."""
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM event_value").fetchone()
        yield


def said(store: RatingStore, text: str = SAID, slot: int = 0) -> str:
    """Returns a rater who has written this."""
    rater = begin(store, slot)
    item = STUDY.slots[slot].items[0].opaque
    comment = rating(f"c{slot}", text, kind="comment", item=item, criterion="")
    store.record(rater, [comment])
    return rater


def is_there(path: Path, text: str = SAID) -> bool:
    return any(text.encode() in file.read_bytes() for file in path.parent.iterdir())


def soon(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + 20
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    return condition()


def test_with_no_reader_it_is_gone_at_once(store: RatingStore, path: Path) -> None:
    rater = said(store)
    assert is_there(path)
    store.withdraw(rater)
    assert not is_there(path)
    assert not store.is_erasing()


def test_while_another_program_reads_it_is_pending_and_then_gone_by_itself(
    store: RatingStore, path: Path
) -> None:
    rater = said(store)
    with reader(path):
        store.withdraw(rater)
        assert store.is_erasing()
        assert is_there(path), "else this test shows nothing"
        assert store.state(rater).comments == {}
    assert soon(lambda: not is_there(path))
    assert soon(lambda: not store.is_erasing())


def test_a_second_withdrawal_while_one_is_pending_is_finished_too(
    store: RatingStore, path: Path
) -> None:
    first, second = said(store), said(store, "And I not this", slot=1)
    with reader(path):
        store.withdraw(first)
    with reader(path):
        store.withdraw(second)
    assert soon(lambda: not is_there(path) and not is_there(path, "And I not this"))
    assert soon(lambda: not store.is_erasing())


def test_what_is_pending_when_the_store_is_closed_is_finished_when_it_opens(
    store: RatingStore, path: Path
) -> None:
    rater = said(store)
    with reader(path):
        store.withdraw(rater)
        store.close()
        with contextlib.closing(RatingStore.open(path, read_only=True)) as looked_at:
            assert looked_at.is_erasing(), "who only reads can say so, and do nothing about it"
    assert is_there(path)
    with contextlib.closing(RatingStore.open(path)) as again:
        assert soon(lambda: not is_there(path))
        assert soon(lambda: not again.is_erasing())


def test_a_server_finishes_what_a_command_has_left(store: RatingStore, path: Path) -> None:
    rater = said(store)
    other = begin(store, 1)
    with reader(path), contextlib.closing(RatingStore.open(path)) as command:
        command.withdraw(rater)
    store.enter(other, "review")  # any write
    assert soon(lambda: not is_there(path))


def test_no_text_of_any_length_stays_in_a_page(store: RatingStore, path: Path) -> None:
    drawn = random.Random(3)
    rater = begin(store)
    other = begin(store, 1)
    words = []
    for n in range(150):
        word = f"word{drawn.getrandbits(64):016x}"
        who, slot = ((rater, 0), (other, 1))[n % 3 == 0]
        item = STUDY.slots[slot].items[n % 3].opaque
        text = f"{word} " * drawn.choice((1, 3, 20, 150))
        remark = rating(f"c{n}", text, n + 1, kind="comment", item=item, criterion="")
        store.record(who, [remark])
        words += [word] if who == rater else []
    store.withdraw(rater)
    everything = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert [word for word in words if word.encode() in everything] == []


def test_the_rater_and_the_organiser_see_what_is_pending(browser_of: Any) -> None:
    browser = browser_of()
    browser.to_rating()
    with reader(browser.store.path):
        page = browser.send("/study/withdraw")
        assert "have been deleted" in page.text
        assert "another program is reading" in page.text
        desk = TestClient(create_app(browser.store))
        session = browser.store.organiser_exchange(browser.store.organiser_secret())
        desk.cookies.set(desk.app.state.web.organiser_cookie, session)
        assert "not yet overwritten" in desk.get("/organiser").text
    assert soon(lambda: not browser.store.is_erasing())
    assert "another program is reading" not in browser.get("/study").text
    assert "not yet overwritten" not in desk.get("/organiser").text
