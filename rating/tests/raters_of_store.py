"""A small study in a store, and people who rate it: for tests of the store."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from levelfield_rating.model import Frozen, Placed, Slot
from levelfield_rating.store import (
    Event,
    Phase,
    RatingStore,
    RequestRefused,
    StoreUnavailable,
)
from rating_study import small_study

STUDY = small_study(items=3, raters=2, surveys=2)


START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Now:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> datetime:
        return self.at


def begin(store: RatingStore, slot: int = 0, until: Phase = "rating") -> str:
    """Returns a rater who has come as far as this phase."""
    secret = store.exchange(store.new_link(slot))
    assert secret is not None
    rater = store.session(secret)
    assert rater is not None
    go_on(store, rater, until)
    return rater


def go_on(store: RatingStore, rater: str, until: Phase) -> None:
    if until == "welcome":
        return
    store.consent(rater, store.frozen.consent_version)
    for phase in ("instructions", "examples", "practice", "rating", "review", "done"):
        if phase == "rating":
            for practice in store.frozen.practice:
                store.record(rater, tries(store, practice.opaque, good=True))
        if phase == "done":
            rate_all(store, rater)
        store.enter(rater, phase)  # type: ignore[arg-type]
        if phase == until:
            return


def tries(store: RatingStore, opaque: str, *, good: bool, tag: str = "") -> list[Event]:
    """Returns one try at a practice item."""
    (practice,) = [item for item in store.frozen.practice if item.opaque == opaque]
    return [
        Event(f"{opaque}-{name}-{good}{tag}-{os.urandom(4).hex()}", "practice", opaque, name,
              high if good else low - 1, 1)
        for name, (low, high) in practice.accept.items()
    ]  # fmt: skip


def rate_all(store: RatingStore, rater: str, value: int = 40) -> None:
    state = store.state(rater)
    store.record(
        rater,
        [
            Event(f"{rater}-{placed.opaque}-{criterion.id}", "rating", placed.opaque,
                  criterion.id, value, state.clock + 1)
            for placed in store.frozen.slots[state.slot].items
            for criterion in store.frozen.criteria
        ],
    )  # fmt: skip


def rating(uuid: str = "u1", value: Any = 50, clock: Any = 1, **fields: Any) -> Event:
    """Returns a rating of the first item of the first slot."""
    event = Event(uuid, "rating", STUDY.slots[0].items[0].opaque, "style", value, clock)
    return replace(event, **fields)


def dump(path: Path) -> list[str]:
    """Returns everything in the file."""
    db = sqlite3.connect(path)
    try:
        return list(db.iterdump())
    finally:
        db.close()


def refused(action: Callable[[], object]) -> int:
    with pytest.raises(RequestRefused) as caught:
        action()
    return caught.value.status


def refrozen(frozen: Frozen) -> Frozen:
    """Returns the same study frozen once more, with other opaque ids."""
    slots = tuple(
        Slot(s.name, s.survey, tuple(Placed(p.item, f"new{p.opaque}", p.order) for p in s.items))
        for s in frozen.slots
    )
    practice = tuple(replace(item, opaque=f"new{item.opaque}") for item in frozen.practice)
    return replace(frozen, slots=slots, practice=practice)


def fill(store: RatingStore, rater: str) -> tuple[list[str], StoreUnavailable | None]:
    """Rates until the store says no: what was acknowledged, and how it said no."""
    acknowledged = []
    remark = "A long remark. " * 200
    for n in range(1, 400):
        events = [
            rating(f"r{n}", 1 + n % 100, n),
            rating(f"c{n}", remark, n, kind="comment", criterion=""),
        ]
        try:
            acknowledged += [saved.uuid for saved in store.record(rater, events)]
        except StoreUnavailable as error:
            return acknowledged, error
    return acknowledged, None
