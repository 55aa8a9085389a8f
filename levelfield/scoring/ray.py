"""Scoring by the actors of a Ray cluster, or of Ray started on this machine.

Ray only starts actors, finds out that one has ended, and carries bytes. Which partition goes where,
what is tried again and what is kept is decided here, as for the processes of one machine: see
`levelfield.scoring.executor`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextvars import ContextVar
from typing import Any

from levelfield.core.errors import LevelfieldError, UserError
from levelfield.core.metric import PARTITION, Metric
from levelfield.scoring.executor import Executor, WorkerError, WorkerPool
from levelfield.scoring.gateway import Actor, Joined
from levelfield.scoring.local import WORKER_BYTES, weights
from levelfield.scoring.options import Workers, check_address
from levelfield.scoring.worker import receive, send
from levelfield.version import __version__

CONNECT_S = 90.0
"""How long joining or starting Ray may take."""
PLACE_S = 60.0
"""How long Ray may take to give an actor its resources and start it."""
_REACH_S = 5.0
_END_S = 10.0


class ClusterError(LevelfieldError):
    """There is no cluster, or none any more."""


class Cluster:
    """A connection to Ray, through a process of its own.

    Args:
        address: as for `check_address`; `local` starts Ray on this machine.

    Raises:
        UserError: Ray is not installed, or there is no cluster at that address.
    """

    def __init__(self, address: str) -> None:
        self.address = check_address(address)
        if ":" in address:
            _reach(address.removeprefix("ray://"), address)
        self._lock = threading.Lock()  # of the next two
        self._lost = False
        self._replies: dict[int, Future[Any]] = {}
        self._tags = itertools.count(1)
        self._writing = threading.Lock()  # not that of the reader, which must always go on
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `close`
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", "from levelfield.scoring.gateway import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**_settings(address), **os.environ},
            start_new_session=True,  # Ctrl-C is for this process
        )
        opened = self._replies[0] = Future()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            send(self._process.stdin, pickle.dumps((sys.path, address)))
            opened.result(timeout=CONNECT_S)
            self.joined: Joined = self.ask("joined").result(timeout=CONNECT_S)
        except BaseException as error:
            self._process.kill()  # it may be in the middle of starting Ray
            self.close()
            if not isinstance(error, WorkerError | OSError | TimeoutError | ClusterError):
                raise
            raise _not_joined(address, error) from None

    def ask(self, name: str, *words: object) -> Future[Any]:
        """What `levelfield.scoring.gateway` replies to a request."""
        reply: Future[Any] = Future()
        tag = next(self._tags)
        with self._lock:
            if self._lost:
                reply.set_exception(self._loss())
                return reply
            self._replies[tag] = reply
        request = pickle.dumps((tag, name, *words))
        with self._writing, contextlib.suppress(OSError, ValueError):  # the reader will notice
            send(self._process.stdin, request)
        return reply

    def check(self) -> None:
        """Nothing, if the cluster can be reached.

        Raises:
            ClusterError: it can't.
        """
        try:
            _reach(self.joined.control, self.address)
        except UserError:
            raise self._loss() from None

    def close(self) -> None:
        """Ends the connection, and Ray where it was started for it."""
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.close()  # type: ignore[union-attr]
        try:
            self._process.wait(timeout=_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._process.stdout.close()  # type: ignore[union-attr]
        self._log.close()

    def _read(self) -> None:
        while (frame := receive(self._process.stdout)) is not None:
            tag, payload = pickle.loads(frame)
            with self._lock:
                reply = self._replies.pop(tag)
            if not reply.set_running_or_notify_cancel():
                continue
            if isinstance(payload, RuntimeError):
                ending = WorkerError(payload.args[0])
                ending.add_note(payload.args[1])
                reply.set_exception(ending)
            else:
                reply.set_result(payload)
        with self._lock:
            self._lost = True
            waiting = [*self._replies.values()]
            self._replies.clear()
        for reply in waiting:
            if reply.set_running_or_notify_cancel():
                reply.set_exception(self._loss())

    def _loss(self) -> ClusterError:
        loss = ClusterError(
            f"the Ray cluster at {self.address} is gone; once it is there again, the same command "
            "goes on from the cache"
        )
        with contextlib.suppress(OSError, ValueError):
            self._log.seek(0)
            loss.add_note(self._log.read()[-2000:].decode(errors="replace"))
        return loss


def _settings(address: str) -> dict[str, str]:
    """Of Ray, by its environment."""
    settings = {"RAY_USAGE_STATS_ENABLED": "0"}
    if address == "local":  # nobody else may use it, and nothing is left at home
        settings |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    return settings


def _reach(control: str, address: str) -> None:
    host, _, port = control.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _REACH_S).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"--ray {address}: nothing answers there ({reason}); check the address"
        ) from None


def _not_joined(address: str, error: BaseException) -> LevelfieldError:
    problem = "Ray can't be started here" if address == "local" else "the cluster can't be joined"
    reason = str(error)
    if isinstance(error, TimeoutError):
        reason = f"no answer within {CONNECT_S:g} s"
    elif "AuthToken" in reason or "Authentication" in reason:
        reason = "it asks for a token; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN, as on its head"
    elif isinstance(error, ClusterError):
        reason = "it ended at once"
    elif address == "auto" and "Could not find any running Ray" in reason:
        reason = "none runs on this machine, and RAY_ADDRESS is not set"
    failure = UserError(f"--ray {address}: {problem}: {reason[:500]}")
    for note in getattr(error, "__notes__", ()):
        failure.add_note(note)
    return failure


class _EndedFirstError(WorkerError):
    """An actor has ended before it said where it is."""


class RayWorker:
    """An actor that answers one message after the other.

    Args:
        number: of the actor in its cluster.
        actor: what it takes.
    """

    def __init__(self, cluster: Cluster, number: int, actor: Actor) -> None:
        self.place = ""
        self._cluster = cluster
        self._number = number
        self._actor = actor
        self._reply: Future[Any] = Future()

    def start(self) -> None:
        """Starts the actor, anew if it has ended.

        Raises:
            WorkerError: the cluster has no place for it.
            UserError: there is no levelfield of this version where it is.
            ClusterError: the cluster is gone.
        """
        try:
            node, version, python = self._started()
        except _EndedFirstError:  # on a node that had just died, say
            node, version, python = self._started()
        if version != __version__:
            has = f"levelfield {version}" if version else f"no levelfield (Python {python})"
            raise UserError(
                f"node {node} has {has}; expected {__version__}, as here: install the same version "
                "on all nodes, in the Python that runs Ray"
            )
        self.place = "" if node == self._cluster.joined.here else f"node {node}"

    def _started(self) -> tuple[str, str | None, str]:
        """Node, version of levelfield there, and version of Python."""
        self._cluster.check()
        self._reply = self._cluster.ask("start", self._number, self._actor)
        deadline = time.monotonic() + PLACE_S
        while not self._reply.done() and (left := deadline - time.monotonic()) > 0:
            wait([self._reply], timeout=min(left, _REACH_S))
            self._cluster.check()
        try:
            place: tuple[str, str | None, str] = self._reply.result(timeout=0)
        except TimeoutError:
            self._cluster.ask("kill", self._number)
            raise WorkerError(_no_place(self._cluster, self._actor)) from None
        except WorkerError as error:
            raise _EndedFirstError(f"an actor ended before it began, {error}") from None
        return place

    def answer(self, message: bytes) -> bytes:
        """Its answer.

        Raises:
            WorkerError: the actor has ended.
            ClusterError: the cluster is gone.
        """
        self._reply = self._cluster.ask("answer", self._number, message)
        answer: bytes = self._reply.result()
        return answer

    def end(self) -> None:
        """Ends the actor."""
        self._reply.cancel()
        self._cluster.ask("kill", self._number)


def _no_place(cluster: Cluster, actor: Actor) -> str:
    try:
        now: Joined = cluster.ask("joined").result(timeout=_REACH_S)
    except (TimeoutError, LevelfieldError):
        now = cluster.joined
    cpus, gpus = (sum(sizes) for sizes in zip(*((n.cpus, n.gpus) for n in now.nodes), strict=True))
    return (
        f"the Ray cluster at {cluster.address} had no place for a worker within {PLACE_S:g} s: it "
        f"takes {_amount(actor.cpus, actor.gpus)}; free are {_amount(now.cpus, now.gpus)} "
        f"of {_amount(cpus, gpus)}"
    )


def _amount(cpus: float, gpus: float) -> str:
    return f"{cpus:g} CPU" + (f" and {gpus:g} GPU" if gpus else "")


def actors(
    workers: Workers,
    cluster: Joined,
    metrics: Sequence[Metric],
    samples: int,
    device: str = "auto",
) -> list[Actor]:
    """What the actors of a run take.

    One a GPU that is free, where there are GPUs and the device may be one; else one a CPU that is
    free, as far as memory allows.

    Args:
        workers: how many; `auto` and None leave it to the cluster.
        metrics: each actor holds the weights of their models, as far as they name them.
        samples: of the run; an actor takes at least four partitions of them.

    Raises:
        UserError: the cluster has no such device, or fewer GPUs.
    """
    cpus = sum(node.cpus for node in cluster.nodes)
    gpus = sum(node.gpus for node in cluster.nodes)
    if device.startswith("cuda:"):
        raise UserError(f"--device {device} is a GPU of one machine; with --ray it is cuda")
    if device == "cuda" and not gpus:
        raise UserError(f"--device cuda: no node of the Ray cluster has a GPU ({cpus:g} CPU)")
    on_gpus = device in ("auto", "cuda") and gpus >= 1
    if isinstance(workers, int):
        count = workers
        if on_gpus and count > gpus:
            raise UserError(
                f"--workers {count}: the Ray cluster has {gpus:g} GPU, for one worker each; "
                "--device cpu has workers without"
            )
    elif on_gpus:
        count = min(int(cluster.gpus), samples // (4 * PARTITION))
    else:
        each = WORKER_BYTES + weights(metrics)
        of_memory = sum(int(min(node.cpus, node.memory // each)) for node in cluster.nodes)
        count = min(int(cluster.cpus), of_memory, samples // (4 * PARTITION))
    count = max(1, count)
    threads = int(os.environ.get("OMP_NUM_THREADS") or max(1, cpus // count))
    actor = Actor(
        cpus=1 if count <= cpus else 0,  # more than there are CPUs: the user wants it so
        gpus=1 if on_gpus else 0,
        threads=threads,
        path=tuple(sys.path),
        folder=os.getcwd(),  # noqa: PTH109
    )
    return [actor] * count


_joined: ContextVar[Cluster | None] = ContextVar("joined", default=None)


@contextlib.contextmanager
def joined(address: str | None) -> Iterator[Cluster | None]:
    """A cluster; the same one for every call inside. None without an address."""
    current = _joined.get()
    if address is None or (current and current.address == address):
        yield current if address else None
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
    wanted: Workers,
    metrics: Sequence[Metric],
    samples: int,
    device: str = "auto",
    note: Callable[[str], object] = lambda _: None,
) -> Iterator[Executor]:
    """The actors of a cluster, for as long as they are needed.

    Args:
        address: as for `check_address`.
        wanted, metrics, samples, device: as for `actors`.
        note: told of metrics that are scored here all the same, and of actors that are left out.
    """
    with joined(address) as cluster:
        assert cluster is not None
        taken = actors(wanted, cluster.joined, metrics, samples, device)
        workers = [RayWorker(cluster, number, actor) for number, actor in enumerate(taken)]
        pool = WorkerPool(workers, note)
        try:
            yield pool
        finally:
            pool.close()
