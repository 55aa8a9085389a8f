from __future__ import annotations

import copy
import shutil
import sqlite3
import tempfile
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

from levelfield_rating.store import Event, RatingStore, RequestRefused
from store_model import (
    ASKED,
    CLIENTS,
    CRITERIA,
    ORDER,
    PRACTICE,
    SLOT,
    STUDY,
    UUIDS,
    Client,
    Model,
    No,
    anything,
    tampered,
)


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
            expected, no = models(), None
        except No as error:
            expected, no, self.model = None, error.status, kept
        before = self.dump() if no else []
        try:
            actual, refused = does(), None
        except RequestRefused as error:
            actual, refused = None, error.status
        assert refused == no
        if no:
            assert self.dump() == before
        return actual, expected

    def send(self, which: int, number: int, events: list[Event]) -> None:
        saved, duplicates = self.both(
            lambda: self.stores[which].record(self.names[number], events),
            lambda: self.model.record(number, events),
        )
        if saved is None:
            return
        assert [record.duplicate for record in saved] == duplicates
        assert [record.uuid for record in saved] == [event.uuid for event in events]
        for record in saved:
            if record.duplicate:
                assert record.seq == self.seqs[record.uuid]
            else:
                assert record.seq > max(self.seqs.values(), default=0)
                self.seqs[record.uuid] = record.seq
            assert record.clock == max(e.clock for e in self.model.clients[number].events)

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
        """Sends old events again, perhaps by another rater, perhaps in another order."""
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
        """Sends good answers under new names, and perhaps one among them that is not."""
        free = (f"u{n}" for n in range(UUIDS) if f"u{n}" not in self.model.owner)
        placed = STUDY.slots[SLOT[number]].items
        events = [
            Event(uuid, "rating", placed[position].opaque, criterion, value, clock)
            for uuid, (position, criterion, value, clock) in zip(free, answers, strict=False)
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
        """Goes on, so that the later phases are often reached."""
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
                problems = {
                    key for (key, _), reported in client.latest("problem").items() if reported
                }
                tries = {PRACTICE.opaque: (len(client.tries), client.passed)}
                assert (state.phase, state.consent) == (client.phase, client.consent)
                assert state.answers == ({} if gone else answers)
                assert state.comments == ({} if gone else comments)
                assert state.problems == (set() if gone else problems)
                assert state.practice == (tries if client.tries else {})
                assert state.clock == max((event.clock for event in client.events), default=0)
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


@pytest.mark.slow
def test_any_order_repetition_and_interleaving_leaves_the_store_as_the_model() -> None:
    run(25)


@pytest.mark.slow
def test_much_more_of_any_order_leaves_the_store_as_the_model() -> None:
    run(200)
