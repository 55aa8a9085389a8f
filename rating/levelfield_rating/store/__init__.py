"""The store of a rating study: one SQLite file in which nothing acknowledged is ever lost."""

from levelfield_rating.store.records import (
    Event,
    LinkState,
    LogRow,
    Phase,
    RaterState,
    RequestRefused,
    Saved,
    StoreError,
    StoreUnavailable,
)
from levelfield_rating.store.store import RatingStore

__all__ = [
    "Event",
    "LinkState",
    "LogRow",
    "Phase",
    "RaterState",
    "RatingStore",
    "RequestRefused",
    "Saved",
    "StoreError",
    "StoreUnavailable",
]
