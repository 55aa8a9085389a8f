"""What the tests of the rating app share: folders in memory, stores, and one Chromium a process."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from levelfield_rating.address import Address
from levelfield_rating.model import Frozen
from levelfield_rating.store import RatingStore
from raters_of_store import STUDY, Now
from rating_study import small_study


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory where there is one: much is written, and nothing needs to stay."""
    place = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=place if place.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture
def path(memory: Path) -> Path:
    """Where a store is made."""
    return memory / "study.sqlite"


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def store(path: Path, now: Now) -> Iterator[RatingStore]:
    """A store of `STUDY` under a clock that tests set."""
    store = RatingStore.create(path, STUDY, now=now)
    yield store
    store.close()


@pytest.fixture
def browser_of(memory: Path) -> Iterator[Callable[..., Any]]:
    """Makes a rater's browser without a script, on a store of its own."""
    pytest.importorskip("fastapi")
    pytest.importorskip("markdown_it")
    pytest.importorskip("nh3")
    from levelfield_rating.web.app import create_app
    from plain_browser import Browser

    stores: list[RatingStore] = []

    def browser(
        frozen: Frozen | None = None, *, store: RatingStore | None = None, **options: Any
    ) -> Browser:
        store = store or RatingStore.create(
            memory / f"{len(stores)}.sqlite", frozen or small_study()
        )
        stores.append(store)
        return Browser(store, create_app(store, organiser=False, **options))

    yield browser
    for store in stores:
        store.close()


@pytest.fixture
def place_of(chromium: Any, memory: Path) -> Iterator[Callable[..., Any]]:
    """Serves a study to browsers; a trouble of a page that no test expects fails the test."""
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    from chromium_pages import Place
    from levelfield_rating.web.app import create_app
    from rating_server import served

    with ExitStack() as stack:
        places: list[Place] = []

        def place(frozen: Frozen | None = None, **options: Any) -> Place:
            frozen = frozen or small_study(items=3, practice=False, examples=False)
            store = RatingStore.create(memory / f"{len(places)}.sqlite", frozen)
            stack.callback(store.close)
            apps = []

            def app_at(address: Address) -> Any:
                apps.append(create_app(store, organiser=False, address=address, **options))
                return apps[0]

            base = stack.enter_context(served(app_at))
            places.append(Place(chromium, store, base, apps[0].state.web.cookie, stack))
            return places[-1]

        yield place
        for visited in places:
            unexpected = [t for t in visited.troubles if not any(e in t for e in visited.expected)]
            assert unexpected == []
