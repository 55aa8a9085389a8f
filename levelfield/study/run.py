"""Runs a study: every unfinished cell, several at once, resuming after a crash."""

from __future__ import annotations

import contextlib
import errno
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from levelfield.core.errors import LevelfieldError
from levelfield.core.machine import usable_processors
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Sample
from levelfield.io.problems import printable
from levelfield.study.ask.requests import TimedAnswer, requests_of
from levelfield.study.ask.systems import AskOutcome, TechniqueProcess, answer
from levelfield.study.cells import CellKey, CellRequest, Cost, SystemAnswer, grouped
from levelfield.study.fingerprint import Fingerprint, fingerprint
from levelfield.study.plan import FilesSource, Plan, SystemPlan, TechniqueSource
from levelfield.study.postprocess import process
from levelfield.study.status import CellStatus, cell_status, status_of
from levelfield.study.store import StudyStore
from levelfield.study.store.journal import CellRecord

_FULL = (errno.ENOSPC, errno.EDQUOT)
_MOST_PROBLEMS = 20
_TICK_S = 0.2


@dataclass(frozen=True)
class RunReport:
    """The outcome of a run.

    Attributes:
        cells: those chosen, in the order of the plan.
        fresh: those that this run asked a system for, or made texts of.
        notes: what a person should know besides, one line each.
    """

    cells: tuple[CellStatus, ...]
    fresh: frozenset[CellKey]
    notes: tuple[str, ...]

    @property
    def counts(self) -> Counter[str]:
        """State -> number of cells."""
        return Counter(cell.state for cell in self.cells)


def run(
    plan: Plan,
    *,
    jobs: int = 1,
    only: Callable[[CellKey], bool] = lambda _: True,
    progress: Progress = no_progress,
    on_cell: Callable[[CellStatus], object] = lambda _: None,
    stop: threading.Event | None = None,
) -> RunReport:
    """Runs every unfinished cell of a study.

    Finished cells are left alone; of interrupted and failed ones only the requests without an
    answer are asked for. A cell that fails does not stop the others; a full disk does. Several
    processes may run one study: a cell that another one holds is passed over, and tried again at
    the end.

    Args:
        jobs: number of cells at once, at least 1; those of a technique are run one after the other.
        only: which cells.
        progress: called with the number of requests just answered, or answered before.
        on_cell: called with every finished cell, one at a time.
        stop: when set, running systems are ended; their answers are kept.

    Raises:
        KeyboardInterrupt: Ctrl-C, after all systems have been ended; says what is kept.
    """
    work = _Work(plan, StudyStore(plan.out), progress, on_cell, stop or threading.Event())
    keys = [key for key in plan.cells() if only(key)]
    work.cells(keys, jobs)
    work.cells([key for key in keys if key in work.held], jobs)
    for key in work.held:
        work.notes.append(f"{key}: another process is running it")
    cells = []
    for key in keys:
        status = work.ended.get(key) or cell_status(work.store, plan, key)
        cells.append(replace(status, state="held") if key in work.held else status)
    return RunReport(tuple(cells), frozenset(work.fresh), tuple(work.notes))


@dataclass(frozen=True)
class _Task:
    """A cell to run, with what it is made from; `process` is that of its technique."""

    key: CellKey
    system: SystemPlan
    requests: Sequence[CellRequest]
    mark: Fingerprint
    process: TechniqueProcess | None

    def record(self, answered: Collection[str], **outcome: Any) -> CellRecord:
        """Returns the record of the cell, from the ids of the requests with an answer."""
        return CellRecord(
            fingerprint=self.mark,
            asked=len(self.requests),
            answered=len(answered),
            missing=tuple(r.id for r in self.requests if r.id not in answered),
            **outcome,
        )


