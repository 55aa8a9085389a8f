"""The store of ratings once more, simple and in memory, and what raters may send to it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from levelfield_rating.store import Event
from rating_study import small_study

STUDY = small_study(items=2, raters=2, surveys=1, control=False, scale="likert")


CRITERIA = [criterion.id for criterion in STUDY.criteria]


PRACTICE = STUDY.practice[0]


ASKED = set(PRACTICE.accept)


ORDER = ("welcome", "instructions", "examples", "practice", "rating", "review", "done")


UUIDS = 60


CLIENTS = (0, 1, 2)
"""Two raters and a preview of the second one's slot."""


SLOT = {0: 0, 1: 1, 2: 1}


uuids = st.sampled_from([f"u{n}" for n in range(UUIDS)])


tampered_values = st.sampled_from(
    [0, 6, -1, 10**20, 3.0, float("nan"), float("inf"), True, False, "3", "", None, (3,), [], {}]
)


opaques = st.sampled_from(
    [placed.opaque for slot in STUDY.slots for placed in slot.items]
    + ["", "nothing", PRACTICE.opaque, *STUDY.items]
)


clocks = st.one_of(
    st.integers(1, 12), st.sampled_from([0, -1, 2.0, True, None, "1", 2**53, 99_999_999])
)


times = st.sampled_from([None, None, 0, 1500, -1, 2.5, "1", float("nan")])


good = st.builds(
    Event,
    uuids,
    st.just("rating"),
    st.sampled_from([placed.opaque for slot in STUDY.slots for placed in slot.items]),
    st.sampled_from(CRITERIA),
    st.integers(1, 5),
    st.integers(1, 12),
)


remarks = st.builds(
    Event,
    uuids,
    st.just("comment"),
    opaques,
    st.just(""),
    st.sampled_from(["", "Odd.", "x" * 4000, "x" * 4001, "\ud800", True, 3]),
    st.integers(1, 12),
)


flags = st.builds(
    Event, uuids, st.just("problem"), opaques, st.just(""), st.sampled_from([True, False, 1, "no"]),
    st.integers(1, 12),
)  # fmt: skip


practising = st.builds(
    Event, uuids, st.just("practice"), st.just(PRACTICE.opaque), st.sampled_from(CRITERIA),
    st.sampled_from([1, 4, 5]), st.integers(1, 12),
)  # fmt: skip


@st.composite
def tampered(draw: st.DrawFn) -> Event:
    """Returns a good event with one thing changed."""
    event = draw(good)
    name, values = draw(
        st.sampled_from(
            [
                ("value", tampered_values),
                ("clock", clocks),
                ("client_ms", times),
                ("item", opaques),
                ("criterion", st.sampled_from(["", "grammar", None])),
                ("kind", st.sampled_from(["practice", "vote", "", None, "comment"])),
                ("uuid", st.sampled_from(["", "a b", "x" * 65, None, 3])),
            ]
        )
    )
    return replace(event, **{name: draw(values)})


anything = st.one_of(good, good, good, tampered(), remarks, flags, practising)


class No(Exception):  # noqa: N818
    def __init__(self, status: int) -> None:
        self.status = status


@dataclass
class Client:
    """A rater as the model has them."""

    slot: int
    preview: bool
    phase: str = "welcome"
    consent: str = ""
    events: list[Event] = field(default_factory=list)
    tries: list[dict[str, int]] = field(default_factory=list)

    def key(self, opaque: object) -> str | None:
        for placed in STUDY.slots[self.slot].items:
            if placed.opaque == opaque:
                return placed.item
        return None

    def latest(self, kind: str) -> dict[tuple[str, str], Any]:
        values: dict[tuple[str, str], Any] = {}
        clock: dict[tuple[str, str], int] = {}
        for event in self.events:
            question = (self.key(event.item) or "", event.criterion)
            if event.kind == kind and event.clock >= clock.get(question, 0):
                values[question], clock[question] = event.value, event.clock
        return values

    @property
    def passed(self) -> bool:
        return any(
            all(low <= answers[name] <= high for name, (low, high) in PRACTICE.accept.items())
            for answers in self.tries
        )


def is_whole(value: object, low: int, high: int = 2**53 - 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


@dataclass
class Model:
    clients: dict[int, Client]
    owner: dict[str, tuple[int, Event]] = field(default_factory=dict)
    closed: bool = False

    def may_write(self, client: Client) -> None:
        if client.phase == "withdrawn":
            raise No(409)
        if self.closed and not client.preview:
            raise No(403)

    def record(self, number: int, events: list[Event]) -> list[bool]:
        """Records events; returns which of them were there before."""
        client = self.clients[number]
        if not events:
            raise No(422)
        attempt: dict[str, int] = {}
        duplicates = []
        for event in events:
            self.check(client, event)
            if event.uuid in self.owner:
                if self.owner[event.uuid] != (number, event) or client.phase == "withdrawn":
                    raise No(409)
                duplicates.append(True)
                continue
            self.may_write(client)
            phases = ("practice",) if event.kind == "practice" else ("rating", "review")
            if client.phase not in phases:
                raise No(409)
            if event.clock > 1_000_000 + max((sent.clock for sent in client.events), default=0):
                raise No(422)
            if event.kind == "practice":
                if client.passed or len(client.tries) >= 2:
                    raise No(409)
                if event.criterion in attempt:
                    raise No(422)
                attempt[event.criterion] = event.value  # type: ignore[assignment]
            client.events.append(event)
            self.owner[event.uuid] = (number, event)
            duplicates.append(False)
        if attempt:
            if not attempt.keys() >= ASKED:
                raise No(422)
            client.tries.append(attempt)
        return duplicates

    def check(self, client: Client, event: Event) -> None:
        if event.uuid not in {f"u{n}" for n in range(UUIDS)}:
            raise No(422)
        if not is_whole(event.clock, 1):
            raise No(422)
        if event.client_ms is not None and not is_whole(event.client_ms, 0):
            raise No(422)
        if not isinstance(event.item, str) or not isinstance(event.criterion, str):
            raise No(422)
        if event.kind not in ("rating", "comment", "problem", "practice"):
            raise No(422)
        there = (
            event.item == PRACTICE.opaque if event.kind == "practice" else client.key(event.item)
        )
        if not there:
            raise No(404)
        value = event.value
        if event.kind in ("rating", "practice"):
            right = event.criterion in CRITERIA and is_whole(value, 1, 5)
        elif event.kind == "comment":
            right = isinstance(value, str) and len(value) <= 4000 and "\ud800" not in value
            right = right and event.criterion == ""
        else:
            right = isinstance(value, bool) and event.criterion == ""
        if not right:
            raise No(422)

    def enter(self, number: int, phase: str) -> None:
        client = self.clients[number]
        self.may_write(client)
        if phase == client.phase:
            return
        back = (client.phase, phase) == ("review", "rating")
        on = phase in ORDER and ORDER.index(phase) == ORDER.index(client.phase) + 1
        if not (back or on) or client.consent != STUDY.consent_version:
            raise No(409)
        if client.phase == "practice" and not client.passed and len(client.tries) < 2:
            raise No(409)
        questions = {(p.item, c) for p in STUDY.slots[client.slot].items for c in CRITERIA}
        if phase == "done" and client.latest("rating").keys() != questions:
            raise No(409)
        client.phase = phase

    def agree(self, number: int, version: str) -> None:
        client = self.clients[number]
        self.may_write(client)
        if version != STUDY.consent_version:
            raise No(409)
        client.consent = version
