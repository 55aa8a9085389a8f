"""Where a run scores, from what the user says: in this process, by others, or by a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from levelfield.core.metric import Metric
from levelfield.scoring.executor import Executor
from levelfield.scoring.local import worker_count, worker_processes
from levelfield.scoring.options import Execution


@contextlib.contextmanager
def one_cluster(ray: str | None) -> Iterator[None]:
    """Has every `scoring_place` inside use one connection to the cluster."""
    if ray is None:
        yield
        return
    from levelfield.scoring.ray import joined

    with joined(ray):
        yield


@contextlib.contextmanager
def scoring_place(
    execution: Execution,
    metrics: Sequence[Metric],
    samples: int,
    note: Callable[[str], object] = lambda _: None,
) -> Iterator[Executor]:
    """Where partitions are scored, for as long as that is needed.

    Args:
        execution: says where.
        metrics: each worker holds the weights of their models, as far as they name them.
        samples: of the run.
        note: told of metrics that are scored here all the same, and of workers that are left out.

    Raises:
        UserError: there is no such cluster.
    """
    workers, device = execution.workers, execution.loading.device
    if execution.ray is not None:
        from levelfield.scoring.ray import ray_workers

        with ray_workers(execution.ray, workers, metrics, samples, device, note) as executor:
            yield executor
        return
    count = worker_count(1 if workers is None else workers, metrics, samples, device)
    with worker_processes(count, note) as executor:
        yield executor
