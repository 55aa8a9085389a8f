"""What holds for workers of any kind, with workers that are threads of this process."""

from __future__ import annotations

import contextlib
import pickle
import threading
from collections.abc import Callable, Mapping

import pytest

from length_metric import Length, samples
from levelfield.core.errors import ModelError, UserError
from levelfield.core.metric import score_checked
from levelfield.core.partitions import PARTITION
from levelfield.workers.executor import LIVES, WorkerDeath, WorkerError, WorkerPool
from levelfield.workers.processes import Answers


class Stub:
    """Workers that answer here; `dies` says of which samples they die."""

    def __init__(
        self, dies: Callable[[list[str]], bool] = lambda _: False, place: str = ""
    ) -> None:
        self._dies, self._place = dies, place
        self._answers = Answers()
        self.bundles: list[list[str]] = []

    def answer(self, message: bytes, subjects: Mapping[bytes, bytes]) -> bytes:
        jobs = pickle.loads(message)
        self.bundles.append([items[0].id for _, _, _, items, _ in jobs])
        if self._dies([item.id for job in jobs for item in job[3]]):
            raise WorkerDeath("by a stub")
        return self._answers(message, subjects, self._place)

    def close(self) -> None:
        pass


@contextlib.contextmanager
def pool(workers: Stub, count: int = 2, notes: list[str] | None = None):
    executor = WorkerPool(workers, count, [].append if notes is None else notes.append)
    try:
        yield executor
    finally:
        executor.close()


def scored(workers: Stub, metric: Length | None = None):
    texts, metric = samples(), metric or Length()
    with pool(workers) as executor:
        pending = [
            executor.begin(score_checked, metric, texts[i : i + PARTITION])
            for i in range(0, len(texts), PARTITION)
        ]
        return [value for each in pending for value in each.result().values]


EXPECTED = [len(sample.text) for sample in samples()]


def test_every_partition_has_the_values_of_this_process():
    assert scored(Stub()) == EXPECTED


def test_a_partition_that_kills_its_workers_is_named():
    with pytest.raises(
        WorkerError, match=rf"{LIVES} workers died on the samples '64' to '127'.*stub"
    ):
        scored(Stub(lambda ids: "70" in ids))


def test_the_other_partitions_have_values_all_the_same():
    texts = samples()
    with pool(Stub(lambda ids: "70" in ids)) as executor:
        killing, steady = (
            executor.begin(score_checked, Length(), part) for part in (texts[64:128], texts[:64])
        )
        assert steady.result().values.tolist() == EXPECTED[:64]
        with pytest.raises(WorkerError):
            killing.result()


def test_what_is_begun_together_goes_to_one_worker_in_one_message():
    workers = Stub()
    with pool(workers) as executor:
        with executor.together():
            pending = [executor.begin(score_checked, Length(), samples(3)) for _ in range(4)]
        assert [each.result().values.tolist() for each in pending] == [EXPECTED[:3]] * 4
    assert workers.bundles == [["0"] * 4]


class Lacking(Length):
    def score(self, *_: object, **__: object):
        raise ModelError("model m: no such folder")


def test_an_error_from_another_machine_names_it():
    with pytest.raises(ModelError) as raised:
        scored(Stub(place="node far (10.0.0.7)"), Lacking())
    assert str(raised.value) == "node far (10.0.0.7): model m: no such folder"


def test_an_error_of_one_metric_leaves_those_beside_it_alone():
    with pool(Stub()) as executor:
        with executor.together():
            lacking = executor.begin(score_checked, Lacking(), samples(3))
            length = executor.begin(score_checked, Length(), samples(3))
        assert length.result().values.tolist() == EXPECTED[:3]
        with pytest.raises(ModelError):
            lacking.result()


def test_a_metric_that_is_another_one_at_the_worker_is_refused(monkeypatch):
    """Its files differ there, say: the value would stand under a signature that is not its own."""

    class Elsewhere(Stub):
        def answer(self, message: bytes, subjects: Mapping[bytes, bytes]) -> bytes:
            monkeypatch.setattr(Length, "signature", "own.length|v:2")
            try:
                return super().answer(message, subjects)
            finally:
                monkeypatch.setattr(Length, "signature", "own.length|v:1")

    with pool(Elsewhere(place="node far"), count=1) as executor:
        pending = executor.begin(score_checked, Length(), samples(3))
        with pytest.raises(UserError, match=r"^node far: own.length is another .* v:2|v:2; here"):
            pending.result()


def test_a_metric_that_cannot_be_packed_stays_here_and_a_note_says_so_once():
    notes: list[str] = []
    metric = Length()
    metric.lock = threading.Lock()
    workers = Stub()
    with pool(workers, notes=notes) as executor:
        for _ in range(2):
            assert executor.begin(score_checked, metric, samples(3)).result().values.size == 3
    assert workers.bundles == []
    (note,) = notes
    assert note.startswith("own.length can't be sent to workers (cannot pickle")
