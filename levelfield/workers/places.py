"""Where a run works, from what the user says: in this process, by others, or by a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from levelfield.core.machine import usable_processors
from levelfield.workers.executor import Executor, InThisProcess, Subject, WorkerPool
from levelfield.workers.memory import worker_count
from levelfield.workers.place_options import WorkPlace


@contextlib.contextmanager
def working_place(
    place: WorkPlace,
    subjects: Sequence[Subject],
    items: int,
    device: str = "auto",
    note: Callable[[str], object] = lambda _: None,
) -> Iterator[Executor]:
    """Where partitions are worked on, for as long as that is needed.

    Args:
        place: what the user says.
        subjects: each worker holds the weights of their models, as far as they name them.
        items: of the run.
        device: where models compute.
        note: told of subjects that stay in this process all the same.

    Raises:
        UserError: there is no such cluster.
    """
    if place.ray is not None:
        from levelfield.workers.ray import ray_workers

        with ray_workers(place.ray, place.workers, subjects, items, device, note) as executor:
            yield executor
        return
    count = worker_count(place.workers or 1, subjects, items, device)
    if count == 1:
        yield InThisProcess()
        return
    from levelfield.workers.processes import Processes

    pool = WorkerPool(Processes(count, max(1, usable_processors() // count)), count, note)
    try:
        yield pool
    finally:
        pool.close()


@contextlib.contextmanager
def one_cluster(ray: str | None) -> Iterator[None]:
    """Has every `working_place` inside use one connection to the cluster."""
    if ray is None:
        yield
        return
    from levelfield.workers.ray import joined

    with joined(ray):
        yield
