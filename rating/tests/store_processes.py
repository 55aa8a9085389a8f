"""What processes of their own do to a store, for `forked.fork`."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

from levelfield_rating.store import (
    Event,
    RatingStore,
    StoreError,
    StoreUnavailable,
    database,
)
from raters_of_store import fill, rating, refrozen
from rating_study import small_study


def rate(store_file: str, rater: str, acknowledged_file: str) -> None:
    """Rates everything, and appends the UUID of what is acknowledged to a file."""
    path, acknowledged = Path(store_file), Path(acknowledged_file)
    store = RatingStore.open(path)
    slot = store.frozen.slots[store.state(rater).slot]
    uuids = acknowledged.read_text().split() if acknowledged.exists() else []
    # the last few are sent once more, as a page does that did not hear the answer
    done = max(0, len(set(uuids)) - 3)
    out = os.open(acknowledged, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    events = [
        Event(f"{rater}-{n}", "rating", placed.opaque, criterion.id, 1 + (7 * n) % 5, n + 1)
        for n, (placed, criterion) in enumerate(
            (placed, criterion) for placed in slot.items for criterion in store.frozen.criteria
        )
    ]
    for event in events[done:]:
        while True:
            try:
                (saved,) = store.record(rater, [event])
                break
            except StoreUnavailable:
                pass
        os.write(out, f"{saved.uuid}\n".encode())


def create(store_file: str, number: str, start: str) -> None:
    """Makes a store as soon as the file `start` is there, and prints what it is."""
    study = small_study()
    study = refrozen(study) if int(number) % 2 else study
    print("ready", flush=True)
    while not Path(start).exists():
        time.sleep(0.001)
    store = RatingStore.create(Path(store_file), study)
    print(store.frozen.digest, store.server_key.hex())


def fill_disk(store_file: str) -> None:
    """Rates until no file may grow, and prints what was acknowledged."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
    store = RatingStore.open(Path(store_file))
    acknowledged, error = fill(store, "r1")
    assert error is not None, "the limit was never reached"
    assert store.state("r1").answers, "what is there can still be read"
    _, error = fill(store, "r1")
    assert error is not None
    resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
    print(" ".join(acknowledged))


def read_as_nobody(store_file: str) -> None:
    """Reads and rates as a user who may write nothing, and prints what is there and the error."""
    path = Path(store_file)
    migrations = database.migrations()
    database.migrations = lambda: migrations  # the checkout may be out of reach for the other user
    if os.geteuid() == 0:
        os.setuid(65534)
    store = RatingStore.open(path, read_only=True)
    print(store.state("r1").answers)
    try:
        store = RatingStore.open(path)
        store.record("r1", [rating("u2")])
    except (StoreError, StoreUnavailable) as error:
        print(type(error).__name__)
