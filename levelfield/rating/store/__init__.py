"""The store of a rating study: one SQLite file in which nothing acknowledged is ever lost."""

from levelfield.rating.store.records import (
    Event,
    LinkState,
    LogRow,
    Phase,
    RaterState,
    Refused,
    Saved,
    StoreError,
    StoreUnavailable,
)
from levelfield.rating.store.store import Store

__all__ = [
    "Event",
    "LinkState",
    "LogRow",
    "Phase",
    "RaterState",
    "Refused",
    "Saved",
    "Store",
    "StoreError",
    "StoreUnavailable",
]