@dataclass
class _Work:
    """The state that the threads of a run share; each cell is run by one."""

    plan: Plan
    store: StudyStore
    progress: Progress
    on_cell: Callable[[CellStatus], object]
    stop: threading.Event
    ended: dict[CellKey, CellStatus] = field(default_factory=dict)
    held: set[CellKey] = field(default_factory=set)
    fresh: set[CellKey] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    _disk_is_full: threading.Event = field(default_factory=threading.Event)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def cells(self, keys: Sequence[CellKey], jobs: int) -> None:
        """Runs cells, `jobs` at once."""
        pool = ThreadPoolExecutor(jobs)
        lanes = self._lanes(keys)
        threads = max(1, usable_processors() // max(1, min(jobs, len(lanes))))
        try:
            futures = [pool.submit(self._lane, lane, threads) for lane in lanes]
            # not for ever at once: where polars is loaded, Ctrl-C does not wake a waiting thread
            while wait(futures, timeout=_TICK_S).not_done:
                pass
        except KeyboardInterrupt:
            self.stop.set()
            kept = "the answers so far are kept, and the same command resumes from there"
            raise KeyboardInterrupt(kept) from None
        finally:
            pool.shutdown(cancel_futures=True)
        for future in futures:
            future.result()

    def _lanes(self, keys: Sequence[CellKey]) -> list[list[CellKey]]:
        """The cells that are run one after the other: those of a technique, as one process answers
        them all; others are by themselves."""
        techniques = self.plan.techniques
        return list(grouped(keys, lambda k: k.system if k.system in techniques else k).values())

    def _lane(self, keys: Sequence[CellKey], threads: int) -> None:
        source = self.plan.system(keys[0].system).source
        process = None
        if isinstance(source, TechniqueSource):
            process = TechniqueProcess(source, threads)
        with contextlib.closing(process) if process else contextlib.nullcontext():
            for key in keys:
                self._cell(key, process)

    def _cell(self, key: CellKey, process: TechniqueProcess | None) -> None:
        if self.stop.is_set() or self._disk_is_full.is_set():
            return
        requests = requests_of(self.plan, key)
        mark = fingerprint(self.plan, key, requests)
        task = _Task(key, self.plan.system(key.system), requests, mark, process)
        if self.store.state(key, mark) != "done":
            try:
                with self.store.lock(key) as is_ours:
                    if not is_ours:
                        self.held.add(key)
                        return
                    self._finish(task)
            except (LevelfieldError, OSError) as error:
                self._fail(task, error)
                return
        else:
            self.progress(len(requests))
        self._report(status_of(self.store, key, mark, len(requests)))

    def _report(self, status: CellStatus) -> None:
        with self._turn:
            self.held.discard(status.key)
            self.ended[status.key] = status
            self.on_cell(status)

    def _finish(self, task: _Task) -> None:
        """Asks for what a cell lacks and writes it; this process holds the cell."""
        key = task.key
        state = self.store.state(key, task.mark)
        if state == "done":  # another process has been quicker
            self.progress(len(task.requests))
            return
        damaged = self.store.damage(key)
        if state in ("stale", "missing") and self.store.set_aside(key):
            cause = "one of its files is damaged" if damaged else "what it is made from has changed"
            self.notes.append(
                f"{key}: {cause}, so it is requested again; the old answers are in "
                f"{self.store.folder(key)}"
            )
        self.fresh.add(key)
        kept, outcome = self._obtain(task)
        if outcome.attempts and fingerprint(self.plan, key, task.requests) != task.mark:
            self.notes.append(
                f"{key}: a file that it is made from changed while it ran, so the next run will "
                "request it again; have commands write outside the study file's folder"
            )
        if outcome.stopped:
            return
        answers = {timed.answer.id: timed.answer for timed in kept}
        record = task.record(
            answers, problems=outcome.problems, failure=outcome.failure, attempts=outcome.attempts
        )
        if not isinstance(task.system.source, FilesSource):
            record = self._together(task, replace(record, cost=_cost(kept, outcome)))
        answered = [request for request in task.requests if request.id in answers]
        samples = [_sample(key, r, answers[r.id], task.system.postprocess) for r in answered]
        self.store.finish(key, record, [answers[r.id] for r in answered], samples)

    def _obtain(self, task: _Task) -> tuple[list[TimedAnswer], AskOutcome]:
        """Returns the answers of earlier runs with those that the system gives now."""
        key, source = task.key, task.system.source
        ask = partial(
            answer,
            source,
            key,
            task.requests,
            folder=self.plan.file.parent,
            workplace=self.store.folder(key),
            stop=self.stop,
            process=task.process,
        )
        if isinstance(source, FilesSource):  # read again every time, which costs nothing
            answers: list[TimedAnswer] = []
            outcome = ask(keep=answers.append)
            self.progress(len(answers))
            return answers, outcome
        kept, record = self.store.resume(key, task.mark), self.store.record(key)
        self.progress(len(kept))
        if len(kept) == len(task.requests):
            return kept, AskOutcome()
        before_s = max((timed.wall_s for timed in kept), default=0.0)
        earlier = [timed.answer for timed in kept]
        attempts = before = max(
            self.store.attempts(key, task.mark), record.attempts if record else 0
        )

        def start(number: int) -> None:
            nonlocal attempts
            attempts = before + number

        with self.store.keeping(key, task.mark) as write:

            def keep(timed: TimedAnswer) -> None:
                timed = replace(timed, wall_s=before_s + timed.wall_s, attempt=attempts)
                write(timed)
                kept.append(timed)
                self.progress(1)

            return kept, ask(keep=keep, earlier=earlier, started=start)

    def _together(self, task: _Task, record: CellRecord) -> CellRecord:
        """Returns the record of a run with what earlier runs did, killed ones among them."""
        record = _together(self.store.record(task.key), record)
        attempts = max(record.attempts, self.store.attempts(task.key, task.mark))
        return replace(record, attempts=attempts)

    def _fail(self, task: _Task, error: Exception) -> None:
        """Records why a cell could not be finished; its answers stay as they are."""
        key, reason = task.key, str(error)
        if isinstance(error, OSError):
            where = error.filename or self.store.folder(key)
            reason = f"{printable(str(where))}: {error.strerror or error}"
        cause = error if isinstance(error, OSError) else error.__cause__
        if isinstance(cause, OSError) and cause.errno in _FULL and not self._disk_is_full.is_set():
            self._disk_is_full.set()
            self.notes.append(
                f"the run has stopped: {reason}; make room, and the same command resumes from there"
            )
        answered = {timed.answer.id for timed in self.store.resume(key, task.mark)}
        if answered:
            record = task.record(answered, failure=reason)
            # where nothing can be written, that can't be written either
            with contextlib.suppress(LevelfieldError, OSError):
                self.store.write_record(key, self._together(task, record))
        status = status_of(self.store, key, task.mark, len(task.requests))
        self._report(replace(status, state="failed", failure=reason))


def _cost(kept: Sequence[TimedAnswer], outcome: AskOutcome) -> Cost:
    peaks = [outcome.peak_bytes, *(timed.peak_bytes for timed in kept)]
    return Cost(
        wall_s=max((timed.wall_s for timed in kept), default=0.0),
        texts=len(kept),
        tokens=_total(timed.answer.tokens for timed in kept),
        peak_bytes=max((peak for peak in peaks if peak is not None), default=None),
        forward_passes=_total(timed.answer.forward_passes for timed in kept),
        loading_s=None if outcome.loading_s is None else round(outcome.loading_s, 3),
    )


def _total(counts: Iterable[int | None]) -> int | None:
    """The sum; None if one is unknown, or there are none."""
    numbers = list(counts)
    return None if None in numbers or not numbers else sum(n for n in numbers if n is not None)


def _together(earlier: CellRecord | None, now: CellRecord) -> CellRecord:
    """Returns the record of a run that continued an earlier one, if there was one."""
    if earlier is None:
        return now
    cost = now.cost if now.attempts or not earlier.cost else earlier.cost
    if cost and earlier.cost and earlier.cost.peak_bytes:
        cost = replace(cost, peak_bytes=max(cost.peak_bytes or 0, earlier.cost.peak_bytes))
    problems = tuple(dict.fromkeys((*earlier.problems, *now.problems)))
    return replace(
        now,
        problems=problems[-_MOST_PROBLEMS:],
        cost=cost,
        attempts=earlier.attempts + now.attempts,
    )


def _sample(
    key: CellKey, request: CellRequest, answer: SystemAnswer, steps: Sequence[str]
) -> Sample:
    """Returns an answer as a sample, post-processed."""
    text = process(steps, answer.text, request, answer.input)
    extra = {"request": request.id}
    if text != answer.text:
        extra["raw"] = answer.text
    if answer.input:
        extra["input"] = answer.input
    names = (key.system, key.dataset, key.control, str(key.seed))
    # with a slash in a name, two cells could have the same ids
    place = "/".join(name.replace("%", "%25").replace("/", "%2F") for name in names)
    return Sample(
        id=f"{place}/{request.id}",
        text=text,
        prompt=request.prompt,
        source=request.source,
        references=request.references,
        control=request.control,
        system=key.system,
        dataset=key.dataset,
        seed=key.seed,
        extra=extra,
    )
