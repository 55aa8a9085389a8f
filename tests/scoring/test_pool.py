"""What holds for workers of any kind, with workers that are threads of this process."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable

import pytest
from length_metric import Length, samples

from levelfield.core.errors import ModelError, UserError
from levelfield.core.metric import PARTITION
from levelfield.scoring.executor import LIVES, WorkerError, WorkerPool
from levelfield.scoring.worker import Answers


class Stub:
    """A worker; `dies` says of which samples it dies, `starts` how often it can be started."""

    def __init__(
        self,
        dies: Callable[[list[str]], bool] = lambda _: False,
        starts: float = float("inf"),
        error: type[Exception] = WorkerError,
        place: str = "",
    ) -> None:
        self.place = place
        self._dies, self._starts, self._error = dies, starts, error
        self.started = 0
        self.sent: list[str] = []

    def start(self) -> None:
        if self.started >= self._starts:
            raise self._error("no place")
        self.started += 1
        self._answers = Answers()

    def answer(self, message: bytes) -> bytes:
        ids = [sample.id for sample in pickle.loads(message)[2]]
        self.sent.append(ids[0])
        if self._dies(ids):
            raise WorkerError("by a stub")
        return self._answers(message)

    def end(self) -> None:
        pass


def scored(*workers: Stub, notes: list[str] | None = None, metric: Length | None = None):
    pool = WorkerPool(workers, [].append if notes is None else notes.append)
    texts = samples()
    try:
        pending = [
            pool.begin(metric or Length(), texts[i : i + PARTITION])
            for i in range(0, len(texts), PARTITION)
        ]
        return [value for one in pending for value in one.result().values]
    finally:
        pool.close()


EXPECTED = [len(sample.text) for sample in samples()]


def test_a_worker_that_dies_is_replaced_and_knows_the_metric_again():
    seen: set[str] = set()
    worker = Stub(lambda ids: ids[0] == "64" and not seen & set(ids) and not seen.update(ids))
    assert scored(worker) == EXPECTED
    assert worker.started == 2
    assert worker.sent.count("64") == 2


def test_a_partition_that_kills_its_workers_ends_the_run_and_is_named():
    workers = [Stub(lambda ids: "70" in ids), Stub(lambda ids: "70" in ids)]
    with pytest.raises(
        WorkerError, match=rf"{LIVES} workers died on the samples '64' to '127'.*stub"
    ):
        scored(*workers)


def test_the_others_go_on_without_a_worker_that_cannot_be_started_again():
    notes: list[str] = []
    dying, steady = Stub(lambda _: True, starts=1), Stub()
    assert scored(dying, steady, notes=notes) == EXPECTED
    assert set(steady.sent) >= set(dying.sent)
    assert all(note == "went on with 1 of 2 workers: no place" for note in notes)


def test_what_a_dead_worker_was_at_goes_to_another_while_it_is_started_anew():
    scored_all = threading.Event()

    class Slow(Stub):
        def start(self) -> None:
            assert self.started == 0 or scored_all.wait(timeout=60)
            super().start()

    pool = WorkerPool([Slow(lambda _: True), Stub()])
    try:
        for pending in [pool.begin(Length(), samples(3)) for _ in range(9)]:
            assert len(pending.result().values) == 3
        scored_all.set()
    finally:
        pool.close()


def test_without_any_worker_the_run_ends():
    with pytest.raises(WorkerError, match="no place"):
        scored(Stub(starts=0), Stub(starts=0))


def test_what_is_wrong_with_all_workers_ends_the_run_although_some_could_go_on():
    gate = Stub(starts=0, error=UserError)
    with pytest.raises(UserError, match="no place"):
        scored(gate)
    pool = WorkerPool([Stub(starts=0, error=UserError), Stub(starts=0)])
    try:
        with pytest.raises((UserError, WorkerError), match="no place"):
            pool.begin(Length(), samples(3)).result(timeout=30)
    finally:
        pool.close()


class Lacking(Length):
    def score(self, *_: object, **__: object):
        raise ModelError("model m: no such folder")


def test_an_error_from_another_machine_names_it():
    with pytest.raises(ModelError) as raised:
        scored(Stub(place="node far (10.0.0.7)"), metric=Lacking())
    assert str(raised.value) == "node far (10.0.0.7): model m: no such folder"


def test_a_metric_that_is_another_one_at_the_worker_is_refused(monkeypatch):
    """Its files differ there, say: the value would stand under a signature that is not its own."""
    signatures = iter(["own.length|v:1", *["own.length|v:2"] * 9])

    class Worker(Stub):
        def answer(self, message: bytes) -> bytes:
            monkeypatch.setattr(Length, "signature", next(signatures))
            try:
                return super().answer(message)
            finally:
                monkeypatch.setattr(Length, "signature", "own.length|v:1")

    with pytest.raises(UserError, match=r"node far: own.length is another .* v:2|v:2; here it is"):
        scored(Worker(place="node far"))
