"""What goes into the store and comes out of it, as plain data, and how it says no."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from levelfield.core.errors import UserError
from levelfield_rating.answers import Answer

Phase = Literal[
    "welcome", "instructions", "examples", "practice", "rating", "review", "done", "withdrawn"
]
EventKind = Literal["rating", "comment", "problem", "practice"]
LinkKind = Literal["none", "made", "used", "revoked"]


class StoreError(UserError):
    """The organiser named something that isn't there, or a file that is not a rating store."""


class StoreUnavailable(Exception):  # noqa: N818 - a state of the disk, not of the code
    """The store can't be read or written now (a full disk, a read-only file, a lock that stays).

    What was asked has not been done and may be asked again; nothing acknowledged is lost.
    """


class RequestRefused(Exception):  # noqa: N818 - an answer to a rater, not an error of ours
    """A rater's request was not granted, and nothing was changed.

    Attributes:
        status: 403 the study is closed or the slot has another rater, 404 not in the rater's slot,
            409 at the wrong time or the same UUID with another body, 422 not valid, 429 more than
            the store keeps of one rater.
        reason: in words that a rater may read.
    """

    def __init__(self, status: Literal[403, 404, 409, 422, 429], reason: str) -> None:
        super().__init__(f"{status}: {reason}")
        self.status = status
        self.reason = reason


@dataclass(frozen=True)
class Event:
    """Something a rater's page says; untrusted.

    Attributes:
        uuid: the page's own name for it; sent again, it is the same event.
        item: the rater's opaque id of an item, or of a practice item.
        criterion: empty for a comment or a problem.
        value: an answer; for a comment its text (empty: taken back); for a problem whether there is
            one. Candidates count as in `Item.candidates`, not as shown.
        clock: 1 + the largest clock the page has seen of this rater.
        client_ms: how long the page says it took.
    """

    uuid: str
    kind: EventKind
    item: str
    criterion: str
    value: Answer | str | bool
    clock: int
    client_ms: int | None = None


@dataclass(frozen=True)
class Saved:
    """An event that is on the disk.

    Attributes:
        seq: its place among all events of the study; counts other raters' too, so that no rater
            may see it.
        at: server's time, UTC.
        duplicate: it was there before; nothing was written now.
        clock: the largest known of this rater.
    """

    uuid: str
    seq: int
    at: datetime
    duplicate: bool
    clock: int


@dataclass(frozen=True)
class RaterState:
    """All that is known of a rater.

    Attributes:
        slot: index in `Frozen.slots`.
        rater: names the person in exports: `r7`.
        consent: the version agreed to; empty for none.
        answers: item key -> criterion -> current answer.
        comments: item key -> text.
        problems: keys of items.
        practice: opaque id -> (tries used, passed).
        clock: the largest of the rater's events.
        last_seen: when they were last active; opening the link again does not count, so that a
            page can show that they come back after a day.
        completion_code: empty until done.
        replaced: the slot was given to another person since.
    """

    slot: int
    rater: str
    phase: Phase
    consent: str
    answers: Mapping[str, Mapping[str, Answer]]
    comments: Mapping[str, str]
    problems: frozenset[str]
    practice: Mapping[str, tuple[int, bool]]
    clock: int
    first_seen: datetime | None
    last_seen: datetime | None
    completion_code: str
    preview: bool
    replaced: bool = False


@dataclass(frozen=True)
class LinkState:
    """The link of a slot.

    Attributes:
        rater: who has the slot now; empty if nobody has been invited yet.
        when: it came into this state.
    """

    slot: int
    rater: str
    state: LinkKind
    when: datetime | None

    @property
    def is_unopened(self) -> bool:
        """Whether nobody has opened it yet, and anybody may be given a new one."""
        return self.state in ("none", "made")


@dataclass(frozen=True)
class LogRow:
    """One thing that happened; previews are never among them.

    Attributes:
        kind: of an event of a rater, or `study`, `link`, `opened`, `revoked`, `reassigned`,
            `consent`, `phase`, `withdrawn`, `excluded`, `included`, `closed`, `reopened`.
        slot, rater: None and empty for what concerns the whole study.
        item: key of an item; opaque id of a practice item.
        value: None if the rater has withdrawn, and for rows that are not events of a rater.
        attempt: which try at a practice item.
        detail: a reason, the phase entered, the version agreed to.
    """

    seq: int
    at: datetime
    kind: str
    slot: int | None
    rater: str
    item: str = ""
    criterion: str = ""
    value: Answer | str | bool | None = None
    attempt: int | None = None
    clock: int | None = None
    client_ms: int | None = None
    uuid: str = ""
    detail: str = ""
