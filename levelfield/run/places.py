"""Where a run scores, from what the user says: in this process, by others, or by a cluster."""

from __future__ import annotations

import contextlib
import importlib.util
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from levelfield.core.errors import UserError
from levelfield.core.metric import Metric
from levelfield.run.executor import Executor
from levelfield.run.local import worker_count, worker_processes

Workers = int | Literal["auto"] | None
"""How many; None is this process alone, or, of a cluster, `auto`."""

_ADDRESS = re.compile(r"auto|local|(ray://)?(\[[0-9a-fA-F:]+\]|[^\s:/\[\]]+):[0-9]{1,5}")


def check_address(address: str) -> str:
    """The address of a cluster, if it can be one.

    Raises:
        UserError: it can't, or Ray is not installed.
    """
    if not _ADDRESS.fullmatch(address):
        raise UserError(
            f"ray: {address:.80}: expected auto, HOST:PORT or ray://HOST:PORT; without an address "
            "--ray goes last on the line, or is `--ray local`"
        )
    if importlib.util.find_spec("ray") is None:
        raise UserError("ray needs an extra: pip install 'levelfield[ray]'")
    return address


def check_place(workers: Workers, ray: str | None) -> None:
    """Nothing, if there can be such a place.

    Raises:
        UserError: there can't.
    """
    if isinstance(workers, int) and workers < 1:
        raise UserError(f"workers is {workers}; expected a whole number of at least 1, or auto")
    if ray is not None:
        check_address(ray)


@contextlib.contextmanager
def one_cluster(ray: str | None) -> Iterator[None]:
    """Has every `scoring_place` inside use one connection to the cluster."""
    if ray is None:
        yield
        return
    from levelfield.run.ray import joined

    with joined(ray):
        yield


@contextlib.contextmanager
def scoring_place(
    workers: Workers,
    ray: str | None,
    metrics: Sequence[Metric],
    samples: int,
    device: str = "auto",
    note: Callable[[str], object] = lambda _: None,
) -> Iterator[Executor]:
    """Where partitions are scored, for as long as that is needed.

    Args:
        workers: how many.
        ray: the address of a cluster whose actors they are; None for processes of this machine.
        metrics: each worker holds the weights of their models, as far as they name them.
        samples: of the run.
        device: of the models.
        note: told of metrics that are scored here all the same, and of workers that are left out.

    Raises:
        UserError: `workers` or `ray` can't be, or there is no such cluster.
    """
    check_place(workers, ray)
    if ray is not None:
        from levelfield.run.ray import ray_workers

        with ray_workers(ray, workers, metrics, samples, device, note) as executor:
            yield executor
        return
    count = worker_count(1 if workers is None else workers, metrics, samples, device)
    with worker_processes(count, note) as executor:
        yield executor
