"""Work by the tasks of a Ray cluster, or of Ray started on this machine.

Ray decides where a task runs and tries it again where its process or its node dies; what is a
task, and what is kept, is decided here, as for the processes of one machine: see
`levelfield.workers.executor`. A process of Ray keeps its models from one task to the next.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from levelfield.core.errors import LevelfieldError, UserError, first_line
from levelfield.core.machine import usable_processors
from levelfield.core.partitions import PARTITION
from levelfield.core.strings import one_line
from levelfield.version import __version__
from levelfield.workers.executor import (
    LIVES,
    Executor,
    Subject,
    WorkerDeath,
    WorkerError,
    WorkerPool,
)
from levelfield.workers.memory import WORKER_BYTES, weights
from levelfield.workers.place_options import WorkerCount, check_address

OBJECT_STORE = 256 << 20
"""Bytes of the memory that Ray passes partitions through, where it is started here."""
PLACE_S = 60.0
"""How long Ray may take to find a place for a task."""
_REACH_S = 5.0
_PIECE = 64 << 10
"""Bytes of an argument; Ray sends it along with the task. A larger one goes through the object
store, and a process that asks for it after its node has died is ended by Ray."""


class ClusterError(LevelfieldError):
    """There is no cluster any more."""


@dataclass(frozen=True)
class Tasks:
    """What the tasks of a run are: how many at a time, and what each takes of its node.

    Attributes:
        cpus, gpus: that Ray sets aside for a task.
        threads: of its libraries.
    """

    count: int
    cpus: float
    gpus: float
    threads: int


@dataclass(frozen=True)
class Node:
    """A machine of a cluster: its processors, GPUs and bytes of memory."""

    cpus: float
    gpus: float
    memory: float


class Cluster:
    """A connection to Ray; this process has one at a time.

    Args:
        address: as for `check_address`; `local` starts Ray on this machine.

    Attributes:
        ray: the package.

    Raises:
        UserError: Ray is not installed, or there is no cluster at that address.
    """

    def __init__(self, address: str) -> None:
        self.address = check_address(address)
        if ":" in address:
            _reach(address.removeprefix("ray://"), address)
        if "ray" not in sys.modules:  # it reads them once
            _settle(address)
        import ray

        self.ray: Any = ray
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            try:
                self._join()
            except Exception as error:
                raise _not_joined(address, error) from error
        self._control = address.removeprefix("ray://")
        if not address.startswith("ray://"):
            self._control = ray.get_runtime_context().gcs_address

    def _join(self) -> None:
        choices: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
        if self.address == "local":
            processors = usable_processors()
            choices |= {"num_cpus": processors, "include_dashboard": False}
            choices |= {"object_store_memory": OBJECT_STORE}
        on_end = signal.getsignal(signal.SIGTERM)
        self.ray.init(address=self.address, **choices)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, on_end)  # Ray takes it for itself
        # what Ray says of workers that died goes to stdout, whatever `log_to_driver` is
        self.ray._private.worker._worker_logs_enabled = False

    def nodes(self) -> list[Node]:
        """Returns those that are alive."""
        resources = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        return [Node(r.get("CPU", 0), r.get("GPU", 0), r.get("memory", 0)) for r in resources]

    def check(self, tasks: Tasks) -> None:
        """Nothing, if the cluster can be reached and some node can hold a task.

        Raises:
            ClusterError: it can't.
        """
        with contextlib.suppress(Exception):
            _reach(self._control, self.address)
            if any(n.cpus >= tasks.cpus and n.gpus >= tasks.gpus for n in self.nodes()):
                return
        raise self.loss()

    def loss(self) -> ClusterError:
        """Returns the error that the cluster is gone."""
        return ClusterError(
            f"the Ray cluster at {self.address} is gone; when it is back, run the same command to "
            "resume"
        )

    def no_place(self, tasks: Tasks) -> WorkerError:
        """Returns the error that no task has found a place."""
        nodes, free = self.nodes(), self.ray.available_resources()
        cpus, gpus = sum(node.cpus for node in nodes), sum(node.gpus for node in nodes)
        left = _amount(free.get("CPU", 0), free.get("GPU", 0))
        return WorkerError(
            f"the Ray cluster at {self.address} had no place for a task within {PLACE_S:g} s: a "
            f"task takes {_amount(tasks.cpus, tasks.gpus)}; free: {left} of {_amount(cpus, gpus)}"
        )

    def close(self) -> None:
        """Ends the connection, and Ray where it was started for it."""
        if self._is_ours:
            self.ray.shutdown()


def _settle(address: str) -> None:
    """Sets what Ray takes from the environment, where the user has not."""
    settings = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_task_oom_retries": str(LIVES - 1),
    }
    if address == "local" and "RAY_AUTH_MODE" not in os.environ:  # nobody else may use it
        settings |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    for name, value in settings.items():
        os.environ.setdefault(name, value)


def _reach(control: str, address: str) -> None:
    host, _, port = control.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _REACH_S).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"--ray {address}: nothing answers there ({reason}); check the address"
        ) from None


def _not_joined(address: str, error: Exception) -> UserError:
    problem = "Ray can't be started here" if address == "local" else "the cluster can't be joined"
    reason = one_line(error)
    if "Auth" in reason or "Failed to connect" in reason:
        reason += "; if it asks for a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN, as there"
    elif address == "auto" and "Could not find any running Ray" in reason:
        reason = "no cluster runs on this machine, and RAY_ADDRESS is not set"
    return UserError(f"--ray {address}: {problem}: {reason[-500:]}")


def _amount(cpus: float, gpus: float) -> str:
    return f"{cpus:g} CPU" + (f" and {gpus:g} GPU" if gpus else "")


def tasks_of(
    workers: WorkerCount,
    nodes: Sequence[Node],
    subjects: Sequence[Subject],
    items: int,
    device: str = "auto",
) -> Tasks:
    """What the tasks of a run are.

    One at a time on each GPU, where there are GPUs and the device may be one; else one on each
    CPU, as far as memory allows.

    Args:
        workers: how many; `auto` and None leave it to the cluster.
        subjects: each process holds the weights of their models, as far as they name them.
        items: of the run; a process takes at least four partitions of them.

    Raises:
        UserError: the cluster has no such device, or fewer GPUs.
    """
    cpus, gpus = sum(node.cpus for node in nodes), sum(node.gpus for node in nodes)
    if device.startswith("cuda:"):
        raise UserError(f"--device {device} is a GPU of one machine; with --ray, use cuda")
    if device == "cuda" and not gpus:
        raise UserError(f"--device cuda: no node of the Ray cluster has a GPU ({cpus:g} CPU)")
    on_gpus = device in ("auto", "cuda") and gpus >= 1
    if isinstance(workers, int):
        count = workers
        if on_gpus and count > gpus:
            raise UserError(
                f"--workers {count}: the Ray cluster has {gpus:g} GPU, for one worker each; "
                "--device cpu allows more workers"
            )
    elif on_gpus:
        count = min(int(gpus), items // (4 * PARTITION))
    else:
        each = WORKER_BYTES + weights(subjects)
        memory_limit = sum(int(min(node.cpus, node.memory // each)) for node in nodes)
        count = min(memory_limit, items // (4 * PARTITION))
    count = max(1, count)
    threads = int(os.environ.get("OMP_NUM_THREADS") or max(1, cpus // count))
    # more than there are CPUs: the user wants it so
    return Tasks(count, 1 if count <= cpus else 0, 1 if on_gpus else 0, threads)


def task_function() -> Callable[..., Any]:
    """The function of a task; Ray sends it along, so that it runs where the package is missing."""

    def answer(
        run: str,
        settings: Mapping[str, Any],
        digests: Sequence[bytes],
        *pieces: bytes,
    ) -> bytes:
        import contextlib
        import os
        import platform
        import socket
        import sys

        import ray

        sys.path += [entry for entry in settings["path"] if entry not in sys.path]
        with contextlib.suppress(OSError):  # of another machine
            os.chdir(settings["folder"])
        os.environ |= settings["environment"]
        version: str | None = None
        with contextlib.suppress(ImportError):
            from levelfield.version import __version__

            version = __version__
        address: Any = ray.util.get_node_ip_address
        place = f"node {socket.gethostname()} ({address()})"
        if version != settings["version"]:
            missing = f"no levelfield (Python {platform.python_version()})"
            raise RuntimeError(
                f"{place} has {f'levelfield {version}' if version else missing}; expected "
                f"{settings['version']}, as here: install the same version on all nodes, in the "
                "Python that runs Ray"
            )
        from levelfield.workers.processes import answers_of

        here = "" if ray.get_runtime_context().get_node_id() == settings["node"] else place
        message = b"".join(pieces[len(digests) :])
        return answers_of(run)(message, dict(zip(digests, pieces, strict=False)), here)

    return answer


class RayTasks:
    """Has each message answered by a task.

    Raises:
        WorkerError: the cluster has no place for a task.
        UserError: there is no levelfield of this version where it runs.
    """

    def __init__(self, cluster: Cluster, tasks: Tasks) -> None:
        self._cluster, self._tasks = cluster, tasks
        self._ray = cluster.ray
        environment = {"OMP_NUM_THREADS": str(tasks.threads), "TOKENIZERS_PARALLELISM": "false"}
        self._settings = {
            "environment": environment | ({} if tasks.gpus else {"CUDA_VISIBLE_DEVICES": ""}),
            "path": tuple(sys.path),
            "folder": os.getcwd(),  # noqa: PTH109
            "version": __version__,
            "node": self._ray.get_runtime_context().get_node_id(),
        }
        self._run = secrets.token_hex(8)
        self._sent: dict[bytes, Any] = {}
        self._under_way: set[Any] = set()
        self._function = self._ray.remote(
            num_cpus=tasks.cpus,
            num_gpus=tasks.gpus,
            max_retries=LIVES - 1,
            scheduling_strategy="SPREAD",
        )(task_function())
        self._probe()

    def answer(self, message: bytes, subjects: Mapping[bytes, bytes]) -> bytes:
        """Returns the answer of a task.

        Raises:
            WorkerDeath: its process has died, and that of its second life.
            ClusterError: the cluster is gone.
            UserError: there is no levelfield of this version where it runs.
        """
        task = self._task(message, subjects)
        self._under_way.add(task)
        try:
            future = task.future()
            while not wait([future], timeout=_REACH_S).done:
                self._cluster.check(self._tasks)
            answer: bytes = future.result()
        except self._ray.exceptions.RayTaskError as error:
            raise UserError(first_line(error.cause)) from error
        except self._ray.exceptions.RayError as error:
            if type(error).__name__ == "LocalRayletDiedError":
                raise self._cluster.loss() from error
            raise WorkerDeath(_ending(error)) from error
        finally:
            self._under_way.discard(task)
        return answer

    def _task(self, message: bytes, subjects: Mapping[bytes, bytes]) -> Any:
        packed = [self._argument(digest, subject) for digest, subject in subjects.items()]
        pieces = (message[start : start + _PIECE] for start in range(0, len(message), _PIECE))
        return self._function.remote(self._run, self._settings, [*subjects], *packed, *pieces)

    def _argument(self, digest: bytes, subject: bytes) -> Any:
        """A subject itself, or where it is in the object store: a large one goes there once."""
        if len(subject) <= _PIECE:
            return subject
        if digest not in self._sent:
            self._sent[digest] = self._ray.put(subject)
        return self._sent[digest]

    def _probe(self) -> None:
        """Waits for a task that does nothing."""
        task = self._task(pickle.dumps([]), {})
        try:
            self._ray.get(task, timeout=PLACE_S)
        except self._ray.exceptions.GetTimeoutError:
            self._ray.cancel(task)
            raise self._cluster.no_place(self._tasks) from None
        except self._ray.exceptions.RayTaskError as error:
            raise UserError(first_line(error.cause)) from error
        except self._ray.exceptions.RayError as error:
            raise WorkerError(f"a worker ended before it started, {_ending(error)}") from error

    def close(self) -> None:
        """Ends the tasks."""
        for task in [*self._under_way]:
            with contextlib.suppress(Exception):  # the cluster may be gone
                self._ray.cancel(task, force=True)


def _ending(error: BaseException) -> str:
    """How a task has ended, as it continues "the last one"."""
    message = str(error)
    if "its node has died" in message or "NodeDied" in type(error).__name__:
        return "with its node"
    if "low on memory" in message or "OutOfMemory" in type(error).__name__:
        return "out of memory"
    if type(error).__name__ == "WorkerCrashedError":
        return "without a message, perhaps out of memory"
    return f"with {type(error).__name__}: {first_line(error)}"


_joined: ContextVar[Cluster | None] = ContextVar("joined", default=None)


@contextlib.contextmanager
def joined(address: str) -> Iterator[Cluster]:
    """A cluster; the same one for every call inside."""
    current = _joined.get()
    if current and current.address == address:
        yield current
        return
    cluster = Cluster(address)
    token = _joined.set(cluster)
    try:
        yield cluster
    finally:
        _joined.reset(token)
        cluster.close()


@contextlib.contextmanager
def ray_workers(
    address: str,
    workers: WorkerCount,
    subjects: Sequence[Subject],
    items: int,
    device: str = "auto",
    note: Callable[[str], object] = lambda _: None,
) -> Iterator[Executor]:
    """The tasks of a cluster, for as long as they are needed.

    Args:
        address: as for `check_address`.
        workers, subjects, items, device: as for `tasks_of`.
        note: told of subjects that stay in this process all the same.
    """
    with joined(address) as cluster:
        tasks = tasks_of(workers, cluster.nodes(), subjects, items, device)
        pool = WorkerPool(RayTasks(cluster, tasks), tasks.count, note)
        try:
            yield pool
        finally:
            pool.close()
