"""Whatever raters send, in whatever order, the store is as a plain model of it."""

from __future__ import annotations

import copy
import shutil
import sqlite3
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from rating_study import small_study

from levelfield.rating.store import Event, RatingStore, RequestRefused

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
    """A good event with one thing changed."""
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
    said: list[Event] = field(default_factory=list)
    tries: list[dict[str, int]] = field(default_factory=list)

    def key(self, opaque: object) -> str | None:
        for placed in STUDY.slots[self.slot].items:
            if placed.opaque == opaque:
                return placed.item
        return None

    def latest(self, kind: str) -> dict[tuple[str, str], Any]:
        found: dict[tuple[str, str], Any] = {}
        clock: dict[tuple[str, str], int] = {}
        for event in self.said:
            at = (self.key(event.item) or "", event.criterion)
            if event.kind == kind and event.clock >= clock.get(at, 0):
                found[at], clock[at] = event.value, event.clock
        return found

    @property
    def passed(self) -> bool:
        return any(
            all(low <= one[name] <= high for name, (low, high) in PRACTICE.accept.items())
            for one in self.tries
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
        """Which of them were there before."""
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
            wanted = ("practice",) if event.kind == "practice" else ("rating", "review")
            if client.phase not in wanted:
                raise No(409)
            if event.clock > 1_000_000 + max((one.clock for one in client.said), default=0):
                raise No(422)
            if event.kind == "practice":
                if client.passed or len(client.tries) >= 2:
                    raise No(409)
                if event.criterion in attempt:
                    raise No(422)
                attempt[event.criterion] = event.value  # type: ignore[assignment]
            client.said.append(event)
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
        wanted = {(p.item, c) for p in STUDY.slots[client.slot].items for c in CRITERIA}
        if phase == "done" and client.latest("rating").keys() != wanted:
            raise No(409)
        client.phase = phase

    def agree(self, number: int, version: str) -> None:
        client = self.clients[number]
        self.may_write(client)
        if version != STUDY.consent_version:
            raise No(409)
        client.consent = version


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        memory = Path("/dev/shm")  # much is written, and nothing needs to stay
        self.folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
        self.path = self.folder / "study.sqlite"
        self.stores = [RatingStore.create(self.path, STUDY), RatingStore.open(self.path)]
        self.names = {}
        for number in (0, 1):
            secret = self.stores[0].exchange(self.stores[0].new_link(SLOT[number]))
            self.names[number] = self.stores[0].session(secret or "") or ""
        self.names[2] = self.stores[0].session(self.stores[0].preview(1)) or ""
        self.model = Model({n: Client(SLOT[n], n == 2) for n in CLIENTS})
        self.sent: list[tuple[int, list[Event]]] = []
        self.seqs: dict[str, int] = {}

    def teardown(self) -> None:
        for store in self.stores:
            store.close()
        shutil.rmtree(self.folder)

    def dump(self) -> list[str]:
        db = sqlite3.connect(self.path)
        try:
            return list(db.iterdump())
        finally:
            db.close()

    def both(self, does: Any, models: Any) -> Any:
        """Does the same to store and model; if the model says no, the store says the same no."""
        kept = copy.deepcopy(self.model)
        try:
            wanted, no = models(), None
        except No as error:
            wanted, no, self.model = None, error.status, kept
        before = self.dump() if no else []
        try:
            found, refused = does(), None
        except RequestRefused as error:
            found, refused = None, error.status
        assert refused == no
        if no:
            assert self.dump() == before
        return found, wanted

    def send(self, which: int, number: int, events: list[Event]) -> None:
        saved, duplicates = self.both(
            lambda: self.stores[which].record(self.names[number], events),
            lambda: self.model.record(number, events),
        )
        if saved is None:
            return
        assert [one.duplicate for one in saved] == duplicates
        assert [one.uuid for one in saved] == [event.uuid for event in events]
        for one in saved:
            if one.duplicate:
                assert one.seq == self.seqs[one.uuid]
            else:
                assert one.seq > max(self.seqs.values(), default=0)
                self.seqs[one.uuid] = one.seq
            assert one.clock == max(e.clock for e in self.model.clients[number].said)

    @initialize(far=st.tuples(*[st.sampled_from(("rating", *ORDER[:6], "review"))] * 3))
    def some_are_under_way(self, far: tuple[str, ...]) -> None:
        for number, phase in enumerate(far):
            for step in range(ORDER.index(phase)):
                if step == 0:
                    self.agrees(0, number, "1")
                if ORDER[step] == "practice":
                    self.practises(0, number, 4)
                self.goes_on(0, number)
            assert self.model.clients[number].phase == phase

    stores_ = st.integers(0, 1)

    @rule(which=stores_, number=st.sampled_from(CLIENTS), events=st.lists(anything, max_size=4))
    def sends(self, which: int, number: int, events: list[Event]) -> None:
        self.sent.append((number, events))
        self.send(which, number, events)

    @rule(which=stores_, number=st.sampled_from(CLIENTS), data=st.data())
    @precondition(lambda self: self.sent)
    def sends_again(self, which: int, number: int, data: st.DataObject) -> None:
        """What somebody sent before, perhaps by another rater, perhaps in another order."""
        sender, events = data.draw(st.sampled_from(self.sent))
        shuffled = data.draw(st.permutations(events))
        self.send(which, sender if data.draw(st.booleans()) else number, shuffled)

    @rule(
        which=stores_,
        number=st.sampled_from(CLIENTS),
        answers=st.lists(
            st.tuples(
                st.integers(0, 1), st.sampled_from(CRITERIA), st.integers(1, 5), st.integers(1, 12)
            ),
            min_size=1,
            max_size=5,
        ),
        bad=st.none() | tampered(),
    )
    def rates(
        self,
        which: int,
        number: int,
        answers: list[tuple[int, str, int, int]],
        bad: Event | None,
    ) -> None:
        """Good answers under new names, and perhaps one among them that is not."""
        free = (f"u{n}" for n in range(UUIDS) if f"u{n}" not in self.model.owner)
        placed = STUDY.slots[SLOT[number]].items
        events = [
            Event(uuid, "rating", placed[at].opaque, criterion, value, clock)
            for uuid, (at, criterion, value, clock) in zip(free, answers, strict=False)
        ]
        events[1:1] = [bad] if bad else []
        self.sent.append((number, events))
        self.send(which, number, events)

    @rule(which=stores_, number=st.sampled_from(CLIENTS), value=st.sampled_from([1, 4, 5]))
    def practises(self, which: int, number: int, value: int) -> None:
        free = next((f"u{n}" for n in range(UUIDS) if f"u{n}" not in self.model.owner), "u0")
        events = [
            Event(free, "practice", PRACTICE.opaque, name, value, 1) for name in sorted(ASKED)[:1]
        ]
        self.sent.append((number, events))
        self.send(which, number, events)

    @rule(
        which=stores_,
        number=st.sampled_from(CLIENTS),
        phase=st.sampled_from([*ORDER, "withdrawn", "nowhere"]),
    )
    def enters(self, which: int, number: int, phase: Any) -> None:
        self.both(
            lambda: self.stores[which].enter(self.names[number], phase),
            lambda: self.model.enter(number, phase),
        )

    @rule(which=stores_, number=st.sampled_from(CLIENTS))
    def goes_on(self, which: int, number: int) -> None:
        """So that the later phases are often reached."""
        client = self.model.clients[number]
        if client.phase in ORDER[:-1]:
            following: Any = ORDER[ORDER.index(client.phase) + 1]
            self.enters(which, number, following)  # type: ignore[call-arg]

    @rule(
        which=stores_, number=st.sampled_from(CLIENTS), version=st.sampled_from(["1", "1", "2", ""])
    )
    def agrees(self, which: int, number: int, version: str) -> None:
        self.both(
            lambda: self.stores[which].consent(self.names[number], version),
            lambda: self.model.agree(number, version),
        )

    @rule(number=st.sampled_from(CLIENTS), really=st.integers(0, 9))
    def withdraws(self, number: int, really: int) -> None:
        if really != 7:
            return
        self.stores[0].withdraw(self.names[number])
        client = self.model.clients[number]
        client.phase, client.consent, client.tries = "withdrawn", "", []

    @rule(which=stores_, really=st.integers(0, 3))
    def closes_or_reopens(self, which: int, really: int) -> None:
        if really != 2 and not self.model.closed:
            return
        if self.model.closed:
            self.stores[which].reopen("go on")
        else:
            self.stores[which].close_study("wait")
        self.model.closed = not self.model.closed

    @rule(which=stores_)
    def starts_again(self, which: int) -> None:
        self.stores[which].close()
        self.stores[which] = RatingStore.create(self.path, STUDY)

    @invariant()
    def is_as_the_model(self) -> None:
        for number, client in self.model.clients.items():
            for store in self.stores:
                state = store.state(self.names[number])
                gone = client.phase == "withdrawn"
                answers: dict[str, dict[str, Any]] = {}
                for (key, criterion), value in client.latest("rating").items():
                    answers.setdefault(key, {})[criterion] = value
                comments = {
                    key: text for (key, _), text in client.latest("comment").items() if text
                }
                problems = {key for (key, _), said in client.latest("problem").items() if said}
                tries = {PRACTICE.opaque: (len(client.tries), client.passed)}
                assert (state.phase, state.consent) == (client.phase, client.consent)
                assert state.answers == ({} if gone else answers)
                assert state.comments == ({} if gone else comments)
                assert state.problems == (set() if gone else problems)
                assert state.practice == (tries if client.tries else {})
                assert state.clock == max((event.clock for event in client.said), default=0)
                assert bool(state.completion_code) == (client.phase == "done") or gone

    @invariant()
    def every_event_is_there_once(self) -> None:
        rows = [row for row in self.stores[0].log() if row.uuid]
        assert {row.uuid: row.seq for row in rows} == {
            uuid: self.seqs[uuid] for uuid, (number, _) in self.model.owner.items() if number != 2
        }
        assert len({row.uuid for row in rows}) == len(rows)


def run(examples: int) -> None:
    settings = hypothesis.settings(
        max_examples=examples,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    run_state_machine_as_test(StoreMachine, settings=settings)


def test_any_order_repetition_and_interleaving_leaves_the_store_as_the_model() -> None:
    run(60)


@pytest.mark.slow
def test_much_more_of_any_order_leaves_the_store_as_the_model() -> None:
    run(400)
